//! The task that computes vectors of indexed documents.
//!
//! A *pass* visits the documents of the plugins whose text is sent, requests the missing vectors of their passages in
//! batches, and stores them. One request is in flight at a time. The next pass begins when the index has changed, after
//! a pause of [`PAUSE_FACTOR`] times the last one.
//!
//! A pass, and its request, is cancelled when the set of plugins whose text is sent changes, so that text is not sent
//! after a reload forbids it. Each page of documents is filtered by the config of its plugin immediately before it is
//! sent.
//!
//! Vectors that could not be stored, or whose document still lacks others, are kept until the next page. So a full
//! disk, another failed request, or a cancelled pass does not cause a text to be sent again.
//!
//! | bound | mechanism |
//! |---|---|
//! | cost | `tokens` (rate limit): a request waits until its estimated tokens are within the rate |
//! | time | `timeout` of a request; back-off after failures, or the delay that the endpoint requests (`Retry-After`) |
//! | memory | the passages and vectors of a batch |
//! | the index | `search.max-size`: without room nothing is sent; while the disk is full, at most one page |
//!
//! A text that the endpoint rejects (400, 413, 422) does not block the others: a rejected batch is sent again document
//! by document, and a document that is rejected alone is left out until it changes or the host is restarted.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, RateLimiter};
use mcp_host_base::backoff::Backoff;
use mcp_host_base::log_target;
use mcp_host_base::throttle::Throttle;
use mcp_host_base::time::now_millis;
use mcp_host_config::search::Embeddings;
use mcp_host_engine::plugin::SearchSource;
use mcp_host_model::uri::Mount;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::endpoint::{Endpoint, EndpointError, InputForm};
use super::vector::Vector;
use super::vector_store::{self, DocumentId, PassageSelection, PendingDocument, PendingPage, VectorSpace};
use crate::context::estimate_tokens;
use crate::error::IndexError;
use crate::index::Index;
use crate::status::{SourceId, SourceState};
use crate::store;

/// The interval at which the index is checked for changes.
const INTERVAL: Duration = Duration::from_millis(500);
/// The pause after a pass, as a multiple of its duration, and the maximum pause.
const PAUSE_FACTOR: u32 = 4;
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// The maximum retry delay that the endpoint may request (`Retry-After`).
const MAX_RETRY_PAUSE: Duration = Duration::from_mins(5);
/// The interval at which the space is marked as used, and the time after which another, unused space is removed.
const USE_INTERVAL: Duration = Duration::from_hours(1);
const UNUSED_AFTER: Duration = Duration::from_hours(24);
/// The maximum number of left-out documents. Beyond it, the endpoint is considered to have failed.
const MAX_REJECTED: usize = 4096;
/// The interval of warnings about failures.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

/// A plugin whose text is sent.
#[derive(Clone)]
pub(crate) struct EmbeddedSource {
    pub(crate) mount: Mount,
    pub(crate) source: Arc<SearchSource>,
    pub(crate) state: Arc<SourceState>,
}

impl EmbeddedSource {
    /// Whether the document at a path is sent. The index may contain other documents of the source, if it is older than
    /// the config or shared with another host.
    fn includes(&self, path: &str) -> bool {
        self.source.uri(&self.mount, path).is_some()
    }
}

