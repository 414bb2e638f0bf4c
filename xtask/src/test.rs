//! `cargo xtask test`: all tests.
//!
//! Two parts, each of which can be run by itself: `guests`, the providers and their SDK, natively; and `host`,
//! everything of the host's workspace, with the components, the SDKs in other languages, the clients that its tests drive
//! and the servers and documents that these use. The output is cargo's own, and its `test result` lines come last.

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::plugins::Plugins;
use crate::progress::Progress;
use crate::workspace::Workspace;
use crate::{bindings, cargo, clients, debian, languages};

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// The part to run; both by default
    part: Option<Part>,

    /// Arguments for `cargo test`, such as the name of a test
    #[arg(last = true)]
    arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The guest workspace, natively
    Guests,
    /// The host's workspace: unit tests, doctests, end to end
    Host,
}

impl Test {
    /// Runs the tests; a failure in one part does not stop the other.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        let parts = self.part.map_or_else(|| vec![Part::Guests, Part::Host], |part| vec![part]);
        let mut failed = Vec::new();
        for part in parts {
            let passed = match part {
                Part::Guests => self.guests(workspace, progress)?,
                Part::Host => self.host(workspace, progress)?,
            };
            if !passed {
                failed.push(match part {
                    Part::Guests => "the guests' tests",
                    Part::Host => "the host's tests",
                });
            }
        }
        ensure!(failed.is_empty(), "{} failed; see above", failed.join(" and "));
        Ok(())
    }

    fn guests(&self, workspace: &Workspace, progress: &Progress) -> Result<bool> {
        progress.print("testing the guests, natively");
        let mut command = workspace.cargo(&workspace.guests());
        cargo::pass_through(command.args(["test", "--workspace", "--no-fail-fast"]).args(&self.arguments))
    }

    fn host(&self, workspace: &Workspace, progress: &Progress) -> Result<bool> {
        bindings::check(workspace)?;
        Plugins { fixtures: true, ..Plugins::default() }.run(workspace, progress)?;
        clients::install(workspace, progress)?;
        debian::install(workspace, progress)?;
        languages::build(workspace, progress)?;
        progress.print("testing the host");
        let mut command = workspace.cargo(workspace.root());
        cargo::pass_through(command.args(["test", "--workspace", "--no-fail-fast"]).args(&self.arguments))
    }
}
