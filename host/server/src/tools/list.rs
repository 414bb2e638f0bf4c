//! The tool `list_resources`. A client that knows only tools has no other way to the templates, so the first page has
//! them.
//!
//! A page is smaller than a page of `resources/list`, because a model reads all of it: `limit` resources, of at most
//! [`PAGE_BYTES`].

use mcp_host_config::Operation;
use mcp_host_model::resource::{Footprint, MissingPlugin, Resource, ResourceTemplate};
use mcp_resource_host::access::{CredentialScopes, Principal};
use mcp_resource_host::host::transport::PageBounds;
use mcp_resource_host::host::{Host, ListRequest};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::description::{Description, object, resource_properties, result};
use super::output::{
    Forms, MAX_TEMPLATE_DESCRIPTION, Output, Part, Structured, ToolError, one_line, resource_members, summary,
};
use crate::json::Writer;

/// The number of resources on a page: the default, and the maximum.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1000;
/// The approximate maximum size of a page in bytes.
const PAGE_BYTES: usize = 64 << 10;
/// The maximum number of listed templates, and of inspected template pages.
const MAX_TEMPLATES: usize = 50;
const MAX_TEMPLATE_PAGES: usize = 8;

/// Describes the tool.
pub(super) fn describe() -> Description {
    Description {
        title: "List resources",
        text: "Lists resources with their URIs: all of them, or the direct children of `uri`. The result is one page. If there \
               are more resources, its last line has the cursor of the next page. The first page also has URI templates \
               (RFC 6570) of resources that are not listed: fill in the variables to get a URI. To find resources by their \
               content, use a search tool if there is one.",
        input: input(),
        output: output(),
    }
}

fn input() -> Value {
    object(
        json!({
            "uri": { "type": "string", "description": "The URI of a resource whose direct children are listed. Without it, all resources are listed." },
            "cursor": { "type": "string", "description": "The cursor from the last line of the previous page. Repeat `uri` with it." },
            "limit": {
                "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
                "description": "The maximum number of resources on a page. A page of long lines has fewer.",
            },
        }),
        &[],
    )
}

fn output() -> Value {
    let resource = result(resource_properties(), &["uri", "name"]);
    let template = result(
        json!({
            "uriTemplate": { "type": "string" },
            "name": { "type": "string" },
            "title": { "type": "string" },
            "description": { "type": "string" },
            "mimeType": { "type": "string" },
        }),
        &["uriTemplate", "name"],
    );
    result(
        json!({
            "resources": { "type": "array", "items": resource },
            "resourceTemplates": { "type": "array", "items": template },
            "nextCursor": { "type": "string" },
        }),
        &["resources"],
    )
}

