//! `index`: the state of the search index, and rebuilding it.

use bytesize::ByteSize;

use super::context::Context;
use super::error::CliError;
use super::output::Output;
use super::table::{Cell, Table};
use crate::host::{DataDirs, Host};
use crate::search::{SearchStatus, index_status};

const EXAMPLES: &str = "\
Examples:
  mcp-host index status      what does the index have of each plugin?
  mcp-host index rebuild     delete it, and read everything again";

/// Show or rebuild the search index
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show what the index has of each plugin; no plugin is started
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete the index, and read everything again
    Rebuild,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self.action {
            Action::Status { json } => status(context, json).await,
            Action::Rebuild => {
                let host = context.start_host().await?;
                let result = rebuild(&host, context).await;
                context.shutdown(&host).await;
                result
            }
        }
    }
}

async fn status(context: &Context, json: bool) -> Result<(), CliError> {
    let config = context.config()?;
    let state = DataDirs::new(&config.server, None, None).state()?;
    let statuses = index_status(&state, &config).await;
    let mut output = context.output();
    if json {
        let plugins: Vec<_> = statuses.iter().map(to_json).collect();
        output.line(&serde_json::json!({ "plugins": plugins }).to_string())?;
    } else if statuses.is_empty() {
        output.line("no plugin is searched; `search = {}` in a [[plugin]] makes it so")?;
    } else {
        print(&statuses, &mut output)?;
    }
    Ok(output.flush()?)
}

async fn rebuild(host: &Host, context: &Context) -> Result<(), CliError> {
    host.rebuild_search_index().await?;
    wait_until_indexed(host, context).await;
    let mut output = context.output();
    print(&host.search_status(), &mut output)?;
    Ok(output.flush()?)
}

/// Waits until the index is level with what the plugins serve. Says so on a terminal, and what cannot be indexed.
pub(super) async fn wait_until_indexed(host: &Host, context: &Context) {
    let names: Vec<_> = host.search_status().into_iter().map(|status| status.plugin).collect();
    if names.is_empty() {
        return;
    }
    let spinner = context.messages.spin(format!("indexing {}", names.join(", ")));
    host.wait_until_indexed().await;
    drop(spinner);
    for SearchStatus { plugin, error, .. } in host.search_status() {
        if let Some(error) = error {
            context.messages.warning(&format!("plugin `{plugin}` is not completely indexed: {error}"));
        }
    }
}

fn print(statuses: &[SearchStatus], output: &mut Output<'_>) -> Result<(), CliError> {
    let rows = statuses.iter().map(|status| {
        let (documents, bytes) = (status.documents.to_string(), ByteSize(status.bytes).to_string());
        [Cell::verbatim(&status.plugin), Cell::text(&documents), Cell::text(&bytes)]
    });
    Ok(Table::new(["PLUGIN", "RESOURCES", "TEXT"]).print(rows.collect(), output)?)
}

fn to_json(status: &SearchStatus) -> serde_json::Value {
    serde_json::json!({ "plugin": status.plugin, "documents": status.documents, "bytes": status.bytes })
}
