//! Starting a host: the engine, the plugins, the key, the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_config::{Config, Feature, Plugin, PluginName, Warning};
use mcp_host_engine::diagnostics::CallObserver;
use mcp_host_engine::plugin::{NativePlugin, PluginRuntime, RuntimeError};
use mcp_host_engine::recording::Recorder;
use mcp_host_engine::{Compiler, Engine, EngineOptions, Progress};
use mcp_host_model::provider::Provider;
use mcp_host_model::uri::Mount;
use tokio::sync::watch;

use super::Host;
use super::background_loader::BackgroundLoader;
use super::data_dirs::DataDirs;
use super::generation::{Generation, NativePlugins, mounted, sorted_by_name};
use super::generation_store::GenerationStore;
use super::lifecycle::RequestTracker;
use super::loading::LoadWaits;
use super::replica::{self, shared_buckets, shared_snapshots};
use super::search::BuiltIns;
use super::start_error::StartError;
use super::transport_state::TransportState;
use super::upstreams::Programs;
use crate::access::Access;
use crate::access::rate::RequestRates;
use crate::audit::AuditLog;
use crate::catalog::{Catalog, CursorKey, NotLoaded};
use crate::counters::HostCounters;
use crate::response_cache::CachedPlugin;
use crate::watch::replicas::Replicas;

/// The maximum number of logged warnings about one config.
pub(super) const MAX_WARNINGS: usize = 20;

/// Settings of a host, to start it, to check it ([`check`](Self::check)) or to inspect a component
/// ([`inspect`](Self::inspect)).
#[derive(Debug)]
pub struct HostBuilder {
    pub(super) config: Config,
    pub(super) native: Vec<NativePlugin>,
    engine: Option<Arc<Engine>>,
    compiler: Compiler,
    progress: Progress,
    state_dir: Option<PathBuf>,
    cache_dir: Option<PathBuf>,
    is_command: bool,
    is_incremental: bool,
    prepares: bool,
    joins_cluster: bool,
    observer: Option<Arc<dyn CallObserver>>,
    recorder: Option<Recorder>,
    pub(super) cursor_key: Option<CursorKey>,
    pub(super) programs: Programs,
}

impl HostBuilder {
    pub(super) fn new(mut config: Config) -> Self {
        config.find_nested_grants();
        Self {
            config,
            native: Vec::new(),
            engine: None,
            compiler: Compiler::default(),
            progress: Progress::default(),
            state_dir: None,
            cache_dir: None,
            is_command: false,
            is_incremental: false,
            prepares: true,
            joins_cluster: true,
            observer: None,
            recorder: None,
            cursor_key: None,
            programs: Programs::default(),
        }
    }

    /// Mounts a native provider beside the plugins of the config, with the default limits.
    ///
    /// ```no_run
    /// # use mcp_resource_host::{Host, config::Config, provider::Provider};
    /// # async fn start(config: Config, tickets: impl Provider) -> Result<Host, Box<dyn std::error::Error>> {
    /// let host = Host::builder(config).provider("tickets".parse()?, "tickets:///".parse()?, tickets).start().await?;
    /// # Ok(host)
    /// # }
    /// ```
    #[must_use]
    pub fn provider(self, name: PluginName, mount: Mount, provider: impl Provider) -> Self {
        self.native_plugin(NativePlugin::new(name, mount, provider))
    }

    /// Mounts a native provider beside the plugins of the config. A reload keeps it unchanged, and fails if the new
    /// config has a plugin with the same name or an overlapping mount.
    #[must_use]
    pub fn native_plugin(mut self, plugin: NativePlugin) -> Self {
        self.native.push(plugin);
        self
    }

    /// Sets the engine, which several hosts may share. Default: a separate engine with the default
    /// [options](EngineOptions).
    #[must_use]
    pub fn engine(mut self, engine: Arc<Engine>) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Sets where components are compiled. Default: [in this process](Compiler::InProcess).
    #[must_use]
    pub fn compiler(mut self, compiler: Compiler) -> Self {
        self.compiler = compiler;
        self
    }

    /// Compiles components incrementally if the compiler is a separate process: functions that a component has in
    /// common with the previous version of its file, or with another component that was compiled incrementally with the
    /// same cache and state directory, are not compiled again. For components under development: these components are
    /// trusted with each other's code. Those that are pinned by their digest have no part in this.
    #[must_use]
    pub fn incremental_compilation(mut self) -> Self {
        self.is_incremental = true;
        self
    }

    /// Never calls `prepare` of a provider, whatever the config says: for a host that serves only a few requests.
    #[must_use]
    pub fn without_preparations(mut self) -> Self {
        self.prepares = false;
        self
    }

