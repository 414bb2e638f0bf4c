//! Starting a host: the engine, the plugins, the key, the rules.

use std::sync::Arc;

use arc_swap::ArcSwap;
use futures::future::join_all;
use tokio::sync::Mutex;

use super::generation::{Generation, by_name};
use super::{Dirs, Host};
use crate::access::Access;
use crate::catalog::{Catalog, CursorKey, KeyError};
use crate::config::Config;
use crate::plugin::{self, Compiler, Plugins, Progress};
use crate::uri::Overlap;
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
        let (cache, state) = (dirs.cache()?, dirs.state_for(&config)?);
        let plugins = Plugins::start(compiler, config.server.compile.clone(), &cache, state, progress)?;
        let config = Arc::new(config);
        let declared = by_name(&config);
        let loaded = join_all(declared.iter().map(|plugin| plugins.load(plugin))).await;
        for (plugin, error) in
            declared.iter().zip(&loaded).filter_map(|(plugin, loaded)| Some((plugin, loaded.as_ref().err()?)))
        {
            let plugin = plugin.name.as_str();
            tracing::error!(plugin, %error, "a plugin could not be loaded; the others are served without it");
        }
        let loaded = declared.into_iter().zip(loaded).map(|(plugin, loaded)| (plugin, loaded.map(Arc::new))).collect();
        let access = Arc::new(Access::new(&config.rules));
        let generation = Generation::new(1, config.clone(), loaded, access.clone())?;
        Ok(Host {
            watches: Hub::new(generation.plugins(), access),
            generation: ArcSwap::from_pointee(generation),
            catalog: Catalog::new(&key),
            plugins,
            reloading: Mutex::default(),
        })
    }
}
