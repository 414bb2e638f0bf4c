//! The runtime: loads the components of plugins, and mounts native providers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use mcp_host_base::circuit_breaker::CircuitBreaker;
use mcp_host_base::shared_buckets::SharedBuckets;
use mcp_host_base::weak_map::WeakMap;
use mcp_host_config as config;
use mcp_host_model::digest::Digest;
use mcp_host_model::provider::{Provider, ProviderInfo};
use mcp_host_model::uri::Mount;
use mcp_host_sandbox::Sandbox;
use mcp_host_sandbox::dirs::OpenFileLimit;
use mcp_host_sandbox::guest_log::GuestLog;
use mcp_host_sandbox::http::TlsRoots;
use mcp_host_sandbox::keyvalue::BucketStores;
use mcp_host_sandbox::memory::{MemoryBudget, Reclaim};
use mcp_host_sandbox::sql::WorkerProgram;

use tokio::sync::OnceCell;

use super::admission::Admission;
use super::backend::{Backend, ComponentBackend};
use super::call::{CallContext, FAILURE_THRESHOLD};
use super::fault_recorder::FaultRecorder;
use super::health::Health;
use super::input_faults::InputFaults;
use super::load_counts::LoadCounts;
use super::load_error::{LoadError, UpstreamError};
use super::metrics::CallMetrics;
use super::panics::contain_panic;
use super::preparation::Preparation;
use super::search_source::SearchSource;
use super::validation::{self, ValidationContext};
use super::{NativePlugin, Plugin, Requirements};
use crate::compile_metrics::CompileMetrics;
use crate::debugger::debuggable_limits;
use crate::diagnostics::{CallObserver, ObservedPlugin};
use crate::loader::{CompiledComponent, LinkedComponent, Loader};
use crate::pool::Pool;
use crate::recording::{self, Recorder, RecordingError, Replays};
use crate::{CHILD_ENV_VAR, Compiler, ComponentError, Engine, EngineError, Progress};

/// Loads plugins on an engine. Opaque.
pub struct PluginRuntime {
    pub(super) engine: Arc<Engine>,
    tls_roots: Arc<TlsRoots>,
    open_files: OpenFileLimit,
    pub(super) loader: Loader,
    state_dir: Option<PathBuf>,
    /// The buckets that the replicas of a cluster share.
    shared_buckets: Option<Arc<dyn SharedBuckets>>,
    /// The program that runs SQLite in child processes.
    sqlite_workers: Option<WorkerProgram>,
    /// The call counters of each plugin, by name.
    metrics: WeakMap<Arc<str>, CallMetrics>,
    load_counts: LoadCounts,
    /// Whether plugins keep their last lines of standard error.
    keeps_last_errors: bool,
    /// The observer of calls.
    observer: Option<Arc<dyn CallObserver>>,
    /// The recorder of calls, which also makes the passthroughs for recording.
    recorder: Option<Recorder>,
    /// Connects to existing servers; none if this build has no client.
    upstreams: Option<Arc<ConnectUpstream>>,
}

/// Connects to the server of an `[[upstream]]`, and returns the native provider that is its client. A program's
/// standard error goes to this log.
pub type ConnectUpstream = dyn Fn(&config::Plugin, Arc<GuestLog>) -> BoxFuture<'static, Result<Arc<dyn Provider>, UpstreamError>>
    + Send
    + Sync;

/// Why plugins cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The engine cannot be started.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The cache of compiled components cannot be used.
    #[error(transparent)]
    Cache(#[from] ComponentError),
}

