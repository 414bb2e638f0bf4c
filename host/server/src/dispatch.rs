//! Dispatch: determines the method and the revision of a message, or the reason for its rejection. Both transports use
//! it.
//!
//! | message | dispatch |
//! |---|---|
//! | `initialize` that declares a revision without sessions | rejected: method not found |
//! | `initialize` in a session | rejected: invalid request |
//! | `initialize` with malformed parameters | rejected: invalid params |
//! | `server/discover` in a session, of a revision with sessions | rejected: method not found |
//! | a request whose revision is unknown, or cannot be determined | rejected |
//! | a request that needs a session, outside of one | rejected: invalid request |
//! | `subscriptions/listen` | a stream of notifications |
//! | any other request | one answer |
//! | a notification, an answer | none |
//!
//! The revision of a request follows from its `_meta`:
//!
//! | `_meta` declares | revision |
//! |---|---|
//! | nothing | the revision of the session; without a session none, but a `ping` over stdio has one |
//! | a revision and the capabilities of the client | that revision |
//! | a revision only | that revision, in a session, if the revision has sessions |
//!
//! HTTP repeats parts of a message in headers, which must match the message. A transport supplies them as [`Evidence`].

use mcp_host_config::Config;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;

use super::error::RpcError;
use super::jsonrpc::{DeclaredRevision, Kind, Message, Rejection, RejectionStatus, RequestId};
use super::method::{Method, method_not_found};
use super::params::{
    CLIENT_CAPABILITIES_META_KEY, InitializeParams, InvalidParams, ListenParams, PROTOCOL_VERSION_META_KEY,
};
use super::request::Request;
use super::revision::Revision;
use super::session::Session;

/// The reason for rejecting a second `initialize`.
const ALREADY_INITIALIZED: &str = "the session is open: `initialize` comes once, and first";

/// The dispatch of a message that is not rejected.
#[derive(Debug)]
pub(super) enum Dispatch {
    /// The message opens a session.
    Initialize(RequestId, Box<InitializeParams>),
    /// The message is answered by a stream of notifications.
    Listen(RequestId, ListenParams),
    /// The message is answered once.
    Request(RequestId, Call),
    /// The message cancels this request.
    Cancel(RequestId),
    /// The message notifies that the session has been initialized.
    Initialized,
    /// The message has no effect and no answer.
    Ignore,
}

/// A request that is answered once.
#[derive(Debug)]
pub(super) struct Call {
    /// The method. None if there is no such method.
    pub(super) method: Option<&'static Method>,
    pub(super) request: Result<Request, InvalidParams>,
    pub(super) revision: Revision,
}

/// Properties of a message that a transport has besides its text, such as HTTP headers. The default implementation has
/// none.
pub(super) trait Evidence {
    /// Checks the repeated parts of `initialize`.
    fn check_initialize(&self, _: &InitializeParams) -> Result<(), RpcError> {
        Ok(())
    }

    /// Checks the repeated parts of a notification with that method, or of an answer.
    fn check_one_way(&self, _method: Option<&str>, _is_in_session: bool) -> Result<(), RpcError> {
        Ok(())
    }

    /// Checks that the transport repeats the declared revision.
    fn check_revision(&self, _declared: &str) -> Result<(), RpcError> {
        Ok(())
    }

    /// Checks the repeated method of a request of a revision without sessions.
    fn check_method(&self, _name: &str) -> Result<(), RpcError> {
        Ok(())
    }

    /// Checks the repeated name or URI in a request of a revision without sessions.
    fn check_name(&self, _method: &Method, _request: &Request) -> Result<(), RpcError> {
        Ok(())
    }

    /// Returns whether a request without a declared revision may belong to a session.
    fn may_be_of_session(&self) -> Result<bool, RpcError> {
        Ok(true)
    }

    /// Returns the error for a request that needs a session and has none. None for a transport with a single session,
    /// which `initialize` opens: there the error names the missing members of `_meta`, and a `ping` is allowed.
    fn no_session(&self) -> Option<RpcError> {
        None
    }
}

/// A transport with messages only.
impl Evidence for () {}

