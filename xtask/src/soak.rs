//! `cargo xtask soak`: thousands of subscribers for some minutes, in release mode.
//!
//! The soak test is in `host/core/benches/changes`; this task builds and starts it, and passes on its exit code.

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
}

impl Soak {
    /// Builds and runs it.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        Plugins { fixtures: true, ..Plugins::default() }.run(workspace, progress)?;
        progress.print(&format!("soaking for {} minutes", self.minutes));
        let mut command = workspace.cargo(workspace.root());
        command.args(["bench", "--workspace", "--bench", "changes", "--", "--soak"]);
        let passed = cargo::pass_through(command.arg(self.minutes.to_string()))?;
        ensure!(passed, "the soak test failed; see above");
        Ok(())
    }
}
