//! `POST` requests: requests for [resources](crate::server::resource_requests), requests of the [protocol
//! itself](super::protocol_requests), and [`subscriptions/listen`](super::listen).
//!
//! | request | status | body |
//! |---|---|---|
//! | malformed JSON, not a message ([`jsonrpc`](crate::server::jsonrpc)) | 400 | the error, without an `id` where none can be read |
//! | more than [`limits.body`](crate::config::http::HttpServerLimits::body) | 413 | text |
//! | more than the limit of all bodies that are being received ([`request_body`](super::request_body)) | 503 | text |
//! | a batch of more messages than its client may send now ([`rate_limiter`](super::rate_limiter)) | 429 | the error |
//! | `subscriptions/listen` beyond the limit of open [streams](super::stream_limiter) | 503 | text |
//! | incomplete after [`limits.read-timeout`](crate::config::http::HttpServerLimits::read_timeout) | 408 | text |
//! | another `initialize` within a session, or a request with the id of one in flight | 400 | the error |
//! | headers or `_meta` that do not confirm the revision ([`preflight`]) | 400 | the error |
//! | `initialize` with malformed parameters; `server/discover` within a session | 200 | the error |
//! | `initialize` of a revision without sessions | 404 | the error |
//! | any message in a session that does not exist, is over, or is another principal's | 404 | the error |
//! | `resources/subscribe`, `resources/unsubscribe` and `logging/setLevel` outside of a session | 400 | the error |
//! | any message that names no session and has to; an unknown revision in the header | 400 | the error |
//!
//! A body is parsed as soon as it is complete, and then dropped: [`params`](crate::server::params) bounds what is
//! retained of it until the answer. A session is [opened](super::sessions) before `initialize` is answered.
//!
//! Each message of a batch is dispatched by itself, with the headers of the batch. The answers are the events of one
//! stream, in the order in which they are ready; a batch without requests is accepted with 202.
//!
//! Batches are of revision 2025-03-26, whose clients do not send `MCP-Protocol-Version`: in a request that names
//! another revision there they are rejected.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream, StreamExt as _};
use rmcp::model::{ErrorCode, RequestId, ServerJsonRpcMessage};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::authentication::Authenticated;
use super::caller::Caller;
use super::charge::ResponseCharge;
use super::document::{chunks, document_response};
use super::guarded_body::GuardedBody;
use super::json_response::message_response;
use super::listen::ListenRequest;
use super::preflight::{self, PROTOCOL_VERSION_HEADER, Refusal};
use super::protocol_requests::{self, ProtocolRequest};
use super::request_body::BodyLimiter;
use super::sessions::{self, SessionGuard, Sessions};
use super::sse_response::{event, sse_response};
use super::stream_limiter::StreamLimiter;
use crate::access::Principal;
use crate::audit::{RequestContext, TraceId};
use crate::config::Operation;
use crate::host::Host;
use crate::server::SESSION_ID_HEADER;
use crate::server::budget::Account;
use crate::server::dispatch::{self, Lifecycle};
use crate::server::in_flight::Claim;
use crate::server::json::Encoder;
use crate::server::jsonrpc::{self, DeclaredRevision, Incoming, Kind, Message, Rejection};
use crate::server::methods;
use crate::server::params::{InitializeParams, InvalidParams, Params};
use crate::server::resource_requests::{self, Reply, ResourceRequest};
use crate::server::revision::Revision;
use crate::server::server_info::ServerInfoCache;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Handles `POST` requests.
pub(super) struct PostHandler {
    host: Arc<Host>,
    sessions: Arc<Sessions>,
    body_limiter: BodyLimiter,
    stream_limiter: Arc<StreamLimiter>,
    info: Arc<ServerInfoCache>,
    /// Ends the streams of `subscriptions/listen`.
    shutdown: CancellationToken,
}

/// The methods that change the state of a session, and would be acknowledged without effect outside of one.
const SESSION_METHODS: [&str; 3] = ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"];

/// A request whose body is complete.
pub(super) struct ReceivedRequest {
    head: Parts,
    sent: Result<Incoming, Rejection>,
}