impl PluginRuntime {
    /// Creates a runtime on this engine. Components are compiled within `limits`, and the code is stored in `cache`.
    /// `state_dir` holds the key-value buckets and the key that authenticates stored code. Without it, granted buckets
    /// fail, and components are compiled at each start. Blocks.
    pub fn new(
        engine: Arc<Engine>,
        compiler: Compiler,
        limits: config::limits::CompileLimits,
        cache: &Path,
        state_dir: Option<PathBuf>,
        progress: Progress,
    ) -> Result<Self, RuntimeError> {
        let sqlite_workers = compiler.program().map(|program| WorkerProgram {
            program,
            child_variable: CHILD_ENV_VAR,
            temp_dir: cache.to_owned(),
        });
        let loader = Loader::new(engine.clone(), compiler, limits, cache, state_dir.as_deref(), progress)?;
        let open_files = OpenFileLimit::from_rlimit();
        Ok(Self {
            engine,
            tls_roots: Arc::default(),
            open_files,
            loader,
            state_dir,
            shared_buckets: None,
            sqlite_workers,
            metrics: WeakMap::default(),
            load_counts: LoadCounts::default(),
            keeps_last_errors: false,
            observer: None,
            recorder: None,
            upstreams: None,
        })
    }

    /// Loads and counts a plugin: reads, compiles (unless cached), links and checks its component, and calls
    /// `describe`.
    pub async fn load(&self, config: &config::Plugin) -> Result<Plugin, LoadError> {
        let loaded = self.load_uncounted(config).await;
        self.load_counts.record(config.name.as_str(), loaded.as_ref().err());
        loaded
    }

    /// The counts of loads of plugins, which are kept until [`LoadCounts::retain_failures`] drops them.
    pub fn load_counts(&self) -> &LoadCounts {
        &self.load_counts
    }

    /// Reuses functions of earlier compilations, of other component files, too, if the compiler is a separate process:
    /// for components under development.
    pub fn compile_incrementally(&self) {
        self.loader.compile_incrementally();
    }

    /// The counters of compilations.
    pub fn compile_metrics(&self) -> &CompileMetrics {
        self.loader.compile_metrics()
    }

    /// The maximum number of concurrent compilers.
    pub fn compilers(&self) -> usize {
        self.loader.compilers()
    }

    async fn load_uncounted(&self, config: &config::Plugin) -> Result<Plugin, LoadError> {
        if config.upstream.is_some() {
            return self.load_upstream(config).await;
        }
        let compiled = self.loader.load(config).await?;
        let component = self.loader.link(config, &compiled)?;
        let mut plugin = self.build(config, &compiled, component);
        if let Some(recorder) = self.recorder.as_ref().filter(|recorder| recorder.includes(config.name.as_str())) {
            plugin.begin_recording(recorder.clone()).await?;
        }
        plugin.info = plugin.describe().await.map_err(LoadError::Describe)?;
        plugin.check_roles().await.map_err(LoadError::Database)?;
        plugin.try_stored_data().await;
        Ok(plugin)
    }

    /// Connects to an existing server, and mounts its client.
    async fn load_upstream(&self, config: &config::Plugin) -> Result<Plugin, LoadError> {
        let no_client = || UpstreamError::from("this build has no client for existing servers".to_owned());
        let connect = self.upstreams.as_ref().ok_or_else(no_client)?;
        let log = GuestLog::new(config.name.as_str().into(), config.limits.log.bytes_per_minute());
        let provider = connect(config, log.clone()).await?;
        let plugin = self.native(&NativePlugin::upstream(config, provider)).map_err(UpstreamError::from)?;
        let search = SearchSource::of_component(config).filter(|_| !config.has_views());
        Ok(Plugin { search: search.map(Arc::new), guest_log: Some(log), ..plugin })
    }

    /// Sets the function that connects to existing servers.
    pub fn set_upstreams(&mut self, connect: Arc<ConnectUpstream>) {
        self.upstreams = Some(connect);
    }

    /// Stores the key-value buckets of plugins that are loaded later in another directory.
    pub fn set_bucket_dir(&mut self, dir: PathBuf) {
        self.state_dir = Some(dir);
    }

    /// Stores the buckets with `shared = true` of plugins that are loaded later here. Without this, they cannot be
    /// used.
    pub fn set_shared_buckets(&mut self, buckets: Arc<dyn SharedBuckets>) {
        self.shared_buckets = Some(buckets);
    }

