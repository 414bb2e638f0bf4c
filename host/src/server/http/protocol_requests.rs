//! Requests of the protocol itself: the lifecycle, subscriptions and log levels of sessions, and the lists that are
//! announced and empty. All others are [requests for resources](crate::server::resource_requests).
//!
//! In a session the response is an event stream of one event, and JSON otherwise.

#![allow(deprecated, reason = "the revisions that have levels of log messages are still served")]

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use futures::FutureExt as _;
use rmcp::ErrorData;
use rmcp::model::{CacheScope, DiscoverResult, ErrorCode, LoggingLevel, ProtocolVersion, RequestId};
use serde_json::{Value, json};

use super::json_response::message_response;
use super::sessions::{Agreement, SessionGuard};
use super::sse_response::{event, sse_response};
use crate::audit::RequestContext;
use crate::host::Host;
use crate::server::error::to_rpc;
use crate::server::in_flight::Claim;
use crate::server::methods;
use crate::server::params::{InitializeParams, InvalidParams, Params};
use crate::server::revision::Revision;
use crate::server::server_info::{self, ServerInfoCache};

/// A request of the protocol itself.
pub(super) struct ProtocolRequest {
    pub(super) id: RequestId,
    pub(super) method: String,
    pub(super) params: Result<Params, InvalidParams>,
    pub(super) revision: Revision,
    pub(super) session: Option<SessionGuard>,
    /// The id, until the request is answered.
    pub(super) claim: Option<Claim>,
    pub(super) context: RequestContext,
}

