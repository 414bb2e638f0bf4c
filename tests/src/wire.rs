//! JSON-RPC as it is on the wire, for messages that client libraries would neither send nor show.

use serde_json::{Value, json};

use crate::Revision;

/// A response as it was received.
#[derive(Clone, Debug)]
pub struct RpcResponse {
    /// The HTTP status; none over stdio.
    pub status: Option<u16>,
    /// The message.
    pub message: Value,
}

impl RpcResponse {
    /// Returns the result; panics if there is none.
    pub fn result(&self) -> &Value {
        self.message.get("result").unwrap_or_else(|| panic!("expected a result, found {self:?}"))
    }

    /// Returns the error; panics if there is none.
    pub fn error(&self) -> &Value {
        self.message.get("error").unwrap_or_else(|| panic!("expected an error, found {self:?}"))
    }

    /// Returns the code of the error.
    pub fn error_code(&self) -> i64 {
        self.error()["code"].as_i64().unwrap_or_else(|| panic!("an error has a code: {self:?}"))
    }
}

/// Builds a request in that revision: without sessions, each request names its revision.
pub fn request(revision: &Revision, id: u64, method: &str, mut params: Value) -> Value {
    if !revision.has_initialize() {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision.as_str(),
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1.0.0" },
        });
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// The parameters of `initialize`.
pub fn initialize_params(revision: &Revision) -> Value {
    json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {},
        "clientInfo": { "name": "tests", "version": "1.0.0" },
    })
}

/// The notification that follows `initialize`.
pub fn initialized_notification() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}
