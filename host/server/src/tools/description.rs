//! The description of a tool, and its schemas.

use serde_json::{Value, json};

/// The description of a tool, its arguments and its results.
pub(super) struct Description {
    pub(super) title: &'static str,
    pub(super) text: &'static str,
    pub(super) input: Value,
    pub(super) output: Value,
}

/// The schema of an object without other members.
pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// The schema of an object that may have other members.
pub(super) fn result(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

/// The schemas of the members of a resource.
pub(super) fn resource_properties() -> Value {
    json!({
        "uri": { "type": "string" },
        "name": { "type": "string" },
        "title": { "type": "string" },
        "description": { "type": "string" },
        "mimeType": { "type": "string" },
        "size": { "type": "integer" },
        "lastModified": { "type": "string" },
        "notices": {
            "type": "array",
            "items": result(json!({ "kind": { "type": "string" }, "text": { "type": "string" } }), &["kind", "text"]),
            "description": "What the text lacks: for example, only a part of it is indexed.",
        },
    })
}
