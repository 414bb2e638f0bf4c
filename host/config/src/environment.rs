//! The environment of a config: variables, the home directory for `~`, and the directories of installed providers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// The environment variables, the home directory and the plugin path for reading a config.
///
/// The usual environment is [the process's own](Self::from_process). An application that hosts configs of others passes
/// a separate environment, so that these configs cannot read its variables:
///
/// ```
/// use mcp_host_config::Environment;
///
/// let environment = Environment::empty().variable("TOKEN", "a secret").home("/home/ci");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    home: Option<PathBuf>,
    plugin_path: Vec<PathBuf>,
    keeps_references: bool,
}

impl Environment {
    /// An environment without variables, home directory and plugin path.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The environment of this process. Its plugin path is `plugins` beside the program, `../lib/mcp-host/plugins` from
    /// there, and `/usr/lib/mcp-host/plugins`.
    pub fn from_process() -> Self {
        let program = std::env::current_exe().unwrap_or_default();
        Self {
            variables: std::env::vars_os().collect(),
            home: std::env::home_dir(),
            plugin_path: Self::plugin_path_of(&program),
            keeps_references: false,
        }
    }

    /// Sets a variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Sets the directory for `~`.
    #[must_use]
    pub fn home(mut self, directory: impl Into<PathBuf>) -> Self {
        self.home = Some(directory.into());
        self
    }

    /// Sets the directories that are searched for providers by name, unless the config sets `server.plugin-path`.
    #[must_use]
    pub fn plugin_directories(mut self, directories: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.plugin_path = directories.into_iter().map(Into::into).collect();
        self
    }

    /// Keeps references to registries as the paths of components, for commands that resolve the references. A config
    /// without plugins is then valid. By default a component is the file in the store that the lock refers to.
    #[must_use]
    pub fn keep_references(mut self) -> Self {
        self.keeps_references = true;
        self
    }

    pub(super) fn keeps_references(&self) -> bool {
        self.keeps_references
    }

    /// The directories that are searched for providers by name, unless the config sets `server.plugin-path`.
    pub fn plugin_path(&self) -> &[PathBuf] {
        &self.plugin_path
    }

    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    pub(super) fn home_directory(&self) -> Option<&Path> {
        self.home.as_deref()
    }
}

/// Shows the names of the variables, never their values.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.variables.keys().collect();
        f.debug_struct("Environment")
            .field("variables", &names)
            .field("home", &self.home)
            .field("plugin_path", &self.plugin_path)
            .finish()
    }
}
