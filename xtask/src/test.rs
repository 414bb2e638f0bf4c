//! `cargo xtask test`: runs all tests.
//!
//! The tests have two parts, each of which can run alone. `guests` tests the providers and their SDK natively. `host`
//! tests the workspace of the host, and first prepares the components, the SDKs in other languages, and the clients,
//! servers and documents of the tests. Prerequisites that cargo does not build are set up concurrently. The output is
//! cargo's own; the slowest tests are listed after it ([`crate::test_times`]).

use std::process::Command;
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};

use crate::plugins::Plugins;
use crate::progress::Progress;
use crate::test_times::TestTimes;
use crate::workspace::Workspace;
use crate::{bindings, cargo, clients, console, debian, languages};

/// The result of [`set_up`], which runs concurrently with other work.
type SetUp<'scope> = ScopedJoinHandle<'scope, Result<()>>;

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
    /// Runs the tests. A failure in one part does not stop the other.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        let times = TestTimes::create(workspace)?;
        let mut failed = Vec::new();
        thread::scope(|scope| -> Result<()> {
            let set_up = (self.part != Some(Part::Guests)).then(|| scope.spawn(|| set_up(workspace, progress)));
            // On a terminal the set-up runs alone: a terminal shows one step at a time, and the set-up may prompt for a
            // password.
            let set_up = if progress.is_terminal() {
                join(set_up)?;
                None
            } else {
                set_up
            };
            if self.part != Some(Part::Host) && !self.guests(workspace, progress, &times)? {
                failed.push("the guests' tests");
            }
            if self.part != Some(Part::Guests) && !self.host(workspace, progress, &times, set_up)? {
                failed.push("the host's tests");
            }
            Ok(())
        })?;
        times.finish(progress)?;
        ensure!(failed.is_empty(), "{} failed; see above", failed.join(" and "));
        Ok(())
    }

    fn guests(&self, workspace: &Workspace, progress: &Progress, times: &TestTimes) -> Result<bool> {
        progress.print("testing the guests, natively");
        self.cargo_test(workspace.cargo(&workspace.guests()), times)
    }

    fn host(
        &self,
        workspace: &Workspace,
        progress: &Progress,
        times: &TestTimes,
        set_up: Option<SetUp<'_>>,
    ) -> Result<bool> {
        bindings::check(workspace)?;
        Plugins { fixtures: true, ..Plugins::default() }.run(workspace, progress)?;
        languages::build_host(workspace, progress)?;
        join(set_up)?;
        languages::build(workspace, progress)?;
        progress.print("testing the host");
        let passed = self.cargo_test(workspace.cargo(workspace.root()), times)?;
        // The arguments may name targets that the workspace of `xtask/map` does not have.
        let passed_map = !self.arguments.is_empty()
            || self.cargo_test(workspace.cargo(&workspace.root().join("xtask/map")), times)?;
        Ok(passed && passed_map)
    }

    fn cargo_test(&self, mut cargo: Command, times: &TestTimes) -> Result<bool> {
        cargo.args(["test", "--workspace", "--no-fail-fast", "--config", &times.cargo_config()?]);
        cargo::pass_through(cargo.args(&self.arguments))
    }
}

/// Installs and builds the prerequisites of the host's tests that cargo does not build: downloads, and programs that
/// use one core.
fn set_up(workspace: &Workspace, progress: &Progress) -> Result<()> {
    clients::install(workspace, progress)?;
    console::check(workspace, progress)?;
    debian::install(workspace, progress)?;
    languages::build_without_host(workspace, progress)
}

fn join(set_up: Option<SetUp<'_>>) -> Result<()> {
    set_up.map_or(Ok(()), |set_up| set_up.join().map_err(|_| anyhow!("the set-up panicked"))?)
}
