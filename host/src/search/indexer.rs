//! Indexing one plugin: a task that keeps the index level with what the plugin serves.
//!
//! A *walk* compares the default listing with the index. A resource is read if the index does not have it, if its entry has
//! changed, or if the entry does not tell: it has no time of the last change, its provider does not report changes, and the
//! last read is longer ago than `search.refresh`. What is no longer listed is removed at the end of a walk; a walk that
//! fails removes nothing, and is repeated with back-off.
//!
//! Between walks, a provider that reports changes is polled at `watch-interval`: resources that changed are read, and a
//! changed listing is walked again, after a pause of [`PAUSE_FACTOR`] times the last walk. So a provider that reports changes
//! with each poll takes a fifth of the time of one task.
//!
//! | bound | mechanism |
//! |---|---|
//! | reads | one at a time, in the queue of clients' calls and within the plugin's limits; `search.reads` |
//! | memory | a page of the listing, a batch of [`MAX_BATCH_BYTES`] and one read; eight bytes for each listed resource; 16,000 watched paths |
//! | the index | `search.max-bytes` of the plugin, `max-size` of all |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use governor::clock::{Clock, DefaultClock};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::change_poller::ChangePoller;
use super::database::IndexError;
use super::document::{Document, DocumentEntry, hash};
use super::index::Index;
use super::source::SearchSource;
use super::store::{self, Bounds, Change, KnownDocument, SourceId};
use crate::engine::CallOrigin;
use crate::log_target;
use crate::plugin::{Backoff, Fault, FilteredPage, Plugin};
use crate::resource::{Resource, ResourceBody, ResourceContents};
use crate::uri::{Path, Uri};

/// The requested number of entries of a page.
const PAGE_SIZE: u32 = 1000;
/// A batch is written when it has so many documents, so many bytes, or is so old.
const MAX_BATCH: usize = 64;
const MAX_BATCH_BYTES: usize = 2 << 20;
const MAX_BATCH_AGE: Duration = Duration::from_millis(300);
/// The pause after a walk or a poll, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 4;
/// The longest pause after a walk.
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// The number of attempts of a call to a plugin that is busy, and the pause between them, unless it is told.
const MAX_ATTEMPTS: u32 = 4;
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(250);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(10);
/// The number of consecutive empty pages after which a walk fails.
const MAX_EMPTY_PAGES: usize = 1000;

/// What the index has of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchStatus {
    /// The plugin.
    pub plugin: String,
    /// The number of indexed resources.
    pub documents: u64,
    /// The size of their text in bytes.
    pub bytes: u64,
    /// The number of resources with embeddings.
    pub embedded: u64,
    /// Whether the whole listing was compared with the index since the host started.
    pub is_complete: bool,
    /// The number of resources without their text in the index, as `search.max-bytes` leaves no room for it.
    pub without_text: u64,
    /// The number of resources that the index has no room for.
    pub omitted: u64,
    /// The number of resources that could not be read.
    pub failed: u64,
    /// Why the last walk failed; none if it did not.
    pub error: Option<String>,
}

/// The state of a source that others see.
pub(super) struct SourceState {
    pub(super) id: Mutex<Option<SourceId>>,
    /// Whether the provider has parts of each text, by `?lines=`.
    pub(super) has_lines: AtomicBool,
    pub(super) status: watch::Sender<SearchStatus>,
}

impl SourceState {
    pub(super) fn new(plugin: &str) -> Arc<Self> {
        let status = SearchStatus { plugin: plugin.to_owned(), ..SearchStatus::default() };
        Arc::new(Self { id: Mutex::default(), has_lines: AtomicBool::new(false), status: watch::Sender::new(status) })
    }
}

/// Why a walk ended early.
enum WalkError {
    Plugin(Fault),
    Index(IndexError),
}

