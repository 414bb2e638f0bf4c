//! The runtime: loads the components of plugins, and mounts native providers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use mcp_host_base::circuit_breaker::CircuitBreaker;
use mcp_host_base::weak_map::WeakMap;
use mcp_host_config as config;
use mcp_host_model::digest::Digest;
use mcp_host_model::provider::{Provider, ProviderInfo};
use mcp_host_model::uri::Mount;
use mcp_host_sandbox::Sandbox;
use mcp_host_sandbox::dirs::OpenFileLimit;
use mcp_host_sandbox::guest_log::GuestLog;
use mcp_host_sandbox::http::TlsRoots;
use mcp_host_sandbox::memory::{MemoryBudget, Reclaim};
use mcp_host_sandbox::sql::WorkerProgram;

use super::admission::Admission;
use super::backend::{Backend, ComponentBackend};
use super::call::{CallContext, FAILURE_THRESHOLD};
use super::fault::Fault;
use super::fault_recorder::FaultRecorder;
use super::input_faults::InputFaults;
use super::load_failures::LoadFailures;
use super::metrics::CallMetrics;
use super::panics::contain_panic;
use super::search_source::SearchSource;
use super::validation::{self, ValidationContext};
use super::{NativePlugin, Plugin, Requirements};
use crate::compile_metrics::CompileMetrics;
use crate::loader::{CompiledComponent, LinkedComponent, Loader};
use crate::pool::Pool;
use crate::{CHILD_ENV_VAR, Compiler, ComponentError, Engine, EngineError, Progress};

/// Loads plugins on an engine. Opaque.
pub struct PluginRuntime {
    pub(super) engine: Arc<Engine>,
    tls_roots: Arc<TlsRoots>,
    open_files: OpenFileLimit,
    pub(super) loader: Loader,
    state_dir: Option<PathBuf>,
    /// How SQLite is run in child processes.
    sqlite_workers: Option<WorkerProgram>,
    /// What is counted of the calls of each plugin, by its name.
    metrics: WeakMap<Arc<str>, CallMetrics>,
    load_failures: LoadFailures,
    /// Whether plugins keep what they wrote last on standard error.
    keeps_last_errors: bool,
    /// What connects to existing servers; none if this build has no client.
    upstreams: Option<Arc<ConnectUpstream>>,
}

