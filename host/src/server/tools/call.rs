//! Calling a tool.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::ErrorData;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::definition::tool_named;
use crate::access::Principal;
use crate::config::Tool;
use crate::host::{Host, ListRequest};
use crate::resource::{Error, Footprint, MissingPlugin, Resource, ResourceBody, ResourceContents};
use crate::server::json::Encoder;
use crate::server::params::{TOOL_PARAMS, ToolParams, without_position};
use crate::server::revision::Revision;
use crate::server::wire;

/// A value of a resource is in the result up to so many times: as text, as structured content, and as a link.
const COPIES: usize = 3;

/// The outcome of a call.
pub(in crate::server) struct ToolOutcome {
    /// The result.
    pub(in crate::server) result: Encoder,
    /// The approximate memory that it takes.
    pub(in crate::server) footprint: usize,
    /// The plugins that are missing from it.
    pub(in crate::server) missing: Vec<MissingPlugin>,
}

/// What a tool returns.
#[derive(Default)]
pub(super) struct Output {
    pub(super) text: String,
    /// Further items of the content.
    pub(super) items: Vec<Value>,
    pub(super) structured: Option<Value>,
    pub(super) footprint: usize,
    pub(super) missing: Vec<MissingPlugin>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    uri: Option<String>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    uri: String,
}

/// Why a tool has no output.
pub(super) enum ToolError {
    /// Its arguments are not valid.
    Arguments(String),
    /// The façade's error.
    Host(Error),
}

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        Self::Host(error)
    }
}

/// Calls a tool for that principal, in that revision.
pub(in crate::server) async fn call(
    host: &Host,
    principal: &Principal,
    params: ToolParams,
    revision: Revision,
) -> Result<ToolOutcome, ErrorData> {
    let ToolParams { name, arguments } = params;
    let Some(name) = name else {
        return Err(ErrorData::invalid_params(
            format!("tools/call: expected params `{TOOL_PARAMS}`: missing field `name`"),
            None,
        ));
    };
    let config = host.config();
    let Some(tool) = tool_named(&config.server.tools, &name) else {
        return Err(ErrorData::invalid_params(
            format!("there is no tool `{name}`; `tools/list` has those that exist"),
            None,
        ));
    };
    let arguments = arguments.as_deref();
    let called = match tool {
        Tool::List => list(host, principal, arguments, revision).await,
        Tool::Read => read(host, principal, arguments).await,
        #[cfg(feature = "search")]
        Tool::Search => super::search::call(host, principal, arguments, revision).await,
        #[cfg(feature = "search")]
        Tool::Context => super::context::call(host, principal, arguments, revision).await,
        #[cfg(not(feature = "search"))]
        Tool::Search | Tool::Context => Err(ToolError::Arguments("this build has no search".to_owned())),
    };
    Ok(match called {
        Ok(Output { text, items, structured, footprint, missing }) => {
            let result = encode(text, items, structured.filter(|_| revision.has_titles()), false, revision);
            ToolOutcome { result, footprint: footprint.saturating_mul(COPIES), missing }
        }
        Err(error) => {
            let message = match error {
                ToolError::Arguments(message) => format!("{name}: {message}"),
                ToolError::Host(error) => error.to_string(),
            };
            let footprint = message.len();
            ToolOutcome { result: encode(message, Vec::new(), None, true, revision), footprint, missing: Vec::new() }
        }
    })
}

/// Parses the arguments of a tool.
pub(super) fn parse<T: DeserializeOwned>(arguments: Option<&str>) -> Result<T, ToolError> {
    let parsed = serde_json::from_str(arguments.unwrap_or("{}"));
    parsed.map_err(|error| ToolError::Arguments(without_position(&error)))
}

async fn list(
    host: &Host,
    principal: &Principal,
    arguments: Option<&str>,
    revision: Revision,
) -> Result<Output, ToolError> {
    let ListArguments { uri, cursor } = parse(arguments)?;
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

async fn read(host: &Host, principal: &Principal, arguments: Option<&str>) -> Result<Output, ToolError> {
    let ReadArguments { uri } = parse(arguments)?;
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

/// A resource in one line.
pub(super) fn summary(resource: &Resource) -> String {
    let Resource { uri, name, title, description, .. } = resource;
    let name = title.as_ref().unwrap_or(name);
    match description {
        Some(description) => format!("{uri} - {name}: {description}"),
        None => format!("{uri} - {name}"),
    }
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

/// A link to a resource, in revisions that have links.
pub(super) fn link(resource: &Resource, revision: Revision) -> Option<Value> {
    if !revision.has_titles() {
        return None;
    }
    let mut members = resource.to_json();
    // It is part of `annotations` there.
    members.remove("lastModified");
    members.insert("type".to_owned(), json!("resource_link"));
    Some(Value::Object(members))
}

fn encode(text: String, items: Vec<Value>, structured: Option<Value>, is_error: bool, revision: Revision) -> Encoder {
    Encoder::new(move |writer| {
        writer.object(|members| {
            wire::result_type(members, revision);
            let text = (!text.is_empty() || items.is_empty()).then(|| json!({ "type": "text", "text": text }));
            let content: Vec<_> = text.into_iter().chain(items).collect();
            members.member("content").array(content, |writer, item| writer.value(item));
            if let Some(structured) = structured {
                members.member("structuredContent").value(structured);
            }
            if is_error {
                members.serialize("isError", &true);
            }
        });
    })
}
