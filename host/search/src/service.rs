//! The search service of a host: the index, and a task for each searched plugin.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::shared_snapshots::SharedSnapshots;
use mcp_host_base::task;
use mcp_host_base::threads::WorkerPool;
use mcp_host_base::threads::lower_priority;
use mcp_host_base::time::now_millis;
use mcp_host_config::Config;
use mcp_host_config::search::Search;
use mcp_host_engine::plugin::{MountedPlugin, Plugin};
use mcp_host_model::resource::Error;
use mcp_host_model::uri::Mount;
use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio_util::task::AbortOnDropHandle;

use super::counts::SearchCounts;
use super::embeddings::{EmbeddedSource, EmbeddingService};
use super::error::{IndexError, SearchError};
use super::host_view::SearchHost;
use super::index::{Index, LookupTime, NICE};
use super::indexer::Indexer;
use super::shares::SearchShares;
use super::snapshot::SharedIndex;
use super::source_reader::SourceReader;
use super::space::Space;
use super::status::{SearchStatus, SourceState};
use super::store;
use super::updater::Updater;

/// The time after which a source that no host has used is removed from the index.
const UNUSED_AFTER: Duration = Duration::from_hours(30 * 24);

/// The index of a host, and the tasks that write to it. Dropping this value stops the tasks.
pub struct SearchService {
    state_dir: Option<PathBuf>,
    /// The snapshots that the replicas of a cluster share. None without a cluster.
    snapshots: Option<SharedSnapshots>,
    /// The host. None before [`connect`](Self::connect).
    host: OnceLock<Weak<dyn SearchHost>>,
    pub(super) state: Mutex<State>,
    pub(super) shares: SearchShares,
    pub(super) counts: SearchCounts,
}

#[derive(Default)]
pub(super) struct State {
    /// None before any plugin is searched; an error if the index cannot be created.
    index: Option<Result<OpenIndex, String>>,
    space: Space,
    pub(super) sources: BTreeMap<Mount, RunningSource>,
    pub(super) embeddings: Option<Arc<EmbeddingService>>,
    /// The searched plugins that are not loaded.
    pub(super) not_loaded: Vec<String>,
}

impl State {
    /// The index.
    pub(super) fn index(&self) -> Result<&Arc<Index>, SearchError> {
        match &self.index {
            Some(Ok(OpenIndex { index, .. })) => Ok(index),
            Some(Err(reason)) => Err(SearchError::NoIndex(reason.clone())),
            None => Err(SearchError::Off),
        }
    }

    /// Starts, changes or stops embeddings according to the config and the plugins.
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

    /// Stops sending text, even if a query that waits for its vector still holds the service.
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

    fn start_indexer(&self, plugin: &Arc<Plugin>, shared: Option<SharedIndex>) -> Option<RunningSource> {
        let state = SourceState::new(plugin.name());
        let reader = SourceReader { plugin: plugin.clone(), source: plugin.search_source()?.clone() };
        let shared_as = shared.as_ref().map(|shared| shared.name().to_owned());
        let indexer = Indexer { updater: Updater { reader, index: self.index.clone(), state: state.clone() }, shared };
        let _task = AbortOnDropHandle::new(self.workers.handle().spawn(indexer.run()));
        Some(RunningSource { plugin: plugin.clone(), state, shared_as, _task })
    }
}

/// An indexed plugin.
pub(super) struct RunningSource {
    pub(super) plugin: Arc<Plugin>,
    pub(super) state: Arc<SourceState>,
    /// The name of its shared index. None if its index is not shared.
    shared_as: Option<String>,
    _task: AbortOnDropHandle<()>,
}

impl SearchService {
    /// Creates a service without sources. Its index is stored in this directory, and shared by these snapshots if the
    /// config says so.
    pub fn new(state_dir: Option<PathBuf>, snapshots: Option<SharedSnapshots>) -> Arc<Self> {
        let (state, shares, counts) = (Mutex::default(), SearchShares::default(), SearchCounts::default());
        Arc::new(Self { state_dir, snapshots, host: OnceLock::new(), state, shares, counts })
    }

    /// Sets the host, once. Requests fail before it is set, and after it is dropped.
    pub fn connect(&self, host: Weak<dyn SearchHost>) {
        // This fails if the host is already set.
        let _ = self.host.set(host);
    }

    pub(super) fn host(&self) -> Option<Arc<dyn SearchHost>> {
        self.host.get().and_then(Weak::upgrade)
    }

