//! `index`: shows the state of the search index, or rebuilds it.

use std::pin::pin;
use std::time::Duration;

use bytesize::ByteSize;
use mcp_host_base::log_target;
use mcp_resource_host::host::{DataDirs, Host};
use mcp_resource_host::search::{PassageCount, SearchStatus, StoredStatus, index_status};

use super::context::Context;
use super::error::CliError;
use super::table::{Cell, Table};

const EXAMPLES: &str = "\
Examples:
  mcp-host index status      how much of each plugin is indexed?
  mcp-host index rebuild     delete the index, and index all resources again";

/// The time after which a command without a terminal says what it waits for.
const NOTE_AFTER: Duration = Duration::from_secs(2);

/// The columns of each plugin.
const HEADER: [&str; 4] = ["PLUGIN", "RESOURCES", "TEXT", "STATE"];

/// Show or rebuild the search index
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show how much of each plugin is indexed; no plugin is started
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete the index, and index all resources again
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
    let config = context.config_without_secrets()?;
    let state = DataDirs::of_command(&config.server).state()?;
    let stored = index_status(&state, &config).await;
    let mut output = context.output();
    if json {
        let plugins: Vec<_> = stored.iter().map(to_json).collect();
        output.line(&serde_json::json!({ "plugins": plugins }).to_string())?;
    } else if stored.is_empty() {
        output.line("no plugin is searched; `search = {}` in a [[plugin]] makes it so")?;
    } else if stored.iter().any(|stored| stored.passages.is_some()) {
        let [plugin, resources, text, state] = HEADER;
        let rows = stored.iter().map(|StoredStatus { status, passages }| {
            let [plugin, resources, text, state] = row(status);
            [plugin, resources, text, Cell::optional(passages.map(progress).as_deref()), state]
        });
        Table::new([plugin, resources, text, "EMBEDDED PASSAGES", state]).print(rows.collect(), &mut output)?;
    } else {
        let rows = stored.iter().map(|stored| row(&stored.status));
        Table::new(HEADER).print(rows.collect(), &mut output)?;
    }
    Ok(output.flush()?)
}

async fn rebuild(host: &Host, context: &Context) -> Result<(), CliError> {
    host.rebuild_search_index().await?;
    wait_until_indexed(host, context).await;
    let mut output = context.output();
    Table::new(HEADER).print(host.search_status().iter().map(row).collect(), &mut output)?;
    Ok(output.flush()?)
}

/// Waits until the index is up to date with the plugins. Shows progress on a terminal, or says once what takes so long,
/// and the parts that cannot be indexed.
pub(super) async fn wait_until_indexed(host: &Host, context: &Context) {
    let names: Vec<_> = host.search_status().into_iter().map(|status| status.plugin).collect();
    if names.is_empty() {
        return;
    }
    let names = names.join(", ");
    let spinner = context.messages.spin(format!("indexing {names}"));
    // A terminal shows the spinner.
    let is_terminal = context.messages.columns().is_some();
    let note = || {
        if !is_terminal {
            context.messages.note(&format!("indexing {names}; the index is kept for later searches"));
        }
    };
    with_note(host.wait_until_indexed(), NOTE_AFTER, note).await;
    drop(spinner);
    // The host logs the reason why a plugin cannot be indexed.
    let is_logged = tracing::enabled!(target: log_target::SEARCH, tracing::Level::WARN);
    for status in host.search_status() {
        for gap in status.gaps() {
            let gap = match &status.error {
                Some(error) if is_logged && gap.ends_with(error) => "not completely indexed; the log has the reason",
                _ => &gap,
            };
            context.messages.warning(&format!("plugin `{}`: {gap}", status.plugin));
        }
    }
}

/// Waits for a future, and calls `note` if it is not ready after this time.
async fn with_note<T>(future: impl Future<Output = T>, after: Duration, note: impl FnOnce()) -> T {
    let mut future = pin!(future);
    match tokio::time::timeout(after, future.as_mut()).await {
        Ok(output) => output,
        Err(_) => {
            note();
            future.await
        }
    }
}

fn row(status: &SearchStatus) -> [Cell; HEADER.len()] {
    let (documents, bytes) = (status.documents.to_string(), ByteSize(status.bytes).to_string());
    let state = match status.gaps().as_slice() {
        [] => Cell::ok("complete"),
        gaps => Cell::whole_warning(&gaps.join("; ")),
    };
    [Cell::verbatim(&status.plugin), Cell::text(&documents), Cell::text(&bytes), state]
}

/// The number of passages with vectors, of all passages to embed: `150 of 400 (37 %)`.
fn progress(PassageCount { embedded, total }: PassageCount) -> String {
    match embedded.saturating_mul(100).checked_div(total) {
        Some(percent) => format!("{embedded} of {total} ({percent} %)"),
        None => format!("{embedded} of {total}"),
    }
}

fn to_json(StoredStatus { status, passages }: &StoredStatus) -> serde_json::Value {
    let SearchStatus {
        plugin, documents, bytes, is_complete, without_text, omitted, failed, is_truncated, error, ..
    } = status;
    let embeddings = passages.map(|PassageCount { embedded, total }| {
        serde_json::json!({ "documents": status.embedded, "passages": embedded, "totalPassages": total })
    });
    serde_json::json!({
        "plugin": plugin,
        "documents": documents,
        "bytes": bytes,
        "complete": is_complete,
        "withoutText": without_text,
        "omitted": omitted,
        "failed": failed,
        "truncated": is_truncated,
        "error": error,
        "embeddings": embeddings,
    })
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_takes_long_is_told_once_and_what_does_not_is_not() {
        let (told, indexed) = oneshot::channel();
        let waited = with_note(indexed, Duration::ZERO, || told.send("told").unwrap()).await;
        assert_eq!(waited, Ok("told"), "it ends only after the note");
        let ready = with_note(std::future::ready(1), NOTE_AFTER, || panic!("there is nothing to wait for")).await;
        assert_eq!(ready, 1);
    }
}
