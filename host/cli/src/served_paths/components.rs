//! Finds the components of the providers.

use std::cmp::Reverse;
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
        if let Some(plugins) = searched.iter().find(|plugins| files.iter().all(|file| plugins.join(file).is_file())) {
            return Ok(Self::In(plugins.canonicalize().unwrap_or_else(|_| plugins.clone())));
        }
        let installed = if chosen.is_none() { environment.plugin_path() } else { &[] };
        let found_in = searched.iter().chain(installed).map(|dir| {
            let (present, missing): (Vec<_>, Vec<_>) = files.iter().cloned().partition(|file| dir.join(file).is_file());
            (dir.clone(), present, missing)
        });
        let nearest = found_in.filter(|(_, present, _)| !present.is_empty());
        Err(match nearest.min_by_key(|(_, present, _)| Reverse(present.len())) {
            Some((dir, present, missing)) => CliError::MissingComponents { dir, missing, present, searched, command },
            None => CliError::NoComponents { names: files.join("` and `"), searched, command },
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_lacks_a_component_is_named_with_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let find = || {
            let providers = ["database", "files", "git"].into();
            Components::find(&providers, Some(dir.path()), [], "init").unwrap_err().to_string()
        };
        assert_eq!(find(), "no directory with `database.wasm` and `files.wasm` and `git.wasm` was found");
        std::fs::write(dir.path().join("git.wasm"), "").unwrap();
        let path = dir.path().display();
        assert_eq!(find(), format!("`database.wasm` and `files.wasm` are missing in {path}, which has `git.wasm`"));
        std::fs::write(dir.path().join("files.wasm"), "").unwrap();
        assert_eq!(find(), format!("`database.wasm` is missing in {path}, which has `files.wasm` and `git.wasm`"));
    }
}