impl ReceivedRequest {
    /// Returns the operations that its messages request.
    pub(super) fn operations(&self, host: &Host) -> Vec<Operation> {
        match &self.sent {
            Ok(Incoming::Single(message)) => operations(host, message),
            Ok(Incoming::Batch(messages)) => {
                messages.iter().flatten().flat_map(|message| operations(host, message)).collect()
            }
            Err(_) => Vec::new(),
        }
    }
}

/// The dispatch of a message that is not rejected.
enum Dispatch {
    /// It is a request for resources.
    Direct(Box<DirectRequest>),
    /// It is answered by a stream of events. The id is claimed until that ends.
    Listen(Box<ListenRequest>, Option<Claim>),
    /// It opens a session.
    Initialize(RequestId, Box<InitializeParams>),
    /// It is another request of the protocol itself.
    Protocol(Box<ProtocolRequest>),
    /// It has no answer.
    Accepted,
    /// It is rejected because of its headers: all messages of a batch have the same.
    Refused(Response),
}

/// A request for resources.
struct DirectRequest {
    id: RequestId,
    request: Result<ResourceRequest, InvalidParams>,
    principal: Principal,
    revision: Revision,
    session: Option<SessionGuard>,
    claim: Option<Claim>,
    context: RequestContext,
}

/// Returns whether a body is declared as JSON. Any other is rejected.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

impl ReceivedRequest {
    /// Returns the number of messages beyond the first.
    pub(super) fn further_messages(&self) -> Option<NonZeroU32> {
        let Ok(Incoming::Batch(messages)) = &self.sent else { return None };
        NonZeroU32::new(u32::try_from(messages.len().saturating_sub(1)).unwrap_or(u32::MAX))
    }
}

impl PostHandler {
    pub(super) fn new(
        host: Arc<Host>,
        sessions: Arc<Sessions>,
        stream_limiter: Arc<StreamLimiter>,
        shutdown: CancellationToken,
    ) -> Self {
        let info = Arc::new(ServerInfoCache::default());
        Self { host, sessions, body_limiter: BodyLimiter::default(), stream_limiter, info, shutdown }
    }

    /// Receives the body of a request of that caller, and parses it.
    pub(super) async fn receive(&self, request: Request, caller: &Caller) -> Result<ReceivedRequest, Response> {
        let (head, body) = request.into_parts();
        let config = self.host.config();
        // The text is dropped once it is parsed.
        let body = self.body_limiter.receive(body, &head, caller.account.client(), &config.http.limits).await?;
        let sent = jsonrpc::parse(&body, Some(header_revision(&head)), &self.host.config().server.extensions);
        Ok(ReceivedRequest { head, sent })
    }

    /// Answers a message of that caller, or a batch of messages.
    pub(super) async fn handle(&self, request: ReceivedRequest, caller: &Caller) -> Response {
        let ReceivedRequest { head: parts, sent } = request;
        match sent {
            Ok(Incoming::Single(message)) => match self.dispatch(&parts, &message, &caller.authenticated) {
                Ok(Dispatch::Direct(request)) => request.respond(&self.host, &caller.account).await,
                // Boxed, as they are rare (`Endpoint::handle`).
                Ok(Dispatch::Listen(request, claim)) => Box::pin(self.listen(*request, claim, caller)).await,
                Ok(Dispatch::Protocol(request)) => Box::pin(request.respond(&self.host, &self.info)).await,
                Ok(Dispatch::Initialize(id, params)) => self.initialize(&id, &params, caller),
                Ok(Dispatch::Accepted) => StatusCode::ACCEPTED.into_response(),
                Ok(Dispatch::Refused(response)) => response,
                Err(rejection) => message_response(rejection_status(&message, &rejection), &rejection.into_message()),
            },
            Ok(Incoming::Batch(messages)) => Box::pin(self.batch(&parts, messages, caller)).await,
            Err(rejection) => message_response(StatusCode::BAD_REQUEST, &rejection.into_message()),
        }
    }

