//! `watch`: prints updates as clients get them.

use anyhow::Context as _;
use mcp_resource_host::host::Host;
use mcp_resource_host::watch::Update;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::error::CliError;
use super::options::{PrincipalArgs, parse_uri};
use super::output::Output;
use super::{escape, hint, signals};

const EXAMPLES: &str = "\
It runs until it is interrupted.

Examples:
  mcp-host watch notes:///welcome.md     print its URI whenever it changes
  mcp-host watch --listing               print a line whenever the listing changes
  mcp-host watch notes:///a.md --json    one JSON object per line, for programs";

/// Watch resources, and print updates as clients get them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "mcp-host watch [OPTIONS] <URI>...\n       mcp-host watch [OPTIONS] --listing [URI]...")]
pub(super) struct Args {
    /// The resources
    #[arg(value_name = "URI", value_parser = parse_uri, required_unless_present = "listing")]
    uris: Vec<String>,

    /// Watch the listing as well
    #[arg(long)]
    listing: bool,

    #[command(flatten)]
    principal_args: PrincipalArgs,

    /// Print JSON lines: `{"method": …, "params": {"uri": …}}`, the notifications that clients get
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        context.messages.writer().become_lossy();
        let shutdown =
            signals::shutdown(&context.messages, "graceful shutdown", || ()).context("cannot listen to signals")?;
        let host = context.start_host().await?;
        let result = self.watch(&host, &shutdown, context).await;
        context.shutdown(&host).await;
        result
    }

    async fn watch(&self, host: &Host, shutdown: &CancellationToken, context: &Context) -> Result<(), CliError> {
        let principal = self.principal_args.principal(&host.config(), &context.messages)?;
        let subscriber = host.subscriber(&principal);
        for uri in &self.uris {
            if let Err(error) = host.subscribe(&subscriber, uri).await {
                let hint = hint::for_watch(host, &principal, uri, &error).await;
                return Err(CliError::Resource { error, hint });
            }
        }
        if self.listing {
            subscriber.watch_listing();
            subscriber.listing_ready().await;
        }
        context.messages.note("watching for changes; press Ctrl-C to stop");
        let mut output = context.output();
        while let Some(update) = shutdown.run_until_cancelled(subscriber.next()).await {
            print(&update, self.json, &mut output)?;
            output.flush()?;
        }
        Ok(())
    }
}

fn print(update: &Update, json: bool, output: &mut Output<'_>) -> std::io::Result<()> {
    match (update, json) {
        (Update::Resource(uri), true) => {
            output.json(&json!({ "method": "notifications/resources/updated", "params": { "uri": uri } }))
        }
        (Update::Listing, true) => output.json(&json!({ "method": "notifications/resources/list_changed" })),
        (Update::Resource(uri), false) => output.line(&format!("updated {}", escape::line(uri))),
        (Update::Listing, false) => output.line("listing changed"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::output::Destination;
    use super::*;

    fn printed(update: &Update, json: bool) -> String {
        let mut bytes = Vec::new();
        let mut output = Output::to(&mut bytes, Destination::Pipe);
        print(update, json, &mut output).unwrap();
        output.flush().unwrap();
        drop(output);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn an_update_is_a_line_for_people_and_a_notification_for_programs() {
        let update = Update::Resource("notes:///a.md".to_owned());
        assert_eq!(printed(&update, false), "updated notes:///a.md\n");
        let expected = "{\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"notes:///a.md\"}}\n";
        assert_eq!(printed(&update, true), expected);
        assert_eq!(printed(&Update::Listing, false), "listing changed\n");
    }
}
