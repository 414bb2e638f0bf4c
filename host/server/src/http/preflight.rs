//! Preflight: checks that the headers of a request match its message.
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
//! | a header that does not match the message | 400 | -32020 |
//! | a member of `_meta` that the revision requires is missing | 400 | -32602 |
//! | a method that the revision does not have | 404 | -32601 |
//!
//! An unknown method requires no `Mcp-Name`. A notification has no effect outside of a session, so it requires no
//! `Mcp-Method`; a notification whose header names another method is rejected.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::SESSION_ID_HEADER;
use crate::dispatch::Evidence;
use crate::error::{ErrorCode, RpcError};
use crate::method::Method;
use crate::params::{InitializeParams, MAX_VERSION_NAME, truncate};
use crate::request::Request;
use crate::revision::Revision;

/// The header that names the revision of a request.
const PROTOCOL_VERSION_HEADER: &str = "mcp-protocol-version";
/// The header that names the method.
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
/// The header that names the resource.
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// The maximum length of a quoted header in an error.
const MAX_QUOTED_HEADER: usize = 256;

/// The headers of a request.
pub(super) struct Headers<'a>(pub(super) &'a HeaderMap);

/// The error for a request without a session that requires one.
pub(super) fn no_session() -> RpcError {
    RpcError::invalid_request(
        "the request names no session: open one with `initialize`, and send the `Mcp-Session-Id` of the response with \
         each request; or declare revision 2026-07-28, which has no sessions, in `MCP-Protocol-Version` and in \
         `_meta` of each request",
    )
}

impl Headers<'_> {
    /// Returns the revision in which the body is parsed. Without the header it is the first revision with this
    /// transport (MCP 2025-06-18, "Protocol Version Header"); an unknown revision, which is rejected later, counts as
    /// the latest.
    pub(super) fn revision(&self) -> Revision {
        self.named_revision().map_or(Revision::LATEST, |named| named.unwrap_or(Revision::V2025_03_26))
    }

    /// Returns the revision that the header names. None without the header. An unknown revision is an error.
    pub(super) fn named_revision(&self) -> Result<Option<Revision>, RpcError> {
        let Some(named) = self.version() else { return Ok(None) };
        named.to_str().ok().and_then(Revision::from_name).map(Some).ok_or_else(|| {
            let requested = String::from_utf8_lossy(named.as_bytes());
            let requested = truncate(&requested, MAX_VERSION_NAME);
            let known = Revision::ALL.map(Revision::name).join(", ");
            let message = format!("unsupported `MCP-Protocol-Version`: `{requested}`; this server has {known}");
            RpcError::unsupported_revision(message, &requested)
        })
    }

    fn version(&self) -> Option<&HeaderValue> {
        self.0.get(PROTOCOL_VERSION_HEADER)
    }

    /// Rejects a repeated `MCP-Protocol-Version` or `Mcp-Session-Id`, because a proxy may use another of the values
    /// than this server.
    pub(super) fn check_repetition(&self) -> Result<(), RpcError> {
        for name in [PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER] {
            if self.0.get_all(name).iter().nth(1).is_some() {
                return Err(repeated(name));
            }
        }
        Ok(())
    }

    /// Returns whether the headers name a revision without sessions.
    pub(super) fn is_stateless(&self) -> Result<bool, RpcError> {
        Ok(self.named_revision()?.is_some_and(|revision| !revision.has_sessions()))
    }

    /// Returns the value of a header that must not be repeated.
    fn only_value(&self, name: &HeaderName) -> Result<Option<&str>, RpcError> {
        let mut values = self.0.get_all(name).iter();
        let first = values.next();
        if values.next().is_some() {
            return Err(repeated(name.as_str()));
        }
        let text = first.map(HeaderValue::to_str).transpose();
        text.map_err(|_| mismatch(format!("the header `{name}` has characters that are not visible ASCII")))
    }
}

impl Evidence for Headers<'_> {
    /// The headers may name the requested revision, and may repeat the method.
    fn check_initialize(&self, params: &InitializeParams) -> Result<(), RpcError> {
        let Some(named) = self.version().map(HeaderValue::as_bytes) else { return Ok(()) };
        let is_stateless = self.is_stateless()?;
        if named != params.version.as_bytes() {
            let (named, requested) = (String::from_utf8_lossy(named), &params.version);
            return Err(RpcError::invalid_request(format!(
                "Invalid Request: MCP-Protocol-Version header ({named}) does not match initialize params.protocolVersion ({requested})"
            )));
        }
        if is_stateless && self.0.contains_key(METHOD_HEADER) { self.check_method("initialize") } else { Ok(()) }
    }

    /// A one-way message outside of a session has no effect.
    fn check_one_way(&self, method: Option<&str>, is_in_session: bool) -> Result<(), RpcError> {
        match (self.is_stateless()?, method) {
            (true, Some(method)) if self.0.contains_key(METHOD_HEADER) => self.check_method(method),
            (true, None) => Err(RpcError::invalid_request("stateless server does not accept JSON-RPC responses")),
            (is_stateless, _) if is_stateless || is_in_session => Ok(()),
            _ => Err(no_session()),
        }
    }

    fn check_revision(&self, declared: &str) -> Result<(), RpcError> {
        let Some(named) = self.version() else {
            return Err(mismatch("request _meta protocolVersion requires MCP-Protocol-Version header"));
        };
        if named.as_bytes() == declared.as_bytes() {
            return Ok(());
        }
        let named = String::from_utf8_lossy(named.as_bytes());
        let named = truncate(&named, MAX_VERSION_NAME);
        Err(mismatch(format!(
            "MCP-Protocol-Version header ({named}) does not match request _meta protocolVersion ({declared})"
        )))
    }

    /// `Mcp-Method` must repeat the method.
    fn check_method(&self, name: &str) -> Result<(), RpcError> {
        match self.only_value(&METHOD_HEADER)? {
            None => Err(mismatch("missing required Mcp-Method header")),
            Some(named) if named != name => {
                let (named, name) = (truncate(named, MAX_QUOTED_HEADER), truncate(name, MAX_QUOTED_HEADER));
                Err(mismatch(format!("Mcp-Method header `{named}` does not match body method `{name}`")))
            }
            Some(_) => Ok(()),
        }
    }

    /// `Mcp-Name` must repeat the name, if the method has one. Malformed parameters have none.
    fn check_name(&self, method: &Method, request: &Request) -> Result<(), RpcError> {
        let Some(name) = request.name().filter(|_| method.has_name_header) else { return Ok(()) };
        let Some(named) = self.only_value(&NAME_HEADER)? else {
            return Err(mismatch(format!("missing required Mcp-Name header for `{}`", method.name)));
        };
        let named = decode_header(named).ok_or_else(|| mismatch("Mcp-Name header is not valid Base64"))?;
        if named == name {
            return Ok(());
        }
        let (named, name) = (truncate(&named, MAX_QUOTED_HEADER), truncate(name, MAX_QUOTED_HEADER));
        Err(mismatch(format!("Mcp-Name header `{named}` does not match body value `{name}`")))
    }

    fn may_be_of_session(&self) -> Result<bool, RpcError> {
        self.is_stateless().map(|is_stateless| !is_stateless)
    }

    fn no_session(&self) -> Option<RpcError> {
        Some(no_session())
    }
}

