//! Dispatch: which messages are requests for resources, which concern the protocol itself, and which are rejected.
//!
//! Both transports use it. A transport supplies the lifecycle of the connection or session that a message belongs to,
//! and the evidence that the message alone does not give: over HTTP the headers must confirm the revision.
//!
//! | request | dispatch |
//! |---|---|
//! | `initialize` that declares a revision without sessions | rejected: method not found |
//! | `initialize` in a session | rejected: invalid request |
//! | `initialize` with malformed parameters | rejected: invalid params |
//! | `server/discover` in a session, of a revision with sessions | rejected: method not found |
//! | a request for resources, or of an unknown method, whose revision is known and confirmed | direct |
//! | `subscriptions/listen` whose revision has it and is confirmed | direct over HTTP, forwarded over stdio |
//! | any other | forwarded: over HTTP to `http::protocol_requests` and `http::preflight`, over stdio to rmcp, which answer or reject it |
//!
//! The revision of a request follows from its `_meta`:
//!
//! | `_meta` declares | revision |
//! |---|---|
//! | nothing | that of the session; without a session none |
//! | a revision and the capabilities of the client | that revision |
//! | a revision only | that revision, in a session, if the revision has sessions |

use rmcp::model::RequestId;

use super::jsonrpc::{ALREADY_INITIALIZED, DeclaredRevision, Kind, Message, Rejection};
use super::methods;
use super::params::{InvalidParams, ListenParams, Params};
use super::resource_requests::ResourceRequest;
use super::revision::Revision;
use crate::host::Host;

/// The lifecycle of the connection or session that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifecycle {
    /// There is no session: no `initialize` has been received, or the message names no session.
    Uninitialized,
    /// `initialize` has been received and not been answered. Over HTTP a session has been opened by then.
    #[cfg(any(feature = "stdio", test))]
    Initializing,
    /// A session in this revision is open.
    Session(Revision),
    /// The client began with a request that declares its revision for itself.
    #[cfg(feature = "stdio")]
    Stateless,
}