    /// Makes plugins that are loaded later keep their last lines of standard error, for [`Plugin::take_last_errors`].
    pub fn keep_last_errors(&mut self) {
        self.keeps_last_errors = true;
    }

    /// Reports each call of plugins that are loaded later to an observer.
    pub fn observe_calls(&mut self, observer: Arc<dyn CallObserver>) {
        self.observer = Some(observer);
    }

    /// Records the calls of plugins that are loaded later.
    pub fn record_calls(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// Loads a component for [replays](Plugin::replay): it has no grants, and none of its functions is called.
    pub async fn load_for_replay(&self, config: &config::Plugin) -> Result<Plugin, LoadError> {
        let ungranted = config::Plugin { grants: config::grants::Grants::default(), instances: None, ..config.clone() };
        let compiled = self.loader.load(&ungranted).await?;
        let component = self.loader.link(&ungranted, &compiled)?;
        let replays = Replays::new(&compiled.component)
            .map_err(|error| RecordingError::Imports(format!("its imports cannot be replayed: {error:#}")))?;
        Ok(self.build_with(&ungranted, &compiled, component, Some(replays)))
    }

    /// Returns the digest of a component file; none for a file that cannot be a component.
    pub async fn digest_of(&self, file: &Path) -> Option<Digest> {
        self.loader.digest_of(file).await
    }

    /// Returns why the component of a plugin cannot be loaded, as far as this is known without compiling it. Reads the
    /// file.
    pub async fn known_failure(&self, config: &config::Plugin) -> Option<LoadError> {
        match config.upstream {
            Some(_) => None,
            None => self.loader.known_failure(config).await.map(LoadError::Component),
        }
    }

    /// Drops all components except these, and ends the compilers of others.
    pub fn retain(&self, wanted: &HashSet<Digest>) {
        self.loader.retain(wanted);
    }

    /// Drops compile failures, so that their components are compiled again.
    pub fn clear_failures(&self) {
        self.loader.clear_failures();
    }

    pub(super) fn build(
        &self,
        config: &config::Plugin,
        compiled: &CompiledComponent,
        component: LinkedComponent,
    ) -> Plugin {
        self.build_with(config, compiled, component, None)
    }

    fn build_with(
        &self,
        config: &config::Plugin,
        compiled: &CompiledComponent,
        component: LinkedComponent,
        replays: Option<Replays>,
    ) -> Plugin {
        let component_type = compiled.component.component_type();
        let imports = component_type.imports(compiled.component.engine()).map(|(name, _)| name);
        let name: Arc<str> = config.name.as_str().into();
        let log = if self.keeps_last_errors { GuestLog::keeping_last_errors } else { GuestLog::new };
        let guest_log = log(name.clone(), config.limits.log.bytes_per_minute());
        let pool = Pool::from_config(config, &self.engine);
        let sandbox = Sandbox::new(
            config,
            BucketStores { state_dir: self.state_dir.as_deref(), shared: self.shared_buckets.as_deref() },
            self.sqlite_workers.as_ref(),
            self.tls_roots.clone(),
            self.open_files.clone(),
            guest_log.clone(),
            pool.as_ref().map(|pool| -> Weak<dyn Reclaim> { Arc::<Pool>::downgrade(pool) }),
        );
        let component_file = Some((config.component.as_path().into(), compiled.digest));
        let share = self.engine.shares.share();
        let memory = config.limits.memory.bytes();
        let prepares = component.prepares();
        let backend = Backend::Component(Box::new(ComponentBackend {
            component,
            sandbox,
            share,
            pool,
            recorded_as: recording::recorded_plugin(&name, &config.component, &compiled.digest, memory),
            redaction: Arc::new(recording::redaction(config)),
            recording: ArcSwapOption::empty(),
            replays,
        }));
        let plugin = self.plugin(name, &config.mount, &config.limits, config.watch_interval, backend, component_file);
        Plugin {
            title: config.title.clone(),
            preparation: prepares.then(|| Preparation::new(&plugin.call_context)),
            digest: Some(compiled.digest),
            poll_identity: poll_identity(config, compiled.digest),
            requirements: Requirements::new(imports, config),
            caches_responses: config.response_cache,
            search: SearchSource::of_component(config).map(Arc::new),
            skills: config.skills.iter().cloned().collect(),
            guest_log: Some(guest_log),
            ..plugin
        }
    }

    /// Mounts a native provider.
    ///
    /// # Errors
    ///
    /// `describe` panicked with this message.
    pub fn native(&self, native: &NativePlugin) -> Result<Plugin, String> {
        let NativePlugin { name, title, mount, provider, limits, watch_interval, response_cache, .. } = native;
        let backend = Backend::Native(provider.clone());
        let info = validation::truncate_info(contain_panic(|| provider.describe())?);
        let title = title.clone();
        let plugin = self.plugin(name.as_str().into(), mount, limits, *watch_interval, backend, None);
        Ok(Plugin {
            info,
            title,
            caches_responses: *response_cache,
            search: SearchSource::of_native(native).map(Arc::new),
            skills: native.skills.iter().cloned().collect(),
            built_in: native.built_in.clone(),
            ..plugin
        })
    }

    /// Creates a plugin without a description.
    fn plugin(
        &self,
        name: Arc<str>,
        mount: &Mount,
        limits: &config::limits::Limits,
        watch_interval: config::WatchInterval,
        backend: Backend,
        component: Option<(Arc<Path>, Digest)>,
    ) -> Plugin {
        let limits = &match self.engine.debugger() {
            Some(_) => debuggable_limits(limits),
            None => limits.clone(),
        };
        let budget = || MemoryBudget::new(limits.memory.bytes(), None);
        let memory = backend.sandbox().map_or_else(budget, |sandbox| sandbox.memory().clone());
        let probe_memory = backend.sandbox().map(|sandbox| sandbox.probe_memory().clone());
        let faults = Arc::new(FaultRecorder::new(name.clone(), limits.log.bytes_per_minute()));
        let observed = self.observer.as_ref().map(|observer| {
            Arc::new(ObservedPlugin {
                name: name.clone(),
                component,
                observer: observer.clone(),
                calls: Default::default(),
            })
        });
        let initial_bytes = backend.initial_bytes();
        let max_response_size = matches!(backend, Backend::Native(_)).then(|| limits.response_size.bytes());
        Plugin {
            title: None,
            mount: mount.clone(),
            digest: None,
            watch_interval: watch_interval.duration(),
            poll_identity: None,
            requirements: Requirements::default(),
            info: ProviderInfo::default(),
            needs: OnceCell::new(),
            preparation: None,
            call_context: Arc::new(CallContext {
                engine: self.engine.clone(),
                backend: Arc::new(backend),
                limits: limits.clone(),
                validation: Arc::new(ValidationContext {
                    mount: mount.clone(),
                    max_items: limits.response_items.get(),
                    max_response_size,
                    faults: faults.clone(),
                }),
                admission: Arc::new(Admission::new(limits, initial_bytes)),
                run_queue: self.engine.executor.plugin_queue(),
                probe_memory: probe_memory.unwrap_or_else(budget),
                memory,
                metrics: self.metrics.get_or_insert_with(&name, Arc::default),
                observed,
                profiled: Arc::new(ArcSwapOption::empty()),
            }),
            breaker: CircuitBreaker::new(FAILURE_THRESHOLD),
            input_faults: InputFaults::default(),
            health: Health::default(),
            faults,
            name,
            caches_responses: true,
            search: None,
            skills: Arc::default(),
            guest_log: None,
            built_in: None,
        }
    }
}

/// Returns a key that is equal for all replicas of a cluster whose provider reports the same changes: the component,
/// the mount, the provider's config and its grants. Secrets are not part of it.
fn poll_identity(config: &config::Plugin, digest: Digest) -> Option<Box<[u8]>> {
    let config::Plugin { mount, config: settings, grants, .. } = config;
    config.shares_polls().then(|| format!("{digest} {mount} {settings:?} {grants:?}").into_bytes().into())
}
