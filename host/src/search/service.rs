//! The search service of a host: the index, and a task for each plugin that is searched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio_util::task::AbortOnDropHandle;

use super::candidate::Conditions;
use super::context::{self, ContextRequest, ContextSelection};
use super::embeddings::nearest::NearestQuery;
use super::embeddings::{EmbeddedSource, EmbeddingService};
use super::error::{IndexError, SearchError, interruptible};
use super::index::{Index, LookupTime, NICE};
use super::indexer::Indexer;
use super::lookup::{self, Lookup, LookupResult, part_of};
use super::passages;
use super::query::Query;
use super::request::SearchRequest;
use super::results::SearchResults;
use super::searched::{Searched, SearchedSource, is_below, to_candidate, to_hit};
use super::shares::{SearchShares, SearchTurn};
use super::source::SourceId;
use super::source_reader::SourceReader;
use super::space::Space;
use super::status::{SearchStatus, SourceState};
use super::store;
use super::updater::Updater;
use crate::config::search::Search;
use crate::log_target;
use crate::plugin::Plugin;
use crate::principal::Principal;
use crate::resource::Role;
use crate::thread_priority::lower_priority;
use crate::time::now_millis;
use crate::uri::Mount;
use crate::worker_pool::WorkerPool;

/// A source that no host has used for so long is removed from the index.
const UNUSED_AFTER: Duration = Duration::from_hours(30 * 24);

/// The longest time that a search waits for sources that are being opened.
const MAX_OPEN_TIME: Duration = Duration::from_secs(1);
/// The number of documents whose passages may be part of a context.
const MAX_CONTEXT_DOCUMENTS: usize = 50;
/// The part of the time for a context that finding passages may take. The rest is for choosing some of them.
const PASSAGES_PART: f64 = 0.75;

/// The index of a host, and the tasks that write to it. Dropping it stops them.
pub(crate) struct SearchService {
    state_dir: Option<PathBuf>,
    state: Mutex<State>,
    shares: SearchShares,
}

#[derive(Default)]
struct State {
    /// None before anything is searched; an error if there can be no index.
    index: Option<Result<OpenIndex, String>>,
    space: Space,
    sources: BTreeMap<Mount, RunningSource>,
    embeddings: Option<Arc<EmbeddingService>>,
    /// The plugins that the config searches and that are not loaded.
    not_loaded: Vec<String>,
}

impl State {
    /// The index.
    fn index(&self) -> Result<&Arc<Index>, SearchError> {
        match &self.index {
            Some(Ok(OpenIndex { index, .. })) => Ok(index),
            Some(Err(reason)) => Err(SearchError::NoIndex(reason.clone())),
            None => Err(SearchError::Off),
        }
    }

    /// Computes embeddings as the config says, of the plugins that say so.
    fn switch_embeddings(&mut self, index: &Arc<Index>, search: Option<&Search>) {
        let Some(search) = search.filter(|search| search.embeddings.is_some()) else {
            self.stop_embeddings();
            return;
        };
        if self.embeddings.as_ref().is_some_and(|embeddings| !embeddings.is_of(search)) {
            self.stop_embeddings();
        }
        if self.embeddings.is_none() {
            self.embeddings = EmbeddingService::start(index, search).map(Arc::new);
        }
        let sent = |(mount, running): (&Mount, &RunningSource)| {
            let source = running.plugin.search_source().filter(|source| source.settings().embeddings)?.clone();
            Some(EmbeddedSource { mount: mount.clone(), source, state: running.state.clone() })
        };
        if let Some(embeddings) = &self.embeddings {
            embeddings.set_sources(self.sources.iter().filter_map(sent).collect());
        }
    }

    /// Sends no more text, even if a query that waits for its vector still holds the service.
    fn stop_embeddings(&mut self) {
        if let Some(embeddings) = self.embeddings.take() {
            embeddings.set_sources(Vec::new());
        }
    }
}

/// The index, and the thread that indexers run on.
struct OpenIndex {
    index: Arc<Index>,
    workers: WorkerPool,
}

