//! Preflight: whether the headers of a request confirm the revision that its message declares, or that its session has,
//! and the error where they do not.
//!
//! | `_meta` declares | `MCP-Protocol-Version` | other headers |
//! |---|---|---|
//! | nothing | absent, or any revision with sessions | the session |
//! | a revision | this revision | from 2026-07-28 on, `Mcp-Method` and `Mcp-Name` repeat the method and the name in the message (SEP-2243) |
//!
//! | fault | status | code |
//! |---|---|---|
//! | an unknown revision in the header | 400 | -32022 |
//! | no session where one is required | 400 | -32600 |
//! | a header that does not repeat what the message says | 400 | -32020 |
//! | a member of `_meta` that the revision requires is missing | 400 | -32602 |
//! | a method that the revision does not have | 404 | -32601 |
//!
//! A method that does not exist requires no `Mcp-Name`. A notification has no effect outside of a session, so it
//! requires no `Mcp-Method`; one that names another method is rejected. Every `POST` has to accept both JSON and event
//! streams.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde_json::json;

use super::layers::accept;
use crate::server::jsonrpc::{DeclaredRevision, Kind, Message};
use crate::server::params::{
    CLIENT_CAPABILITIES_META_KEY, InitializeParams, InvalidParams, MAX_VERSION_NAME, PROTOCOL_VERSION_META_KEY, Params,
    truncate,
};
use crate::server::revision::Revision;

/// The header that names the revision of a request.
pub(super) const PROTOCOL_VERSION_HEADER: &str = "mcp-protocol-version";
/// The header that names the method.
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
/// The header that names the resource.
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// The retained length of a header in an error.
const MAX_QUOTED_HEADER: usize = 256;

/// The methods with a name (SEP-2243).
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

/// A request that is rejected because of its headers or its `_meta`.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) error: ErrorData,
}

impl Refusal {
    fn bad_request(error: ErrorData) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error }
    }

    fn header_mismatch(reason: impl Into<String>) -> Self {
        Self::bad_request(ErrorData::header_mismatch(reason.into(), None))
    }

    fn missing_meta(intro: &str, missing: &[&str]) -> Self {
        let missing = missing.join(", ");
        let reason = format!("{intro}request _meta is missing or has malformed required fields: {missing}");
        Self::bad_request(ErrorData::invalid_params(reason, None))
    }

    /// A request that names no session where one is required.
    pub(super) fn no_session() -> Self {
        let reason = "the request names no session: open one with `initialize`, and send the `Mcp-Session-Id` of the response with \
                      each request; or declare revision 2026-07-28, which has no sessions, in `MCP-Protocol-Version` and in \
                      `_meta` of each request";
        Self::bad_request(ErrorData::invalid_request(reason, None))
    }
}

/// Returns the revision that the header names; none without the header. It rejects an unknown one.
pub(super) fn named_revision(headers: &HeaderMap) -> Result<Option<Revision>, Refusal> {
    let Some(named) = headers.get(PROTOCOL_VERSION_HEADER) else { return Ok(None) };
    named.to_str().ok().and_then(Revision::from_name).map(Some).ok_or_else(|| unknown_revision(named))
}

fn unknown_revision(named: &HeaderValue) -> Refusal {
    let requested = String::from_utf8_lossy(named.as_bytes());
    let requested = truncate(&requested, MAX_VERSION_NAME);
    let supported = Revision::ALL.map(Revision::name);
    let known = supported.join(", ");
    let message = format!("unsupported `MCP-Protocol-Version`: `{requested}`; this server has {known}");
    let data = json!({ "supported": supported, "requested": requested });
    Refusal::bad_request(ErrorData::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, message, Some(data)))
}

