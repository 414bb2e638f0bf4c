//! `test`: the conformance test of a provider. Runs [`conformance`](mcp_host_devkit::conformance) and prints its
//! report.

mod junit;
mod options;
pub(super) mod report;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use futures::FutureExt as _;
use mcp_host_config::{self as config, Config};
use mcp_host_devkit::conformance::{self, Edit};
use tokio::process::Command;

use self::options::ProviderOptions;
use self::report::{JsonReport, print};
use super::context::Context;
use super::error::CliError;
use super::observation::ObservationArgs;
use super::replay::{ReplayFileError, ReplayOptions, replay_file};

const EXAMPLES: &str = "\
The component runs in its sandbox, with these grants only, under the default limits; with --plugin, with the grants, \
the config and the limits of that plugin in the config. Key-value buckets are temporary; directories are the real \
ones.

Exit codes: 0 no check failed, 1 some did, 2 the command line or the config is invalid.

Examples:
  mcp-host test target/hello.wasm
  mcp-host test notes.wasm --dir ~/notes=/notes --edit 'date >> ~/notes/log.md'
  mcp-host test http-cache.wasm --http https://docs.rs --keyvalue pages --junit report.xml
  mcp-host test notes.wasm --replay recordings/     replays recordings of `--record`
  mcp-host test new/git.wasm --plugin linux       with the grants of that plugin in the config";

/// Test whether a provider keeps the contract, with a report of what to fix
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The component: a file, or the name of an installed provider
    #[arg(value_name = "FILE.wasm|NAME")]
    file: PathBuf,

    #[command(flatten)]
    provider: ProviderOptions,

    /// Run this shell command to edit the data behind the provider: `changes` must report the edit
    #[arg(long, value_name = "COMMAND")]
    edit: Option<String>,

    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,

    /// Write a report in JUnit's format, for CI
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Replay the recordings of this directory (`*.jsonl`) with the component, instead of the checks of the contract
    #[arg(long, value_name = "DIR", conflicts_with_all = ["edit", "junit", "json", "profile", "record"])]
    replay: Option<PathBuf>,

    #[command(flatten)]
    observation: ObservationArgs,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        if let Some(recordings) = &self.replay {
            return replay_all(context, &self.file, recordings).await;
        }
        let (config, plugin) = match self.provider.plugin_name() {
            None => (
                Config::new(),
                config::Plugin::new(
                    "tested".parse().map_err(anyhow::Error::from)?,
                    Context::component(&self.file, None)?,
                    "test:///".parse().map_err(anyhow::Error::from)?,
                ),
            ),
            Some(name) => {
                let config = context.config()?;
                let plugin = config.plugins.iter().find(|plugin| plugin.name.as_str() == name).cloned();
                let known = || config.plugins.iter().map(|plugin| plugin.name.to_string()).collect();
                let plugin = plugin.ok_or_else(|| CliError::NoPlugin { name: name.to_owned(), known: known() })?;
                let component = Context::component(&self.file, Some(&config))?;
                let plugin = config::Plugin { component, digest: None, ..plugin };
                (config, plugin)
            }
        };
        let plugin = self.provider.apply(plugin);
        let mut options = conformance::Options::new();
        if let Some(command) = &self.edit {
            options = options.edit(edit(command));
        }
        context.observe(&self.observation)?;
        let builder = context.builder(config);
        let spinner = context.messages.spin(format!("testing {}", self.file.display()));
        let tested = conformance::run(builder, &plugin, options).await;
        drop(spinner);
        let report = tested?;
        if let Some(file) = &self.junit {
            let written = junit::to_xml(&self.file, &report).and_then(|xml| std::fs::write(file, xml));
            written.map_err(|source| CliError::Save { file: file.clone(), source })?;
        }
        let mut output = context.output();
        if self.json {
            let failed = context.calls().map(|calls| calls.take_failures().0).unwrap_or_default();
            output.json(&JsonReport::new(&report, failed.iter().map(Into::into).collect()))?;
        } else {
            print(&self.file, &report, &mut output)?;
        }
        output.flush()?;
        match report.failed().count() {
            0 => Ok(()),
            failed => Err(CliError::Conformance { failed }),
        }
    }
}

/// Replays all recordings of a directory with a component.
async fn replay_all(context: &Context, component: &Path, recordings: &Path) -> Result<(), CliError> {
    let unreadable = |source| ReplayFileError::Read { file: recordings.to_owned(), source };
    let entries = std::fs::read_dir(recordings)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>());
    let mut files = entries.map_err(unreadable)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    if files.is_empty() {
        return Err(ReplayFileError::NoRecordings { dir: recordings.to_owned() }.into());
    }
    let runtime = context.builder(Config::new()).runtime()?;
    let options = ReplayOptions { component: Some(component.to_owned()), plugin: None, times: 1 };
    let (mut differing, mut total) = (0_usize, 0_usize);
    let mut output = context.output();
    for file in &files {
        let report = replay_file(&runtime, file, &options).await?;
        report.print(file, &mut output)?;
        differing = differing.saturating_add(report.differing_count());
        total = total.saturating_add(report.calls);
    }
    output.flush()?;
    if differing == 0 { Ok(()) } else { Err(CliError::Differs { differing, total }) }
}

/// An edit by a shell command, whose output goes to standard error.
fn edit(command: &str) -> Edit<'static> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(io::stderr()).kill_on_drop(true);
    Box::new(move || {
        async move {
            match shell.status().await {
                Ok(status) if ExitStatus::success(&status) => Ok(()),
                Ok(status) => Err(format!("the command of `--edit` failed: {status}")),
                Err(error) => Err(format!("the command of `--edit` does not start: {error}")),
            }
        }
        .boxed()
    })
}

/// The name of the tested file, for reports.
fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}
