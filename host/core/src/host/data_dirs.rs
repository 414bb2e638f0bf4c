//! Directories of a host, in order of precedence: from the builder, from the config, from systemd for the command
//! `mcp-host` running as a service (`STATE_DIRECTORY`, `CACHE_DIRECTORY`), or the XDG directories of the user.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use etcetera::BaseStrategy;
use mcp_host_config::{Config, Server};

use super::start_error::StartError;

const APP_NAME: &str = "mcp-host";

/// The directories of a host.
#[derive(Clone, Debug)]
pub struct DataDirs {
    cache: Option<PathBuf>,
    state: Option<PathBuf>,
}

impl DataDirs {
    /// The directories of the command `mcp-host` with this config.
    pub fn of_command(server: &Server) -> Self {
        Self::new(server, None, None, true)
    }

    /// The given directories, else the config's, else the service's if this is the command, else the user's.
    pub(super) fn new(server: &Server, cache: Option<PathBuf>, state: Option<PathBuf>, is_command: bool) -> Self {
        let user = etcetera::choose_base_strategy().ok();
        let service_directory = |variable| is_command.then(|| service_directory(env::var_os(variable))).flatten();
        let service_cache = || service_directory("CACHE_DIRECTORY");
        let service_state = || service_directory("STATE_DIRECTORY");
        let user_cache = || user.as_ref().map(|user| user.cache_dir().join(APP_NAME));
        let user_state =
            || user.as_ref().map(|user| user.state_dir().unwrap_or_else(|| user.data_dir()).join(APP_NAME));
        Self {
            cache: cache.or_else(|| server.cache.clone()).or_else(service_cache).or_else(user_cache),
            state: state.or_else(|| server.state.clone()).or_else(service_state).or_else(user_state),
        }
    }

    /// Returns the cache and state directories, as far as they are known.
    pub fn into_paths(self) -> impl Iterator<Item = PathBuf> {
        self.cache.into_iter().chain(self.state)
    }

    /// The directory of compiled components. Losing it costs compile time only.
    pub(super) fn cache(&self) -> Result<PathBuf, StartError> {
        self.cache.clone().ok_or(StartError::NoDirectory("cache"))
    }

    /// The directory of persistent state.
    ///
    /// # Errors
    ///
    /// No directory is configured, and there is no home directory.
    pub fn state(&self) -> Result<PathBuf, StartError> {
        self.state.clone().ok_or(StartError::NoDirectory("state"))
    }

    /// The directory of persistent state for the plugins of this config. A missing directory is an error only if a
    /// plugin needs it, or is searched.
    pub(super) fn state_for(&self, config: &Config) -> Result<Option<PathBuf>, StartError> {
        let mut buckets = config.plugins.iter().flat_map(|plugin| plugin.grants.keyvalue.values());
        let is_needed = buckets.any(|bucket| !bucket.shared) || config.has_search();
        if is_needed { self.state().map(Some) } else { Ok(self.state.clone()) }
    }
}

/// The first directory of a variable that systemd sets (systemd.exec(5)).
fn service_directory(variable: Option<OsString>) -> Option<PathBuf> {
    let first = env::split_paths(&variable?).next()?;
    first.is_absolute().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_of_a_service_is_used_if_it_is_absolute() {
        for (variable, expected) in [
            (Some("/var/lib/mcp-host"), Some("/var/lib/mcp-host")),
            (Some("/var/lib/a:/var/lib/b"), Some("/var/lib/a")),
            (Some("mcp-host"), None),
            (Some(""), None),
            (None, None),
        ] {
            assert_eq!(service_directory(variable.map(OsString::from)), expected.map(PathBuf::from), "{variable:?}");
        }
    }

    #[test]
    fn what_the_config_names_comes_before_what_the_user_has() {
        let server = Server { state: Some("/srv/state".into()), ..Server::default() };
        let dirs = DataDirs::new(&server, Some("/given/cache".into()), None, false);
        assert_eq!((dirs.cache().unwrap(), dirs.state().unwrap()), ("/given/cache".into(), "/srv/state".into()));
    }
}