/// Calls the tool. The result has no templates if the access token of the request does not allow them.
pub(super) async fn call(
    host: &Host,
    principal: &Principal,
    arguments: Option<&str>,
    forms: Forms,
) -> Result<Output, ToolError> {
    let arguments = Arguments::parse(arguments, &["uri", "cursor", "limit"])?;
    let (uri, cursor) = (arguments.string("uri")?, arguments.string("cursor")?);
    let limit = arguments.integer("limit", 1..=MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let request = ListRequest { parent: uri.as_deref(), cursor: cursor.as_deref() };
    let bounds = PageBounds { items: limit, bytes: PAGE_BYTES };
    let mut listing = host.list_bounded(principal, request, bounds).await?;
    let (is_first_page, omits_templates) = (cursor.is_none(), !CredentialScopes::current_include(Operation::Templates));
    let (templates, has_more_templates) = match is_first_page && !omits_templates {
        true => templates(host, principal, uri.as_deref(), &mut listing.missing).await?,
        false => (Vec::new(), false),
    };
    let mut text: String = listing.items.iter().map(|resource| format!("{}\n", summary(resource))).collect();
    if text.is_empty() {
        let may_be_others = omits_templates || !templates.is_empty();
        text.push_str(if may_be_others { "No resources are listed.\n" } else { "There are no resources.\n" });
    }
    if !templates.is_empty() {
        text.push_str("\nThere are resources with URIs of these forms (RFC 6570):\n");
        text.extend(templates.iter().map(template_summary));
    }
    if has_more_templates {
        text.push_str("There are more forms; those below a mount are listed with it as `uri`.\n");
    }
    // Added even if there are no templates.
    if is_first_page && uri.is_none() && omits_templates {
        text.push_str("\nURI templates are left out: the access token does not have the scopes for them.\n");
    }
    for missing in &listing.missing {
        text.push_str(&format!("\nThe resources of `{}` are missing: {}\n", missing.plugin, missing.reason));
    }
    if let Some(cursor) = &listing.next_cursor {
        let shown = listing.items.len();
        text.push_str(&format!(
            "\n[cut: these are {shown} resources, and there are more; continue with the cursor {cursor}]"
        ));
    }
    let links: Vec<_> = match forms.links {
        true => listing.items.iter().cloned().map(Box::new).map(Part::Link).collect(),
        false => Vec::new(),
    };
    let structured = forms.structured.then(|| structured(listing.items, templates, listing.next_cursor));
    let content = std::iter::once(Part::Text(text)).chain(links).collect();
    Ok(Output { content, structured, missing: listing.missing })
}

fn structured(resources: Vec<Resource>, templates: Vec<ResourceTemplate>, next_cursor: Option<String>) -> Structured {
    let footprint = resources.footprint().saturating_add(templates.footprint());
    Structured::new(footprint, move |writer| {
        writer.object(|members| {
            let write = |writer: &mut Writer<'_>, resource| {
                writer.object(|members| resource_members(members, resource, true));
            };
            members.member("resources").array(resources, write);
            members.optional_text("nextCursor", next_cursor);
            if !templates.is_empty() {
                members.member("resourceTemplates").array(templates, write_template);
            }
        });
    })
}

fn write_template(writer: &mut Writer<'_>, template: ResourceTemplate) {
    let ResourceTemplate { uri_template, name, title, description, mime_type, .. } = template;
    writer.object(|members| {
        members.text("uriTemplate", uri_template);
        members.text("name", name);
        members.optional_text("title", title);
        members.optional_text("description", description);
        members.optional_text("mimeType", mime_type);
    });
}

/// The first templates of all plugins, or the ones with URIs below a parent, and whether there are more. Adds failed
/// plugins to the missing ones.
async fn templates(
    host: &Host,
    principal: &Principal,
    below: Option<&str>,
    missing: &mut Vec<MissingPlugin>,
) -> Result<(Vec<ResourceTemplate>, bool), ToolError> {
    let below = below.map(|uri| host.normalize(uri).map_or_else(|| uri.to_owned(), String::from));
    let is_below = |template: &ResourceTemplate| {
        below.as_deref().is_none_or(|uri| template.uri_template.as_str().starts_with(uri))
    };
    let (mut templates, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_TEMPLATE_PAGES {
        let page = host.templates(principal, cursor.as_deref()).await?;
        templates.extend(page.items.into_iter().filter(is_below));
        for plugin in page.missing {
            if below.is_none() && missing.iter().all(|known| known.plugin != plugin.plugin) {
                missing.push(plugin);
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() || templates.len() > MAX_TEMPLATES {
            break;
        }
    }
    let has_more = cursor.is_some() || templates.len() > MAX_TEMPLATES;
    templates.truncate(MAX_TEMPLATES);
    Ok((templates, has_more))
}

fn template_summary(template: &ResourceTemplate) -> String {
    let ResourceTemplate { uri_template, name, title, description, .. } = template;
    let name = title.as_ref().unwrap_or(name);
    one_line(uri_template.as_str(), None, Some(name), description.as_deref(), MAX_TEMPLATE_DESCRIPTION) + "\n"
}
