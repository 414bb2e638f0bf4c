//! Walks through an MCP server over streamable HTTP and prints what it sees: who it is, the first page of its resources, its
//! templates, and one resource read.
//!
//! `walk URL [URI]` reads URI, or else the first Markdown or other text of the page. It ends with exit code 1 when any answer is
//! an error, or the server has nothing to read.

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use anyhow::{Context, Result};
use rmcp::{
    ServiceExt,
    model::{ReadResourceRequestParams, Resource, ResourceContents, ServerPeerInfo},
    transport::StreamableHttpClientTransport,
};

/// How many resources are printed, of the page that the server gave.
const SHOWN_RESOURCES: usize = 12;

/// How many lines of a text are printed.
const SHOWN_LINES: usize = 12;

/// How much of a line is printed, in characters.
const SHOWN_WIDTH: usize = 110;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let Some(url) = arguments.next() else {
        eprintln!("usage: walk URL [URI]");
        return ExitCode::from(2);
    };
    match walk(&url, arguments.next()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn walk(url: &str, uri: Option<String>) -> Result<()> {
    let mut out = io::stdout();
    let transport = StreamableHttpClientTransport::from_uri(url);
    let client = ().serve(transport).await.with_context(|| format!("cannot connect to {url}"))?;
    if let Some(server) = client.peer_info() {
        writeln!(out, "connected to {}", introduction(&server))?;
    }

    let page = client.list_resources(None).await.context("resources/list failed")?;
    let more = if page.next_cursor.is_some() { ", and there are more pages" } else { "" };
    writeln!(out, "\nresources/list: {} on the first page{more}", page.resources.len())?;
    for resource in page.resources.iter().take(SHOWN_RESOURCES) {
        writeln!(out, "  {}", described(resource))?;
    }
    if page.resources.len() > SHOWN_RESOURCES {
        writeln!(out, "  …")?;
    }

    let templates = client.list_resource_templates(None).await.context("resources/templates/list failed")?;
    writeln!(out, "\nresources/templates/list:")?;
    for template in &templates.resource_templates {
        writeln!(out, "  {}  {}", template.uri_template, template.title.as_deref().unwrap_or(&template.name))?;
    }

    let uri = uri.or_else(|| choose(&page.resources)).context("the server lists no resource to read")?;
    let read = client
        .read_resource(ReadResourceRequestParams::new(&uri))
        .await
        .with_context(|| format!("resources/read of {uri} failed"))?;
    writeln!(out, "\nresources/read: {uri}")?;
    for contents in &read.contents {
        show(&mut out, contents)?;
    }
    client.cancel().await.context("cannot close the session")?;
    Ok(())
}

fn introduction(server: &ServerPeerInfo) -> String {
    let name = server
        .server_info
        .as_ref()
        .map_or_else(|| "a server without a name".to_owned(), |info| format!("{} {}", info.name, info.version));
    format!("{name}, MCP {}", server.protocol_version)
}

fn described(resource: &Resource) -> String {
    let kind = resource.mime_type.as_deref().unwrap_or("of unknown type");
    let size = resource.size.map(|size| format!(", {size} bytes")).unwrap_or_default();
    let title = resource.title.as_ref().map(|title| format!("  {title}")).unwrap_or_default();
    cut(&format!("{}  ({kind}{size}){title}", resource.uri))
}

/// The most telling resource of a page: Markdown before other text, text before the rest.
fn choose(resources: &[Resource]) -> Option<String> {
    let of = |kind: &str| resources.iter().find(|r| r.mime_type.as_deref().is_some_and(|mime| mime.starts_with(kind)));
    let chosen = of("text/markdown").or_else(|| of("text/")).or_else(|| resources.first());
    chosen.map(|resource| resource.uri.clone())
}

fn show(out: &mut impl Write, contents: &ResourceContents) -> io::Result<()> {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => {
            for line in text.lines().take(SHOWN_LINES) {
                writeln!(out, "  │ {}", cut(line))?;
            }
            let left = text.lines().count().saturating_sub(SHOWN_LINES);
            if left > 0 {
                writeln!(out, "  │ … and {left} lines more")?;
            }
            Ok(())
        }
        ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
            let kind = mime_type.as_deref().unwrap_or("binary");
            writeln!(out, "  {kind}, {} characters of base64", blob.len())
        }
        _ => writeln!(out, "  content of a kind that this client does not know"),
    }
}

/// One line, without what a terminal would take for commands, and no longer than fits.
fn cut(line: &str) -> String {
    let mut characters = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut short: String = characters.by_ref().take(SHOWN_WIDTH).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}
