//! The client of a user: the official TypeScript client starts an installed program for a folder, and reads a file of
//! the folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::progress::Progress;
use crate::workspace::Workspace;
use crate::{cargo, clients};

/// The file of the folder, and its content.
const FILE: &str = "hello.md";
const TEXT: &str = "# Hello\n\nA note of one's own.\n";

/// The client, and the folder that it reads.
pub(super) struct Reader {
    client: PathBuf,
    folder: PathBuf,
    home: PathBuf,
}

impl Reader {
    /// Installs the client, and writes the folder and a home directory for the servers below `work`. The packed program
    /// compiles the component that serves the folder, so that no server is still compiling it when the client sends
    /// requests.
    pub(super) fn new(workspace: &Workspace, work: &Path, program: &Path, progress: &Progress) -> Result<Self> {
        clients::install_typescript(workspace, progress)?;
        let folder = work.join("notes");
        super::super::write(&folder.join(FILE), TEXT.as_bytes())?;
        let home = work.join("home");
        fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let reader = Self { client: workspace.target().join("clients/typescript/walk.mjs"), folder, home };
        let config = work.join("mcp-host.toml");
        let run = |arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).arg("--config").arg(&config);
            cargo::capture(reader.at_home(&mut command).current_dir(work))
        };
        run(&["init", &reader.folder()])?;
        run(&["check", "--strict"])?;
        Ok(reader)
    }

    /// Sets the home directory of a command, without other settings of this machine's user.
    fn at_home<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        for variable in ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "MCP_HOST_CONFIG"] {
            command.env_remove(variable);
        }
        command.env("HOME", &self.home).current_dir(&self.home)
    }

    /// Returns the path of the folder.
    pub(super) fn folder(&self) -> String {
        self.folder.display().to_string()
    }

    /// Reads the file through a server that the given command line starts.
    pub(super) fn reads_by(&self, words: &[&str]) -> Result<()> {
        self.reads_with(words, |_| ())
    }

    /// Reads the file like [`Self::reads_by`], after `configure` has changed the environment of the client.
    pub(super) fn reads_with(&self, words: &[&str], configure: impl FnOnce(&mut Command)) -> Result<()> {
        let mut client = Command::new("node");
        client.arg(&self.client).arg("stdio").args(words);
        configure(self.at_home(&mut client));
        let said = cargo::capture(&mut client)?;
        let walk: Value = serde_json::from_str(&said).context("the client printed no JSON")?;
        // The file is served as a note, or as a file if `target/` is inside a repository.
        let end = format!(":///{FILE}");
        let is_file = |uri: &Value| uri.as_str().is_some_and(|uri| uri.ends_with(&end));
        let is_listed = walk.get("resources").and_then(Value::as_array).is_some_and(|uris| uris.iter().any(is_file));
        let is_read = walk.pointer("/text/uri").is_some_and(is_file)
            && walk.pointer("/text/size") == Some(&Value::from(TEXT.len()));
        ensure!(is_listed && is_read, "expected {FILE} to be listed and read, with {} bytes: {said}", TEXT.len());
        Ok(())
    }
}
