//! `cargo xtask features`: lints the libraries with each of their features alone, and without any feature.
//!
//! The other lints and all tests build the whole workspace, which unifies features: its libraries always have all of
//! their features, so code that lacks a `cfg` compiles. This task does not build dev-dependencies, so they enable no
//! feature.

use anyhow::{Result, ensure};
use clap::Args;

use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The packages that an application depends on, with their sets of features, and the command without its feature.
/// `mcp-host-server` passes each of its features on to `mcp-resource-host`, and clippy also lints the workspace
/// packages that a package depends on. So each of these features is in one set only, besides the command's.
const FEATURE_SETS: [(&str, &str); 8] = [
    ("mcp-resource-host", ""),
    ("mcp-resource-host", "upstream"),
    ("mcp-host-server", "console"),
    ("mcp-host-server", "keyvalue"),
    ("mcp-host-server", "otlp"),
    ("mcp-host-server", "search"),
    ("mcp-host-server", "sql"),
    ("mcp-resource-host-cli", ""),
];

#[derive(Debug, Args)]
pub(crate) struct Features {}

impl Features {
    /// Lints every set. A failed set does not stop the others.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        let mut failed = Vec::new();
        for (package, features) in FEATURE_SETS {
            let name = format!("{package} with {}", if features.is_empty() { "no features" } else { features });
            progress.print(&format!("linting {name}"));
            let mut command = workspace.cargo(workspace.root());
            command.args(["clippy", "-p", package, "--lib", "--no-default-features"]);
            command.args(["--features", features, "--", "-D", "warnings"]);
            if !cargo::pass_through(&mut command)? {
                failed.push(name);
            }
        }
        ensure!(failed.is_empty(), "there are warnings or errors in {}", failed.join(", "));
        Ok(())
    }
}
