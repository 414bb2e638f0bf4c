//! `list`: the listing as clients see it, one page or all pages.
//!
//! Each page is printed on arrival, so only one page is in memory.

use bytesize::ByteSize;
use mcp_host_model::resource::{Error, Listing, MissingPlugin, Resource, ResourceTemplate};
use mcp_host_server::json::Encoder;
use mcp_host_server::{Revision, wire};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::transport::ListedResources;
use mcp_resource_host::host::{Host, ListRequest};

use super::context::Context;
use super::diagnostics::timing::{self, Encoding};
use super::error::{CliError, reason_of_command};
use super::escape;
use super::hint;
use super::messages::Messages;
use super::observation::ObservationArgs;
use super::options::{PrincipalArgs, parse_uri};
use super::output::Output;
use super::table::{Cell, Table};

const EXAMPLES: &str = "\
Examples:
  mcp-host list                                 the first page of everything
  mcp-host list --all                           everything
  mcp-host list git://linux/tree/main/docs      the direct children of one resource
  mcp-host list --templates                     templates of URIs that can be read
  mcp-host list --as anonymous                  what clients over HTTP see
  mcp-host list --all --json | jq -r '.resources[].uri'";

/// List resources as a client sees them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// List the direct children of this resource; without it, everything
    #[arg(value_name = "URI", value_parser = parse_uri)]
    uri: Option<String>,

    /// List templates instead of resources
    #[arg(long, conflicts_with = "uri")]
    templates: bool,

    /// List all pages
    #[arg(long)]
    all: bool,

    /// List the page with this cursor, which the previous page printed
    #[arg(long, value_name = "CURSOR", conflicts_with = "all", allow_hyphen_values = true)]
    cursor: Option<String>,

    #[command(flatten)]
    pub(super) principal_args: PrincipalArgs,

    /// Print the MCP result object; with --all, one per page
    #[arg(long)]
    json: bool,

    /// Print the cost of the calls on standard error: times, host calls, memory; with `--json`, a JSON object per page
    #[arg(long)]
    timing: bool,

    #[command(flatten)]
    observation: ObservationArgs,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        context.observe(&self.observation)?;
        let host = context.start_host().await?;
        let result = self.list(&host, context).await;
        context.shutdown(&host).await;
        result
    }

    async fn list(&self, host: &Host, context: &Context) -> Result<(), CliError> {
        let principal = self.principal_args.principal(&host.config(), &context.messages)?;
        let mut printer = Printer::new(self.json, context.output());
        let mut cursor = self.cursor.clone();
        // Discards the calls from loading the plugins.
        drop(context.calls().map(|calls| calls.take_calls()));
        loop {
            let page = self.page(host, &principal, cursor.as_deref()).await;
            if self.timing {
                print_timing(context, page.as_ref().ok(), self.json)?;
            }
            let page = match (page, &self.uri) {
                (Err(error), Some(uri)) => {
                    let hint = hint::for_list(host, &principal, uri, &error).await;
                    return Err(CliError::Resource { error, hint });
                }
                (page, _) => page?,
            };
            warn(&context.messages, page.missing());
            let next = page.next_cursor().map(str::to_owned);
            // Missing plugins were reported already.
            let is_empty = page.is_empty() && page.missing().is_empty();
            printer.print(page)?;
            match next {
                Some(next) if self.all => cursor = Some(next),
                next => {
                    if !self.json {
                        print_hint(&context.messages, next.as_deref(), is_empty && cursor.is_none(), &principal);
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn page(&self, host: &Host, principal: &Principal, cursor: Option<&str>) -> Result<Page, Error> {
        if self.templates {
            return host.templates(principal, cursor).await.map(Page::Templates);
        }
        let request = ListRequest { parent: self.uri.as_deref(), cursor };
        host.list(principal, request).await.map(Page::Entries)
    }
}

/// Prints the cost of the calls for a page, and of its encoding for a client.
fn print_timing(context: &Context, page: Option<&Page>, is_json: bool) -> Result<(), CliError> {
    let encoding = page.map(|page| {
        let page = page.clone();
        Encoding::measure(|| page.encode().into_vec().len())
    });
    let calls = context.calls().map(|calls| calls.take_calls()).unwrap_or_default();
    timing::print(&context.messages, &calls, encoding, is_json)
}

/// Warns about plugins that are missing from a page.
fn warn(messages: &Messages, missing: &[MissingPlugin]) {
    for one in missing {
        let reason = reason_of_command(&one.reason);
        messages.warning(&format!("plugin `{}` is missing from this listing: {reason}", one.plugin));
    }
}

/// Prints how to get the next page, or the reason for an empty listing.
fn print_hint(messages: &Messages, next: Option<&str>, is_empty: bool, principal: &Principal) {
    match next {
        Some(next) => {
            messages.note(&format!("there is more: add `--cursor {next}` for the next page, or `--all` for everything"))
        }
        None if is_empty => messages.note(&format!(
            "no resource is listed for `{}`: the plugins have none, or the access rules allow none",
            escape::line(principal.name())
        )),
        None => {}
    }
}

/// One page of resources or of templates.
#[derive(Clone)]
enum Page {
    Entries(Listing<Resource>),
    Templates(Listing<ResourceTemplate>),
}

impl Page {
    /// The MCP result object.
    fn encode(self) -> Encoder {
        match self {
            Self::Entries(page) => {
                wire::list_result(page.map(ListedResources::One), Revision::LATEST_WITH_SESSIONS, false)
            }
            Self::Templates(page) => wire::templates_result(page, Revision::LATEST_WITH_SESSIONS, false),
        }
    }

    fn missing(&self) -> &[MissingPlugin] {
        match self {
            Self::Entries(page) => &page.missing,
            Self::Templates(page) => &page.missing,
        }
    }

    fn next_cursor(&self) -> Option<&str> {
        match self {
            Self::Entries(page) => page.next_cursor.as_deref(),
            Self::Templates(page) => page.next_cursor.as_deref(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Entries(page) => page.items.is_empty(),
            Self::Templates(page) => page.items.is_empty(),
        }
    }
}

/// Prints each page on arrival.
struct Printer<'a> {
    json: bool,
    output: Output<'a>,
    entries: Table<4>,
    templates: Table<3>,
}

impl<'a> Printer<'a> {
    fn new(json: bool, output: Output<'a>) -> Self {
        Self {
            json,
            output,
            entries: Table::new(["URI", "TYPE", "SIZE", "NAME"]),
            templates: Table::new(["TEMPLATE", "TYPE", "NAME"]),
        }
    }

    fn print(&mut self, page: Page) -> Result<(), CliError> {
        match page {
            page if self.json => self.output.document(page.encode())?,
            Page::Entries(page) => self.entries.print(page.items.iter().map(entry_row).collect(), &mut self.output)?,
            Page::Templates(page) => {
                self.templates.print(page.items.iter().map(template_row).collect(), &mut self.output)?;
            }
        }
        Ok(self.output.flush()?)
    }
}

fn entry_row(entry: &Resource) -> [Cell; 4] {
    [
        Cell::verbatim(entry.uri.as_str()),
        Cell::optional(entry.mime_type.as_deref()),
        Cell::optional(entry.size.map(|size| ByteSize(size).to_string()).as_deref()),
        Cell::text(entry.title.as_deref().unwrap_or(&entry.name)),
    ]
}

fn template_row(template: &ResourceTemplate) -> [Cell; 3] {
    [
        Cell::verbatim(template.uri_template.as_str()),
        Cell::optional(template.mime_type.as_deref()),
        Cell::text(template.title.as_deref().unwrap_or(&template.name)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Destination;
    use mcp_host_model::resource::{Annotations, Meta};
    use mcp_host_model::uri::Mount;

    fn readme() -> Resource {
        let mount: Mount = "notes:///".parse().unwrap();
        Resource {
            uri: mount.compose("readme.md").unwrap().uri,
            name: "readme.md".to_owned(),
            title: Some("Read me".to_owned()),
            description: None,
            mime_type: Some("text/markdown".to_owned()),
            size: Some(1536),
            annotations: Annotations::default(),
            icons: Vec::new(),
            listable: false,
            subscribable: false,
            ttl: None,
            meta: Meta::new(),
        }
    }

    fn page(items: Vec<Resource>) -> Page {
        Page::Entries(Listing { items, next_cursor: Some("next".to_owned()), missing: Vec::new() })
    }

    fn printed(json: bool, page: Page) -> String {
        let mut written = Vec::new();
        let mut printer = Printer::new(json, Output::to(&mut written, Destination::Pipe));
        printer.print(page).unwrap();
        drop(printer);
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn a_row_has_the_uri_the_type_the_size_and_the_name_for_people() {
        let bare = Resource { title: None, mime_type: None, size: None, ..readme() };
        assert_eq!(
            printed(false, page(vec![readme(), bare])),
            "notes:///readme.md  text/markdown  1.5 KiB  Read me\n\
             notes:///readme.md  -              -        readme.md\n"
        );
    }

    #[test]
    fn json_is_the_result_object_of_the_protocol() {
        let result: serde_json::Value = serde_json::from_str(&printed(true, page(vec![readme()]))).unwrap();
        assert_eq!(
            result,
            serde_json::json!({
                "nextCursor": "next",
                "resources": [{
                    "uri": "notes:///readme.md",
                    "name": "readme.md",
                    "title": "Read me",
                    "mimeType": "text/markdown",
                    "size": 1536,
                }],
            })
        );
    }

    #[test]
    fn an_empty_page_prints_nothing() {
        assert_eq!(printed(false, page(Vec::new())), "");
    }
}
