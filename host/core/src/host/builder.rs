//! Starting a host: the engine, the plugins, the key, the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use mcp_host_base::log_target;
#[cfg(feature = "cluster")]
use mcp_host_cluster::engine::nats::NatsError;
#[cfg(feature = "upstream")]
use mcp_host_config::grants::OAuth;
use mcp_host_config::{Config, Feature, MissingFeature, PluginName};
#[cfg(feature = "upstream")]
use mcp_host_engine::plugin::ConnectUpstream;
use mcp_host_engine::plugin::{self, NativePlugin, PluginRuntime};
use mcp_host_engine::{Compiler, Engine, EngineOptions, Progress};
use mcp_host_model::provider::Provider;
#[cfg(feature = "upstream")]
use mcp_host_model::provider::async_trait;
use mcp_host_model::uri::Mount;
#[cfg(feature = "upstream")]
use mcp_host_sandbox::http::TlsRoots;
#[cfg(feature = "upstream")]
use mcp_host_sandbox::http::oauth::HostAccessTokens;
#[cfg(feature = "search")]
use mcp_host_search::SearchService;
#[cfg(feature = "upstream")]
use mcp_host_upstream::process::{Launcher, Unconfined};
#[cfg(feature = "upstream")]
use mcp_host_upstream::{AccessTokens, HeaderValue, TokenClient};
use tokio::sync::watch;

use super::Host;
use super::background_loader::BackgroundLoader;
use super::data_dirs::DataDirs;
use super::generation::{Generation, NativePluginConflict, NativePlugins, mounted, sorted_by_name};
use super::generation_store::GenerationStore;
use super::lifecycle::RequestTracker;
use super::loading::LoadWaits;
use super::transport_state::TransportState;
use crate::access::Access;
use crate::access::rate::RequestRates;
use crate::audit::{AuditError, AuditLog};
use crate::catalog::{Catalog, CursorKey, KeyError, NotLoaded};
use crate::metrics::HostCounters;
use crate::response_cache::CachedPlugin;
#[cfg(feature = "cluster")]
use crate::watch::replicas::Replicas;

/// How many warnings about one config are logged.
const MAX_WARNINGS: usize = 20;

/// Why a host does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The engine does not start, or the cache of compiled components cannot be used.
    #[error(transparent)]
    Runtime(#[from] plugin::RuntimeError),
    /// The key for cursors cannot be read or created.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Two plugins exclude each other.
    #[error(transparent)]
    Conflict(#[from] NativePluginConflict),
    /// The config requires a cargo feature that this build lacks.
    #[error(transparent)]
    Feature(#[from] MissingFeature),
    /// The cluster of the config cannot be used.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Cluster(#[from] NatsError),
    /// A native provider panicked in `describe`.
    #[error("the native provider of plugin `{plugin}` panicked in `describe`: {message}")]
    Describe {
        /// The name of the plugin.
        plugin: PluginName,
        /// The message of the panic, escaped.
        message: String,
    },
    /// There is no home directory, and no other directory was named.
    #[error(
        "there is no home directory to keep the {0} in; name a directory in `server.{0}`, or have systemd make one: {name}Directory=mcp-host",
        name = if *.0 == "cache" { "Cache" } else { "State" }
    )]
    NoDirectory(&'static str),
}

/// Settings of a host that is about to be started, checked ([`check`](Self::check)) or used to inspect a component
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
    pub(super) cursor_key: Option<CursorKey>,
    #[cfg(feature = "upstream")]
    launcher: Arc<dyn Launcher>,
}

impl HostBuilder {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            native: Vec::new(),
            engine: None,
            compiler: Compiler::default(),
            progress: Progress::default(),
            state_dir: None,
            cache_dir: None,
            is_command: false,
            cursor_key: None,
            #[cfg(feature = "upstream")]
            launcher: Arc::new(Unconfined),
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

    /// Mounts a native provider beside the plugins of the config. A reload keeps it as it is, and fails if the new config has a
    /// plugin of the same name or with an overlapping mount.
    #[must_use]
    pub fn native_plugin(mut self, plugin: NativePlugin) -> Self {
        self.native.push(plugin);
        self
    }

    /// Sets the engine, which several hosts may share. Default: an engine of its own with the default
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

