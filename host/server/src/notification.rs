//! Notifications of JSON-RPC that the server sends.

use mcp_host_config::Operation;
use mcp_resource_host::access::CredentialScopes;
use mcp_resource_host::host::Host;
use mcp_resource_host::watch::Update;
use serde_json::{Map, Value, json};

/// Returns a notification. Without parameters it has no member for them.
pub(super) fn notification(method: &str, params: Map<String, Value>) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "method": format!("notifications/{method}") });
    if let Some(members) = message.as_object_mut().filter(|_| !params.is_empty()) {
        members.insert("params".to_owned(), Value::Object(params));
    }
    message
}

/// Returns whether a stream whose credentials have these scopes may deliver an update. A resource of a built-in
/// provider needs the scopes of the operations that it is made of. Decided at delivery, because a reload may make such
/// a provider own a URI that was subscribed to before, and because another token of the principal may have subscribed.
pub(super) fn may_deliver(host: &Host, scopes: CredentialScopes, update: &Update) -> bool {
    let performed: &[Operation] = match update {
        Update::Listing => &[Operation::List],
        Update::Resource(uri) => host.performed_operations(uri),
    };
    performed.iter().chain(&[Operation::Subscribe]).all(|operation| scopes.include(*operation))
}

/// Returns the notification of an update, with this `_meta`.
pub(super) fn update_notification(update: Update, meta: Option<Value>) -> Value {
    let (method, uri) = match update {
        Update::Resource(uri) => ("resources/updated", Some(uri)),
        Update::Listing => ("resources/list_changed", None),
    };
    let uri = uri.map(|uri| ("uri".to_owned(), Value::String(uri)));
    let meta = meta.map(|meta| ("_meta".to_owned(), meta));
    notification(method, uri.into_iter().chain(meta).collect())
}
