//! `cargo xtask search-quality`: compares the quality of search with other engines, on texts from packages.
//!
//! The task installs the model and the Lee corpus into `target/clients/search-quality`, and the manual pages and
//! ripgrep into `target/debian`. Then it runs the benchmark `search-quality`, which prints the tables of
//! `docs/search.md`.

use anyhow::{Result, ensure};
use clap::Args;

use crate::install::pip_install;
use crate::progress::Progress;
use crate::workspace::Workspace;
use crate::{cargo, debian};

#[derive(Debug, Args)]
pub(crate) struct SearchQuality {
    /// Only a fixed part of the texts: minutes instead of an hour, the first time
    #[arg(long)]
    quick: bool,
}

impl SearchQuality {
    /// Installs missing prerequisites, and prints the tables.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        debian::install(workspace, progress)?;
        let requirements = workspace.root().join("tests/clients/search-quality/requirements.txt");
        let installed = workspace.target().join("clients/search-quality");
        pip_install(&requirements, &installed, progress, "the model and the texts", "target/clients/search-quality")?;
        let mut command = workspace.cargo(workspace.root());
        // The profile of the tests is used, because everything is already built in it and rankings do not depend on the
        // profile.
        command.args(["bench", "--profile", "dev", "--workspace", "--bench", "search-quality", "--"]);
        let passed = cargo::pass_through(command.args(self.quick.then_some("--quick")))?;
        ensure!(passed, "the benchmark failed; see above");
        Ok(())
    }
}