    /// Sets the receiver of progress reports about long work.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Sets the directory of lasting state: key-value buckets, and the keys of cursors and of the cache. Default:
    /// `server.state` of the config, else `mcp-host` in the user's state directory (XDG).
    #[must_use]
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(dir.into());
        self
    }

    /// Sets the directory of compiled components. Losing it costs compile time only. Default: `server.cache` of the config,
    /// else `mcp-host` in the user's cache directory (XDG).
    #[must_use]
    pub fn cache_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(dir.into());
        self
    }

    /// Makes the host the command `mcp-host`: before the directories of the user come those that systemd has made for the service
    /// (`STATE_DIRECTORY`, `CACHE_DIRECTORY`). An application that embeds the host has such directories for itself.
    #[must_use]
    pub fn command(mut self) -> Self {
        self.is_command = true;
        self
    }

    /// Sets the key that cursors are sealed with. Hosts with the same key continue each other's listings. Default:
    /// `server.cursor-key` of the config, else a key that is created once and stored in the state directory.
    #[must_use]
    pub fn cursor_key(mut self, key: CursorKey) -> Self {
        self.cursor_key = Some(key);
        self
    }

    /// Sets what starts the programs of upstreams. Default: [`Unconfined`], which starts those with `sandbox = "none"` only.
    /// On Linux, `SandboxLauncher` of the same module starts them in a sandbox.
    #[cfg(feature = "upstream")]
    #[must_use]
    pub fn launcher(mut self, launcher: impl Launcher) -> Self {
        self.launcher = Arc::new(launcher);
        self
    }

    /// Starts the host: all plugins are loaded concurrently, and one that fails is logged and left out. Returns when each of
    /// them is loaded or has failed.
    pub async fn start(self) -> Result<Host, StartError> {
        let host = self.start_loading()?;
        host.wait_until_loaded().await;
        Ok(host)
    }

    /// Starts the host and returns before its plugins are loaded: each is served as soon as it is. Until then requests for it
    /// wait, at most for 45 seconds, to fail with [`Unavailable`](mcp_host_model::resource::Error::Unavailable) then; merged listings do
    /// not wait, and name it as missing.
    /// [`Host::wait_until_loaded`] waits for all of them. Must be called on a tokio runtime.
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
        let built_ins = BuiltIns::new(state.clone());
        let mut native = std::mem::take(&mut self.native);
        native.extend(built_ins.plugins());
        let (runtime, config) = self.start_runtime(state)?;
        let native = describe_native(&runtime, &native)?;
        let (plugin_runtime, config) = (Arc::new(runtime), Arc::new(config));
        let access = Arc::new(Access::new(&config));
        let generation =
            Generation::new(1, config.clone(), native.clone(), access, BTreeMap::new(), |_| Err(NotLoaded::Loading))?;
        #[cfg(feature = "cluster")]
        let replicas = Replicas::from_config(&config)?;
        #[cfg(not(feature = "cluster"))]
        let replicas = None;
        let audit = Arc::new(AuditLog::start(config.audit.as_ref())?);
        let generation_store = Arc::new(GenerationStore::new(generation, replicas));
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
            rates: RequestRates::default(),
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

    /// Starts what loads and calls plugins, without a host. Without a state directory, it compiles components each time.
    ///
    /// # Errors
    ///
    /// The engine does not start, or the cache cannot be used.
    pub fn runtime(self) -> Result<PluginRuntime, StartError> {
        let state = self.data_dirs().state().ok();
        self.start_runtime(state).map(|(runtime, _)| runtime)
    }

    /// What the sandbox lacks on this machine, by the name of the upstream whose program it would confine.
    pub(super) fn lacks_of_programs(&self) -> BTreeMap<PluginName, Vec<String>> {
        #[cfg(feature = "upstream")]
        let lacks = |command| self.launcher.lacks(command);
        #[cfg(not(feature = "upstream"))]
        let lacks = |_| Vec::new();
        self.config.programs().map(|(plugin, command)| (plugin.name.clone(), lacks(command))).collect()
    }

    pub(super) fn data_dirs(&self) -> DataDirs {
        DataDirs::new(&self.config.server, self.cache_dir.clone(), self.state_dir.clone(), self.is_command)
    }

    /// Starts the engine with that state directory. Returns the config with it.
    pub(super) fn start_runtime(self, state: Option<PathBuf>) -> Result<(PluginRuntime, Config), StartError> {
        self.config.check_features(FEATURES)?;
        let cache = self.data_dirs().cache()?;
        let limits = self.config.server.compile.clone();
        let engine = match self.engine {
            Some(engine) => engine,
            None => Engine::new(EngineOptions::default()).map_err(plugin::RuntimeError::from)?,
        };
        #[cfg_attr(not(feature = "upstream"), allow(unused_mut, reason = "only the client of upstreams is set"))]
        let mut runtime = PluginRuntime::new(engine, self.compiler, limits, &cache, state, self.progress)?;
        #[cfg(feature = "upstream")]
        runtime.set_upstreams(connector(self.launcher));
        Ok((runtime, self.config))
    }
}

