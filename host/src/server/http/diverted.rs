//! Requests that an extension answers, on their way through rmcp.
//!
//! rmcp reads the body anew, so the method in it is another: one that rmcp does not know. What was asked goes beside it; a
//! client that calls that method has nothing beside it, and it is unknown. rmcp's check of the headers against the body
//! (SEP-2243) is made before: a request whose headers say something else stays as it is, for rmcp to refuse it.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::posted::PROTOCOL_VERSION;
use crate::server::extensions::Asked;
use crate::server::message::Message;
use crate::server::revision::Revision;

/// The method as rmcp sees it.
const METHOD: &str = "mcp-host/extension";

/// The header that says which method is called.
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
/// The header that says which resource is read.
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// Has a request go through rmcp with what it asks beside it. Whether it does: one whose headers are wrong does not.
pub(super) fn divert(parts: &mut Parts, message: &mut Message, asked: Asked) -> bool {
    // Only revisions from the one on that brought them in have headers that matter.
    let version = parts.headers.get(PROTOCOL_VERSION).and_then(|version| version.to_str().ok());
    let has_headers = version >= Some(Revision::Jul2026.name());
    if has_headers && !agree(&parts.headers, &asked) {
        return false;
    }
    if let Some(method) = message.value.get_mut("method") {
        *method = METHOD.into();
    }
    if has_headers {
        parts.headers.insert(METHOD_HEADER, HeaderValue::from_static(METHOD));
    }
    parts.extensions.insert(asked);
    true
}

/// Whether the headers say what the message says.
fn agree(headers: &HeaderMap, asked: &Asked) -> bool {
    let one = |name| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none()).and_then(|value| value.to_str().ok())
    };
    let names_method = one(METHOD_HEADER) == Some(asked.method());
    match asked {
        Asked::Read(read) => names_method && one(NAME_HEADER).and_then(decoded).as_ref() == Some(&read.uri),
        _ => names_method,
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
    use axum::http::Request;
    use serde_json::json;

    use super::*;
    use crate::config::Extension;
    use crate::server::extensions::look;
    use crate::server::message::{self, Sent};

    const URI: &str = "notes:///日記.md";

    /// What becomes of reading a resource with those headers: the method that rmcp sees in the body and in the headers.
    fn diverted(headers: &[(&'static str, &str)]) -> (bool, String, Option<String>) {
        let text =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": URI } }).to_string();
        let Ok(Sent::One(mut message)) = message::read(text.as_bytes(), None) else { panic!("{text}") };
        let mut parts = Request::new(()).into_parts().0;
        for (name, value) in headers {
            parts.headers.append(*name, value.parse().unwrap());
        }
        let asked = look(&[Extension::Sep2093], &message).unwrap().unwrap();
        let is_diverted = divert(&mut parts, &mut message, asked.clone());
        assert_eq!(parts.extensions.get::<Asked>(), is_diverted.then_some(&asked));
        let header = parts.headers.get("mcp-method").map(|value| value.to_str().unwrap().to_owned());
        (is_diverted, message.value["method"].as_str().unwrap().to_owned(), header)
    }

    #[test]
    fn a_request_whose_headers_say_what_it_says_goes_under_another_method() {
        let encoded = format!("=?base64?{}?=", STANDARD.encode(URI));
        let headers =
            [(PROTOCOL_VERSION, "2026-07-28"), ("mcp-method", "resources/read"), ("mcp-name", encoded.as_str())];
        assert_eq!(diverted(&headers), (true, METHOD.to_owned(), Some(METHOD.to_owned())));
    }

    #[test]
    fn a_request_whose_headers_say_something_else_stays_as_it_is() {
        let version = (PROTOCOL_VERSION, "2026-07-28");
        let method = ("mcp-method", "resources/read");
        let encoded = format!("=?base64?{}?=", STANDARD.encode(URI));
        let name = ("mcp-name", encoded.as_str());
        for headers in [
            vec![version],
            vec![version, method],
            vec![version, name],
            vec![version, method, method, name],
            vec![version, method, name, name],
            vec![version, ("mcp-method", "resources/list"), name],
            vec![version, method, ("mcp-name", "notes:///other.md")],
            vec![version, method, ("mcp-name", "=?base64?not base64?=")],
        ] {
            let (is_diverted, seen, _) = diverted(&headers);
            assert_eq!((is_diverted, seen.as_str()), (false, "resources/read"), "{headers:?}");
        }
    }

    #[test]
    fn headers_of_revisions_that_have_none_do_not_matter() {
        for headers in [vec![], vec![(PROTOCOL_VERSION, "2025-11-25"), ("mcp-method", "other")]] {
            let (is_diverted, seen, header) = diverted(&headers);
            assert_eq!((is_diverted, seen.as_str()), (true, METHOD));
            assert_ne!(header.as_deref(), Some(METHOD), "the header is nobody's");
        }
    }
}
