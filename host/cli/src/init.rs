//! `init`: writes a commented config for the [contents of paths](super::served_paths), by default of the current
//! directory.
//!
//! The config refers to existing components, so `mcp-host check` passes: by name if the plugin path has them, as after
//! the installation of a package; by path if not. An existing file is never overwritten.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::context::Context;
use super::error::CliError;
use super::served_paths::{Components, ConfigPlace, ServedPaths};

const EXAMPLES: &str = "\
Examples:
  mcp-host init                            write ./mcp-host.toml for the repository or the files here
  mcp-host init ~/notes shop.db            for a folder and a database
  mcp-host init --plugins ~/mcp/plugins    with the components of that directory
  mcp-host init --config team.toml         write another file; what it serves is still the current directory

`mcp-host serve PATH…` serves the same without a file.";

/// The default config file of all commands.
const DEFAULT_CONFIG: &str = "mcp-host.toml";

/// Write a commented config for git repositories, folders and databases
///
/// A git repository is served with its files, a folder with Markdown files as notes, any other folder as files, and a
/// SQLite database as tables; all are read-only. Files of a work tree that `.gitignore` names are not served. An
/// existing config is never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The paths to serve: git repositories, folders, SQLite databases
    #[arg(value_name = "PATH", default_value = ".", hide_default_value = true)]
    paths: Vec<PathBuf>,

    /// The directory with the components of the providers; by default, the directory of the installed package, or
    /// `plugins` beside the program, one level above it, or in the current directory
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,

    /// Accept the home directory, and directories that contain it
    #[arg(long)]
    yes: bool,
}

impl Args {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let dir = std::env::current_dir().context("the current directory cannot be determined")?;
        let file = dir.join(context.config_file());
        if file.symlink_metadata().is_ok() {
            return Err(CliError::ConfigExists { file });
        }
        let served = ServedPaths::find(&self.paths, self.yes)?;
        let chosen = self.plugins.map(|plugins| dir.join(plugins));
        let components = Components::find(&served.providers(), chosen.as_deref(), [dir.join("plugins")], "init")?;
        write_new(&file, &served.render(ConfigPlace::File(&file), &components)?)?;
        for warning in served.warnings() {
            context.messages.warning(&warning);
        }
        let written = context.config_file();
        let option = match written.to_str() {
            Some(DEFAULT_CONFIG) => String::new(),
            _ => format!(" --config {}", written.display()),
        };
        context.messages.note(&format!(
            "wrote {}; `mcp-host check{option}` tries it, `mcp-host list{option}` shows what it serves",
            written.display()
        ));
        Ok(())
    }
}

/// Creates the file. An existing file is an error.
fn write_new(file: &Path, text: &str) -> Result<(), CliError> {
    let written =
        OpenOptions::new().write(true).create_new(true).open(file).and_then(|mut new| new.write_all(text.as_bytes()));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CliError::ConfigExists { file: file.to_owned() },
        _ => CliError::Save { file: file.to_owned(), source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mcp-host.toml");
        std::fs::write(&file, "mine").unwrap();
        assert!(matches!(write_new(&file, "theirs"), Err(CliError::ConfigExists { .. })));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }
}
