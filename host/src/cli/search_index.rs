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
    for status in host.search_status() {
        for gap in status.gaps() {
            context.messages.warning(&format!("plugin `{}`: {gap}", status.plugin));
        }
    }
}

fn print(statuses: &[SearchStatus], output: &mut Output<'_>) -> Result<(), CliError> {
    let rows = statuses.iter().map(|status| {
        let (documents, bytes) = (status.documents.to_string(), ByteSize(status.bytes).to_string());
        let state = match status.gaps().as_slice() {
            [] => Cell::ok("complete"),
            gaps => Cell::warning(&gaps.join("; ")),
        };
        [Cell::verbatim(&status.plugin), Cell::text(&documents), Cell::text(&bytes), state]
    });
    Ok(Table::new(["PLUGIN", "RESOURCES", "TEXT", "STATE"]).print(rows.collect(), output)?)
}

fn to_json(status: &SearchStatus) -> serde_json::Value {
    let SearchStatus { plugin, documents, bytes, is_complete, without_text, omitted, failed, error, .. } = status;
    serde_json::json!({
        "plugin": plugin,
        "documents": documents,
        "bytes": bytes,
        "complete": is_complete,
        "withoutText": without_text,
        "omitted": omitted,
        "failed": failed,
        "error": error,
    })
}