    /// Does not join the cluster of the config, but uses its shared buckets: for a host that serves only a few
    /// requests. As a replica, it would take a share of the rate limits, and could be the replica that polls.
    #[must_use]
    pub fn outside_cluster(mut self) -> Self {
        self.joins_cluster = false;
        self
    }

    /// Sets the receiver of progress reports about long work.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Sets the directory of persistent state: key-value buckets, and the keys of cursors and of the cache. Default:
    /// `server.state` of the config, else `mcp-host` in the user's state directory (XDG).
    #[must_use]
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(dir.into());
        self
    }

    /// Sets the directory of compiled components. Losing it costs compile time only. Default: `server.cache` of the
    /// config, else `mcp-host` in the user's cache directory (XDG).
    #[must_use]
    pub fn cache_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(dir.into());
        self
    }

    /// Makes this host the command `mcp-host`: it prefers the directories that systemd has made for the service
    /// (`STATE_DIRECTORY`, `CACHE_DIRECTORY`) to the directories of the user. In an application that embeds the host,
    /// these directories belong to the application.
    #[must_use]
    pub fn command(mut self) -> Self {
        self.is_command = true;
        self
    }

    /// Reports each provider call to an observer, for the provider's author: the time of each step, and failures.
    #[must_use]
    pub fn observe_calls(mut self, observer: Arc<dyn CallObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Records the calls of all plugins: arguments, host calls with results, and answers
    /// ([`recording`](mcp_host_engine::recording)).
    #[must_use]
    pub fn record_calls(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Sets the key that seals cursors. Hosts with the same key continue each other's listings. Default:
    /// `server.cursor-key` of the config, else a key that is created once and stored in the state directory.
    #[must_use]
    pub fn cursor_key(mut self, key: CursorKey) -> Self {
        self.cursor_key = Some(key);
        self
    }

    /// Starts the host: loads all plugins concurrently; a plugin that fails is logged and left out. Returns when each
    /// plugin is loaded or has failed.
    pub async fn start(self) -> Result<Host, StartError> {
        let host = self.start_loading()?;
        host.wait_until_loaded().await;
        Ok(host)
    }

    /// Starts the host and returns before its plugins are loaded; each plugin is served as soon as it is loaded.
    /// Requests for a plugin that is being loaded wait for at most 45 seconds, and then fail with
    /// [`Unavailable`](mcp_host_model::resource::Error::Unavailable). Merged listings do not wait, and name the plugin
    /// as missing. [`Host::wait_until_loaded`] waits for all plugins. Must be called on a tokio runtime.
    pub fn start_loading(mut self) -> Result<Host, StartError> {
        let dirs = self.data_dirs();
        let key = match (self.cursor_key.take(), self.config.server.cursor_key.split_first()) {
            (Some(key), _) => key,
            (None, Some((current, earlier))) => {
                let key = CursorKey::new(*current.expose());
                earlier.iter().fold(key, |key, earlier| key.or_earlier(*earlier.expose()))
            }
            (None, None) => CursorKey::load_or_create(&dirs.state()?)?,
        };
        let state = dirs.state_for(&self.config)?;
        for lack in self.lacks_of_programs().into_values().flatten().collect::<BTreeSet<_>>() {
            tracing::warn!(target: log_target::PLUGIN, "the sandbox of programs is incomplete on this machine: {lack}");
        }
        let (prepares, joins_cluster) = (self.prepares, self.joins_cluster);
        let snapshots = if joins_cluster { shared_snapshots(&self.config, &key)? } else { None };
        let built_ins = BuiltIns::new(state.clone(), snapshots);
        let mut native = std::mem::take(&mut self.native);
        native.extend(built_ins.plugins());
        let (runtime, config) = self.start_runtime(state)?;
        let native = describe_native(&runtime, &native)?;
        let (plugin_runtime, config) = (Arc::new(runtime), Arc::new(config));
        let access = Arc::new(Access::new(&config));
        let generation =
            Generation::new(1, config.clone(), native.clone(), access, BTreeMap::new(), |_| Err(NotLoaded::Loading))?;
        let replicas = if joins_cluster { Replicas::from_config(&config)? } else { None };
        let audit = Arc::new(AuditLog::start(config.audit.as_ref())?);
        let generation_store = Arc::new(GenerationStore::new(generation, replicas, prepares));
        let rates = Arc::new(RequestRates::default());
        replica::join(&generation_store, &rates, &key);
        built_ins.connect(&generation_store);
        let background_loader = BackgroundLoader::new(generation_store.clone(), plugin_runtime.clone());
        for plugin in sorted_by_name(&config) {
            background_loader.start(plugin);
        }
        log_warnings(config, &native);
        Ok(Host {
            generation: generation_store.generation.clone(),
            hub: generation_store.hub.clone(),
            catalog: Catalog::new(&key),
            latest_reload: watch::Sender::new(0),
            requests: RequestTracker::default(),
            audit,
            rates,
            sessions: Arc::default(),
            counters: HostCounters::new(),
            transport_state: TransportState::default(),
            generation_store,
            built_ins,
            load_waits: LoadWaits::default(),
            plugin_runtime,
            background_loader,
        })
    }

    /// Starts the runtime that loads and calls plugins, without a host. Without a state directory, components are
    /// compiled each time.
    ///
    /// # Errors
    ///
    /// The engine does not start, or the cache cannot be used.
    pub fn runtime(self) -> Result<PluginRuntime, StartError> {
        let state = self.data_dirs().state().ok();
        self.start_runtime(state).map(|(runtime, _)| runtime)
    }

    /// The grants that the programs of upstreams cannot use on this machine, by the name of the upstream.
    pub(super) fn unusable_grants_of_programs(&self) -> BTreeMap<PluginName, Vec<String>> {
        let unusable = |plugin, command| self.programs.unusable_grants(plugin, command);
        self.config.programs().map(|(plugin, command)| (plugin.name.clone(), unusable(plugin, command))).collect()
    }

    /// The sandbox features that this machine lacks, by the name of the upstream whose program they would confine.
    pub(super) fn lacks_of_programs(&self) -> BTreeMap<PluginName, Vec<String>> {
        let lacks = |(plugin, command): (&Plugin, _)| (plugin.name.clone(), self.programs.lacks(command));
        self.config.programs().map(lacks).collect()
    }

    pub(super) fn data_dirs(&self) -> DataDirs {
        DataDirs::new(&self.config.server, self.cache_dir.clone(), self.state_dir.clone(), self.is_command)
    }

    /// Starts the engine with this state directory. Returns the config with it.
    pub(super) fn start_runtime(self, state: Option<PathBuf>) -> Result<(PluginRuntime, Config), StartError> {
        self.config.check_features(FEATURES)?;
        let cache = self.data_dirs().cache()?;
        let limits = self.config.server.compile.clone();
        let engine = match self.engine {
            Some(engine) => engine,
            None => Engine::new(EngineOptions::default()).map_err(RuntimeError::from)?,
        };
        let mut runtime = PluginRuntime::new(engine, self.compiler, limits, &cache, state, self.progress)?;
        if self.is_incremental {
            runtime.compile_incrementally();
        }
        if let Some(observer) = self.observer {
            runtime.observe_calls(observer);
        }
        if let Some(recorder) = self.recorder {
            runtime.record_calls(recorder);
        }
        if let Some(buckets) = shared_buckets(&self.config)? {
            runtime.set_shared_buckets(buckets);
        }
        self.programs.connect_upstreams(&mut runtime);
        Ok((runtime, self.config))
    }
}

/// The features of this build, among the features that a config can require.
pub(super) const FEATURES: &[Feature] = &[
    #[cfg(feature = "cluster")]
    Feature::Cluster,
    #[cfg(feature = "keyvalue")]
    Feature::Keyvalue,
    #[cfg(feature = "otlp")]
    Feature::Otlp,
    #[cfg(feature = "search")]
    Feature::Search,
    #[cfg(feature = "sql")]
    Feature::Sql,
    #[cfg(feature = "upstream")]
    Feature::Upstream,
];

/// Calls `describe` of each native provider.
pub(super) fn describe_native(runtime: &PluginRuntime, native: &[NativePlugin]) -> Result<NativePlugins, StartError> {
    let describe = |native: &NativePlugin| match runtime.native(native) {
        Ok(plugin) => Ok(Arc::new(CachedPlugin::new(plugin))),
        Err(message) => Err(StartError::Describe { plugin: native.name.clone(), message }),
    };
    native.iter().map(describe).collect()
}

/// Returns the first warnings about a config, and the number of others.
pub(super) fn first_warnings(config: &Config, native: &NativePlugins, limit: usize) -> (Vec<Warning>, usize) {
    let native: Vec<_> = mounted(config, native).map(|plugin| plugin.mount()).collect();
    config.first_warnings(limit, &native)
}

/// Logs the first [`MAX_WARNINGS`] warnings about a config, in the background, because a config may have many globs.
pub(super) fn log_warnings(config: Arc<Config>, native: &NativePlugins) {
    let native = native.clone();
    task::spawn_blocking(move || {
        let (first, more) = first_warnings(&config, &native, MAX_WARNINGS);
        for warning in first {
            tracing::warn!(target: log_target::CONFIG, "{warning}");
        }
        if more > 0 {
            tracing::warn!(
                target: log_target::CONFIG, "and {more} more warnings about the config; `mcp-host check` prints them all"
            );
        }
    });
}