    /// Dispatches a message, or rejects it.
    fn dispatch(&self, parts: &Parts, message: &Message, authenticated: &Authenticated) -> Result<Dispatch, Rejection> {
        let id = sessions::session_id(&parts.headers);
        let session = id.and_then(|id| self.sessions.acquire(id, authenticated));
        // A message of a revision without sessions is in none, whatever its headers name.
        if id.is_some() && session.is_none() && !message.is_stateless() {
            return Ok(Dispatch::Refused(sessions::not_found(message.request_id())));
        }
        let session_revision = session.as_ref().map(SessionGuard::revision);
        let lifecycle = session_revision.map_or(Lifecycle::Uninitialized, Lifecycle::Session);
        let is_confirmed = |revision| preflight::confirms(&parts.headers, message, revision);
        let dispatched = dispatch::dispatch(&self.host, message, lifecycle, is_confirmed)?;
        let Kind::Request { id, method, params } = &message.kind else {
            return Ok(Self::accept(parts, message, session.as_ref()));
        };
        if session.is_none() && self.requires_session(method, message, &parts.headers) {
            let reason =
                format!("`{method}` is about a session: open one with `initialize`, and name it in `Mcp-Session-Id`");
            return Err(Rejection::invalid_request(Some(id.clone()), reason));
        }
        let claim = session.as_ref().map(|session| session.in_flight().claim(id).ok_or(Rejection::id_in_flight(id)));
        let claim = claim.transpose()?;
        let trace_id = message.meta.trace_id.or_else(|| header_trace_id(&parts.headers));
        let context = RequestContext::new(session.as_ref().map(SessionGuard::hash), id, trace_id);
        let may_list = authenticated.require_scopes(&[Operation::List]).is_ok();
        let context = if may_list { context } else { context.without_listings() };
        let may_list_templates = authenticated.require_scopes(&[Operation::Templates]).is_ok();
        let context = if may_list_templates { context } else { context.without_templates() };
        match dispatched {
            dispatch::Dispatch::Direct(request, revision) => {
                let (id, principal) = (id.clone(), authenticated.principal.clone());
                let direct = DirectRequest { id, request, principal, revision, session, claim, context };
                Ok(Dispatch::Direct(Box::new(direct)))
            }
            dispatch::Dispatch::Listen(params) => {
                let (id, principal) = (id.clone(), authenticated.principal.clone());
                let mut params = params;
                // It is acknowledged without what the token is not for.
                params.list_changed = params.list_changed.filter(|_| may_list);
                Ok(Dispatch::Listen(Box::new(ListenRequest { id, params, principal, context }), claim))
            }
            // Without parameters that are an object it has no `_meta` that could declare a revision.
            dispatch::Dispatch::Forward if !message.meta.is_valid => {
                Ok(Dispatch::Refused(message_response(StatusCode::BAD_REQUEST, &message.rejection().into_message())))
            }
            dispatch::Dispatch::Forward => {
                if let ("initialize", Ok(Params::Initialize(requested))) = (method.as_str(), params) {
                    return Ok(match preflight::check_initialize(&parts.headers, requested) {
                        Ok(()) => Dispatch::Initialize(id.clone(), requested.clone()),
                        Err(refusal) => Dispatch::Refused(refuse(Some(id), refusal)),
                    });
                }
                let not_found = |revision| {
                    let is_supported = methods::is_supported(&self.host, revision, method);
                    (!is_supported).then(|| methods::method_not_found(&self.host, revision, method))
                };
                let revision = preflight::check_request(&parts.headers, message, session_revision, not_found);
                Ok(match revision {
                    Ok(revision) => {
                        let (id, method, params) = (id.clone(), method.clone(), params.clone());
                        let request = ProtocolRequest { id, method, params, revision, session, claim, context };
                        Dispatch::Protocol(Box::new(request))
                    }
                    Err(refusal) => Dispatch::Refused(refuse(Some(id), refusal)),
                })
            }
        }
    }

    /// Accepts a notification or an answer, and does what it says.
    fn accept(parts: &Parts, message: &Message, session: Option<&SessionGuard>) -> Dispatch {
        if matches!(message.kind, Kind::Response { id: None, is_error: false }) {
            return Dispatch::Refused(message_response(StatusCode::BAD_REQUEST, &message.rejection().into_message()));
        }
        if let Err(refusal) = preflight::check_one_way(&parts.headers, message, session.is_some()) {
            return Dispatch::Refused(refuse(None, refusal));
        }
        if let (Some(session), Kind::Notification { method, cancelled_request }) = (session, &message.kind) {
            if let Some(cancelled) = cancelled_request {
                session.in_flight().cancel(cancelled);
            }
            if method == "notifications/initialized" {
                session.watch_listing();
            }
        }
        Dispatch::Accepted
    }