impl OpenIndex {
    fn start(state_dir: &Path, space: Space) -> Result<Self, IndexError> {
        let index = Index::start(state_dir, space, LookupTime::default())?;
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("mcp-indexer").on_thread_start(|| lower_priority(NICE));
        Ok(Self { index, workers: WorkerPool::start(&mut builder)? })
    }

    fn start_indexer(&self, plugin: &Arc<Plugin>) -> Option<RunningSource> {
        let state = SourceState::new(plugin.name());
        let reader = SourceReader { plugin: plugin.clone(), source: plugin.search_source()?.clone() };
        let indexer = Indexer { updater: Updater { reader, index: self.index.clone(), state: state.clone() } };
        let _task = AbortOnDropHandle::new(self.workers.handle().spawn(indexer.run()));
        Some(RunningSource { plugin: plugin.clone(), state, _task })
    }
}

/// A plugin that is indexed.
struct RunningSource {
    plugin: Arc<Plugin>,
    state: Arc<SourceState>,
    _task: AbortOnDropHandle<()>,
}

impl SearchService {
    /// A service without sources, whose index is kept in that directory.
    pub(crate) fn new(state_dir: Option<PathBuf>) -> Self {
        Self { state_dir, state: Mutex::default(), shares: SearchShares::default() }
    }

