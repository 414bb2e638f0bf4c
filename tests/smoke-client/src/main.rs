//! Walks through an MCP server over streamable HTTP and prints the server's name, its first resources, its templates,
//! and some contents.
//!
//! `smoke-client URL [URI…]` reads one resource of every authority that the server lists, and each URI. The exit code
//! is 1 when any response is an error, or when there is nothing to read.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use rmcp::ServiceExt;
use rmcp::model::{PaginatedRequestParams, ReadResourceRequestParams, Resource, ResourceContents, ServerPeerInfo};
use rmcp::service::{Peer, RoleClient};
use rmcp::transport::StreamableHttpClientTransport;

/// The maximum number of pages of a listing that are requested.
const MAX_PAGES: usize = 20;

/// The maximum number of resources printed per authority.
const MAX_SHOWN_RESOURCES: usize = 6;

/// The maximum number of lines printed of a text.
const MAX_SHOWN_LINES: usize = 6;

/// The maximum number of characters printed of a line.
const MAX_LINE_WIDTH: usize = 110;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let Some(url) = arguments.next() else {
        eprintln!("usage: smoke-client URL [URI…]");
        return ExitCode::from(2);
    };
    match run(&url, arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str, uris: impl Iterator<Item = String>) -> Result<()> {
    let mut out = io::stdout();
    let transport = StreamableHttpClientTransport::from_uri(url);
    let client = ().serve(transport).await.with_context(|| format!("cannot connect to {url}"))?;
    if let Some(server) = client.peer_info() {
        writeln!(out, "connected to {}", describe_server(&server))?;
    }

    let places = list_resources(client.peer(), &mut out).await?;

    let templates = client.list_resource_templates(None).await.context("resources/templates/list failed")?;
    writeln!(out, "\nresources/templates/list")?;
    for template in &templates.resource_templates {
        writeln!(out, "  {}  {}", template.uri_template, template.title.as_deref().unwrap_or(&template.name))?;
    }

    let uris: Vec<_> = places.values().filter_map(|resources| pick_resource(resources)).chain(uris).collect();
    if uris.is_empty() {
        bail!("the server lists no resource to read");
    }
    for uri in uris {
        let read = client.read_resource(ReadResourceRequestParams::new(&uri)).await;
        let read = read.with_context(|| format!("resources/read of {uri} failed"))?;
        writeln!(out, "\nresources/read {uri}")?;
        for contents in &read.contents {
            print_contents(&mut out, contents)?;
        }
    }
    client.cancel().await.context("cannot close the session")?;
    Ok(())
}

/// Lists all resources page by page, and prints the first of them, grouped by scheme and authority.
async fn list_resources(server: &Peer<RoleClient>, out: &mut impl Write) -> Result<BTreeMap<String, Vec<Resource>>> {
    let mut places = BTreeMap::<_, Vec<Resource>>::new();
    let mut cursor = None;
    let mut pages = 0_usize;
    while pages < MAX_PAGES {
        let asked = PaginatedRequestParams::default().with_cursor(cursor);
        let page = server.list_resources(Some(asked)).await.context("resources/list failed")?;
        pages = pages.saturating_add(1);
        for resource in page.resources {
            places.entry(mount_of(&resource.uri).to_owned()).or_default().push(resource);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }

    let more = if cursor.is_some() { " and there are more" } else { "" };
    writeln!(out, "\nresources/list, {} {}{more}", pages, if pages == 1 { "page" } else { "pages" })?;
    for (place, resources) in &places {
        writeln!(out, "  {} at {place}", resources.len())?;
        for resource in resources.iter().take(MAX_SHOWN_RESOURCES) {
            writeln!(out, "    {}", describe_resource(resource))?;
        }
        if resources.len() > MAX_SHOWN_RESOURCES {
            writeln!(out, "    …")?;
        }
    }
    Ok(places)
}

/// Returns the scheme and authority of a URI.
fn mount_of(uri: &str) -> &str {
    let end = uri.match_indices('/').nth(2).map_or(uri.len(), |(slash, _)| slash);
    uri.get(..end).unwrap_or(uri)
}

fn describe_server(server: &ServerPeerInfo) -> String {
    let info = server.server_info.as_ref();
    let name =
        info.map_or_else(|| "a server without a name".to_owned(), |info| format!("{} {}", info.name, info.version));
    format!("{name}, MCP {}", server.protocol_version)
}

fn describe_resource(resource: &Resource) -> String {
    let kind = resource.mime_type.as_deref().unwrap_or("of unknown type");
    let size = resource.size.map(|size| format!(", {size} bytes")).unwrap_or_default();
    let title = resource.title.as_ref().map(|title| format!("  {title}")).unwrap_or_default();
    truncate_line(&format!("{}  ({kind}{size}){title}", resource.uri))
}

/// Picks the resource to show: a README before other Markdown, Markdown before other text, text before the rest.
fn pick_resource(resources: &[Resource]) -> Option<String> {
    let of = |kind: &str| resources.iter().find(|r| r.mime_type.as_deref().is_some_and(|mime| mime.starts_with(kind)));
    let readme = resources.iter().find(|resource| resource.name == "README.md");
    let chosen = readme.or_else(|| of("text/markdown")).or_else(|| of("text/")).or_else(|| resources.first());
    chosen.map(|resource| resource.uri.clone())
}

fn print_contents(out: &mut impl Write, contents: &ResourceContents) -> io::Result<()> {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => {
            for line in text.lines().take(MAX_SHOWN_LINES) {
                writeln!(out, "  │ {}", truncate_line(line))?;
            }
            match text.lines().count().saturating_sub(MAX_SHOWN_LINES) {
                0 => Ok(()),
                left => writeln!(out, "  │ … and {left} more lines"),
            }
        }
        ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
            let kind = mime_type.as_deref().unwrap_or("binary");
            writeln!(out, "  {kind}, {} characters of base64", blob.len())
        }
        _ => writeln!(out, "  content of a kind that this client does not know"),
    }
}

/// Returns one line without terminal control characters, truncated to the maximum.
fn truncate_line(line: &str) -> String {
    let fit = |c: char| match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    let mut characters = line.chars().map(fit);
    let mut short: String = characters.by_ref().take(MAX_LINE_WIDTH).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}