    /// Opens a session. The limit of sessions counts it before the response exists, whatever becomes of that.
    fn initialize(&self, id: &RequestId, params: &InitializeParams, caller: &Caller) -> Response {
        let (agreed, result) = protocol_requests::initialize(&self.host, &self.info, params);
        let session = match self.sessions.open(caller, agreed) {
            Ok(session) => session,
            Err(rejected) => return *rejected,
        };
        let mut response = sse_response(event(&protocol_requests::success(id, result)).into());
        // The characters of an id are hexadecimal digits.
        if let Ok(id) = HeaderValue::from_str(session.id()) {
            response.headers_mut().insert(SESSION_ID_HEADER, id);
        }
        response.map(|body| GuardedBody::wrap(body, session))
    }

    /// Returns whether a request that is in no session has to be in one. Where its headers do not confirm its revision,
    /// or the revision has no such method, it is rejected for that.
    fn requires_session(&self, method: &str, message: &Message, headers: &HeaderMap) -> bool {
        let (DeclaredRevision::Complete(name) | DeclaredRevision::VersionOnly(name)) = message.declared_revision()
        else {
            return false;
        };
        SESSION_METHODS.contains(&method)
            && Revision::from_name(name).is_some_and(|revision| {
                revision.has_sessions()
                    && methods::is_supported(&self.host, revision, method)
                    && preflight::confirms(headers, message, revision)
            })
    }

    /// Opens a stream of events, within the limit of streams.
    async fn listen(&self, request: ListenRequest, claim: Option<Claim>, caller: &Caller) -> Response {
        match self.stream_limiter.acquire(caller.account.client()) {
            Ok(permit) => {
                let response = request.respond(&self.host, &self.info, &self.shutdown).await;
                response.map(|body| GuardedBody::wrap(body, (claim, permit)))
            }
            Err(rejected) => rejected.into_response(),
        }
    }

    async fn batch(&self, parts: &Parts, messages: Vec<Result<Message, Rejection>>, caller: &Caller) -> Response {
        let mut rejected = Vec::new();
        let mut streams: Vec<BoxStream<'static, SseEvent>> = Vec::new();
        for message in messages {
            let dispatched = message.and_then(|message| self.dispatch(parts, &message, &caller.authenticated));
            match dispatched {
                Ok(Dispatch::Accepted) => {}
                Ok(Dispatch::Refused(response)) => return response,
                // It cannot be part of a batch, and has been rejected.
                Ok(Dispatch::Initialize(id, _)) => {
                    let rejection = Rejection::invalid_request(Some(id), jsonrpc::ALREADY_INITIALIZED);
                    rejected.push(rejection.into_message());
                }
                Ok(Dispatch::Listen(request, claim)) => {
                    let events = self.listen(*request, claim, caller).await.into_body().into_data_stream();
                    streams.push(events.map(SseEvent::Encoded).boxed());
                }
                Ok(Dispatch::Protocol(request)) => {
                    let (host, info) = (self.host.clone(), self.info.clone());
                    let message = tokio::spawn(async move { request.message(&host, &info).await });
                    let message = stream::once(AbortOnDropHandle::new(message));
                    let encoded =
                        message.filter_map(async |message| Some(SseEvent::Encoded(Ok(event(&message.ok()??)))));
                    streams.push(encoded.boxed());
                }
                Ok(Dispatch::Direct(request)) => {
                    // A task of its own: an answer is charged when it is ready, not when it is sent.
                    let (host, account) = (self.host.clone(), caller.account.clone());
                    let reply = tokio::spawn(async move { request.execute(&host, &account).await });
                    let reply = stream::once(AbortOnDropHandle::new(reply));
                    streams.push(reply.filter_map(async |reply| Some(SseEvent::Reply(reply.ok()??))).boxed());
                }
                Err(rejection) => rejected.push(rejection.into_message()),
            }
        }
        if streams.is_empty() {
            return match rejected.is_empty() {
                true => StatusCode::ACCEPTED.into_response(),
                false => message_response(StatusCode::BAD_REQUEST, &rejected),
            };
        }
        let rejected = rejected.iter().map(|rejection| SseEvent::Rejection(jsonrpc::to_json(rejection)));
        // Each answer is one event, which is sent completely before the next.
        let events = stream::iter(rejected.collect::<Vec<_>>()).chain(stream::select_all(streams));
        sse_response(Body::from_stream(events.flat_map(SseEvent::into_chunks)))
    }
}

