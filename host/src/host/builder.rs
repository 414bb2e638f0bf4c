//! Starting a host: the engine, the plugins, the key, the rules.

use std::sync::Arc;

use tokio::sync::watch;

use super::background_loader::BackgroundLoader;
use super::generation::{Generation, sorted_by_name};
use super::generation_store::GenerationStore;
use super::{DataDirs, Host};
use crate::access::Access;
use crate::catalog::{Catalog, CursorKey, KeyError, NotLoaded};
use crate::config::Config;
use crate::engine::{Compiler, Progress};
use crate::log_target;
use crate::plugin::{self, PluginRuntime};
use crate::uri::Overlap;

/// How many warnings about one config are logged.
const MAX_WARNINGS: usize = 20;

/// Why a host does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The engine, or the cache of compiled components.
    #[error(transparent)]
    Runtime(#[from] plugin::RuntimeError),
    /// The key for cursors.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Two mounts overlap. A configuration from a file has been checked for that already.
    #[error(transparent)]
    Overlap(#[from] Overlap),
    /// There is no directory to keep things in.
    #[error("there is no home directory to keep the {0} in; name a directory in `server.{0}`")]
    NoDirectory(&'static str),
}

/// A host that is about to be started.
#[derive(Debug)]
pub struct HostBuilder {
    config: Config,
    compiler: Compiler,
    progress: Progress,
}

impl HostBuilder {
    pub(super) fn new(config: Config) -> Self {
        Self { config, compiler: Compiler::default(), progress: Progress::default() }
    }

    /// Which program compiles components; by default, this one.
    #[must_use]
    pub fn compiler(mut self, compiler: Compiler) -> Self {
        self.compiler = compiler;
        self
    }

    /// Who is told about long work.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Starts the host: all plugins are loaded at the same time, and one that cannot be is logged and left out. It returns when
    /// each of them is loaded or has failed.
    pub async fn start(self) -> Result<Host, StartError> {
        let host = self.start_loading()?;
        host.wait_until_loaded().await;
        Ok(host)
    }

    /// Starts the host and returns before its plugins are loaded: each is served as soon as it is. Until then requests for it
    /// are answered with [`Unavailable`](crate::resource::Error::Unavailable), and listings name it as missing.
    /// [`Host::wait_until_loaded`] waits for all of them. Call it on a tokio runtime.
    pub fn start_loading(self) -> Result<Host, StartError> {
        let Self { config, compiler, progress } = self;
        let dirs = DataDirs::from_config(&config.server);
        let key = match &config.server.cursor_key {
            Some(key) => CursorKey::new(*key.expose()),
            None => CursorKey::load_or_create(&dirs.state()?)?,
        };
        let (cache, state) = (dirs.cache()?, dirs.state_for(&config)?);
        let plugins = PluginRuntime::start(compiler, config.server.compile.clone(), &cache, state, progress)?;
        let (plugin_runtime, config) = (Arc::new(plugins), Arc::new(config));
        let access = Arc::new(Access::new(&config.rules));
        let generation = Generation::new(1, config.clone(), access, |_| Err(NotLoaded::Loading))?;
        let generation_store = Arc::new(GenerationStore::new(generation));
        let background_loader = BackgroundLoader::new(generation_store.clone(), plugin_runtime.clone());
        for plugin in sorted_by_name(&config) {
            background_loader.start(plugin);
        }
        log_warnings(config);
        Ok(Host {
            generation: generation_store.generation.clone(),
            hub: generation_store.hub.clone(),
            catalog: Catalog::new(&key),
            latest_reload: watch::Sender::new(0),
            generation_store,
            plugin_runtime,
            background_loader,
        })
    }
}

/// Logs what should be looked at in a config, within bounds. A config has many globs, so nobody waits for that.
pub(super) fn log_warnings(config: Arc<Config>) {
    tokio::task::spawn_blocking(move || {
        let (first, more) = config.first_warnings(MAX_WARNINGS);
        for warning in first {
            tracing::warn!(target: log_target::CONFIG, "{warning}");
        }
        if more > 0 {
            tracing::warn!(
                target: log_target::CONFIG, "and {more} more globs of rules match nothing below any mount; `mcp-host check` names them all"
            );
        }
    });
}