/// Checks the headers of `initialize`. They may name the requested revision, and may repeat the method.
pub(super) fn check_initialize(headers: &HeaderMap, params: &InitializeParams) -> Result<(), Refusal> {
    let Some(named) = headers.get(PROTOCOL_VERSION_HEADER).map(HeaderValue::as_bytes) else { return Ok(()) };
    let revision = named_revision(headers)?;
    if named != params.version.as_bytes() {
        let (named, requested) = (String::from_utf8_lossy(named), &params.version);
        let reason = format!(
            "Invalid Request: MCP-Protocol-Version header ({named}) does not match initialize params.protocolVersion ({requested})"
        );
        return Err(Refusal::bad_request(ErrorData::invalid_request(reason, None)));
    }
    let has_method_header = revision.is_some_and(|revision| !revision.has_sessions());
    if has_method_header && headers.contains_key(METHOD_HEADER) { check_method(headers, "initialize") } else { Ok(()) }
}

/// Checks the headers of a notification or an answer. Outside of a session it has no effect.
pub(super) fn check_one_way(headers: &HeaderMap, message: &Message, is_in_session: bool) -> Result<(), Refusal> {
    let is_stateless = named_revision(headers)?.is_some_and(|revision| !revision.has_sessions());
    match &message.kind {
        Kind::Notification { method, .. } if is_stateless && headers.contains_key(METHOD_HEADER) => {
            check_method(headers, method)
        }
        Kind::Response { .. } if is_stateless => {
            let reason = "stateless server does not accept JSON-RPC responses";
            Err(Refusal::bad_request(ErrorData::invalid_request(reason, None)))
        }
        _ if is_stateless || is_in_session => Ok(()),
        _ => Err(Refusal::no_session()),
    }
}

/// Returns the revision of a request that is not `initialize`, or why it is rejected. `session` is the revision of its
/// session, and `not_found` returns the error for a method that a revision does not have.
pub(super) fn check_request(
    headers: &HeaderMap,
    message: &Message,
    session: Option<Revision>,
    not_found: impl FnOnce(Revision) -> Option<ErrorData>,
) -> Result<Revision, Refusal> {
    let Kind::Request { method, params, .. } = &message.kind else { return Err(Refusal::no_session()) };
    let (DeclaredRevision::Complete(declared) | DeclaredRevision::VersionOnly(declared)) = message.declared_revision()
    else {
        let named = named_revision(headers)?;
        if method != "server/discover" && named.is_none_or(Revision::has_sessions) {
            return session.ok_or_else(Refusal::no_session);
        }
        let missing = [PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY];
        let missing = if message.meta.has_capabilities { missing.get(..1) } else { missing.get(..) };
        return Err(Refusal::missing_meta("Invalid params: ", missing.unwrap_or_default()));
    };
    let Some(named) = headers.get(PROTOCOL_VERSION_HEADER) else {
        return Err(Refusal::header_mismatch("request _meta protocolVersion requires MCP-Protocol-Version header"));
    };
    if named.as_bytes() != declared.as_bytes() {
        let named = String::from_utf8_lossy(named.as_bytes());
        let named = truncate(&named, MAX_VERSION_NAME);
        let reason =
            format!("MCP-Protocol-Version header ({named}) does not match request _meta protocolVersion ({declared})");
        return Err(Refusal::header_mismatch(reason));
    }
    let Some(revision) = Revision::from_name(declared) else {
        let data = json!({ "supported": Revision::ALL.map(Revision::name), "requested": declared });
        let code = ErrorCode::UNSUPPORTED_PROTOCOL_VERSION;
        return Err(Refusal::bad_request(ErrorData::new(code, "Unsupported protocol version", Some(data))));
    };
    let has_capabilities = message.meta.has_capabilities;
    if revision.has_sessions() {
        return if has_capabilities { Ok(revision) } else { session.map(|_| revision).ok_or_else(Refusal::no_session) };
    }
    check_method(headers, method)?;
    if let Some(error) = not_found(revision) {
        return Err(Refusal { status: StatusCode::NOT_FOUND, error });
    }
    check_name(headers, method, params)?;
    if has_capabilities { Ok(revision) } else { Err(Refusal::missing_meta("", &[CLIENT_CAPABILITIES_META_KEY])) }
}

