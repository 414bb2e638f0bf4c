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
use crate::server::message::{Kind, Message, Said};
use crate::server::revision::Revision;

/// The header that says which revision the client speaks.
pub(super) const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The header that says which method is called.
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The header that says which resource is read.
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The methods that are about something that has a name: those of rmcp.
const NAMED: [&str; 8] = [
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
pub(super) fn revision(headers: &HeaderMap, message: &Message, client: Option<&Client>) -> Option<Revision> {
    if !accept::are_both(headers) {
        return None;
    }
    let named = match headers.get(PROTOCOL_VERSION) {
        Some(named) => Some(Revision::named(named.to_str().ok()?)?),
        None => None,
    };
    match message.said() {
        Said::Nothing => client.filter(|_| named.is_none_or(Revision::has_sessions)).map(|client| client.revision),
        Said::Whole(said) => {
            let revision = named.filter(|named| named.name() == said)?;
            (revision.has_sessions() || agree(headers, message)).then_some(revision)
        }
        Said::Partly(said) => named.filter(|named| named.name() == said && named.has_sessions() && client.is_some()),
    }
}

/// Whether the headers say what the message says.
fn agree(headers: &HeaderMap, message: &Message) -> bool {
    let one = |name| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none()).and_then(|value| value.to_str().ok())
    };
    let Kind::Request { method, params, .. } = &message.kind else { return false };
    if one(METHOD) != Some(method) {
        return false;
    }
    match params {
        Ok(params) => !NAMED.contains(&method.as_str()) || one(NAME).and_then(decoded).as_deref() == params.name(),
        // It has none that could be repeated.
        Err(_) => true,
    }
}

/// The text of a header, which may be in base64 because it could not be sent otherwise (MCP 2026-07-28, "Standard Request
/// Headers").
fn decoded(header: &str) -> Option<String> {
    match header.strip_prefix("=?base64?").and_then(|header| header.strip_suffix("?=")) {
        Some(base64) => String::from_utf8(STANDARD.decode(base64).ok()?).ok(),
        None => Some(header.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::server::message::{self, Sent};

    const URI: &str = "notes:///日記.md";
    const NEWEST: (&str, &str) = (PROTOCOL_VERSION, "2026-07-28");
    const READ: (&str, &str) = ("mcp-method", "resources/read");

    /// The revision of a read without a session that says of itself what `meta` has.
    fn of(meta: &Value, headers: &[(&'static str, &str)]) -> Option<Revision> {
        let params = json!({ "uri": URI, "_meta": meta });
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params }).to_string();
        let Ok(Sent::One(message)) = message::read(text.as_bytes(), None, &[]) else { panic!("{text}") };
        let mut map = HeaderMap::new();
        map.insert("accept", accept::BOTH);
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        revision(&map, &message, None)
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
        let found = of(&meta("2026-07-28"), &[NEWEST, READ, ("mcp-name", &encoded)]);
        assert_eq!(found, Some(Revision::Jul2026));
    }

    #[test]
    fn a_request_whose_headers_say_something_else_is_not() {
        let encoded = format!("=?base64?{}?=", STANDARD.encode(URI));
        let name = ("mcp-name", encoded.as_str());
        for headers in [
            vec![],
            vec![READ, name],
            vec![NEWEST],
            vec![NEWEST, READ],
            vec![NEWEST, name],
            vec![NEWEST, READ, READ, name],
            vec![NEWEST, READ, name, name],
            vec![NEWEST, ("mcp-method", "resources/list"), name],
            vec![NEWEST, READ, ("mcp-name", "notes:///other.md")],
            vec![NEWEST, READ, ("mcp-name", "=?base64?not base64?=")],
            vec![(PROTOCOL_VERSION, "2025-11-25"), READ, name],
            vec![(PROTOCOL_VERSION, "2099-01-01"), READ, name],
        ] {
            assert_eq!(of(&meta("2026-07-28"), &headers), None, "{headers:?}");
        }
    }

    #[test]
    fn revisions_that_have_no_such_headers_need_none() {
        let named = [(PROTOCOL_VERSION, "2025-11-25")];
        assert_eq!(of(&meta("2025-11-25"), &named), Some(Revision::Nov2025));
        assert_eq!(of(&meta("2025-11-25"), &[named[0], ("mcp-method", "other")]), Some(Revision::Nov2025));
        assert_eq!(of(&meta("2025-11-25"), &[]), None);
    }

    #[test]
    fn a_request_that_does_not_say_enough_needs_a_session() {
        let version = json!({ "io.modelcontextprotocol/protocolVersion": "2025-11-25" });
        for meta in [json!({}), version] {
            assert_eq!(of(&meta, &[(PROTOCOL_VERSION, "2025-11-25")]), None, "{meta}");
        }
    }

    #[test]
    fn a_client_that_does_not_accept_both_kinds_of_answer_is_out_of_order() {
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": { "_meta": meta("2025-11-25") } });
        let Ok(Sent::One(message)) = message::read(message.to_string().as_bytes(), None, &[]) else {
            panic!("{message}")
        };
        let mut headers = HeaderMap::new();
        headers.insert(PROTOCOL_VERSION, "2025-11-25".parse().unwrap());
        headers.insert("accept", "application/json".parse().unwrap());
        assert_eq!(revision(&headers, &message, None), None);
    }
}
