//! `admin sessions`, `admin subscriptions` and `admin cache`: paginated lists of a running server.

use mcp_host_server::AdminClient;
use mcp_host_server::admin_api::{
    CacheView, MAX_PAGE, Page, PluginCache, SessionView, SubscriptionsView, WatchedResource,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;
use crate::status::{hits, size};
use crate::table::{Cell, Table};

/// The part of a list that is printed.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// The number of items, 1000 at most
    #[arg(long, value_name = "COUNT", default_value_t = MAX_PAGE, value_parser = limit)]
    limit: usize,
    /// Continue after this item, which the last line of the previous part names
    #[arg(long, value_name = "ITEM")]
    after: Option<String>,
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
    limit.ok_or_else(|| format!("write a number from 1 to {MAX_PAGE}"))
}

impl ListArgs {
    /// The path of the list, with its query parameters.
    fn path(&self, name: &str) -> String {
        let after =
            self.after.as_deref().map(|after| format!("&after={}", utf8_percent_encode(after, NON_ALPHANUMERIC)));
        format!("{name}?limit={}{}", self.limit, after.unwrap_or_default())
    }
}

/// Prints the sessions. Always returns `false`: no failure is possible.
pub(super) async fn sessions(
    client: &AdminClient,
    list: &ListArgs,
    json: bool,
    context: &Context,
    output: &mut Output<'_>,
) -> Result<bool, CliError> {
    let sessions: Page<SessionView> = client.get(&list.path("sessions")).await?;
    if json {
        output.json(&sessions)?;
        return Ok(false);
    }
    let row = |session: &SessionView| {
        [
            Cell::text(&session.number.to_string()),
            Cell::text(&session.principal),
            Cell::text(&session.revision),
            Cell::text(&session.opened),
            Cell::optional(session.session.as_deref()),
        ]
    };
    Table::always_with_headings(["NUMBER", "PRINCIPAL", "REVISION", "OPENED", "SESSION"])
        .print(rows(&sessions, row), output)?;
    if sessions.total == 0 {
        context.messages.note("no client has a session");
    }
    end(&sessions, "sessions", output)
}

/// Prints the resources that clients watch. Always returns `false`: no failure is possible.
pub(super) async fn subscriptions(
    client: &AdminClient,
    list: &ListArgs,
    json: bool,
    context: &Context,
    output: &mut Output<'_>,
) -> Result<bool, CliError> {
    let found: SubscriptionsView = client.get(&list.path("subscriptions")).await?;
    if json {
        output.json(&found)?;
        return Ok(false);
    }
    let row = |WatchedResource { uri, subscribers, unheard, principals, .. }: &WatchedResource| {
        [
            Cell::verbatim(uri),
            Cell::text(&subscribers.to_string()),
            Cell::text(&unheard.to_string()),
            Cell::text(&principals.join(", ")),
        ]
    };
    Table::always_with_headings(["RESOURCE", "SUBSCRIBERS", "WITHOUT STREAM", "PRINCIPALS"])
        .print(rows(&found.resources, row), output)?;
    if found.resources.total == 0 {
        context.messages.note("no client watches a resource");
    }
    end(&found.resources, "resources", output)
}

/// Prints the response cache. Always returns `false`: no failure is possible.
pub(super) async fn cache(
    client: &AdminClient,
    list: &ListArgs,
    json: bool,
    output: &mut Output<'_>,
) -> Result<bool, CliError> {
    let found: CacheView = client.get(&list.path("cache")).await?;
    if json {
        output.json(&found)?;
        return Ok(false);
    }
    let row = |PluginCache { plugin, cache }: &PluginCache| {
        [
            Cell::text(plugin),
            Cell::optional(hits(cache).as_deref()),
            Cell::text(&cache.responses.to_string()),
            Cell::text(&size(cache.bytes)),
            Cell::text(&size(cache.capacity)),
        ]
    };
    let [all, none] = ["all", ""].map(Cell::text);
    let [bytes, capacity] = [found.bytes, found.capacity].map(|bytes| Cell::text(&size(bytes)));
    let mut rows = rows(&found.plugins, row);
    rows.push([all, none.clone(), none, bytes, capacity]);
    Table::always_with_headings(["PLUGIN", "HITS", "RESPONSES", "SIZE", "LIMIT"]).print(rows, output)?;
    end(&found.plugins, "plugins", output)
}

fn rows<T, const N: usize>(page: &Page<T>, row: impl Fn(&T) -> [Cell; N]) -> Vec<[Cell; N]> {
    page.items.iter().map(row).collect()
}

/// If the page is incomplete, prints the total number of items and how to continue.
fn end<T>(page: &Page<T>, noun: &str, output: &mut Output<'_>) -> Result<bool, CliError> {
    if page.items.len() < page.total {
        output.line(&format!("{} of {} {noun}", page.items.len(), page.total))?;
    }
    if let Some(next) = &page.next {
        output.prose(&format!("continue with --after {next}"))?;
    }
    Ok(false)
}