/// Checks that `Mcp-Method` repeats the method.
fn check_method(headers: &HeaderMap, method: &str) -> Result<(), Refusal> {
    match only_value(headers, &METHOD_HEADER)? {
        None => Err(Refusal::header_mismatch("missing required Mcp-Method header")),
        Some(named) if named != method => {
            let (named, method) = (truncate(named, MAX_QUOTED_HEADER), truncate(method, MAX_QUOTED_HEADER));
            Err(Refusal::header_mismatch(format!("Mcp-Method header `{named}` does not match body method `{method}`")))
        }
        Some(_) => Ok(()),
    }
}

/// Checks that `Mcp-Name` repeats the name, if the method has one. Malformed parameters have none.
fn check_name(headers: &HeaderMap, method: &str, params: &Result<Params, InvalidParams>) -> Result<(), Refusal> {
    let name = params.as_ref().ok().filter(|_| METHODS_WITH_NAME_HEADER.contains(&method)).and_then(Params::name);
    let Some(name) = name else { return Ok(()) };
    let Some(named) = only_value(headers, &NAME_HEADER)? else {
        return Err(Refusal::header_mismatch(format!("missing required Mcp-Name header for `{method}`")));
    };
    let named = decode_header(named).ok_or_else(|| Refusal::header_mismatch("Mcp-Name header is not valid Base64"))?;
    if named == name {
        return Ok(());
    }
    let (named, name) = (truncate(&named, MAX_QUOTED_HEADER), truncate(name, MAX_QUOTED_HEADER));
    Err(Refusal::header_mismatch(format!("Mcp-Name header `{named}` does not match body value `{name}`")))
}

/// Returns the value of a header that must not be repeated.
fn only_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Refusal::header_mismatch(format!("the header `{name}` occurs more than once")));
    }
    let text = first.map(HeaderValue::to_str).transpose();
    text.map_err(|_| Refusal::header_mismatch(format!("the header `{name}` has characters that are not visible ASCII")))
}

/// Returns whether the headers repeat the method and the name in the message.
fn headers_match(headers: &HeaderMap, message: &Message) -> bool {
    let Kind::Request { method, params, .. } = &message.kind else { return false };
    check_method(headers, method).is_ok() && check_name(headers, method, params).is_ok()
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

    fn parse(message: &Value) -> Message {
        match jsonrpc::parse(message.to_string().as_bytes(), None, &[]) {
            Ok(Incoming::Single(message)) => message,
            other => panic!("{message}: {other:?}"),
        }
    }

    fn header_map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_method_that_the_revision_has_not_is_not_found_whatever_its_name_header_says() {
        let params = json!({ "taskId": "x", "_meta": meta("2026-07-28") });
        let message = parse(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params }));
        let headers = header_map(&[LATEST, ("mcp-method", "tasks/get")]);
        let refused = |is_supported: bool| {
            let not_found = |_| (!is_supported).then(|| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "", None));
            let refusal = check_request(&headers, &message, None, not_found).unwrap_err();
            (refusal.status, refusal.error.code)
        };
        assert_eq!(refused(false), (StatusCode::NOT_FOUND, ErrorCode::METHOD_NOT_FOUND));
        assert_eq!(refused(true), (StatusCode::BAD_REQUEST, ErrorCode::HEADER_MISMATCH));
    }

    #[test]
    fn a_notification_needs_no_method_header_and_must_not_name_another_method() {
        let cancelled = parse(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }));
        let check = |headers: &[_], is_in_session| {
            check_one_way(&header_map(headers), &cancelled, is_in_session).map_err(|refusal| refusal.error.code)
        };
        assert_eq!(check(&[LATEST], false), Ok(()));
        assert_eq!(check(&[LATEST, ("mcp-method", "notifications/cancelled")], false), Ok(()));
        assert_eq!(check(&[LATEST, ("mcp-method", "ping")], false), Err(ErrorCode::HEADER_MISMATCH));
        let older = (PROTOCOL_VERSION_HEADER, "2025-11-25");
        assert_eq!(check(&[older], true), Ok(()));
        for headers in [&[][..], &[older][..]] {
            assert_eq!(check(headers, false), Err(ErrorCode::INVALID_REQUEST));
        }
        assert_eq!(
            check(&[(PROTOCOL_VERSION_HEADER, "2099-01-01")], true),
            Err(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)
        );
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