/// What it requests.
enum Operation {
    Ping,
    Discover,
    SetLevel(LoggingLevel),
    Subscribe(String),
    Unsubscribe(String),
    /// An announced list, which is empty: the name of its member.
    EmptyList(&'static str),
    /// An element of such a list, which does not exist: its kind and its name.
    Absent(&'static str, String),
}

/// Returns what `initialize` agrees on, and its result.
pub(super) fn initialize(host: &Host, info: &ServerInfoCache, params: &InitializeParams) -> (Agreement, Value) {
    let requested = Revision::from_name(&params.version).filter(|revision| revision.has_sessions());
    let revision = requested.unwrap_or(Revision::LATEST_WITH_SESSIONS);
    let mut result = server_info::for_revision((*info.current(host)).clone(), revision);
    result.protocol_version = protocol_version(revision);
    let resources = result.capabilities.resources.as_ref();
    let may_subscribe = resources.and_then(|resources| resources.subscribe) == Some(true);
    (Agreement { revision, may_subscribe }, json!(result))
}

/// Returns the message with a result.
pub(super) fn success(id: &RequestId, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn protocol_version(revision: Revision) -> ProtocolVersion {
    let named = ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == revision.name());
    named.cloned().unwrap_or_default()
}

impl ProtocolRequest {
    /// Answers with a response. A cancelled request has no answer, which is an event stream without events.
    pub(super) async fn respond(self, host: &Arc<Host>, info: &ServerInfoCache) -> Response {
        let (id, is_of_session) = (self.id.clone(), self.session.is_some() && self.revision.has_sessions());
        let Some(answer) = self.execute(host, info).await else { return sse_response(Body::empty()) };
        let status = match &answer {
            Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        };
        let message = to_message(&id, answer);
        if is_of_session { sse_response(event(&message).into()) } else { message_response(status, &message) }
    }

    /// Executes the request and returns the answer as a message; none if the request is cancelled.
    pub(super) async fn message(self, host: &Arc<Host>, info: &ServerInfoCache) -> Option<Value> {
        let id = self.id.clone();
        Some(to_message(&id, self.execute(host, info).await?))
    }

    async fn execute(self, host: &Arc<Host>, info: &ServerInfoCache) -> Option<Result<Value, ErrorData>> {
        let Self { id: _, method, params, revision, session, claim, context } = self;
        let operation = match operation(host, &method, params, revision, session.as_ref()) {
            Ok(operation) => operation,
            Err(error) => return Some(Err(error)),
        };
        let answering = context.scope(perform(host, info, operation, revision, session.as_ref()));
        let answering = async {
            let answered = AssertUnwindSafe(answering).catch_unwind().await;
            answered.unwrap_or_else(|_| Err(ErrorData::internal_error("the server failed; its log says why", None)))
        };
        match &claim {
            Some(claim) => tokio::select! {
                answer = answering => Some(answer),
                () = claim.cancelled() => None,
            },
            None => Some(answering.await),
        }
    }
}

fn to_message(id: &RequestId, answer: Result<Value, ErrorData>) -> Value {
    match answer {
        Ok(result) => success(id, result),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
    }
}

/// Parses a request, or returns why it is rejected.
fn operation(
    host: &Host,
    method: &str,
    params: Result<Params, InvalidParams>,
    revision: Revision,
    session: Option<&SessionGuard>,
) -> Result<Operation, ErrorData> {
    let is_subscription = matches!(method, "resources/subscribe" | "resources/unsubscribe") && revision.has_sessions();
    // The capability holds for the lifetime of the session, whatever a reload removes.
    let was_offered = is_subscription && session.is_some_and(SessionGuard::may_subscribe);
    if !was_offered && !methods::is_supported(host, revision, method) {
        return Err(methods::method_not_found(host, revision, method));
    }
    let params = params.map_err(|InvalidParams(reason)| ErrorData::invalid_params(reason, None))?;
    match (method, params) {
        ("ping", _) => Ok(Operation::Ping),
        ("server/discover", _) => Ok(Operation::Discover),
        ("logging/setLevel", Params::Level(level)) => Ok(Operation::SetLevel(level)),
        ("resources/subscribe", Params::Resource { uri, .. }) => Ok(Operation::Subscribe(uri)),
        ("resources/unsubscribe", Params::Resource { uri, .. }) => Ok(Operation::Unsubscribe(uri)),
        ("prompts/list", _) => Ok(Operation::EmptyList("prompts")),
        ("tools/list", _) => Ok(Operation::EmptyList("tools")),
        ("prompts/get", Params::Named { name: Some(name), .. }) => Ok(Operation::Absent("prompt", name)),
        ("tools/call", Params::Tool(call)) if call.name.is_some() => {
            Ok(Operation::Absent("tool", call.name.unwrap_or_default()))
        }
        (method, _) => Err(ErrorData::invalid_params(format!("{method}: the params make no sense"), None)),
    }
}

async fn perform(
    host: &Arc<Host>,
    info: &ServerInfoCache,
    operation: Operation,
    revision: Revision,
    session: Option<&SessionGuard>,
) -> Result<Value, ErrorData> {
    match (operation, session) {
        (Operation::Discover, _) => {
            let about = server_info::for_revision((*info.current(host)).clone(), revision);
            let mut discovered = DiscoverResult::from_server_info(ProtocolVersion::KNOWN_VERSIONS.to_vec(), about);
            discovered.cache_scope = CacheScope::Public;
            Ok(json!(discovered))
        }
        (Operation::EmptyList(member), _) => Ok(match revision.has_cache_hints() {
            true => json!({ "resultType": "complete", member: [], "ttlMs": 0, "cacheScope": "private" }),
            false => json!({ member: [] }),
        }),
        (Operation::Absent(kind, name), _) => {
            Err(ErrorData::invalid_params(format!("there is no {kind} {name}"), None))
        }
        (Operation::SetLevel(level), Some(session)) => {
            session.log().set_level(level);
            Ok(json!({}))
        }
        (Operation::Subscribe(uri), Some(session)) => {
            let subscribed = host.subscribe(session.subscriber(), &uri).await;
            session.end_stream_without_updates();
            subscribed.map(|()| json!({})).map_err(|error| to_rpc(&error, revision))
        }
        (Operation::Unsubscribe(uri), Some(session)) => {
            let unsubscribed = host.unsubscribe(session.subscriber(), &uri);
            unsubscribed.map(|()| json!({})).map_err(|error| to_rpc(&error, revision))
        }
        // Those that need a session are rejected without one before.
        (Operation::Ping | Operation::SetLevel(_) | Operation::Subscribe(_) | Operation::Unsubscribe(_), _) => {
            Ok(json!({}))
        }
    }
}
