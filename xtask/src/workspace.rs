//! Paths: the repository, its `target/`, and the cargo that drives both workspaces.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The repository that the tasks work on.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Finds the repository: the folder above this crate's, which cargo names when it runs a task.
    pub(crate) fn find() -> Result<Self> {
        let manifest_dir =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root =
            manifest_dir.parent().context("expected xtask in a folder of the repository, found it at the root")?;
        ensure!(
            root.join("plugins/Cargo.toml").is_file(),
            "{} is not the repository: it has no plugins/Cargo.toml; run the task as `cargo xtask …` inside a clone",
            root.display()
        );
        Ok(Self { root: root.to_owned() })
    }

    /// A copy of the repository.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The repository's root.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The root of the guest workspace.
    pub(crate) fn guests(&self) -> PathBuf {
        self.root.join("plugins")
    }

    /// The target directory of the tasks, regardless of `CARGO_TARGET_DIR`: configs and tests name files below it.
    pub(crate) fn target(&self) -> PathBuf {
        self.root.join("target")
    }

    /// Shortens a path below the repository for messages.
    pub(crate) fn display<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }

    /// Returns the cargo that started this task, to run in `dir`.
    ///
    /// Rustup proxies that it starts download nothing by themselves: the tasks install explicitly what they need.
    pub(crate) fn cargo(&self, dir: &Path) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(dir).env("RUSTUP_AUTO_INSTALL", "0");
        command
    }
}
