//! The requests of the benchmarks, as they are on the wire.

use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};

/// A request that is sent repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct BenchRequest {
    /// Its name in the tables.
    pub(crate) name: String,
    pub(crate) method: &'static str,
    params: Value,
    /// The minimum size of a response, in bytes: more than any error has.
    pub(crate) min_size: usize,
}

impl BenchRequest {
    /// Reads a resource of at least `least` bytes.
    pub(crate) fn read(what: &str, uri: &str, least: usize) -> Self {
        Self { name: what.to_owned(), method: "resources/read", params: json!({ "uri": uri }), min_size: least }
    }

    /// Listens for changes of a resource.
    pub(crate) fn listen(uri: &str) -> Self {
        let params = json!({ "notifications": { "resourceSubscriptions": [uri] } });
        Self { name: "listen".to_owned(), method: "subscriptions/listen", params, min_size: 1 }
    }

    /// Lists the first page of resources, in at least `least` bytes.
    pub(crate) fn list(what: &str, least: usize) -> Self {
        Self { name: what.to_owned(), method: "resources/list", params: json!({}), min_size: least }
    }

    /// Lists a page of resources, with at least a result on it.
    pub(crate) fn page(cursor: Option<&str>) -> Self {
        let params = cursor.map_or(json!({}), |cursor| json!({ "cursor": cursor }));
        Self { name: "list a page".to_owned(), method: "resources/list", params, min_size: 100 }
    }

    /// Lists the templates.
    pub(crate) fn templates() -> Self {
        Self { name: "list templates".to_owned(), method: "resources/templates/list", params: json!({}), min_size: 100 }
    }

    /// Completes the variable of a template.
    pub(crate) fn complete(template: &str, variable: &str, value: &str) -> Self {
        let params = json!({
            "ref": { "type": "ref/resource", "uri": template },
            "argument": { "name": variable, "value": value },
        });
        Self { name: "complete".to_owned(), method: "completion/complete", params, min_size: 50 }
    }

    /// The URI of its resource, if it has one.
    pub(crate) fn uri(&self) -> Option<&str> {
        self.params["uri"].as_str()
    }

    /// Builds the request with that id, in that revision.
    pub(crate) fn message(&self, id: u64, revision: &ProtocolVersion) -> String {
        let mut params = self.params.clone();
        if !revision.has_initialize() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": revision.as_str(),
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": self.method, "params": params }).to_string()
    }

    /// Checks a response by its beginning.
    pub(crate) fn check(&self, size: usize, beginning: &[u8]) {
        let said = || String::from_utf8_lossy(beginning);
        assert!(
            size >= self.min_size,
            "{}: expected {} bytes at least, found {size}: {}",
            self.name,
            self.min_size,
            said()
        );
    }
}

/// The first request of a session.
pub(crate) fn initialize(revision: &ProtocolVersion) -> String {
    let params = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "1.0.0" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

/// The notification that follows it.
pub(crate) fn initialized() -> String {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()
}

/// Returns the id of a response.
pub(crate) fn response_id(answer: &str) -> Option<u64> {
    // Only the beginning is parsed: parsing a large response would cost more than the server's part in it.
    let head = answer.get(..64.min(answer.len())).unwrap_or_default();
    let behind = head.split_once("\"id\":")?.1;
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().or_else(|| serde_json::from_str::<Value>(answer).ok()?["id"].as_u64())
}
