//! The tool `list_resources`.

use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::output::{Output, ToolError, link, summary};
use super::schema::{Description, object, resource_properties, result};
use crate::access::Principal;
use crate::host::{Host, ListRequest};
use crate::resource::Footprint;
use crate::server::revision::Revision;

/// Describes the tool.
pub(super) fn describe() -> Description {
    Description {
        title: "List resources",
        text: "Lists resources with their URIs: a page of all resources, or the direct children of one. Continue with \
         `cursor` while the result has `nextCursor`. To find resources by their content, search instead if there is a \
         tool for that.",
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
    result(
        json!({ "resources": { "type": "array", "items": resource }, "nextCursor": { "type": "string" } }),
        &["resources"],
    )
}

/// Calls the tool.
pub(super) async fn call(
    host: &Host,
    principal: &Principal,
    arguments: Option<&str>,
    revision: Revision,
) -> Result<Output, ToolError> {
    let arguments = Arguments::parse(arguments, &["uri", "cursor"])?;
    let (uri, cursor) = (arguments.string("uri")?, arguments.string("cursor")?);
    let request = ListRequest { parent: uri.as_deref(), cursor: cursor.as_deref() };
    let listing = host.list(principal, request).await?;
    let footprint = listing.items.footprint();
    let mut text: String = listing.items.iter().map(|resource| format!("{}\n", summary(resource))).collect();
    if text.is_empty() {
        text.push_str("There are no resources.\n");
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
    for missing in &listing.missing {
        text.push_str(&format!("\nThe resources of `{}` are missing: {}\n", missing.plugin, missing.reason));
    }
    let items = listing.items.iter().filter_map(|resource| link(resource, revision)).collect();
    let structured = Some(Value::Object(structured));
    Ok(Output { text, items, structured, footprint, missing: listing.missing })
}
