//! A user's client: the official one in TypeScript starts an installed program for a folder, and reads a file of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::progress::Progress;
use crate::workspace::Workspace;
use crate::{cargo, clients};

/// The file of the folder, and what it says.
const FILE: &str = "hello.md";
const TEXT: &str = "# Hello\n\nA note of one's own.\n";

/// The client, with a folder to read.
pub(super) struct Reader {
    client: PathBuf,
    folder: PathBuf,
    home: PathBuf,
}

impl Reader {
    /// Installs the client, and writes the folder below `work`, beside a home directory for the servers.
    pub(super) fn new(workspace: &Workspace, work: &Path, progress: &Progress) -> Result<Self> {
        clients::install_typescript(workspace, progress)?;
        let folder = work.join("notes");
        super::super::write(&folder.join(FILE), TEXT.as_bytes())?;
        let home = work.join("home");
        fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
        Ok(Self { client: workspace.target().join("clients/typescript/walk.mjs"), folder, home })
    }

    /// The folder.
    pub(super) fn folder(&self) -> String {
        self.folder.display().to_string()
    }

    /// Reads the file by a server that these words start.
    pub(super) fn reads_by(&self, words: &[&str]) -> Result<()> {
        self.reads_with(words, |_| ())
    }

    /// The same, in an environment that is configured.
    pub(super) fn reads_with(&self, words: &[&str], configure: impl FnOnce(&mut Command)) -> Result<()> {
        let mut client = Command::new("node");
        client.arg(&self.client).arg("stdio").args(words).env("HOME", &self.home).current_dir(&self.home);
        for variable in ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            client.env_remove(variable);
        }
        configure(&mut client);
        let said = cargo::capture(&mut client)?;
        let walk: Value = serde_json::from_str(&said).context("the client printed no JSON")?;
        let uri = format!("notes:///{FILE}");
        let listed = walk.get("resources").and_then(Value::as_array).into_iter().flatten();
        let is_listed = listed.into_iter().any(|listed| *listed == *uri);
        let is = |pointer: &str, expected: Value| walk.pointer(pointer) == Some(&expected);
        let is_read = is("/text/uri", uri.as_str().into()) && is("/text/size", TEXT.len().into());
        ensure!(is_listed && is_read, "expected {uri} to be listed and read, with {} bytes: {said}", TEXT.len());
        Ok(())
    }
}
