//! `cargo xtask cluster`: replicas, NATS nodes and a load balancer on loopback, with a fault every ten seconds.
//!
//! The program is `tests/src/bin/mcp-host-cluster.rs`. This task builds it together with the command `mcp-host`,
//! installs its prerequisites, and fails if it fails.

use std::process::Command;

use anyhow::{Result, ensure};
use clap::Args;

use crate::cargo;
use crate::plugins::Plugins;
use crate::progress::Progress;
use crate::workspace::Workspace;
use crate::{clients, debian};

#[derive(Debug, Args)]
pub(crate) struct Cluster {
    /// The duration, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,

    /// The number of clients that listen
    #[arg(long, default_value_t = 60)]
    clients: u64,

    /// The number of files that change each second
    #[arg(long, default_value_t = 20)]
    changes_per_second: u32,
}

impl Cluster {
    /// Builds and runs the cluster.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        Plugins::default().run(workspace, progress)?;
        clients::install_nats(workspace, progress)?;
        debian::install_balancer(progress)?;
        // The whole workspace is built: another set of features would recompile all dependencies.
        let built = cargo::pass_through(workspace.cargo(workspace.root()).args(["build", "--workspace", "--bins"]))?;
        ensure!(built, "the programs cannot be built; see above");
        let mut command = Command::new(workspace.target().join("debug/mcp-host-cluster"));
        command.args(["--seconds", &self.seconds.to_string(), "--clients", &self.clients.to_string()]);
        command.args(["--changes-per-second", &self.changes_per_second.to_string()]);
        let passed = cargo::pass_through(&mut command)?;
        ensure!(passed, "the cluster has failed; see above");
        Ok(())
    }
}
