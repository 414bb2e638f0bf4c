//! The definitions of tools: their names, and the result of `tools/list`.

use bytes::Bytes;
use mcp_host_config::{Operation, Server, Tool};
use serde_json::{Map, Value, json};

use super::description::Description;
use super::output::Forms;
use crate::json::Encoder;
use crate::params::ToolParams;
use crate::revision::Revision;
use crate::wire;

/// Returns the tool with this name, if the config has it.
pub(crate) fn tool_named(tools: &[Tool], name: &str) -> Option<Tool> {
    tools.iter().copied().find(|tool| tool_name(*tool) == name)
}

/// Returns the static name of a tool, if the host has it.
pub(crate) fn known_name(name: &str) -> Option<&'static str> {
    tool_named(&Tool::ALL, name).map(tool_name)
}

/// Returns the operations on resources that a tool always performs.
pub(crate) fn operations(name: &str) -> &'static [Operation] {
    match tool_named(&Tool::ALL, name) {
        // The tool omits templates if the token does not allow them.
        Some(Tool::List) => &[Operation::List],
        Some(Tool::Read) => &[Operation::Read],
        Some(Tool::Search | Tool::Context) => &[Operation::List, Operation::Read],
        None => &[],
    }
}

/// Returns the URI of the resource that a call names, if it is valid.
pub(crate) fn requested_uri(call: &ToolParams) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        uri: String,
    }
    serde_json::from_str::<Named>(call.arguments.as_deref()?).ok().map(|named| named.uri)
}

pub(super) fn tool_name(tool: Tool) -> &'static str {
    match tool {
        Tool::List => "list_resources",
        Tool::Read => "read_resource",
        Tool::Search => "search_resources",
        Tool::Context => "resource_context",
    }
}

/// Encodes the result of `tools/list`: all tools, on one page. Also returns the number of bytes that
/// the result holds.
pub(crate) fn list_result(server: &Server, revision: Revision) -> (Encoder, usize) {
    let has_output_schemas = Forms::new(server, revision).structured;
    let definitions: Vec<_> =
        server.tools.iter().filter_map(|tool| definition(*tool, revision, has_output_schemas)).collect();
    let definitions = Bytes::from(Value::Array(definitions).to_string());
    let footprint = definitions.len();
    let encoder = Encoder::new(move |writer| {
        writer.object(|members| {
            wire::result_type(members, revision);
            let caching = wire::CacheHints { ttl: std::time::Duration::ZERO, is_public: true };
            wire::cache_hints(members, revision, caching);
            members.member("tools").json(definitions);
        });
    });
    (encoder, footprint)
}

/// The definition of a tool. None if this build does not have it.
fn definition(tool: Tool, revision: Revision, has_output_schema: bool) -> Option<Value> {
    let Description { title, text, input, output } = match tool {
        Tool::List => super::list::describe(),
        Tool::Read => super::read::describe(),
        Tool::Search | Tool::Context => super::search::describe(tool)?,
    };
    let mut members = Map::new();
    members.insert("name".to_owned(), json!(tool_name(tool)));
    members.insert("description".to_owned(), json!(text));
    members.insert("inputSchema".to_owned(), input);
    if revision.has_titles() {
        members.insert("title".to_owned(), json!(title));
    }
    // A tool with an output schema must have structured content.
    if has_output_schema {
        members.insert("outputSchema".to_owned(), output);
    }
    if revision.has_tool_annotations() {
        members.insert(
            "annotations".to_owned(),
            json!({ "title": title, "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false }),
        );
    }
    Some(Value::Object(members))
}
