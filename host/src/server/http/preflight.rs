//! Whether a request for resources is in order, and of which revision it is.
//!
//! The rules are rmcp's, which refuses what is not in order, each fault in its own words:
//!
//! | `_meta` says | in order if | revision |
//! |---|---|---|
//! | nothing | it is of an open session, and `MCP-Protocol-Version` is absent, or of a revision that has sessions | that of the session |
//! | a revision, and what the client can do | `MCP-Protocol-Version` says the same, and from 2026-07-28 on `Mcp-Method` and `Mcp-Name` say what the message says (SEP-2243) | that |
//! | a revision | `MCP-Protocol-Version` says the same, it has sessions, and the request is of an open one | that |

use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::accept;
use crate::server::client::Client;
use crate::server::jsonrpc::{DeclaredRevision, Kind, Message};
use crate::server::revision::Revision;

/// The header that says which revision the client speaks.
pub(super) const PROTOCOL_VERSION_HEADER: &str = "mcp-protocol-version";
/// The header that says which method is called.
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
/// The header that says which resource is read.
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// The methods that are about something that has a name: those of rmcp.
const METHODS_WITH_NAME_HEADER: [&str; 8] = [
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "tools/call",
    "prompts/get",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
];

/// The revision that a request of that client, if it has a session, is to be answered in; none if it is not in order.
pub(super) fn direct_revision(headers: &HeaderMap, message: &Message, client: Option<&Client>) -> Option<Revision> {
    if !accept::accepts_json_and_sse(headers) {
        return None;
    }
    let named = match headers.get(PROTOCOL_VERSION_HEADER) {
        Some(named) => Some(Revision::from_name(named.to_str().ok()?)?),
        None => None,
    };
    match message.declared_revision() {
        DeclaredRevision::None => {
            client.filter(|_| named.is_none_or(Revision::has_sessions)).map(|client| client.revision)
        }
        DeclaredRevision::Complete(said) => {
            let revision = named.filter(|named| named.name() == said)?;
            (revision.has_sessions() || headers_match(headers, message)).then_some(revision)
        }
        DeclaredRevision::VersionOnly(said) => {
            named.filter(|named| named.name() == said && named.has_sessions() && client.is_some())
        }
    }
}

/// Whether the headers say what the message says.
fn headers_match(headers: &HeaderMap, message: &Message) -> bool {
    let one = |name| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none()).and_then(|value| value.to_str().ok())
    };
    let Kind::Request { method, params, .. } = &message.kind else { return false };
    if one(METHOD_HEADER) != Some(method) {
        return false;
    }
    match params {
        Ok(params) => {
            !METHODS_WITH_NAME_HEADER.contains(&method.as_str())
                || one(NAME_HEADER).and_then(decode_header).as_deref() == params.name()
        }
        // It has none that could be repeated.
        Err(_) => true,
    }
}

/// The text of a header, which may be in base64 because it could not be sent otherwise (MCP 2026-07-28, "Standard Request
/// Headers").
fn decode_header(header: &str) -> Option<String> {
    match header.strip_prefix("=?base64?").and_then(|header| header.strip_suffix("?=")) {
        Some(base64) => String::from_utf8(STANDARD.decode(base64).ok()?).ok(),
        None => Some(header.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::server::jsonrpc::{self, Incoming};

    const URI: &str = "notes:///日記.md";
    const LATEST: (&str, &str) = (PROTOCOL_VERSION_HEADER, "2026-07-28");
    const READ: (&str, &str) = ("mcp-method", "resources/read");

    /// The revision of a read without a session that says of itself what `meta` has.
    fn revision_of(meta: &Value, headers: &[(&'static str, &str)]) -> Option<Revision> {
        let params = json!({ "uri": URI, "_meta": meta });
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params }).to_string();
        let Ok(Incoming::Single(message)) = jsonrpc::parse(text.as_bytes(), None, &[]) else { panic!("{text}") };
        let mut map = HeaderMap::new();
        map.insert("accept", accept::JSON_AND_SSE);
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        direct_revision(&map, &message, None)
    }

    fn meta(version: &str) -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {}
        })
    }

    #[test]
    fn a_request_whose_headers_say_what_it_says_is_in_order() {
        let encoded = format!("=?base64?{}?=", STANDARD.encode(URI));
        let found = revision_of(&meta("2026-07-28"), &[LATEST, READ, ("mcp-name", &encoded)]);
        assert_eq!(found, Some(Revision::V2026_07_28));
    }

    #[test]
    fn a_request_whose_headers_say_something_else_is_not() {
        let encoded = format!("=?base64?{}?=", STANDARD.encode(URI));
        let name = ("mcp-name", encoded.as_str());
        for headers in [
            vec![],
            vec![READ, name],
            vec![LATEST],
            vec![LATEST, READ],
            vec![LATEST, name],
            vec![LATEST, READ, READ, name],
            vec![LATEST, READ, name, name],
            vec![LATEST, ("mcp-method", "resources/list"), name],
            vec![LATEST, READ, ("mcp-name", "notes:///other.md")],
            vec![LATEST, READ, ("mcp-name", "=?base64?not base64?=")],
            vec![(PROTOCOL_VERSION_HEADER, "2025-11-25"), READ, name],
            vec![(PROTOCOL_VERSION_HEADER, "2099-01-01"), READ, name],
        ] {
            assert_eq!(revision_of(&meta("2026-07-28"), &headers), None, "{headers:?}");
        }
    }

    #[test]
    fn revisions_that_have_no_such_headers_need_none() {
        let named = [(PROTOCOL_VERSION_HEADER, "2025-11-25")];
        assert_eq!(revision_of(&meta("2025-11-25"), &named), Some(Revision::V2025_11_25));
        assert_eq!(revision_of(&meta("2025-11-25"), &[named[0], ("mcp-method", "other")]), Some(Revision::V2025_11_25));
        assert_eq!(revision_of(&meta("2025-11-25"), &[]), None);
    }

    #[test]
    fn a_request_that_does_not_say_enough_needs_a_session() {
        let version = json!({ "io.modelcontextprotocol/protocolVersion": "2025-11-25" });
        for meta in [json!({}), version] {
            assert_eq!(revision_of(&meta, &[(PROTOCOL_VERSION_HEADER, "2025-11-25")]), None, "{meta}");
        }
    }

    #[test]
    fn a_client_that_does_not_accept_both_kinds_of_answer_is_out_of_order() {
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": { "_meta": meta("2025-11-25") } });
        let Ok(Incoming::Single(message)) = jsonrpc::parse(message.to_string().as_bytes(), None, &[]) else {
            panic!("{message}")
        };
        let mut headers = HeaderMap::new();
        headers.insert(PROTOCOL_VERSION_HEADER, "2025-11-25".parse().unwrap());
        headers.insert("accept", "application/json".parse().unwrap());
        assert_eq!(direct_revision(&headers, &message, None), None);
    }
}
