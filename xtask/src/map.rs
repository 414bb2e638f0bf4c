//! `cargo xtask map`: figures about the structure of the host's code.
//!
//! The program is a separate workspace, [`xtask/map`](../map/src/main.rs): it parses Rust, and in this workspace the
//! features of `syn` that it enables would apply to all packages.

use anyhow::{Result, ensure};
use clap::Args;

use crate::cargo;
use crate::workspace::Workspace;

#[derive(Debug, Args)]
pub(crate) struct Map {
    /// The number of the smallest and of the largest files to list
    #[arg(long, default_value_t = 15)]
    files: usize,
}

impl Map {
    /// Builds and runs the program.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let mut command = workspace.cargo(&workspace.root().join("xtask/map"));
        command.args(["run", "--quiet", "--"]).arg(workspace.root()).arg(self.files.to_string());
        ensure!(cargo::pass_through(&mut command)?, "cannot print the figures; see above");
        Ok(())
    }
}
