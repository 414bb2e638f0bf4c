//! `cargo xtask simulate`: the simulation of a cluster, at any size.
//!
//! The simulation is a test of the crate `mcp-host-cluster`, because it plants bugs in the code of this crate. This
//! task builds the test with optimization and runs it. It fails if a replica in a simulated world loses a change. The
//! last lines are the totals, and the command that repeats each failed seed.

use anyhow::{Result, ensure};
use clap::Args;

use crate::cargo;
use crate::workspace::Workspace;

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The number of worlds
    #[arg(long, default_value_t = 100)]
    seeds: u64,

    /// Run the world of this seed only
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,

    /// Print what happens in the world of `--seed`
    #[arg(long, requires = "seed")]
    trace: bool,

    /// The number of replicas
    #[arg(long, default_value_t = 12)]
    replicas: u64,

    /// The number of streams of all replicas together
    #[arg(long, default_value_t = 2000)]
    streams: u64,

    /// The number of watched paths: a tenth of the streams, if not given
    #[arg(long)]
    paths: Option<u64>,

    /// The number of leases among which the paths are divided: at least 3 if not given, and as many as 20,000 paths
    /// each take
    #[arg(long)]
    shards: Option<u64>,

    /// The provider's `limits.response-items`: twice the paths of a group. 16 groups to a shard, if not given
    #[arg(long)]
    items: Option<u64>,

    /// The time between two polls, in milliseconds
    #[arg(long, default_value_t = 1000)]
    interval: u64,

    /// Plant a bug, such as `TokenOfOtherGroup`, which must be found
    #[arg(long)]
    bug: Option<String>,

    /// The number of worlds at a time: as many as there are processors, if not given
    #[arg(long)]
    threads: Option<u64>,
}

impl Simulate {
    /// Builds and runs the simulation.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let mut command = workspace.cargo(workspace.root());
        command.args(["test", "--quiet", "--package", "mcp-host-cluster", "--lib"]);
        for package in ["mcp-host-cluster", "mcp-host-model"] {
            command.args(["--config", &format!("profile.dev.package.{package}.opt-level=3")]);
        }
        command.args(["--", "--ignored", "--exact", "--nocapture", "simulation::command::simulate"]);
        let settings = [
            ("SEEDS", Some(self.seeds)),
            ("SEED", self.seed),
            ("TRACE", self.trace.then_some(1)),
            ("REPLICAS", Some(self.replicas)),
            ("STREAMS", Some(self.streams)),
            ("PATHS", self.paths),
            ("SHARDS", self.shards),
            ("ITEMS", self.items),
            ("INTERVAL", Some(self.interval)),
            ("THREADS", self.threads),
        ];
        for (name, value) in settings {
            let name = format!("MCP_HOST_SIMULATION_{name}");
            match value {
                Some(value) => command.env(name, value.to_string()),
                None => command.env_remove(name),
            };
        }
        match &self.bug {
            Some(bug) => command.env("MCP_HOST_SIMULATION_BUG", bug),
            None => command.env_remove("MCP_HOST_SIMULATION_BUG"),
        };
        ensure!(cargo::pass_through(&mut command)?, "the simulation has failed; see above");
        Ok(())
    }
}
