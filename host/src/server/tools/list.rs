//! The tool `list_resources`. Whoever knows only tools has no other way to the templates, so its first page has them.

use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::output::{Output, ToolError, link, one_line, summary};
use super::schema::{Description, object, resource_properties, result};
use crate::access::Principal;
use crate::host::{Host, ListRequest};
use crate::resource::{Footprint, MissingPlugin, ResourceTemplate};
use crate::server::revision::Revision;

/// The number of templates, and of their pages, after which no further page of them is listed.
const MAX_TEMPLATES: usize = 200;
const MAX_TEMPLATE_PAGES: usize = 8;

/// Describes the tool.
pub(super) fn describe() -> Description {
    Description {
        title: "List resources",
        text: "Lists resources with their URIs: a page of all resources, or the direct children of one. Continue with \
         `cursor` while the result has `nextCursor`. The first page of all resources also has URI templates (RFC 6570) of \
         resources that are not listed: fill in the variables to get the URI of one. To find resources by their content, \
         search instead if there is a tool for that.",
        input: input(),
        output: output(),
    }
}

fn input() -> Value {
    object(
        json!({
            "uri": { "type": "string", "description": "The resource whose children are listed; without it, everything." },
            "cursor": { "type": "string", "description": "The `nextCursor` of the page before." },
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

/// Calls the tool. The result is without templates if the access token of the request is not for them.
pub(super) async fn call(
    host: &Host,
    principal: &Principal,
    arguments: Option<&str>,
    omits_templates: bool,
    revision: Revision,
) -> Result<Output, ToolError> {
    let arguments = Arguments::parse(arguments, &["uri", "cursor"])?;
    let (uri, cursor) = (arguments.string("uri")?, arguments.string("cursor")?);
    let request = ListRequest { parent: uri.as_deref(), cursor: cursor.as_deref() };
    let mut listing = host.list(principal, request).await?;
    let is_first_page = uri.is_none() && cursor.is_none();
    let templates = match is_first_page && !omits_templates {
        true => templates(host, principal, &mut listing.missing).await?,
        false => Vec::new(),
    };
    let footprint = listing.items.footprint().saturating_add(templates.footprint());
    let mut text: String = listing.items.iter().map(|resource| format!("{}\n", summary(resource))).collect();
    if text.is_empty() {
        let may_be_others = omits_templates || !templates.is_empty();
        text.push_str(if may_be_others { "No resources are listed.\n" } else { "There are no resources.\n" });
    }
    let mut structured = Map::new();
    structured.insert(
        "resources".to_owned(),
        listing.items.iter().map(|resource| Value::Object(resource.to_json())).collect(),
    );
    if let Some(cursor) = &listing.next_cursor {
        text.push_str(&format!("\nThere are more; continue with this cursor: {cursor}\n"));
        structured.insert("nextCursor".to_owned(), json!(cursor));
    }
    if !templates.is_empty() {
        text.push_str("\nThere are resources with URIs of these forms (RFC 6570):\n");
        text.extend(templates.iter().map(template_summary));
        let templates = templates.iter().map(template_json).collect();
        structured.insert("resourceTemplates".to_owned(), Value::Array(templates));
    }
    // Whether or not there are any.
    if is_first_page && omits_templates {
        text.push_str("\nURI templates are left out: the access token does not have the scopes for them.\n");
    }
    for missing in &listing.missing {
        text.push_str(&format!("\nThe resources of `{}` are missing: {}\n", missing.plugin, missing.reason));
    }
    let items = listing.items.iter().filter_map(|resource| link(resource, revision)).collect();
    let structured = Some(Value::Object(structured));
    Ok(Output { text, items, structured, footprint, missing: listing.missing })
}

/// The first templates of all plugins. Adds the plugins that have failed to those that are missing.
async fn templates(
    host: &Host,
    principal: &Principal,
    missing: &mut Vec<MissingPlugin>,
) -> Result<Vec<ResourceTemplate>, ToolError> {
    let (mut templates, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_TEMPLATE_PAGES {
        let page = host.templates(principal, cursor.as_deref()).await?;
        templates.extend(page.items);
        for plugin in page.missing {
            if missing.iter().all(|known| known.plugin != plugin.plugin) {
                missing.push(plugin);
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() || templates.len() >= MAX_TEMPLATES {
            break;
        }
    }
    Ok(templates)
}

fn template_summary(template: &ResourceTemplate) -> String {
    let ResourceTemplate { uri_template, name, title, description, .. } = template;
    let line = one_line(uri_template.as_str(), title.as_ref().unwrap_or(name), description.as_deref());
    line + "\n"
}

fn template_json(template: &ResourceTemplate) -> Value {
    let ResourceTemplate { uri_template, name, title, description, mime_type, .. } = template;
    let mut members =
        Map::from_iter([("uriTemplate".to_owned(), json!(uri_template.as_str())), ("name".to_owned(), json!(name))]);
    let optional = [("title", title), ("description", description), ("mimeType", mime_type)];
    members.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?)))));
    Value::Object(members)
}
