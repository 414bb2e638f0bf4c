//! The tasks of this repository: `cargo xtask plugins`, `demo`, `test`, `fuzz` and others.
//!
//! Every task works in a fresh clone: it installs and builds its prerequisites, skips those that are up to date, and
//! shows its progress. It writes only into the repository's `target/`, except that the fallback for the guest toolchain
//! may install packages of the distribution ([`toolchain`]). All messages of a task go to stderr.
//!
//! A failed task exits with code 1. Its message names the missing part, where the task searched for it, and the remedy.

mod bindings;
mod build_times;
mod cargo;
mod clients;
mod cluster;
mod console;
mod debian;
mod demo;
mod dist;
mod docs;
mod features;
mod fuzz;
mod install;
mod languages;
mod map;
mod plugins;
mod progress;
mod reproducible;
mod search_quality;
mod simulate;
mod soak;
mod test;
mod test_times;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::demo::Demo;
use crate::dist::Dist;
use crate::docs::Docs;
use crate::features::Features;
use crate::fuzz::Fuzz;
use crate::map::Map;
use crate::plugins::Plugins;
use crate::progress::Progress;
use crate::search_quality::SearchQuality;
use crate::simulate::Simulate;
use crate::soak::Soak;
use crate::test::Test;
use crate::test_times::RunTests;
use crate::workspace::Workspace;

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    global: GlobalArgs,
}

#[derive(Debug, Args)]
struct GlobalArgs {
    /// Show the output of cargo and other tools, also when they succeed
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Task(Task),
    /// Run a test executable, and record the time of each of its tests: for `test`
    #[command(hide = true)]
    RunTests(RunTests),
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the providers into target/plugins/NAME.wasm
    Plugins(Plugins),
    /// Build and run a demo: serve this repository's git history and some notes, and read them with a client
    Demo(Demo),
    /// Build the packages of a version: for Debian, rpm, npm, pip, desktop clients and containers, and a tarball
    Dist(Dist),
    /// Build the documentation as a site with search, and check its links
    Docs(Docs),
    /// Run all tests, or one part of them
    Test(Test),
    /// Lint the libraries with each of their features alone, and without any
    Features(Features),
    /// Fuzz the parsers of untrusted input
    Fuzz(Fuzz),
    /// Run three replicas with three nodes of NATS and a balancer, and break one of them each ten seconds
    Cluster(Cluster),
    /// Simulate a cluster: seeded worlds with faults, at any size
    Simulate(Simulate),
    /// Run a soak test: thousands of subscribers, no lost notifications, constant memory
    Soak(Soak),
    /// Print how well search finds, beside other engines
    SearchQuality(SearchQuality),
    /// Generate the committed bindings of the C and Go SDKs, after a change of wit/
    Bindings,
    /// Build the committed files of the console, after a change of its sources
    Console,
    /// Install the official clients and tools that the tests use, into target/clients
    Clients(Clients),
    /// Unpack the packages of Debian that the tests use, into target/debian
    Debian,
    /// Build the SDKs as packages, the example provider in each language and a new project in each, with their tests
    Languages,
    /// Print figures about the structure of the host's code
    Map(Map),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let progress = Progress::new(cli.global.verbose);
    let result = match cli.command {
        Command::Task(task) => run(task, &progress).map(|()| ExitCode::SUCCESS),
        Command::RunTests(task) => task.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            progress.print(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task, progress: &Progress) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match task {
        Task::Plugins(task) => task.run(&workspace, progress).map(drop),
        Task::Demo(task) => task.run(&workspace, progress),
        Task::Dist(task) => task.run(&workspace, progress),
        Task::Docs(task) => task.run(&workspace, progress),
        Task::Test(task) => task.run(&workspace, progress),
        Task::Features(task) => task.run(&workspace, progress),
        Task::Fuzz(task) => task.run(&workspace, progress),
        Task::Cluster(task) => task.run(&workspace, progress),
        Task::Simulate(task) => task.run(&workspace),
        Task::Soak(task) => task.run(&workspace, progress),
        Task::SearchQuality(task) => task.run(&workspace, progress),
        Task::Bindings => bindings::generate(&workspace, progress),
        Task::Console => console::generate(&workspace, progress),
        Task::Clients(task) => task.run(&workspace, progress),
        Task::Debian => debian::install(&workspace, progress),
        Task::Languages => languages::build(&workspace, progress),
        Task::Map(task) => task.run(&workspace),
    }
}