/// The dispatch of a message that is not rejected.
#[derive(Debug)]
pub(super) enum Dispatch {
    /// The host answers it in this revision.
    Direct(Result<ResourceRequest, InvalidParams>, Revision),
    /// It is `subscriptions/listen`, which the host can answer. Over stdio rmcp gets it, which ends it when it is cancelled.
    Listen(#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP answers it here"))] ListenParams),
    /// It concerns the protocol itself, or is to be rejected: the transport answers it.
    Forward,
}

impl Lifecycle {
    /// The revision of the open session.
    fn session_revision(self) -> Option<Revision> {
        match self {
            Self::Session(revision) => Some(revision),
            _ => None,
        }
    }
}

/// Dispatches a message. `is_confirmed` decides whether the transport's evidence agrees with the revision of a request;
/// a request without this confirmation is forwarded, to be rejected.
pub(super) fn dispatch(
    host: &Host,
    message: &Message,
    lifecycle: Lifecycle,
    is_confirmed: impl FnOnce(Revision) -> bool,
) -> Result<Dispatch, Rejection> {
    let Kind::Request { id, method, params } = &message.kind else { return Ok(Dispatch::Forward) };
    match method.as_str() {
        "initialize" => check_initialize(host, id, params.as_ref().err(), message, lifecycle)?,
        "server/discover" if !message.is_stateless() => check_discover(host, id, lifecycle)?,
        _ => {}
    }
    let revision = request_revision(message, lifecycle).filter(|revision| is_confirmed(*revision));
    if let (Ok(Params::Listen(listen)), Some(revision)) = (params, revision)
        && methods::is_supported(host, revision, method)
    {
        return Ok(Dispatch::Listen(listen.clone()));
    }
    let direct =
        revision.and_then(|revision| Some((ResourceRequest::from_message(host, revision, message)?, revision)));
    Ok(direct.map_or(Dispatch::Forward, |(request, revision)| Dispatch::Direct(request, revision)))
}

fn check_initialize(
    host: &Host,
    id: &RequestId,
    malformed: Option<&InvalidParams>,
    message: &Message,
    lifecycle: Lifecycle,
) -> Result<(), Rejection> {
    if message.is_stateless() {
        return Err(Rejection::method_not_found(id, methods::method_not_found(host, Revision::LATEST, "initialize")));
    }
    if lifecycle != Lifecycle::Uninitialized {
        return Err(Rejection::invalid_request(Some(id.clone()), ALREADY_INITIALIZED));
    }
    malformed.map_or(Ok(()), |malformed| Err(Rejection::invalid_params(id.clone(), malformed)))
}

/// A session is of a revision that does not have `server/discover`.
fn check_discover(host: &Host, id: &RequestId, lifecycle: Lifecycle) -> Result<(), Rejection> {
    let revision = match lifecycle {
        Lifecycle::Session(revision) => revision,
        #[cfg(any(feature = "stdio", test))]
        Lifecycle::Initializing => Revision::LATEST_WITH_SESSIONS,
        _ => return Ok(()),
    };
    Err(Rejection::method_not_found(id, methods::method_not_found(host, revision, "server/discover")))
}

/// The revision of a request; none if it is malformed.
fn request_revision(message: &Message, lifecycle: Lifecycle) -> Option<Revision> {
    let session = lifecycle.session_revision();
    match message.declared_revision() {
        DeclaredRevision::None => session,
        DeclaredRevision::Complete(name) => Revision::from_name(name),
        DeclaredRevision::VersionOnly(name) => {
            session.and(Revision::from_name(name)).filter(|declared| declared.has_sessions())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::Config;
    use crate::server::jsonrpc::{self, Incoming};

    const SESSION: Lifecycle = Lifecycle::Session(Revision::V2025_06_18);

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
        let revision = |meta, lifecycle| request_revision(&request("resources/read", &meta), lifecycle);
        for lifecycle in [Lifecycle::Uninitialized, Lifecycle::Initializing] {
            assert_eq!(revision(json!({}), lifecycle), None);
            assert_eq!(revision(version_only("2025-11-25"), lifecycle), None);
            assert_eq!(revision(complete("2026-07-28"), lifecycle), Some(Revision::V2026_07_28));
        }
        assert_eq!(revision(json!({}), SESSION), Some(Revision::V2025_06_18));
        assert_eq!(revision(version_only("2025-11-25"), SESSION), Some(Revision::V2025_11_25));
        assert_eq!(revision(version_only("2026-07-28"), SESSION), None);
        assert_eq!(revision(complete("2099-01-01"), SESSION), None);
    }

    #[tokio::test]
    async fn what_is_answered_here_is_confirmed_and_the_rest_is_forwarded() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new();
        config.server.cache = Some(dir.path().join("cache"));
        config.server.state = Some(dir.path().join("state"));
        let host = Host::start(config).await.unwrap();
        let read = request("resources/read", &json!({}));
        let direct = dispatch(&host, &read, SESSION, |_| true);
        assert!(matches!(direct, Ok(Dispatch::Direct(Ok(ResourceRequest::Read(_)), Revision::V2025_06_18))));
        assert!(matches!(dispatch(&host, &read, SESSION, |_| false), Ok(Dispatch::Forward)));
        assert!(matches!(dispatch(&host, &read, Lifecycle::Uninitialized, |_| true), Ok(Dispatch::Forward)));
        let ping = request("ping", &json!({}));
        assert!(matches!(dispatch(&host, &ping, SESSION, |_| true), Ok(Dispatch::Forward)));
        for (method, meta, lifecycle) in [
            ("initialize", complete("2026-07-28"), Lifecycle::Uninitialized),
            ("initialize", json!({}), SESSION),
            ("initialize", json!({}), Lifecycle::Initializing),
            ("initialize", json!({}), Lifecycle::Uninitialized),
            ("server/discover", json!({}), SESSION),
            ("server/discover", json!({}), Lifecycle::Initializing),
        ] {
            let dispatched = dispatch(&host, &request(method, &meta), lifecycle, |_| true);
            assert!(dispatched.is_err(), "{method} {meta} {lifecycle:?}: {dispatched:?}");
        }
        let discover = request("server/discover", &complete("2026-07-28"));
        assert!(matches!(dispatch(&host, &discover, SESSION, |_| true), Ok(Dispatch::Forward)));
    }
}
