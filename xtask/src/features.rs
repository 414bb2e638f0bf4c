//! `cargo xtask features`: lints the library with each of its features alone, and without any.
//!
//! The other lints and all tests build the whole workspace, whose features are unified: there the library always has all of
//! them, and code that lacks a `cfg` compiles. Dev-dependencies are not built, so they enable nothing.

use anyhow::{Result, ensure};
use clap::Args;

use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The sets of features: none, and each that a library user can enable.
const FEATURE_SETS: [&str; 6] = ["", "http", "stdio", "keyvalue", "search", "sql"];

#[derive(Debug, Args)]
pub(crate) struct Features {}

impl Features {
    /// Lints every set; one that fails does not keep the others from running.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        let mut failed = Vec::new();
        for features in FEATURE_SETS {
            let name = if features.is_empty() { "no features" } else { features };
            progress.print(&format!("linting the library with {name}"));
            let mut command = workspace.cargo(workspace.root());
            command.args(["clippy", "-p", "mcp-resource-host", "--lib", "--no-default-features"]);
            command.args(["--features", features, "--", "-D", "warnings"]);
            if !cargo::pass_through(&mut command)? {
                failed.push(name);
            }
        }
        ensure!(failed.is_empty(), "the library has warnings or errors with {}", failed.join(", "));
        Ok(())
    }
}