/// Dispatches a message of a principal, in a session or outside of one.
pub(super) fn dispatch(
    host: &Host,
    config: &Config,
    principal: &Principal,
    message: Message,
    session: Option<&Session>,
    evidence: &impl Evidence,
) -> Result<Dispatch, Rejection> {
    let is_in_session = session.is_some();
    let is_stateless = message.is_stateless();
    let declared_capabilities = message.meta.has_capabilities;
    let one_way = |method| evidence.check_one_way(method, is_in_session).map_err(|error| Rejection::new(None, error));
    let (id, name, method, request) = match &message.kind {
        Kind::Request { id, name, method, request } => (id, name.as_str(), *method, request),
        Kind::Notification { method, cancelled_request } => {
            one_way(Some(method))?;
            return Ok(match cancelled_request {
                Some(id) => Dispatch::Cancel(id.clone()),
                None if method == "notifications/initialized" => Dispatch::Initialized,
                None => Dispatch::Ignore,
            });
        }
        Kind::Response => return one_way(None).map(|()| Dispatch::Ignore),
    };
    let reject = |error| Rejection::new(Some(id.clone()), error);
    let not_found = |revision| reject(method_not_found(host, config, principal, revision, name));
    let may_subscribe = session.is_some_and(Session::may_subscribe);
    let exists = |revision| method.filter(|method| method.exists(host, config, principal, revision, may_subscribe));
    match name {
        "initialize" if is_stateless => return Err(not_found(Revision::LATEST).with_status(RejectionStatus::NotFound)),
        "initialize" if is_in_session => return Err(Rejection::invalid_request(Some(id.clone()), ALREADY_INITIALIZED)),
        "server/discover" if !is_stateless => {
            // Revisions with sessions do not have this method.
            if let Some(session) = session {
                return Err(not_found(session.revision()).with_status(RejectionStatus::Ok));
            }
        }
        _ => {}
    }
    match request {
        Ok(Request::Initialize(params)) => {
            evidence.check_initialize(params).map_err(reject)?;
            return Ok(Dispatch::Initialize(id.clone(), params.clone()));
        }
        Err(malformed) if name == "initialize" => {
            return Err(reject(malformed.into()).with_status(RejectionStatus::Ok));
        }
        // Parameters that are not an object have no `_meta` that could declare a revision.
        Err(malformed)
            if !message.meta.is_valid && (session.is_none() || method.is_some_and(|method| method.is_protocol)) =>
        {
            return Err(reject(malformed.into()));
        }
        _ => {}
    }
    let session_revision = session.map(Session::revision);
    let revision = request_revision(&message, name, session_revision, evidence).map_err(reject)?;
    let method = exists(revision);
    if !revision.has_sessions() {
        evidence.check_method(name).map_err(reject)?;
        let Some(method) = method else { return Err(not_found(revision).with_status(RejectionStatus::NotFound)) };
        if let Ok(request) = request {
            evidence.check_name(method, request).map_err(reject)?;
        }
        if !declared_capabilities {
            return Err(reject(incomplete_meta(&[CLIENT_CAPABILITIES_META_KEY])));
        }
    }
    if session.is_none() && method.is_some_and(|method| method.needs_session) {
        let reason =
            format!("`{name}` is about a session: open one with `initialize`, and name it in `Mcp-Session-Id`");
        return Err(Rejection::invalid_request(Some(id.clone()), reason));
    }
    let request = match (method, request) {
        (None, _) => Ok(Request::Unknown(name.to_owned())),
        (Some(_), request) => request.clone(),
    };
    Ok(match request {
        Ok(Request::Listen(listen)) => Dispatch::Listen(id.clone(), listen),
        request => Dispatch::Request(id.clone(), Call { method, request, revision }),
    })
}

/// Returns the revision of a request in a session or outside of one, or the error if it has none.
fn request_revision(
    message: &Message,
    name: &str,
    session: Option<Revision>,
    evidence: &impl Evidence,
) -> Result<Revision, RpcError> {
    let (DeclaredRevision::Complete(declared) | DeclaredRevision::VersionOnly(declared)) = message.declared_revision()
    else {
        let missing: &[&str] = match message.meta.has_capabilities {
            true => &[PROTOCOL_VERSION_META_KEY],
            false => &[PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY],
        };
        if !evidence.may_be_of_session()? || name == "server/discover" {
            return Err(incomplete_meta(missing));
        }
        return match (session, evidence.no_session()) {
            (Some(revision), _) => Ok(revision),
            (None, Some(error)) => Err(error),
            // A client may test the connection before it opens a session.
            (None, None) if name == "ping" => Ok(Revision::LATEST_WITH_SESSIONS),
            (None, None) => Err(incomplete_meta(missing)),
        };
    };
    evidence.check_revision(declared)?;
    let revision = Revision::from_name(declared)
        .ok_or_else(|| RpcError::unsupported_revision("Unsupported protocol version", declared))?;
    if revision.has_sessions() && !message.meta.has_capabilities && session.is_none() {
        let error = evidence.no_session();
        return Err(error.unwrap_or_else(|| incomplete_meta(&[CLIENT_CAPABILITIES_META_KEY])));
    }
    Ok(revision)
}

