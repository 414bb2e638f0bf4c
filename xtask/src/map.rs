//! `cargo xtask map`: figures about the structure of the host's code.
//!
//! The program is a workspace of its own, [`xtask/map`](../map/src/main.rs): it parses Rust, and its features of `syn` would be
//! those of the whole workspace.

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
    /// Builds the program and runs it.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let mut command = workspace.cargo(&workspace.root().join("xtask/map"));
        command.args(["run", "--quiet", "--"]).arg(workspace.root()).arg(self.files.to_string());
        ensure!(cargo::pass_through(&mut command)?, "cannot print the figures; see above");
        Ok(())
    }
}
