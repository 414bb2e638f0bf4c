//! Paths of the repository and its `target/`, and the cargo command for both workspaces.

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
    /// Finds the repository: the parent folder of this crate's manifest, which cargo passes to a running task.
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

    /// Returns a copy of the repository at `root`.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the root of the repository.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the root of the guest workspace.
    pub(crate) fn guests(&self) -> PathBuf {
        self.root.join("plugins")
    }

    /// Returns the target directory of the tasks, regardless of `CARGO_TARGET_DIR`: configs and tests name files below
    /// it.
    pub(crate) fn target(&self) -> PathBuf {
        self.root.join("target")
    }

    /// Shortens a path below the repository for messages.
    pub(crate) fn display<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }

    /// Returns a command for `dir` with the cargo that started this task.
    ///
    /// Rustup's automatic installation is disabled: the tasks install their prerequisites explicitly. The variables
    /// that describe the package `xtask`, which `cargo run` sets, are removed: the build script of ring names them in
    /// `rerun-if-env-changed`, so a build by a task and one by hand would each rebuild ring and what depends on it.
    pub(crate) fn cargo(&self, dir: &Path) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(dir).env("RUSTUP_AUTO_INSTALL", "0");
        let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_package)) {
            command.env_remove(name);
        }
        command
    }
}
