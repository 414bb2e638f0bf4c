//! Starting a host: the engine, the plugins, the key, the rules.

use std::sync::Arc;

use futures::future::join_all;

use super::{Dirs, Host};
use crate::access::Access;
use crate::catalog::{Catalog, CursorKey, KeyError, Slot};
use crate::config::{self, Config};
use crate::plugin::{self, Compiler, LoadError, Plugin, Plugins, Progress};
use crate::uri::{Overlap, Router};
use crate::watch::Hub;

/// Why a host does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The engine, or the cache of compiled components.
    #[error(transparent)]
    Plugins(#[from] plugin::StartError),
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
pub struct Builder {
    config: Config,
    compiler: Compiler,
    progress: Progress,
}

impl Builder {
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

    /// Starts the host: all plugins are loaded at the same time, and one that cannot be is logged and left out.
    pub async fn start(self) -> Result<Host, StartError> {
        let Self { config, compiler, progress } = self;
        let dirs = Dirs::of(&config.server);
        let key = match &config.server.cursor_key {
            Some(key) => CursorKey::new(*key.expose()),
            None => CursorKey::kept_in(&dirs.state()?)?,
        };
        let mut plugins = Plugins::start(compiler, config.server.compile.clone(), &dirs.cache()?, progress)?;
        if config.plugins.iter().any(|plugin| !plugin.grants.keyvalue.is_empty()) {
            plugins = plugins.keeping_state_in(dirs.state()?);
        }
        let mut declared: Vec<_> = config.plugins.iter().collect();
        declared.sort_by_key(|plugin| plugin.name.as_str());
        let router = Router::new(declared.iter().enumerate().map(|(place, plugin)| (plugin.mount.clone(), place)))?;
        let loaded = join_all(declared.iter().map(|plugin| plugins.load(plugin))).await;
        let slots: Vec<_> = declared.iter().zip(loaded).map(|(plugin, loaded)| taken_in(plugin, loaded)).collect();
        let access = Arc::new(Access::new(&config.rules));
        let watches = Hub::new(slots.iter().map(|slot| slot.plugin.as_ref().ok()), access.clone());
        Ok(Host { catalog: Catalog::new(&key), access, watches, router, slots, config })
    }
}

fn taken_in(plugin: &config::Plugin, loaded: Result<Plugin, LoadError>) -> Slot {
    let name = plugin.name.as_str().to_owned();
    if let Err(error) = &loaded {
        tracing::error!(plugin = %name, %error, "a plugin could not be loaded; the others are served without it");
    }
    Slot { name, mount: plugin.mount.clone(), plugin: loaded.map(Arc::new) }
}
