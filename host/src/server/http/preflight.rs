//! Preflight: whether the headers of a request confirm the revision that its message declares, or that its session has.
//!
//! The rules are rmcp's, which rejects a request that does not follow them, with an error of its own:
//!
//! | `_meta` declares | `MCP-Protocol-Version` | other headers |
//! |---|---|---|
//! | nothing | absent, or any revision with sessions | |
//! | a revision | this revision | from 2026-07-28 on, `Mcp-Method` and `Mcp-Name` repeat the method and the name in the message (SEP-2243) |
//!
//! Every request has to accept both JSON and event streams.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde_json::json;

use super::layers::accept;
use crate::server::jsonrpc::{DeclaredRevision, Kind, Message};
use crate::server::params::{MAX_VERSION_NAME, truncate};
use crate::server::revision::Revision;

/// The header that names the revision of a request.
pub(super) const PROTOCOL_VERSION_HEADER: &str = "mcp-protocol-version";
/// The header that names the method.
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
/// The header that names the resource.
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// The methods with a name, by the list of rmcp.
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

/// Returns whether the headers of a request confirm its revision.
pub(super) fn confirms(headers: &HeaderMap, message: &Message, revision: Revision) -> bool {
    if !accept::accepts_json_and_sse(headers) {
        return false;
    }
    let named = match headers.get(PROTOCOL_VERSION_HEADER).map(|name| name.to_str().ok().and_then(Revision::from_name))
    {
        Some(None) => return false,
        Some(named) => named,
        None => None,
    };
    match message.declared_revision() {
        DeclaredRevision::None => named.is_none_or(Revision::has_sessions),
        DeclaredRevision::Complete(_) | DeclaredRevision::VersionOnly(_) => {
            named == Some(revision) && (revision.has_sessions() || headers_match(headers, message))
        }
    }
}

/// Returns the error for a request that rmcp rejects because of its headers alone: the revision that they name is unknown, or they
/// name no session where one is required.
pub(super) fn header_error(version: Option<&HeaderValue>) -> ErrorData {
    let requested = version.map(|version| String::from_utf8_lossy(version.as_bytes()));
    let Some(requested) = requested.filter(|version| Revision::from_name(version).is_none()) else {
        let reason = "the request names no session: open one with `initialize`, and send the `Mcp-Session-Id` of the response with \
                      each request; or declare revision 2026-07-28, which has no sessions, in `MCP-Protocol-Version` and in \
                      `_meta` of each request";
        return ErrorData::invalid_request(reason, None);
    };
    let requested = truncate(&requested, MAX_VERSION_NAME);
    let supported = Revision::ALL.map(Revision::name);
    let known = supported.join(", ");
    let message = format!("unsupported `MCP-Protocol-Version`: `{requested}`; this server has {known}");
    let data = json!({ "supported": supported, "requested": requested });
    ErrorData::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, message, Some(data))
}

/// Returns whether the headers repeat the method and the name in the message.
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
        // Malformed parameters have no name that could be repeated.
        Err(_) => true,
    }
}

/// Decodes a header, which is in base64 if the text is not a valid header value (MCP 2026-07-28, "Standard Request
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

    const NEWEST: Revision = Revision::LATEST;
    const URI: &str = "notes:///日記.md";
    const LATEST: (&str, &str) = (PROTOCOL_VERSION_HEADER, "2026-07-28");
    const READ: (&str, &str) = ("mcp-method", "resources/read");

    /// Whether the headers confirm the revision of a read that declares it in `meta`.
    fn is_confirmed(revision: Revision, meta: &Value, headers: &[(&'static str, &str)]) -> bool {
        let params = json!({ "uri": URI, "_meta": meta });
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params }).to_string();
        let Ok(Incoming::Single(message)) = jsonrpc::parse(text.as_bytes(), None, &[]) else { panic!("{text}") };
        let mut map = HeaderMap::new();
        map.insert("accept", accept::JSON_AND_SSE);
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        confirms(&map, &message, revision)
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
        assert!(is_confirmed(NEWEST, &meta("2026-07-28"), &[LATEST, READ, ("mcp-name", &encoded)]));
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
            assert!(!is_confirmed(NEWEST, &meta("2026-07-28"), &headers), "{headers:?}");
        }
    }

    #[test]
    fn revisions_that_have_no_such_headers_need_none() {
        let older = Revision::V2025_11_25;
        let named = [(PROTOCOL_VERSION_HEADER, "2025-11-25")];
        assert!(is_confirmed(older, &meta("2025-11-25"), &named));
        assert!(is_confirmed(older, &meta("2025-11-25"), &[named[0], ("mcp-method", "other")]));
        assert!(!is_confirmed(older, &meta("2025-11-25"), &[]));
    }

    #[test]
    fn a_request_of_a_session_names_any_revision_with_sessions_or_none() {
        let confirmed = |headers: &[_]| is_confirmed(Revision::V2025_06_18, &json!({}), headers);
        assert!(confirmed(&[]));
        assert!(confirmed(&[(PROTOCOL_VERSION_HEADER, "2025-11-25")]));
        for name in ["2026-07-28", "2099-01-01"] {
            assert!(!confirmed(&[(PROTOCOL_VERSION_HEADER, name)]), "{name}");
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
        assert!(!confirms(&headers, &message, Revision::V2025_11_25));
    }
}