impl From<IndexError> for WalkError {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

/// The task that indexes one plugin.
pub(super) struct Indexer {
    pub(super) plugin: Arc<Plugin>,
    pub(super) source: Arc<SearchSource>,
    pub(super) index: Arc<Index>,
    pub(super) state: Arc<SourceState>,
    /// The bound of the index, in bytes.
    pub(super) max_index_size: u64,
}

/// Changes that are written together.
#[derive(Default)]
struct Batch {
    changes: Vec<Change>,
    bytes: usize,
    began: Option<Instant>,
}

impl Batch {
    fn push(&mut self, change: Change) {
        if let Change::Put(document) = &change {
            self.bytes = self.bytes.saturating_add(document.text.len());
        }
        self.began.get_or_insert_with(Instant::now);
        self.changes.push(change);
    }

    fn is_due(&self) -> bool {
        self.changes.len() >= MAX_BATCH
            || self.bytes >= MAX_BATCH_BYTES
            || self.began.is_some_and(|began| began.elapsed() >= MAX_BATCH_AGE)
    }
}

impl Indexer {
    /// Keeps the index level with the plugin until it is dropped.
    pub(super) async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            let mut rebuilds = self.index.rebuilds();
            rebuilds.mark_unchanged();
            let session = async {
                let id = self.open().await?;
                self.keep_indexed(id, &mut backoff).await
            };
            let ended = tokio::select! {
                // A session ends with an error only.
                Err(error) = session => error,
                _ = rebuilds.changed() => continue,
            };
            if ended == IndexError::Closed {
                return;
            }
            self.report(&ended.to_string());
            sleep(backoff.next_delay()).await;
        }
    }

    async fn open(&self) -> Result<SourceId, IndexError> {
        let key = *self.source.key();
        let opened = self.index.write(move |connection| {
            let id = store::open_source(connection, &key, now_millis())?;
            Ok((id, store::source_size(connection, id)?))
        });
        let (id, size) = opened.await?;
        *self.state.id.lock() = Some(id);
        self.state.status.send_modify(|status| {
            (status.documents, status.bytes, status.is_complete) = (size.documents, size.bytes, false);
        });
        Ok(id)
    }

    /// Walks and polls, by turns, until the index fails.
    async fn keep_indexed(&self, id: SourceId, backoff: &mut Backoff) -> Result<std::convert::Infallible, IndexError> {
        let mut poller = ChangePoller::new(&self.plugin);
        let mut is_first = true;
        loop {
            let began = Instant::now();
            self.find_template_of_lines().await;
            match self.walk(id, &mut poller, is_first).await {
                Ok(()) => {
                    (*backoff, is_first) = (Backoff::default(), false);
                    self.state.status.send_modify(|status| (status.is_complete, status.error) = (true, None));
                    self.read_changed(id, &mut poller).await?;
                    let pause = began.elapsed().saturating_mul(PAUSE_FACTOR).min(MAX_PAUSE);
                    self.poll_until_listing_changes(id, &mut poller, began, pause).await?;
                }
                Err(WalkError::Index(error)) => return Err(error),
                Err(WalkError::Plugin(fault)) => {
                    self.report(&fault.to_string());
                    sleep(backoff.next_delay()).await;
                }
            }
        }
    }

    /// Reads what changes until the listing is to be walked again: when it has changed, and `pause` is over, or after
    /// `search.refresh`.
    async fn poll_until_listing_changes(
        &self,
        id: SourceId,
        poller: &mut ChangePoller,
        walked: Instant,
        pause: Duration,
    ) -> Result<(), IndexError> {
        let after = |time: Instant, pause| time.checked_add(pause).unwrap_or(time);
        let refresh = after(walked, self.source.settings().refresh.duration());
        let earliest = after(Instant::now(), pause);
        let mut took = Duration::ZERO;
        while self.plugin.info().watches {
            let interval = poller.interval(self.plugin.watch_interval()).max(took.saturating_mul(PAUSE_FACTOR));
            sleep_until(after(Instant::now(), interval).min(refresh)).await;
            let began = Instant::now();
            poller.poll(&self.plugin).await;
            took = began.elapsed();
            self.read_changed(id, poller).await?;
            if (poller.listing_changed && Instant::now() >= earliest) || Instant::now() >= refresh {
                return Ok(());
            }
        }
        sleep_until(refresh).await;
        Ok(())
    }

    /// Compares the whole listing with the index.
    async fn walk(&self, id: SourceId, poller: &mut ChangePoller, is_first: bool) -> Result<(), WalkError> {
        let status = &self.state.status;
        status.send_modify(|status| (status.omitted, status.without_text, status.failed) = (0, 0, 0));
        let (mut seen, mut cursor, mut items, mut empty_pages) = (Vec::new(), None::<String>, 0_usize, 0_usize);
        poller.begin_walk(&self.plugin).await;
        loop {
            let page = self.list(cursor.as_deref()).await.map_err(WalkError::Plugin)?;
            items = items.saturating_add(page.size);
            empty_pages = if page.size == 0 { empty_pages.saturating_add(1) } else { 0 };
            let entries: Vec<_> = page.items.into_iter().filter_map(|(_, entry)| self.with_path(entry)).collect();
            // Before they are read.
            let subscribable = entries.iter().filter(|(entry, _)| entry.subscribable);
            poller.watch(&self.plugin, subscribable.map(|(_, path)| path.clone()).collect()).await;
            self.index_page(id, entries, &mut seen, is_first).await?;
            let max_items = self.plugin.max_listing_items();
            match page.next_cursor {
                Some(_) if empty_pages > MAX_EMPTY_PAGES => {
                    return Err(WalkError::Plugin(Fault::EmptyPages(empty_pages)));
                }
                Some(next) if items < max_items => cursor = Some(next),
                _ => break,
            }
        }
        poller.end_walk();
        seen.sort_unstable();
        let removing = self.index.write(move |connection| {
            let removed = store::remove_except(connection, id, &seen)?;
            Ok((removed, store::source_size(connection, id)?))
        });
        let (removed, size) = removing.await?;
        self.record(size, removed);
        Ok(())
    }

    /// Reads those resources of a page that the index does not have as they are, and adds the ids of all to `seen`.
    async fn index_page(
        &self,
        id: SourceId,
        entries: Vec<(Resource, Path)>,
        seen: &mut Vec<i64>,
        is_first: bool,
    ) -> Result<(), IndexError> {
        let paths: Vec<_> = entries.iter().map(|(_, path)| path.as_str().to_owned()).collect();
        let max_size = self.max_index_size;
        let finding = self.index.write(move |connection| {
            let known = store::find_documents(connection, id, &paths)?;
            Ok((known, store::used_bytes(connection)? < max_size))
        });
        let (known, has_room) = finding.await?;
        let mut batch = Batch::default();
        for ((entry, path), known) in entries.into_iter().zip(known) {
            let entry_hash = hash(&entry);
            if let Some(known) = known.filter(|known| self.is_current(&entry, entry_hash, *known, is_first)) {
                seen.push(known.id);
                continue;
            }
            if known.is_none() && !has_room {
                self.record_omitted(1);
                continue;
            }
            match self.read(entry, entry_hash, &path).await {
                Ok(document) => batch.push(Change::Put(Box::new(document))),
                Err(fault) => {
                    self.record_failure(&path, &fault);
                    // It is listed, so it exists; it is found by what it was until it can be read.
                    seen.extend(known.filter(|_| fault.is_transient()).map(|known| known.id));
                }
            }
            if batch.is_due() {
                seen.extend(self.apply(id, std::mem::take(&mut batch)).await?);
            }
        }
        seen.extend(self.apply(id, batch).await?);
        Ok(())
    }

    /// Whether the index has the resource as it is.
    fn is_current(&self, entry: &Resource, entry_hash: i64, known: KnownDocument, is_first: bool) -> bool {
        let refresh = i64::try_from(self.source.settings().refresh.duration().as_millis()).unwrap_or(i64::MAX);
        let is_recent = now_millis().saturating_sub(known.checked) < refresh;
        let tells_changes = entry.annotations.last_modified.is_some()
            || (self.plugin.info().watches && entry.subscribable && !is_first)
            || !self.source.reads_content_of(entry);
        known.entry_hash == entry_hash && (tells_changes || is_recent)
    }

    /// Reads the resources that have changed.
    async fn read_changed(&self, id: SourceId, poller: &mut ChangePoller) -> Result<(), IndexError> {
        let mut batch = Batch::default();
        while let Some(path) = poller.changed.pop_first() {
            let read = async {
                let entry = self.attempt(|| self.plugin.stat_as(CallOrigin::Host, &path)).await?;
                let entry_hash = hash(&entry);
                match self.source.includes(entry.uri.as_str()) {
                    true => self.read(entry, entry_hash, &path).await.map(Some),
                    false => Ok(None),
                }
            };
            match read.await {
                Ok(Some(document)) => batch.push(Change::Put(Box::new(document))),
                Ok(None) => {}
                Err(fault) if fault.is_transient() => self.record_failure(&path, &fault),
                Err(_) => batch.push(Change::Remove(path.as_str().to_owned())),
            }
            if batch.is_due() {
                self.apply(id, std::mem::take(&mut batch)).await?;
            }
        }
        self.apply(id, batch).await?;
        Ok(())
    }

    /// Reads a resource, unless only its metadata are indexed.
    async fn read(&self, entry: Resource, entry_hash: i64, path: &Path) -> Result<Document, Fault> {
        let text = match self.source.reads_content_of(&entry) {
            true => self.read_text(&entry.uri, path).await?,
            false => String::new(),
        };
        Ok(Document { path: path.as_str().to_owned(), entry: DocumentEntry::new(&entry), entry_hash, text })
    }

    /// The text of a resource: its first content that is text; empty if there is none, or it is too large.
    async fn read_text(&self, uri: &Uri, path: &Path) -> Result<String, Fault> {
        while let Err(early) = self.source.reads().check() {
            sleep(early.wait_time_from(DefaultClock::default().now())).await;
        }
        let own = uri.clone();
        let filter = move |one: &ResourceContents| one.entry.uri == own && matches!(one.body, ResourceBody::Text(_));
        let contents = self.attempt(|| self.plugin.read(path, filter.clone())).await?;
        let text = contents.into_iter().find_map(|one| match one.body {
            ResourceBody::Text(text) => Some(text),
            ResourceBody::Blob(_) => None,
        });
        let max = usize::try_from(self.source.settings().max_document.bytes()).unwrap_or(usize::MAX);
        Ok(text.filter(|text| text.len() <= max).unwrap_or_default())
    }

    async fn list(&self, cursor: Option<&str>) -> Result<FilteredPage<Resource>, Fault> {
        let source = self.source.clone();
        let filter = move |entry: &Resource| source.includes(entry.uri.as_str());
        self.attempt(|| self.plugin.list(CallOrigin::Host, None, cursor, PAGE_SIZE, filter.clone())).await
    }

    /// Finds out whether the provider has lines of each resource: by a template such as `{+path}{?lines}`.
    async fn find_template_of_lines(&self) {
        let Ok(page) = self.plugin.templates(CallOrigin::Host, None, |_| true).await else { return };
        let has_lines = page.items.iter().any(|(_, template)| {
            let path = template.uri_template.path_template();
            let query = path.strip_prefix("{+").and_then(|rest| rest.split_once("}{?")?.1.strip_suffix('}'));
            query.is_some_and(|query| query.split(',').any(|variable| variable == "lines"))
        });
        self.state.has_lines.store(has_lines, Ordering::Relaxed);
    }

    /// Makes a call, and repeats it a few times if the plugin is busy or unavailable.
    async fn attempt<T, F: Future<Output = Result<T, Fault>>>(&self, call: impl Fn() -> F) -> Result<T, Fault> {
        let mut attempts = 1_u32;
        loop {
            let fault = match call().await {
                Err(fault) if attempts < MAX_ATTEMPTS => fault,
                result => return result,
            };
            let pause = match &fault {
                Fault::RateLimited(pause) | Fault::Suspended(pause) => *pause,
                Fault::Unavailable { retry_after, .. } => retry_after.unwrap_or(RETRY_PAUSE),
                Fault::QueueFull(_) | Fault::QueueTimeout(_) => RETRY_PAUSE,
                _ => return Err(fault),
            };
            attempts = attempts.saturating_add(1);
            sleep(pause.clamp(MIN_RETRY_PAUSE, MAX_RETRY_PAUSE)).await;
        }
    }

    /// Writes a batch, and returns the ids of the documents that were put.
    async fn apply(&self, id: SourceId, batch: Batch) -> Result<Vec<i64>, IndexError> {
        if batch.changes.is_empty() {
            return Ok(Vec::new());
        }
        let bounds = Bounds { index: self.max_index_size, source: self.source.settings().max_bytes.bytes() };
        let writing = self.index.write(move |connection| {
            let applied = store::apply(connection, id, &batch.changes, bounds, now_millis())?;
            Ok((applied, store::source_size(connection, id)?))
        });
        let (applied, size) = writing.await?;
        self.record_omitted(applied.omitted);
        let is_first = self.state.status.borrow().without_text == 0;
        if is_first && applied.without_text > 0 {
            let plugin = self.plugin.name();
            tracing::warn!(
                target: log_target::SEARCH, plugin,
                "the plugin has more text than `search.max-bytes`: resources are indexed by their names only"
            );
        }
        let without_text = u64::try_from(applied.without_text).unwrap_or(u64::MAX);
        let status = &self.state.status;
        status.send_modify(|status| status.without_text = status.without_text.saturating_add(without_text));
        self.record(size, applied.changed);
        Ok(applied.ids)
    }

    fn record(&self, size: store::SourceSize, changed: usize) {
        self.state.status.send_modify(|status| (status.documents, status.bytes) = (size.documents, size.bytes));
        if changed > 0 {
            self.index.mark_changed();
        }
    }

    /// Counts resources that the index has no room for.
    fn record_omitted(&self, count: usize) {
        if count == 0 {
            return;
        }
        if self.state.status.borrow().omitted == 0 {
            let plugin = self.plugin.name();
            tracing::warn!(target: log_target::SEARCH, plugin, "the search index is full (`search.max-size`): resources are left out");
        }
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.state.status.send_modify(|status| status.omitted = status.omitted.saturating_add(count));
    }

    fn record_failure(&self, path: &Path, fault: &Fault) {
        let (plugin, path) = (self.plugin.name(), path.as_str());
        tracing::debug!(target: log_target::SEARCH, plugin, path, error = fault.to_string(), "a resource cannot be indexed");
        self.state.status.send_modify(|status| status.failed = status.failed.saturating_add(1));
    }

    /// Logs a failure of a walk, once until it changes.
    fn report(&self, error: &str) {
        let is_new = self.state.status.borrow().error.as_deref() != Some(error);
        self.state.status.send_modify(|status| status.error = Some(error.to_owned()));
        if is_new {
            let plugin = self.plugin.name();
            tracing::warn!(target: log_target::SEARCH, plugin, error, "a plugin cannot be indexed; that is retried with back-off");
        }
    }

    /// The entry with its path below the plugin's mount.
    fn with_path(&self, entry: Resource) -> Option<(Resource, Path)> {
        let mount = self.plugin.mount();
        let path = mount.compose(entry.uri.as_str().strip_prefix(mount.as_str())?).ok()?.path;
        Some((entry, path))
    }
}

/// The time, in milliseconds since 1970.
pub(super) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
