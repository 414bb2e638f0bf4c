//! Messages for rmcp, encoded anew from their parsed members.
//!
//! rmcp parses a message into a tree of values several times, and retains the client's info for the lifetime of a
//! session. So it does not get a message as it was sent, but one with the members that the host or rmcp uses, each
//! within its bounds: some hundred bytes, or the bounds of `subscriptions/listen` in [`params`](super::params).
//!
//! Malformed parameters are replaced by none, or by some that rmcp rejects. The error is attached to the request
//! ([`InvalidParams`](super::params::InvalidParams)), for the handler that answers it.

use serde_json::{Map, Value, json};

use super::jsonrpc::{Kind, Message};
use super::params::{
    CLIENT_CAPABILITIES_META_KEY, ClientInfo, PROTOCOL_VERSION_META_KEY, Params, RequestMeta, ToolParams,
};

/// Encodes a message for rmcp; none if rmcp cannot parse it.
pub(super) fn to_json(message: &Message) -> Option<Vec<u8>> {
    let value = match &message.kind {
        Kind::Request { id, method, params } => {
            let params = match (message.meta.is_valid, params) {
                (false, _) => json!([]),
                (true, Ok(params)) => Value::Object(with_meta(members(params), &message.meta)),
                (true, Err(_)) => Value::Object(with_meta(Map::new(), &message.meta)),
            };
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        }
        Kind::Notification { method, cancelled_request: Some(id) } => {
            json!({ "jsonrpc": "2.0", "method": method, "params": { "requestId": id } })
        }
        Kind::Notification { method, cancelled_request: None } => json!({ "jsonrpc": "2.0", "method": method }),
        Kind::Response { id, is_error: true } => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": 0, "message": "" } })
        }
        Kind::Response { id: Some(id), is_error: false } => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
        Kind::Response { id: None, is_error: false } => return None,
    };
    serde_json::to_vec(&value).ok()
}

fn with_meta(mut members: Map<String, Value>, meta: &RequestMeta) -> Map<String, Value> {
    let version = meta.version.as_ref().map(|version| (PROTOCOL_VERSION_META_KEY.to_owned(), json!(version)));
    let capabilities = meta.has_capabilities.then(|| (CLIENT_CAPABILITIES_META_KEY.to_owned(), json!({})));
    let meta: Map<_, _> = version.into_iter().chain(capabilities).collect();
    if !meta.is_empty() {
        members.insert("_meta".to_owned(), Value::Object(meta));
    }
    members
}

fn members(params: &Params) -> Map<String, Value> {
    let members: Vec<(&str, Option<Value>)> = match params {
        Params::Ignored => Vec::new(),
        Params::Initialize(initialize) => vec![
            ("protocolVersion", Some(json!(initialize.version))),
            ("capabilities", Some(json!({}))),
            ("clientInfo", Some(client_info(&initialize.client))),
        ],
        Params::Page { uri: _, cursor } => vec![("cursor", cursor.as_ref().map(|cursor| json!(cursor)))],
        Params::Resource { uri, cursor: _ } => vec![("uri", Some(json!(uri)))],
        Params::Complete(complete) => {
            let reference = match &complete.template {
                Some(template) => json!({ "type": "ref/resource", "uri": template }),
                None => json!({ "type": "ref/prompt", "name": "" }),
            };
            let (name, value) = &complete.argument;
            vec![("ref", Some(reference)), ("argument", Some(json!({ "name": name, "value": value })))]
        }
        Params::Listen(listen) => {
            let listing = listen.list_changed.map(|listing| ("resourcesListChanged".to_owned(), json!(listing)));
            let resources = listen.subscriptions.as_ref().map(|uris| ("resourceSubscriptions".to_owned(), json!(uris)));
            let notifications: Map<_, _> = listing.into_iter().chain(resources).collect();
            vec![("notifications", Some(Value::Object(notifications)))]
        }
        Params::Level(level) => vec![("level", Some(json!(level)))],
        Params::Tool(ToolParams { name, .. }) => vec![("name", name.as_ref().map(|name| json!(name)))],
        Params::Named { member, name } => vec![(member, name.as_ref().map(|name| json!(name)))],
    };
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn client_info(client: &ClientInfo) -> Value {
    let mut info = json!({ "name": client.name, "version": client.version });
    if let (Some(title), Some(members)) = (&client.title, info.as_object_mut()) {
        members.insert("title".to_owned(), json!(title));
    }
    info
}
