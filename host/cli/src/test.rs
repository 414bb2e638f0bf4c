//! `test`: does a provider keep the contract? Runs [`conformance`](mcp_host_devkit::conformance) and prints its report.

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

const EXAMPLES: &str = "\
The component runs in its sandbox, with these grants and nothing else, under the default limits; with --plugin, with the \
grants, the config and the limits of that plugin of the config. Key-value buckets are temporary, directories are the real ones.

Exit codes: 0 no check failed, 1 some did, 2 the command line or the config is invalid.

Examples:
  mcp-host test target/hello.wasm
  mcp-host test notes.wasm --dir ~/notes=/notes --edit 'date >> ~/notes/log.md'
  mcp-host test http-cache.wasm --http https://docs.rs --keyvalue pages --junit report.xml
  mcp-host test new/git.wasm --plugin linux       with the grants of that plugin of the config";

/// Test whether a provider keeps the contract, with a report of what to fix
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The component: a file, or the name of an installed provider
    #[arg(value_name = "FILE.wasm|NAME")]
    file: PathBuf,

    #[command(flatten)]
    provider: ProviderOptions,

    /// Run this shell command to edit the data behind the provider: `changes` must report it
    #[arg(long, value_name = "COMMAND")]
    edit: Option<String>,

    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,

    /// Write a report in JUnit's format, for CI
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
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
            output.json(&JsonReport::new(&report))?;
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

/// The edit that a shell command makes. Its output goes to standard error.
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