/// What connects to the server of an `[[upstream]]`. Programs are started by `launcher`.
#[cfg(feature = "upstream")]
fn connector(launcher: Arc<dyn Launcher>) -> Arc<ConnectUpstream> {
    let roots = Arc::<TlsRoots>::default();
    let tokens: Arc<TokenClient> =
        Arc::new(move |oauth: &OAuth| Arc::new(UpstreamTokens(HostAccessTokens::new(oauth, roots.clone()))));
    Arc::new(move |plugin| {
        let (plugin, launcher, tokens) = (plugin.clone(), launcher.clone(), tokens.clone());
        Box::pin(async move {
            mcp_host_upstream::connect_with(&plugin, launcher, Some(&tokens)).await.map_err(|error| error.to_string())
        })
    })
}

/// Access tokens by the client of `grants.http`.
#[cfg(feature = "upstream")]
#[derive(Debug)]
struct UpstreamTokens(HostAccessTokens);

#[cfg(feature = "upstream")]
#[async_trait]
impl AccessTokens for UpstreamTokens {
    async fn authorization(&self) -> Result<HeaderValue, String> {
        self.0.authorization().await
    }

    async fn reject(&self, rejected: &HeaderValue) -> bool {
        self.0.reject(rejected).await
    }
}

/// The features that this build has, of those that a config can require.
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

/// The built-in providers of this build. Only this type names them, beside the methods of [`Host`] for one of them.
pub(super) struct BuiltIns {
    #[cfg(feature = "search")]
    pub(super) search: Arc<SearchService>,
}

impl BuiltIns {
    /// Providers that keep their lasting state in that directory. They do nothing before a generation is there.
    #[cfg_attr(not(feature = "search"), allow(unused_variables, reason = "search is the only one"))]
    pub(super) fn new(state_dir: Option<PathBuf>) -> Self {
        Self {
            #[cfg(feature = "search")]
            search: SearchService::new(state_dir),
        }
    }

    /// The plugins that mount them.
    pub(super) fn plugins(&self) -> Vec<NativePlugin> {
        #[cfg(feature = "search")]
        let plugins = self.search.plugins();
        #[cfg(not(feature = "search"))]
        let plugins = Vec::new();
        plugins
    }

    /// Gives them access to what the host serves.
    #[cfg_attr(not(feature = "search"), allow(unused_variables, reason = "search is the only one"))]
    pub(super) fn connect(&self, store: &Arc<GenerationStore>) {
        #[cfg(feature = "search")]
        self.search.connect(Arc::<GenerationStore>::downgrade(store));
    }
}

/// Calls `describe` of each native provider.
pub(super) fn describe_native(runtime: &PluginRuntime, native: &[NativePlugin]) -> Result<NativePlugins, StartError> {
    let describe = |native: &NativePlugin| match runtime.native(native) {
        Ok(plugin) => Ok(Arc::new(CachedPlugin::new(plugin))),
        Err(message) => Err(StartError::Describe { plugin: native.name.clone(), message }),
    };
    native.iter().map(describe).collect()
}

/// Logs the warnings about a config, [`MAX_WARNINGS`] at most. It runs in the background: a config may have many globs.
pub(super) fn log_warnings(config: Arc<Config>, native: &NativePlugins) {
    let native = native.clone();
    tokio::task::spawn_blocking(move || {
        let native: Vec<_> = mounted(&config, &native).map(|plugin| plugin.mount()).collect();
        let (first, more) = config.first_warnings(MAX_WARNINGS, &native);
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