/// The reason why a pass ended early.
#[derive(Debug, thiserror::Error)]
enum PassError {
    /// The index cannot be read or written.
    #[error("the search index: {0}")]
    Index(#[from] IndexError),
    /// The endpoint did not answer with vectors.
    #[error("{0}")]
    Endpoint(#[from] EndpointError),
    /// The index has no room for vectors.
    #[error("the search index is full (`search.max-size`)")]
    Full,
}

/// Returns for each source whether another replica embeds it.
fn followed_sources(sources: &[EmbeddedSource]) -> Vec<bool> {
    sources.iter().map(|source| source.state.is_following()).collect()
}

/// The task that computes vectors.
pub(super) struct Embedder {
    endpoint: Arc<Endpoint>,
    index: Arc<Index>,
    space: VectorSpace,
    selection: PassageSelection,
    dimensions: usize,
    /// The number of texts in a request, and their form.
    batch: usize,
    form: InputForm,
    tokens: DefaultDirectRateLimiter,
    /// The maximum number of tokens that the rate permits in one burst.
    max_tokens: NonZeroU32,
    backoff: Backoff,
    failure_log: Throttle,
    /// The vectors of the last page that were not stored, by the digest of the text.
    unstored: HashMap<Vec<u8>, Vector>,
    /// The left-out documents.
    rejected: HashSet<DocumentId>,
    /// The time when the space was last marked as used.
    used: Option<Instant>,
}

impl Embedder {
    pub(super) fn new(settings: &Embeddings, endpoint: Arc<Endpoint>, index: Arc<Index>, space: VectorSpace) -> Self {
        Self {
            endpoint,
            index,
            space,
            selection: PassageSelection {
                prefix: settings.passage_prefix.clone(),
                max_passages: settings.passages.get(),
            },
            dimensions: settings.dimensions.get(),
            batch: settings.batch.get(),
            form: InputForm::of_passages(settings),
            tokens: RateLimiter::direct(settings.tokens.quota()),
            max_tokens: settings.tokens.count(),
            backoff: Backoff::default(),
            failure_log: Throttle::new(WARN_INTERVAL),
            unstored: HashMap::new(),
            rejected: HashSet::new(),
            used: None,
        }
    }

    /// Computes vectors until the future is dropped.
    pub(super) async fn run(mut self, mut sources: watch::Receiver<Vec<EmbeddedSource>>) {
        loop {
            let (changes, began) = (self.index.change_count(), Instant::now());
            let current = sources.borrow_and_update().clone();
            let followed = followed_sources(&current);
            // None while any of them is being opened.
            let ids: Option<Vec<_>> = current.iter().map(|source| *source.state.id.lock()).collect();
            let Some(ids) = ids else {
                sleep(INTERVAL).await;
                continue;
            };
            let opened: Vec<_> = current.iter().zip(ids).collect();
            let ended = tokio::select! {
                biased;
                changed = sources.changed() => match changed {
                    Ok(()) => continue,
                    // The service has been dropped.
                    Err(_) => return,
                },
                ended = self.pass(&opened) => ended,
            };
            match ended {
                Ok(()) => {
                    self.backoff = Backoff::default();
                    sleep(began.elapsed().saturating_mul(PAUSE_FACTOR).min(MAX_PAUSE)).await;
                    // A replica that takes over an index embeds what the one before has not embedded.
                    while self.index.change_count() == changes
                        && !sources.has_changed().unwrap_or(true)
                        && followed_sources(&current) == followed
                        && began.elapsed() < USE_INTERVAL
                    {
                        sleep(INTERVAL).await;
                    }
                }
                Err(PassError::Index(IndexError::Closed)) => return,
                Err(error) => {
                    self.report(&error);
                    let asked = match &error {
                        PassError::Endpoint(error) => error.retry_after().unwrap_or_default().min(MAX_RETRY_PAUSE),
                        _ => Duration::ZERO,
                    };
                    sleep(self.backoff.next_delay().max(asked)).await;
                }
            }
        }
    }

    /// Computes the missing vectors.
    async fn pass(&mut self, sources: &[(&EmbeddedSource, SourceId)]) -> Result<(), PassError> {
        if sources.is_empty() {
            return Ok(());
        }
        self.use_space().await?;
        let space = self.space;
        for &(source, id) in sources {
            // The replica that builds a shared index sends its text, too; the vectors are part of the snapshots.
            let mut after = Some(i64::MIN).filter(|_| !source.state.is_following());
            while let Some(last) = after {
                let PendingPage { documents, next } = self.find_pending(source, id, last).await?;
                self.embed(documents).await?;
                after = next;
            }
            let count = self.index.write(move |connection| vector_store::count(connection, id, space)).await?;
            source.state.status.send_modify(|status| status.embedded = count);
        }
        Ok(())
    }

    /// Marks the space as used, if this is due, and removes unused spaces.
    async fn use_space(&mut self) -> Result<(), IndexError> {
        if self.used.is_some_and(|used| used.elapsed() < USE_INTERVAL) {
            return Ok(());
        }
        let (space, now) = (self.space, now_millis());
        let since = now.saturating_sub(i64::try_from(UNUSED_AFTER.as_millis()).unwrap_or(i64::MAX));
        self.index.write(move |connection| vector_store::use_space(connection, space, now, since)).await?;
        self.used = Some(Instant::now());
        Ok(())
    }

    /// The next documents without vectors that the config includes.
    async fn find_pending(&self, source: &EmbeddedSource, id: SourceId, after: i64) -> Result<PendingPage, PassError> {
        let (space, batch, selection, source) = (self.space, self.batch, self.selection.clone(), source.clone());
        let finding = self.index.write(move |connection| {
            let is_included = |path: &str| source.includes(path);
            let page = vector_store::find_pending(connection, id, space, after, batch, &selection, is_included)?;
            Ok((page, store::used_bytes(connection)?))
        });
        let (page, used) = finding.await?;
        let passages = page.documents.iter().map(|document| document.passages.len()).sum();
        match page.documents.is_empty()
            || self.index.space().fits(used, vector_store::growth(passages, self.dimensions))
        {
            true => Ok(page),
            false => Err(PassError::Full),
        }
    }

    /// Requests the vectors of documents, and stores the vectors of complete documents.
    async fn embed(&mut self, mut documents: Vec<PendingDocument>) -> Result<(), PassError> {
        documents.retain(|document| !self.rejected.contains(&document.id));
        if documents.is_empty() {
            return Ok(());
        }
        self.reuse_unstored(&mut documents);
        let requested = match self.request(&mut documents).await {
            Err(error) if error.is_rejection() => self.request_one_by_one(&mut documents).await,
            result => result,
        };
        let space = self.space;
        let storing = self.index.change(move |connection| {
            let has_stored = vector_store::put(connection, space, &documents)? > 0;
            Ok((has_stored, has_stored))
        });
        if storing.await? {
            self.backoff = Backoff::default();
        }
        requested?;
        self.unstored.clear();
        Ok(())
    }

    /// Takes the unstored vectors of these passages, and forgets the other ones.
    fn reuse_unstored(&mut self, documents: &mut [PendingDocument]) {
        let unstored = std::mem::take(&mut self.unstored);
        let passages = documents.iter_mut().flat_map(|document| &mut document.passages);
        for passage in passages.filter(|passage| passage.vector.is_none()) {
            if let Some(vector) = unstored.get(&passage.digest) {
                passage.vector = Some(vector.clone());
                self.unstored.insert(passage.digest.clone(), vector.clone());
            }
        }
    }

    /// Requests the missing vectors of documents. A text that occurs several times is sent once.
    async fn request(&mut self, documents: &mut [PendingDocument]) -> Result<(), EndpointError> {
        let passages = documents.iter_mut().flat_map(|document| &mut document.passages);
        let mut missing: Vec<_> = passages.filter(|passage| passage.vector.is_none()).collect();
        missing.sort_by(|one, other| one.digest.cmp(&other.digest));
        let mut groups: Vec<_> = missing.chunk_by_mut(|one, other| one.digest == other.digest).collect();
        for batch in groups.chunks_mut(self.batch) {
            let texts: Vec<_> = batch.iter().filter_map(|group| Some(group.first()?.text.clone())).collect();
            self.wait_for_tokens(&texts).await;
            let vectors = self.endpoint.embed(&texts, &self.form).await?;
            for (group, vector) in batch.iter_mut().zip(vectors) {
                self.unstored.extend(group.first().map(|passage| (passage.digest.clone(), vector.clone())));
                group.iter_mut().for_each(|passage| passage.vector = Some(vector.clone()));
            }
        }
        Ok(())
    }

    /// Requests the vectors of each document separately. Rejected documents are left out.
    async fn request_one_by_one(&mut self, documents: &mut [PendingDocument]) -> Result<(), EndpointError> {
        for document in documents {
            match self.request(std::slice::from_mut(document)).await {
                Err(error) if error.is_rejection() && self.rejected.len() < MAX_REJECTED => {
                    if let Some(suppressed) = self.failure_log.record() {
                        let error = error.to_string();
                        tracing::warn!(
                            target: log_target::SEARCH, error, suppressed,
                            "the endpoint of embeddings rejects a resource, which is left out"
                        );
                    }
                    self.rejected.insert(document.id);
                }
                result => result?,
            }
        }
        Ok(())
    }

    /// Waits until the rate limit permits these texts.
    async fn wait_for_tokens(&self, texts: &[String]) {
        let count = texts.iter().map(|text| estimate_tokens(text)).fold(0, usize::saturating_add);
        let count = u32::try_from(count).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        while let Ok(Err(early)) = self.tokens.check_n(count.min(self.max_tokens)) {
            sleep(early.wait_time_from(DefaultClock::default().now())).await;
        }
    }

    fn report(&self, error: &PassError) {
        if let Some(suppressed) = self.failure_log.record() {
            let error = error.to_string();
            tracing::warn!(
                target: log_target::SEARCH, error, suppressed,
                "embeddings cannot be computed; that is retried with back-off, and searches have lexical results meanwhile"
            );
        }
    }
}
