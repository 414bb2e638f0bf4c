//! `cargo xtask soak`: runs thousands of subscribers for some minutes in release mode; with `--operations`, a server
//! with all features on.
//!
//! The soak tests are in `host/core/benches/changes` and `tests/benches/server/soak.rs`. This task builds and runs one
//! of them, and fails if it fails.

use anyhow::{Result, ensure};
use clap::Args;

use crate::cargo;
use crate::plugins::Plugins;
use crate::progress::Progress;
use crate::workspace::Workspace;

#[derive(Debug, Args)]
pub(crate) struct Soak {
    /// The duration, in minutes
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,

    /// Soak the program over HTTP with metrics, traces, audit, search, reloads and faults of plugins, PostgreSQL and
    /// the collector
    #[arg(long)]
    operations: bool,
}

impl Soak {
    /// Builds and runs the soak test.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        Plugins { fixtures: true, ..Plugins::default() }.run(workspace, progress)?;
        progress.print(&format!("soaking for {} minutes", self.minutes));
        let mut command = workspace.cargo(workspace.root());
        if self.operations {
            command.args(["bench", "--workspace", "--bench", "server", "--", "soak", "--minutes"]);
        } else {
            command.args(["bench", "--workspace", "--bench", "changes", "--", "--soak"]);
        }
        let passed = cargo::pass_through(command.arg(self.minutes.to_string()))?;
        ensure!(passed, "the soak test failed; see above");
        Ok(())
    }
}
