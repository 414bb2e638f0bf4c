//! Finds the components of the providers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mcp_host_config::{Environment, find_component};

use crate::error::CliError;

/// The place of the components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Components {
    /// The plugin path: the config has their names.
    Installed,
    /// This directory.
    In(PathBuf),
}

impl Components {
    /// Finds the components of these providers in the chosen directory. Without one, searches the plugin path, where
    /// packages have them, and then `others`.
    ///
    /// # Errors
    ///
    /// No directory has all components.
    pub(crate) fn find(
        providers: &BTreeSet<&'static str>,
        chosen: Option<&Path>,
        others: impl IntoIterator<Item = PathBuf>,
        command: &'static str,
    ) -> Result<Self, CliError> {
        let environment = Environment::from_process();
        let is_installed = |name: &&str| find_component(Path::new(name), environment.plugin_path()).is_ok();
        if chosen.is_none() && providers.iter().all(is_installed) {
            return Ok(Self::Installed);
        }
        let searched = match chosen {
            Some(chosen) => vec![chosen.to_owned()],
            None => beside_program().into_iter().chain(others).collect(),
        };
        let files: Vec<_> = providers.iter().map(|name| format!("{name}.wasm")).collect();
        match searched.iter().find(|plugins| files.iter().all(|file| plugins.join(file).is_file())) {
            Some(plugins) => Ok(Self::In(plugins.canonicalize().unwrap_or_else(|_| plugins.clone()))),
            None => Err(CliError::NoComponents { names: files.join("` and `"), searched, command }),
        }
    }

    /// The value of `component` for a provider.
    pub(super) fn value(&self, provider: &str) -> PathBuf {
        match self {
            Self::Installed => provider.into(),
            Self::In(plugins) => plugins.join(format!("{provider}.wasm")),
        }
    }
}

/// The directories where a release and a build have their components: `plugins` beside the program, and one level above
/// it.
fn beside_program() -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let parents = program.iter().flat_map(|program| program.ancestors().skip(1).take(2));
    parents.map(|parent| parent.join("plugins")).collect()
}