    /// Indexes those of the plugins that are searched, and no others. `not_loaded` are the names of those that the config
    /// searches and that are not loaded. Must be called on a tokio runtime.
    pub(crate) fn switch_generation<'a>(
        &self,
        plugins: impl Iterator<Item = &'a Arc<Plugin>>,
        not_loaded: Vec<String>,
        search: Option<&Search>,
    ) {
        let searched: Vec<_> = plugins.filter(|plugin| plugin.search_source().is_some()).collect();
        let mut state = self.state.lock();
        let mut old = std::mem::take(&mut state.sources);
        let space = Space::new(search.map(|search| search.max_size).unwrap_or_default().bytes());
        if state.space != space {
            old.clear();
            state.space = space;
        }
        state.not_loaded = not_loaded;
        if searched.is_empty() && state.not_loaded.is_empty() {
            state.stop_embeddings();
            return;
        }
        self.open(&mut state);
        let State { index: Some(Ok(open)), sources, .. } = &mut *state else { return };
        open.index.set_space(space);
        for plugin in searched {
            let mount = plugin.mount().clone();
            let kept = old.remove(&mount).filter(|running| Arc::ptr_eq(&running.plugin, plugin));
            let running = kept.or_else(|| open.start_indexer(plugin));
            sources.extend(running.map(|running| (mount, running)));
        }
        let index = open.index.clone();
        state.switch_embeddings(&index, search);
    }

    /// Stops all tasks.
    pub(crate) fn shutdown(&self) {
        let mut state = self.state.lock();
        state.sources.clear();
        state.stop_embeddings();
    }

    /// Opens the index, unless it is open.
    fn open(&self, state: &mut State) {
        if let Some(Ok(_)) = &state.index {
            return;
        }
        let opened = match &self.state_dir {
            Some(dir) => OpenIndex::start(dir, state.space).map_err(|error| error.to_string()),
            None => Err("there is no state directory".to_owned()),
        };
        match &opened {
            Ok(open) => drop(tokio::spawn(remove_unused(open.index.clone()))),
            Err(error) => {
                tracing::error!(target: log_target::SEARCH, error, "there is no search index: nothing is searched");
            }
        }
        state.index = Some(opened);
    }

    /// The state of each source, by the name of its plugin.
    pub(crate) fn status(&self) -> Vec<SearchStatus> {
        let state = self.state.lock();
        let mut all: Vec<_> = state.sources.values().map(|source| source.state.status.borrow().clone()).collect();
        all.sort_by(|one, other| one.plugin.cmp(&other.plugin));
        all
    }

    /// Waits until the whole listing of each source was compared with the index, or that has failed.
    pub(crate) async fn wait_until_indexed(&self) {
        let waiting: Vec<_> =
            self.state.lock().sources.values().map(|source| source.state.status.subscribe()).collect();
        for mut status in waiting {
            // It fails if the source is gone.
            let _ = status.wait_for(|status| status.is_complete || status.error.is_some()).await;
        }
    }

    /// The number of changes of the index since the host started.
    pub(crate) fn change_count(&self) -> u64 {
        self.state.lock().index().map(|index| index.change_count()).unwrap_or_default()
    }

    /// Waits for the turn of a lookup of that principal, which it has until the lookup ends.
    pub(crate) async fn turn(&self, principal: &Principal) -> Result<SearchTurn, SearchError> {
        self.shares.turn(principal).await
    }

    /// Chooses passages within a budget, of the sources' documents that are visible.
    pub(crate) async fn context(
        &self,
        turn: SearchTurn,
        request: &ContextRequest,
        is_visible: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<ContextSelection, SearchError> {
        let Searched { index, sources, incomplete } = self.searched().await?;
        if sources.is_empty() {
            return Ok(ContextSelection { incomplete, ..ContextSelection::default() });
        }
        let searched = sources.clone();
        let filter = move |source: SourceId, path: &str| {
            let uri = searched.get(&source)?.uri(path)?;
            is_visible(&uri).then_some(uri)
        };
        let audience = match request.audience {
            None => 0,
            Some(Role::User) => 1,
            Some(Role::Assistant) => 2,
        };
        let nearest = match &request.query {
            Some(query) => self.nearest_query(query).await,
            None => None,
        };
        let (query, budget) = (request.query.as_deref().map(Query::parse), request.budget);
        let choosing = index.read(move |connection, end| {
            let _turn = turn;
            let deadline = part_of(end, PASSAGES_PART);
            let found = match query {
                Some(query) => {
                    let conditions = Conditions { audience, ..Conditions::default() };
                    let limit = MAX_CONTEXT_DOCUMENTS;
                    Lookup { query, nearest, conditions, limit, deadline, filter }.run_passages(connection)?
                }
                None => passages::by_priority(connection, audience, budget, deadline, filter)?,
            };
            let candidates = found.found.into_iter().filter_map(|found| to_candidate(found, &sources)).collect();
            let mut selection = context::select(candidates, budget, end);
            selection.is_partial |= found.is_partial;
            Ok(selection)
        });
        let chosen = interruptible(choosing.await)?;
        let late = || ContextSelection { is_partial: true, ..ContextSelection::default() };
        Ok(ContextSelection { incomplete, ..chosen.unwrap_or_else(late) })
    }

    /// The MIME types, or the languages, of the documents that are visible, in alphabetical order, as far as they are found in
    /// time.
    pub(crate) async fn values(
        &self,
        turn: SearchTurn,
        are_kinds: bool,
        is_visible: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Vec<String>, SearchError> {
        let Searched { index, sources, .. } = self.searched().await?;
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let filter = move |source: SourceId, path: &str| {
            sources.get(&source).and_then(|source| source.uri(path)).is_some_and(|uri| is_visible(&uri))
        };
        let finding = index.read(move |connection, deadline| {
            let _turn = turn;
            lookup::values(connection, are_kinds, deadline, filter)
        });
        Ok(interruptible(finding.await)?.unwrap_or_default())
    }

    /// Deletes the index; everything is indexed again.
    pub(crate) async fn rebuild(&self) -> Result<(), SearchError> {
        let index = {
            let state = self.state.lock();
            // Nobody takes what was indexed before for the new index.
            for source in state.sources.values() {
                source.state.status.send_modify(|status| (status.is_complete, status.error) = (false, None));
            }
            state.index()?.clone()
        };
        index.rebuild().await?;
        // Attempts that failed meanwhile failed with the index that is gone: who waits for the new one waits on.
        for source in self.state.lock().sources.values() {
            source.state.status.send_modify(|status| status.error = None);
        }
        Ok(())
    }

    /// Searches the sources. `is_visible` decides on a URI in normal form: what it rejects is neither ranked nor counted.
    /// `within` of the request is in normal form.
    pub(crate) async fn search(
        &self,
        turn: SearchTurn,
        request: &SearchRequest,
        is_visible: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<SearchResults, SearchError> {
        let Searched { index, sources, incomplete } = self.searched().await?;
        if sources.is_empty() {
            return Ok(SearchResults { incomplete, ..SearchResults::default() });
        }
        let searched = sources.clone();
        let within = request.within.clone();
        let filter = move |source: SourceId, path: &str| {
            let uri = searched.get(&source)?.uri(path)?;
            let is_within = within.as_deref().is_none_or(|within| is_below(&uri, within));
            (is_within && is_visible(&uri)).then_some(uri)
        };
        let nearest = self.nearest_query(&request.query).await;
        let is_hybrid = nearest.is_some();
        let (query, limit) = (Query::parse(&request.query), request.limit.min(SearchRequest::MAX_LIMIT));
        let conditions = Conditions {
            kind: request.kind.as_deref().map(|kind| kind.trim_end_matches("/*").to_ascii_lowercase()),
            language: request.language.as_deref().map(str::to_ascii_lowercase),
            audience: 0,
        };
        let looking_up = index.read(move |connection, deadline| {
            let _turn = turn;
            Lookup { query, nearest, conditions, limit, deadline, filter }.run(connection)
        });
        let late = || LookupResult { is_partial: true, ..LookupResult::default() };
        let result = interruptible(looking_up.await)?.unwrap_or_else(late);
        let hits = result.found.into_iter().filter_map(|found| to_hit(found, &sources)).collect();
        Ok(SearchResults { hits, total: result.total, is_partial: result.is_partial, is_hybrid, incomplete })
    }

    /// The vector of a query, and where it is looked up. None if the query is not sent to an endpoint, or it has a phrase, which a
    /// result has to have as it is written.
    async fn nearest_query(&self, query: &str) -> Option<NearestQuery> {
        let embeddings = self.state.lock().embeddings.clone()?;
        if Query::parse(query).has_phrase() {
            return None;
        }
        embeddings.query(query).await
    }

    /// Waits until each source was found or created in the index, or that has failed: right after a start that takes a moment.
    async fn wait_until_open(&self) {
        let waiting: Vec<_> = self.state.lock().sources.values().map(|source| source.state.clone()).collect();
        let opening = async {
            for state in waiting {
                let is_open = |status: &SearchStatus| state.id.lock().is_some() || status.error.is_some();
                // It fails only without a sender, which `state` owns.
                let _ = state.status.subscribe().wait_for(is_open).await;
            }
        };
        // A search of the sources that are open is better than none.
        let _ = tokio::time::timeout(MAX_OPEN_TIME, opening).await;
    }

    /// What a lookup searches.
    async fn searched(&self) -> Result<Searched, SearchError> {
        self.wait_until_open().await;
        let state = self.state.lock();
        if state.sources.is_empty() && state.not_loaded.is_empty() {
            return Err(SearchError::Off);
        }
        let index = state.index()?.clone();
        let (mut sources, mut incomplete) = (BTreeMap::new(), state.not_loaded.clone());
        for (mount, running) in &state.sources {
            if let Some(id) = *running.state.id.lock() {
                let has_lines = running.state.has_lines.load(Ordering::Relaxed);
                let (mount, plugin) = (mount.clone(), running.plugin.clone());
                sources.insert(id, SearchedSource { mount, plugin, has_lines });
            }
            // After a damage there is nothing, until the source is opened again.
            let is_open = running.state.rebuild.load(Ordering::SeqCst) == index.rebuild_count();
            if !is_open || !running.state.status.borrow().has_everything() {
                incomplete.push(running.plugin.name().to_owned());
            }
        }
        incomplete.sort_unstable();
        Ok(Searched { index, sources: Arc::new(sources), incomplete })
    }
}

/// Removes sources that no host uses any more.
async fn remove_unused(index: Arc<Index>) {
    let unused = i64::try_from(UNUSED_AFTER.as_millis()).unwrap_or(i64::MAX);
    let since = now_millis().saturating_sub(unused);
    if let Err(error) = index.write(move |connection| store::remove_unused(connection, since)).await {
        tracing::debug!(target: log_target::SEARCH, error = error.to_string(), "unused sources cannot be removed from the index");
    }
}
