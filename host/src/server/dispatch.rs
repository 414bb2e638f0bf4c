//! Dispatch: which messages are answered by the host itself, which are forwarded to rmcp, and which are rejected.
//!
//! Both transports use it. A transport supplies the lifecycle of the connection or session that a message belongs to, and
//! the evidence that the message alone does not give: over HTTP the headers must confirm the revision.
//!
//! | request | dispatch |
//! |---|---|
//! | `initialize` that declares a revision without sessions | rejected: method not found |
//! | `initialize` in a session | rejected: invalid request |
//! | `initialize` with malformed parameters | rejected: invalid params |
//! | `server/discover` in a session, of a revision with sessions | rejected: method not found |
//! | a request for resources, or of an unknown method, whose revision is known and confirmed | direct |
//! | any other | forwarded: rmcp answers it, or rejects it with a message of its own |
//!
//! The revision of a request follows from its `_meta`, by the rules of rmcp:
//!
//! | `_meta` declares | revision |
//! |---|---|
//! | nothing | that of the session; without a session none |
//! | a revision and the capabilities of the client | that revision |
//! | a revision only | that revision, in a session, if the revision has sessions |

use rmcp::model::RequestId;

use super::jsonrpc::{ALREADY_INITIALIZED, DeclaredRevision, Kind, Message, Rejection};
use super::methods;
use super::params::InvalidParams;
use super::resource_requests::ResourceRequest;
use super::revision::Revision;
use crate::host::Host;

/// The lifecycle of the connection or session that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifecycle {
    /// There is no session: no `initialize` has been received, or the message names no session.
    Uninitialized,
    /// `initialize` has been received and not been answered, or the message names an unknown session.
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
    /// rmcp gets it.
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

/// Dispatches a message. `is_confirmed` decides whether the transport's evidence agrees with the revision of a request; a
/// request without this confirmation is forwarded, for rmcp to reject it.
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

/// rmcp would answer `server/discover` in a session, whose revision does not have it.
fn check_discover(host: &Host, id: &RequestId, lifecycle: Lifecycle) -> Result<(), Rejection> {
    let revision = match lifecycle {
        Lifecycle::Session(revision) => revision,
        Lifecycle::Initializing => Revision::LATEST_WITH_SESSIONS,
        _ => return Ok(()),
    };
    Err(Rejection::method_not_found(id, methods::method_not_found(host, revision, "server/discover")))
}

/// The revision of a request; none if it is malformed by the rules of rmcp.
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