/// An event of the answer to a batch.
enum SseEvent {
    /// The answer to a rejected message.
    Rejection(Vec<u8>),
    /// A direct answer.
    Reply(Reply),
    /// A chunk that is one whole event.
    Encoded(Result<Bytes, axum::Error>),
}

impl SseEvent {
    fn into_chunks(self) -> BoxStream<'static, Result<Bytes, axum::Error>> {
        let (json, charge) = match self {
            Self::Encoded(ready) => return stream::iter([ready]).boxed(),
            Self::Rejection(json) => (Encoder::from_json(json), None),
            Self::Reply(Reply { json, charge, .. }) => (json, charge),
        };
        chunks(json.wrap("data: ", "\n\n"), charge, 0).map(Ok).boxed()
    }
}

impl DirectRequest {
    /// Answers with a response. A cancelled request has no answer, which is an event stream without events.
    async fn respond(self, host: &Host, account: &Arc<Account>) -> Response {
        let is_unknown = matches!(self.request, Ok(ResourceRequest::Unknown(_)));
        let is_of_session = self.session.is_some() && self.revision.has_sessions();
        let Some(answer) = self.execute(host, account).await else { return sse_response(Body::empty()) };
        let Reply { json, charge, .. } = answer;
        let status = if is_unknown && !is_of_session { StatusCode::NOT_FOUND } else { StatusCode::OK };
        let mut response = document_response(status, json);
        if let Some(charge) = charge {
            ResponseCharge::attach(&mut response, charge);
        }
        response
    }

    /// Executes the request and returns the answer; none if the request is cancelled.
    async fn execute(self, host: &Host, account: &Arc<Account>) -> Option<Reply> {
        let Self { id, request, principal, revision, session, claim, context } = self;
        let answering = resource_requests::respond(host, &principal, account, id, request, revision, context);
        let answer = match &claim {
            Some(claim) => tokio::select! {
                answer = answering => answer,
                () = claim.cancelled() => return None,
            },
            None => answering.await,
        };
        if let Some(session) = &session {
            session.warn_missing(&answer.missing);
        }
        Some(answer)
    }
}

/// Returns the operations that a message requests.
fn operations(host: &Host, message: &Message) -> Vec<Operation> {
    match &message.kind {
        Kind::Request { method, params, .. } => methods::operations(host, method, params.as_ref().ok()),
        _ => Vec::new(),
    }
}

/// Returns the revision that the headers name. Without the header it is the first revision with this transport (MCP
/// 2025-06-18, "Protocol Version Header"); an unknown one, which is rejected, counts as the latest.
fn header_revision(parts: &Parts) -> Revision {
    let Some(named) = parts.headers.get(PROTOCOL_VERSION_HEADER) else { return Revision::V2025_03_26 };
    named.to_str().ok().and_then(Revision::from_name).unwrap_or(Revision::LATEST)
}

/// The trace that the headers name.
fn header_trace_id(headers: &HeaderMap) -> Option<TraceId> {
    headers.get(TRACEPARENT)?.to_str().ok()?.parse().ok()
}

/// Returns the response to a message with that id that is rejected because of its headers.
fn refuse(id: Option<&RequestId>, refusal: Refusal) -> Response {
    message_response(refusal.status, &ServerJsonRpcMessage::error(refusal.error, id.cloned()))
}

/// The status of a rejection.
fn rejection_status(message: &Message, rejection: &Rejection) -> StatusCode {
    match rejection.error.code {
        ErrorCode::INVALID_REQUEST => StatusCode::BAD_REQUEST,
        ErrorCode::METHOD_NOT_FOUND if message.is_stateless() => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}
