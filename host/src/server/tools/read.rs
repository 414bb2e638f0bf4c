//! The tool `read_resource`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::output::{Output, ToolError};
use super::schema::{Description, object, result};
use crate::access::Principal;
use crate::host::Host;
use crate::resource::{Footprint, ResourceBody, ResourceContents};

/// Describes the tool.
pub(super) fn describe() -> Description {
    Description {
        title: "Read a resource",
        text: "Returns the content of a resource by its URI, as the other tools return it, or as one of the URI templates that \
               they return has with its variables filled in.",
        input: object(json!({ "uri": { "type": "string", "description": "The URI of the resource." } }), &["uri"]),
        output: output(),
    }
}

fn output() -> Value {
    let contents = result(
        json!({
            "uri": { "type": "string" },
            "mimeType": { "type": "string" },
            "text": { "type": "string" },
            "blob": { "type": "string", "contentEncoding": "base64" },
        }),
        &["uri"],
    );
    result(json!({ "contents": { "type": "array", "items": contents } }), &["contents"])
}

/// Calls the tool.
pub(super) async fn call(host: &Host, principal: &Principal, arguments: Option<&str>) -> Result<Output, ToolError> {
    let uri = Arguments::parse(arguments, &["uri"])?.required_string("uri")?;
    let contents = host.read(principal, &uri).await?;
    let footprint = contents.footprint();
    let structured: Vec<_> = contents.iter().map(contents_json).collect();
    let mut output = Output { footprint, structured: Some(json!({ "contents": structured })), ..Output::default() };
    let is_single = contents.len() == 1;
    for (one, json) in contents.into_iter().zip(structured) {
        match one.body {
            ResourceBody::Text(text) if is_single => output.text = text,
            ResourceBody::Text(text) => output.text.push_str(&format!("{}:\n{text}\n\n", one.entry.uri)),
            ResourceBody::Blob(_) => output.items.push(json!({ "type": "resource", "resource": json })),
        }
    }
    Ok(output)
}

fn contents_json(contents: &ResourceContents) -> Value {
    let ResourceContents { entry, body } = contents;
    let mut members = Map::from_iter([("uri".to_owned(), json!(entry.uri))]);
    members.extend(entry.mime_type.as_ref().map(|mime_type| ("mimeType".to_owned(), json!(mime_type))));
    let (name, value) = match body {
        ResourceBody::Text(text) => ("text", json!(text)),
        ResourceBody::Blob(bytes) => ("blob", json!(STANDARD.encode(bytes))),
    };
    members.insert(name.to_owned(), value);
    Value::Object(members)
}
