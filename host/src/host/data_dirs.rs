//! Where a host keeps things: what the configuration says, else the XDG directories of the user.

use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::StartError;
use crate::config::{Config, Server};

const APP_NAME: &str = "mcp-host";

/// Where a host keeps things.
#[derive(Clone, Debug)]
pub struct DataDirs {
    cache: Option<PathBuf>,
    state: Option<PathBuf>,
}

impl DataDirs {
    /// The directories of that configuration.
    pub fn from_config(server: &Server) -> Self {
        let user = etcetera::choose_base_strategy().ok();
        let cache = || user.as_ref().map(|user| user.cache_dir().join(APP_NAME));
        let state = || user.as_ref().map(|user| user.state_dir().unwrap_or_else(|| user.data_dir()).join(APP_NAME));
        Self { cache: server.cache.clone().or_else(cache), state: server.state.clone().or_else(state) }
    }

    /// Where compiled components are kept: what is lost there costs time only.
    pub fn cache(&self) -> Result<PathBuf, StartError> {
        self.cache.clone().ok_or(StartError::NoDirectory("cache"))
    }

    /// Where what must last is kept.
    pub fn state(&self) -> Result<PathBuf, StartError> {
        self.state.clone().ok_or(StartError::NoDirectory("state"))
    }

    /// The same for the plugins of that configuration: where there is none, it is an error only if one of them needs it.
    pub(crate) fn state_for(&self, config: &Config) -> Result<Option<PathBuf>, StartError> {
        let is_needed = config.plugins.iter().any(|plugin| !plugin.grants.keyvalue.is_empty());
        if is_needed { self.state().map(Some) } else { Ok(self.state.clone()) }
    }
}