    /// Indexes exactly the searched and loaded plugins. Must be called on a tokio runtime.
    pub(super) fn switch_generation(&self, config: &Config, plugins: &[MountedPlugin<'_>]) {
        let loaded = plugins.iter().filter_map(|plugin| plugin.loaded);
        let searched: Vec<_> = loaded.filter(|plugin| plugin.search_source().is_some()).collect();
        let search = config.search.as_ref();
        let mut state = self.state.lock();
        let mut old = std::mem::take(&mut state.sources);
        let space = Space::new(search.map(|search| search.max_size).unwrap_or_default().bytes());
        if state.space != space {
            old.clear();
            state.space = space;
        }
        state.not_loaded = searched_and_not_loaded(config, plugins);
        if searched.is_empty() && state.not_loaded.is_empty() {
            state.stop_embeddings();
            return;
        }
        self.open(&mut state);
        let State { index: Some(Ok(open)), sources, .. } = &mut *state else { return };
        open.index.set_space(space);
        for plugin in searched {
            let mount = plugin.mount().clone();
            let shared = self.snapshots.as_ref().and_then(|snapshots| SharedIndex::of(snapshots, search, plugin));
            let is_kept = |running: &RunningSource| {
                Arc::ptr_eq(&running.plugin, plugin)
                    && running.shared_as.as_deref() == shared.as_ref().map(SharedIndex::name)
            };
            let kept = old.remove(&mount).filter(is_kept);
            let running = kept.or_else(|| open.start_indexer(plugin, shared));
            sources.extend(running.map(|running| (mount, running)));
        }
        let index = open.index.clone();
        state.switch_embeddings(&index, search);
    }

    /// Stops all tasks.
    pub(super) fn shutdown(&self) {
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
            Ok(open) => drop(task::spawn(remove_unused(open.index.clone()))),
            Err(error) => {
                tracing::error!(target: log_target::SEARCH, error, "there is no search index: nothing is searched");
            }
        }
        state.index = Some(opened);
    }

    /// The state of each source, by the name of its plugin.
    pub fn status(&self) -> Vec<SearchStatus> {
        let state = self.state.lock();
        let mut all: Vec<_> = state.sources.values().map(|source| source.state.status.borrow().clone()).collect();
        all.sort_by(|one, other| one.plugin.cmp(&other.plugin));
        all
    }

    /// The number of searches and selections of context since the start of the host, by outcome: ok, partial, failed.
    pub fn search_counts(&self) -> [(&'static str, u64); 3] {
        self.counts.all()
    }

    /// Waits until the whole listing of each source has been compared with the index, or this has failed.
    pub async fn wait_until_indexed(&self) {
        let waiting: Vec<_> =
            self.state.lock().sources.values().map(|source| source.state.status.subscribe()).collect();
        for mut status in waiting {
            // The wait fails if the source has been removed.
            let _ = status.wait_for(|status| status.is_complete || status.error.is_some()).await;
        }
    }

    /// The number of changes of the index since the start of the host.
    pub(super) fn change_count(&self) -> u64 {
        self.state.lock().index().map(|index| index.change_count()).unwrap_or_default()
    }

    /// Deletes the index. All documents are read and indexed again.
    ///
    /// # Errors
    ///
    /// No plugin is searched, or the index cannot be deleted or created.
    pub async fn rebuild(&self) -> Result<(), Error> {
        let index = {
            let state = self.state.lock();
            // Reset first, so that earlier results are not mistaken for results of the new index.
            for source in state.sources.values() {
                source.state.status.send_modify(|status| (status.is_complete, status.error) = (false, None));
            }
            state.index()?.clone()
        };
        index.rebuild().await.map_err(SearchError::from)?;
        // Attempts that failed meanwhile used the deleted index, so their errors are reset, and waiting for the
        // new index continues.
        for source in self.state.lock().sources.values() {
            source.state.status.send_modify(|status| status.error = None);
        }
        Ok(())
    }
}

/// Whether any plugin in the config, or any loaded plugin, is searched.
pub(super) fn has_search<'a>(config: &Config, mut loaded: impl Iterator<Item = &'a Plugin>) -> bool {
    config.has_search() || loaded.any(|plugin| plugin.search_source().is_some())
}

/// The names of the searched plugins in the config that are not loaded.
fn searched_and_not_loaded(config: &Config, plugins: &[MountedPlugin<'_>]) -> Vec<String> {
    let searched = config.plugins.iter().filter(|plugin| plugin.search.is_some());
    let is_loaded = |name: &str| plugins.iter().any(|plugin| plugin.name == name && plugin.loaded.is_some());
    searched.map(|plugin| plugin.name.as_str()).filter(|name| !is_loaded(name)).map(str::to_owned).collect()
}

/// Removes sources that no host uses.
async fn remove_unused(index: Arc<Index>) {
    let unused = i64::try_from(UNUSED_AFTER.as_millis()).unwrap_or(i64::MAX);
    let since = now_millis().saturating_sub(unused);
    if let Err(error) = index.write(move |connection| store::remove_unused(connection, since)).await {
        tracing::debug!(target: log_target::SEARCH, error = error.to_string(), "unused sources cannot be removed from the index");
    }
}
