//! Directories of a host: those of the builder, else of the config, else the XDG directories of the user.

use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::StartError;
use crate::config::{Config, Server};

const APP_NAME: &str = "mcp-host";

/// The directories of a host.
#[derive(Clone, Debug)]
pub(crate) struct DataDirs {
    cache: Option<PathBuf>,
    state: Option<PathBuf>,
}

impl DataDirs {
    /// The given directories, else those of the config, else those of the user.
    pub(crate) fn new(server: &Server, cache: Option<PathBuf>, state: Option<PathBuf>) -> Self {
        let user = etcetera::choose_base_strategy().ok();
        let user_cache = || user.as_ref().map(|user| user.cache_dir().join(APP_NAME));
        let user_state =
            || user.as_ref().map(|user| user.state_dir().unwrap_or_else(|| user.data_dir()).join(APP_NAME));
        Self {
            cache: cache.or_else(|| server.cache.clone()).or_else(user_cache),
            state: state.or_else(|| server.state.clone()).or_else(user_state),
        }
    }

    /// All of them that there are.
    #[cfg(feature = "cli")]
    pub(crate) fn into_paths(self) -> impl Iterator<Item = PathBuf> {
        self.cache.into_iter().chain(self.state)
    }

    /// The directory of compiled components. Losing it costs compile time only.
    pub(super) fn cache(&self) -> Result<PathBuf, StartError> {
        self.cache.clone().ok_or(StartError::NoDirectory("cache"))
    }

    /// The directory of lasting state.
    pub(crate) fn state(&self) -> Result<PathBuf, StartError> {
        self.state.clone().ok_or(StartError::NoDirectory("state"))
    }

    /// The directory of lasting state for the plugins of that config. If there is none, it is an error only if a plugin needs
    /// it, or is searched.
    pub(super) fn state_for(&self, config: &Config) -> Result<Option<PathBuf>, StartError> {
        let is_needed = config.plugins.iter().any(|plugin| !plugin.grants.keyvalue.is_empty()) || config.has_search();
        if is_needed { self.state().map(Some) } else { Ok(self.state.clone()) }
    }
}
