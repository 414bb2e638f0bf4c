//! The project: its directory, its config, and the command that builds it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mcp_host_config::{BuildCommand, Config, ConfigError, Plugins, WatchPattern};

use super::kind::ProjectKind;
use crate::error::CliError;

/// A project that is being developed.
#[derive(Clone, Debug)]
pub(super) struct Project {
    /// The absolute path of the project's directory.
    dir: PathBuf,
    config_file: PathBuf,
    /// The build command of the command line, which overrides all others.
    build: Option<BuildCommand>,
}

/// The current settings in the config.
#[derive(Debug)]
pub(super) struct Settings {
    /// The config. While files are missing, its plugins cannot be served.
    pub(super) config: Config,
    /// The error about missing files, such as a component before the first build.
    pub(super) missing: Option<ConfigError>,
    /// The build command.
    pub(super) build: BuildCommand,
    /// The sources; empty for the whole directory.
    pub(super) watch: Vec<WatchPattern>,
    /// The files in the config: components, and files with values.
    pub(super) files: BTreeSet<PathBuf>,
}

impl Settings {
    /// The part of the config that can be served.
    pub(super) fn servable(&self) -> Config {
        let mut config = self.config.clone();
        if self.missing.is_some() {
            config.plugins = Plugins::default();
        }
        config
    }
}

impl Project {
    /// The project in this directory. A relative path of a config file is relative to it.
    ///
    /// # Errors
    ///
    /// The directory does not exist, or has no config.
    pub(super) fn open(dir: &Path, config_file: &Path, build: Option<BuildCommand>) -> Result<Self, CliError> {
        let is_config_here = |dir: &Path| dir.join(config_file).try_exists().unwrap_or(true);
        let dir = dir.canonicalize().map_err(|source| CliError::ProjectDir { dir: dir.to_owned(), source })?;
        if !is_config_here(&dir) {
            let example = ProjectKind::of(&dir).map(ProjectKind::example_component);
            return Err(CliError::NoProject { file: dir.join(config_file), dir, example });
        }
        Ok(Self { config_file: dir.join(config_file), dir, build })
    }

    /// The project's directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The project's config file.
    pub(super) fn config_file(&self) -> &Path {
        &self.config_file
    }

    /// The name of a file of the project, for messages.
    pub(super) fn display(&self, file: &Path) -> String {
        file.strip_prefix(&self.dir).unwrap_or(file).display().to_string()
    }

    /// Reads the config. Blocks.
    ///
    /// # Errors
    ///
    /// The config is invalid even if missing files are ignored, or no build command is known.
    pub(super) fn read(&self) -> Result<Settings, CliError> {
        let (config, files, missing) = match Config::load(&self.config_file) {
            Ok(config) => (config.clone(), config.files, None),
            Err(error) => match error.partial_config() {
                Some(config) => (config.clone(), error.files().clone(), Some(error)),
                None => return Err(error.into()),
            },
        };
        let dev = config.dev.clone().unwrap_or_default();
        let build = match self.build.clone().or(dev.build) {
            Some(command) => command,
            None => self.recognize(&files)?,
        };
        Ok(Settings { config, missing, build, watch: dev.watch, files })
    }

    /// The standard build command for this kind of project.
    fn recognize(&self, files: &BTreeSet<PathBuf>) -> Result<BuildCommand, CliError> {
        let kind = ProjectKind::of(&self.dir);
        let command = kind.and_then(|kind| kind.build_command(&self.dir, files)).and_then(|text| text.parse().ok());
        command.ok_or_else(|| CliError::NoBuildCommand {
            dir: self.dir.clone(),
            config: self.config_file.clone(),
            example: kind.map_or("make", ProjectKind::example_command),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PLUGIN: &str = "[[plugin]]\nname = 'a'\ncomponent = 'target/wasm32-wasip2/debug/a.wasm'\nmount = 'a:///'\n";

    fn project(files: &[(&str, &str)]) -> (tempfile::TempDir, Project) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let project = Project::open(dir.path(), Path::new("mcp-host.toml"), None).unwrap();
        (dir, project)
    }

    #[test]
    fn before_the_first_build_the_rest_of_the_config_counts() {
        let (_dir, project) = project(&[("mcp-host.toml", PLUGIN), ("Cargo.toml", "")]);
        let settings = project.read().unwrap();
        assert!(settings.missing.is_some());
        assert_eq!(settings.servable().plugins.len(), 0);
        assert_eq!(settings.build.as_str(), "cargo build --target wasm32-wasip2");
        assert_eq!(settings.files, [project.dir().join("target/wasm32-wasip2/debug/a.wasm")].into());
    }

    #[test]
    fn the_command_line_wins_over_the_config_and_that_over_the_kind_of_the_project() {
        let config = format!("{PLUGIN}[dev]\nbuild = 'make a'\nwatch = ['src']\n");
        let (_dir, project) = project(&[("mcp-host.toml", &config), ("Cargo.toml", "")]);
        let settings = project.read().unwrap();
        assert_eq!(settings.build.as_str(), "make a");
        assert_eq!(settings.watch, ["src".parse().unwrap()]);
        let project = Project { build: Some("just".parse().unwrap()), ..project };
        assert_eq!(project.read().unwrap().build.as_str(), "just");
    }

    #[test]
    fn a_project_that_nothing_says_how_to_build_is_an_error_that_says_what_to_write() {
        let (_dir, project) = project(&[("mcp-host.toml", PLUGIN), ("pyproject.toml", "")]);
        let error = project.read().unwrap_err();
        assert!(
            matches!(error, CliError::NoBuildCommand { example, .. } if example.contains("mcp-host-provider build"))
        );
    }

    #[test]
    fn a_directory_without_a_config_is_no_project() {
        let dir = tempfile::tempdir().unwrap();
        let error = Project::open(dir.path(), Path::new("mcp-host.toml"), None).unwrap_err();
        assert!(matches!(error, CliError::NoProject { example: None, .. }), "{error}");
        fs::write(dir.path().join("Makefile"), "").unwrap();
        let error = Project::open(dir.path(), Path::new("mcp-host.toml"), None).unwrap_err();
        assert!(matches!(error, CliError::NoProject { example: Some(_), .. }), "{error}");
        let error = Project::open(&dir.path().join("absent"), Path::new("mcp-host.toml"), None).unwrap_err();
        assert!(matches!(error, CliError::ProjectDir { .. }), "{error}");
    }
}