/// Connects to the server of an `[[upstream]]`, and returns the native provider that is its client, or why there is no connection.
pub type ConnectUpstream =
    dyn Fn(&config::Plugin) -> BoxFuture<'static, Result<Arc<dyn Provider>, String>> + Send + Sync;

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
    /// A runtime on that engine. Components are compiled within `limits`, and the code is stored in `cache`. `state_dir` holds the
    /// key-value buckets and the key that the stored code is authenticated with; without it, buckets are granted and fail, and
    /// components are compiled at each start. Blocks.
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
            sqlite_workers,
            metrics: WeakMap::default(),
            load_failures: LoadFailures::default(),
            keeps_last_errors: false,
            upstreams: None,
        })
    }

    /// Loads a plugin: reads, compiles (unless cached), links and checks its component, and calls `describe`. A failure is counted.
    pub async fn load(&self, config: &config::Plugin) -> Result<Plugin, LoadError> {
        let loaded = self.load_uncounted(config).await;
        if let Err(error) = &loaded {
            self.load_failures.record(config.name.as_str(), error);
        }
        loaded
    }

    /// The failures to load plugins, which are counted until [`LoadFailures::retain`] drops them.
    pub fn load_failures(&self) -> &LoadFailures {
        &self.load_failures
    }

    /// What is counted of compilations.
    pub fn compile_metrics(&self) -> &CompileMetrics {
        self.loader.compile_metrics()
    }

    /// The number of compilers that may run at once.
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
        plugin.info = plugin.describe().await.map_err(LoadError::Describe)?;
        plugin.check_roles().await.map_err(LoadError::Database)?;
        Ok(plugin)
    }

    /// Connects to an existing server, and mounts its client.
    async fn load_upstream(&self, config: &config::Plugin) -> Result<Plugin, LoadError> {
        let no_client = || LoadError::Upstream("this build has no client for existing servers".to_owned());
        let connect = self.upstreams.as_ref().ok_or_else(no_client)?;
        let provider = connect(config).await.map_err(LoadError::Upstream)?;
        let plugin = self.native(&NativePlugin::upstream(config, provider)).map_err(LoadError::Upstream)?;
        let search = SearchSource::of_component(config).filter(|_| !config.has_identities());
        Ok(Plugin { search: search.map(Arc::new), ..plugin })
    }

    /// Sets what connects to existing servers.
    pub fn set_upstreams(&mut self, connect: Arc<ConnectUpstream>) {
        self.upstreams = Some(connect);
    }

    /// Keeps the key-value buckets of plugins that are loaded from now on in another directory.
    pub fn set_bucket_dir(&mut self, dir: PathBuf) {
        self.state_dir = Some(dir);
    }

    /// Has plugins that are loaded from now on keep what they wrote last on standard error, for [`Plugin::take_last_errors`].
    pub fn keep_last_errors(&mut self) {
        self.keeps_last_errors = true;
    }

    /// Returns the digest of a component file; none for a file that cannot be a component.
    pub async fn digest_of(&self, file: &Path) -> Option<Digest> {
        self.loader.digest_of(file).await
    }

    /// Drops all components but those, and ends the compilers of others.
    pub fn retain(&self, wanted: &HashSet<Digest>) {
        self.loader.retain(wanted);
    }

    /// Drops compile failures, so that those components are compiled again.
    pub fn clear_failures(&self) {
        self.loader.clear_failures();
    }

    pub(super) fn build(
        &self,
        config: &config::Plugin,
        compiled: &CompiledComponent,
        component: LinkedComponent,
    ) -> Plugin {
        let component_type = compiled.component.component_type();
        let imports = component_type.imports(self.engine.wasmtime()).map(|(name, _)| name);
        let name: Arc<str> = config.name.as_str().into();
        let log = if self.keeps_last_errors { GuestLog::keeping_last_errors } else { GuestLog::new };
        let guest_log = log(name.clone(), config.limits.log.bytes_per_minute());
        let pool = Pool::from_config(config, &self.engine);
        let sandbox = Sandbox::new(
            config,
            self.state_dir.as_deref(),
            self.sqlite_workers.as_ref(),
            self.tls_roots.clone(),
            self.open_files.clone(),
            guest_log.clone(),
            pool.as_ref().map(|pool| -> Weak<dyn Reclaim> { Arc::<Pool>::downgrade(pool) }),
        );
        let memory = sandbox.memory().clone();
        let share = self.engine.shares.share();
        let backend = Backend::Component(Box::new(ComponentBackend { component, sandbox, share, pool }));
        Plugin {
            title: config.title.clone(),
            digest: Some(compiled.digest),
            poll_identity: poll_identity(config, compiled.digest),
            requirements: Requirements::new(imports, config),
            caches_responses: config.response_cache,
            search: SearchSource::of_component(config).map(Arc::new),
            skills: config.skills.iter().cloned().collect(),
            guest_log: Some(guest_log),
            ..self.plugin(name, &config.mount, &config.limits, config.watch_interval, backend, memory)
        }
    }

    /// Mounts a native provider.
    ///
    /// # Errors
    ///
    /// Its `describe` panicked with this message.
    pub fn native(&self, native: &NativePlugin) -> Result<Plugin, String> {
        let NativePlugin { name, title, mount, provider, limits, watch_interval, response_cache, .. } = native;
        let memory = MemoryBudget::new(limits.memory.bytes(), None);
        let backend = Backend::Native(provider.clone());
        let info = validation::truncate_info(contain_panic(|| provider.describe())?);
        let title = title.clone();
        let plugin = self.plugin(name.as_str().into(), mount, limits, *watch_interval, backend, memory);
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

    /// A plugin without a description.
    fn plugin(
        &self,
        name: Arc<str>,
        mount: &Mount,
        limits: &config::limits::Limits,
        watch_interval: config::WatchInterval,
        backend: Backend,
        memory: Arc<MemoryBudget>,
    ) -> Plugin {
        let probe_memory = backend.sandbox().map(|sandbox| sandbox.probe_memory().clone());
        let faults = Arc::new(FaultRecorder::new(name.clone(), limits.log.bytes_per_minute()));
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
            call_context: Arc::new(CallContext {
                engine: self.engine.clone(),
                backend,
                limits: limits.clone(),
                validation: Arc::new(ValidationContext {
                    mount: mount.clone(),
                    max_items: limits.response_items.get(),
                    max_response_size,
                    faults: faults.clone(),
                }),
                admission: Admission::new(limits, initial_bytes),
                run_queue: self.engine.executor.plugin_queue(),
                probe_memory: probe_memory.unwrap_or_else(|| MemoryBudget::new(limits.memory.bytes(), None)),
                memory,
                metrics: self.metrics.get_or_insert_with(&name, Arc::default),
            }),
            breaker: CircuitBreaker::new(FAILURE_THRESHOLD),
            input_faults: InputFaults::default(),
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

/// Why a plugin cannot be loaded. The others are served without it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The component cannot be loaded.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// The component loads, but the provider does not even describe itself.
    #[error("the provider cannot describe itself: {0}")]
    Describe(#[source] Fault),
    /// The host refuses the role of a granted database.
    #[error("{0}")]
    Database(String),
    /// An existing server cannot be connected to.
    #[error("the upstream cannot be connected to: {0}")]
    Upstream(String),
    /// The host was shut down before the plugin was loaded.
    #[error("the host was shut down before it was loaded")]
    Cancelled,
}

impl LoadError {
    /// Whether a retry makes sense though nothing changed: the provider does not describe itself, which may be because the
    /// machine is busy, or the [component error](ComponentError::is_transient) is transient.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Component(error) => error.is_transient(),
            Self::Describe(_) | Self::Database(_) | Self::Upstream(_) => true,
            Self::Cancelled => false,
        }
    }
}

/// What all replicas of a cluster have in common whose provider reports the same changes: the component, the mount, the provider's config and
/// its grants. Secrets are not part of it.
fn poll_identity(config: &config::Plugin, digest: Digest) -> Option<Box<[u8]>> {
    let config::Plugin { mount, config: settings, grants, .. } = config;
    config.shares_polls().then(|| format!("{digest} {mount} {settings:?} {grants:?}").into_bytes().into())
}