/// The error for a request whose `_meta` lacks these members.
fn incomplete_meta(missing: &[&str]) -> RpcError {
    let missing = missing.join(", ");
    RpcError::invalid_params(format!("request _meta is missing or has malformed required fields: {missing}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::error::ErrorCode;
    use crate::jsonrpc::{self, Incoming};
    use crate::session::Agreement;
    use mcp_resource_host::access::Principal;

    const SESSION: Option<Revision> = Some(Revision::V2025_06_18);

    fn request(method: &str, meta: &Value) -> Message {
        let params = json!({ "uri": "a://b", "_meta": meta });
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        match jsonrpc::parse(text.as_bytes(), None, &[]) {
            Ok(Incoming::Single(message)) => message,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn version_only(version: &str) -> Value {
        json!({ "io.modelcontextprotocol/protocolVersion": version })
    }

    fn complete(version: &str) -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {}
        })
    }

    #[test]
    fn a_request_is_of_the_revision_that_it_declares_or_else_of_its_session() {
        let revision = |meta, session| request_revision(&request("resources/read", &meta), "", session, &()).ok();
        assert_eq!(revision(json!({}), None), None);
        assert_eq!(revision(version_only("2025-11-25"), None), None);
        assert_eq!(revision(complete("2026-07-28"), None), Some(Revision::V2026_07_28));
        assert_eq!(revision(json!({}), SESSION), Some(Revision::V2025_06_18));
        assert_eq!(revision(version_only("2025-11-25"), SESSION), Some(Revision::V2025_11_25));
        assert_eq!(revision(complete("2099-01-01"), SESSION), None);
    }

    #[tokio::test]
    async fn requests_are_of_a_session_or_declare_a_revision_and_the_rest_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new();
        config.server.cache = Some(dir.path().join("cache"));
        config.server.state = Some(dir.path().join("state"));
        let host = Host::start(config).await.unwrap();
        let agreement = Agreement { revision: Revision::V2025_06_18, may_subscribe: false };
        let transport = crate::server_metrics::Transport::Stdio;
        let session = Session::new(&host, &Principal::LOCAL, agreement, transport, None);
        let dispatched = |method, meta, session| {
            dispatch(&host, &host.config(), &Principal::LOCAL, request(method, &meta), session, &())
                .map_err(|rejection| (rejection.error.code, rejection.status))
        };
        let read = dispatched("resources/read", json!({}), Some(&session));
        let Ok(Dispatch::Request(_, Call { request: Ok(Request::Read(_)), revision, .. })) = read else {
            panic!("{read:?}")
        };
        assert_eq!(revision, Revision::V2025_06_18);
        let ping = dispatched("ping", json!({}), Some(&session));
        assert!(matches!(ping, Ok(Dispatch::Request(_, Call { request: Ok(Request::Ping), .. }))), "{ping:?}");
        let ping = dispatched("ping", json!({}), None);
        assert!(matches!(ping, Ok(Dispatch::Request(_, Call { request: Ok(Request::Ping), .. }))), "{ping:?}");
        let discover = dispatched("server/discover", complete("2026-07-28"), Some(&session));
        assert!(matches!(discover, Ok(Dispatch::Request(_, Call { request: Ok(Request::Discover), .. }))));
        let (invalid_request, not_found) = (ErrorCode::INVALID_REQUEST, ErrorCode::METHOD_NOT_FOUND);
        let invalid_params = ErrorCode::INVALID_PARAMS;
        for (method, meta, session, code, status) in [
            ("initialize", complete("2026-07-28"), None, not_found, RejectionStatus::NotFound),
            ("initialize", json!({}), Some(&session), invalid_request, RejectionStatus::BadRequest),
            ("initialize", json!({}), None, invalid_params, RejectionStatus::Ok),
            ("server/discover", json!({}), Some(&session), not_found, RejectionStatus::Ok),
            ("server/discover", json!({}), None, invalid_params, RejectionStatus::BadRequest),
            ("resources/read", json!({}), None, invalid_params, RejectionStatus::BadRequest),
            ("resources/read", version_only("2026-07-28"), None, invalid_params, RejectionStatus::BadRequest),
            ("nonsense", version_only("2026-07-28"), None, not_found, RejectionStatus::NotFound),
            ("logging/setLevel", complete("2025-11-25"), None, invalid_request, RejectionStatus::BadRequest),
        ] {
            assert_eq!(dispatched(method, meta, session).err(), Some((code, status)), "{method} {session:?}");
        }
    }
}