fn repeated(name: &str) -> RpcError {
    mismatch(format!("the header `{name}` occurs more than once"))
}

fn mismatch(reason: impl Into<String>) -> RpcError {
    RpcError::new(ErrorCode::HEADER_MISMATCH, reason.into())
}

/// Decodes a header, which is in Base64 if the text is not a valid header value (MCP 2026-07-28, "Standard Request
/// Headers").
fn decode_header(header: &str) -> Option<String> {
    match header.strip_prefix("=?base64?").and_then(|header| header.strip_suffix("?=")) {
        Some(base64) => String::from_utf8(STANDARD.decode(base64).ok()?).ok(),
        None => Some(header.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "notes:///日記.md";
    const LATEST: (&str, &str) = (PROTOCOL_VERSION_HEADER, "2026-07-28");
    const READ: (&str, &str) = ("mcp-method", "resources/read");

    fn header_map(headers: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    /// Returns the error code for a read that declares this revision.
    fn fault(declared: &str, headers: &[(&'static str, &str)]) -> Option<ErrorCode> {
        let map = header_map(headers);
        let headers = Headers(&map);
        let method = Method::named("resources/read", &[]).unwrap();
        let checked = headers.check_revision(declared);
        let checked = checked.and_then(|()| match declared == Revision::LATEST.name() {
            true => headers.check_method(method.name),
            false => Ok(()),
        });
        let checked = checked.and_then(|()| match declared == Revision::LATEST.name() {
            true => headers.check_name(method, &Request::Read(URI.to_owned())),
            false => Ok(()),
        });
        checked.err().map(|error| error.code)
    }

    #[test]
    fn a_request_whose_headers_say_what_it_says_is_in_order() {
        let encoded = format!("=?base64?{}?=", STANDARD.encode(URI));
        assert_eq!(fault("2026-07-28", &[LATEST, READ, ("mcp-name", &encoded)]), None);
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
            assert_eq!(fault("2026-07-28", &headers), Some(ErrorCode::HEADER_MISMATCH), "{headers:?}");
        }
    }

    #[test]
    fn a_repeated_revision_or_session_is_rejected() {
        for name in [PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER] {
            for values in [["2026-07-28", "2026-07-28"], ["2026-07-28", "2025-06-18"]] {
                let map = header_map(&values.map(|value| (name, value)));
                let error = Headers(&map).check_repetition().unwrap_err();
                assert_eq!(error.code, ErrorCode::HEADER_MISMATCH);
                assert!(error.message.contains(name), "{}", error.message);
            }
            assert!(Headers(&header_map(&[(name, "2026-07-28")])).check_repetition().is_ok());
        }
    }

    #[test]
    fn revisions_that_have_no_such_headers_need_none() {
        let named = [(PROTOCOL_VERSION_HEADER, "2025-11-25")];
        assert_eq!(fault("2025-11-25", &named), None);
        assert_eq!(fault("2025-11-25", &[named[0], ("mcp-method", "other")]), None);
        assert_eq!(fault("2025-11-25", &[]), Some(ErrorCode::HEADER_MISMATCH));
    }

    #[test]
    fn a_request_of_a_session_names_any_revision_with_sessions_or_none() {
        let may_be_of_session = |headers: &[_]| {
            let map = header_map(headers);
            Headers(&map).may_be_of_session().map_err(|error| error.code)
        };
        assert_eq!(may_be_of_session(&[]), Ok(true));
        assert_eq!(may_be_of_session(&[(PROTOCOL_VERSION_HEADER, "2025-11-25")]), Ok(true));
        assert_eq!(may_be_of_session(&[LATEST]), Ok(false));
        let unknown = may_be_of_session(&[(PROTOCOL_VERSION_HEADER, "2099-01-01")]);
        assert_eq!(unknown, Err(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION));
    }

    #[test]
    fn a_notification_needs_no_method_header_and_must_not_name_another_method() {
        let check = |headers: &[_], is_in_session| {
            let map = header_map(headers);
            let checked = Headers(&map).check_one_way(Some("notifications/cancelled"), is_in_session);
            checked.map_err(|error| error.code)
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
}
