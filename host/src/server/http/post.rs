//! What clients post: requests for resources that are in order are answered here, the rest goes to rmcp, checked before as it
//! answers bad JSON with 415, and knows no batches.
//!
//! | posted | status | body |
//! |---|---|---|
//! | no JSON, no message ([`jsonrpc`](crate::server::jsonrpc)) | 400 | the error, without an `id` where none can be read |
//! | more than [`limits.body`](crate::config::http::HttpServerLimits::body) | 413 | text |
//! | more than there is room for beside other bodies ([`request_body`](super::request_body)) | 503 | text |
//! | `subscriptions/listen` when as many [streams](super::stream_limiter) are open as there may be | 503 | text |
//! | not whole within [`limits.read-timeout`](crate::config::http::HttpServerLimits::read_timeout) | 408 | text |
//! | another `initialize` within a session, or a request with the id of one in flight | 400 | the error |
//! | `initialize` with parameters that are none; `server/discover` within a session | 200 | the error |
//! | `initialize` of a revision that has none | 404 | the error |
//!
//! A body is read as soon as it is whole, and then goes away: what is kept of it until the answer is what
//! [`params`](crate::server::params) bounds, and rmcp gets a message that is [written anew](crate::server::reencode).
//!
//! Each message of a batch is taken by itself, with the headers of the whole. The answers are the events of one stream,
//! in the order in which they are ready; a batch in which nothing wants an answer is accepted with 202.
//!
//! A batch is one of revision 2025-03-26, whose clients send no `MCP-Protocol-Version`: a request that names another
//! revision there has none.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use rmcp::model::RequestId;
use tokio_util::task::AbortOnDropHandle;

use super::SESSION_ID_HEADER;
use super::connection::ResponseCharge;
use super::guarded_body::GuardedBody;
use super::in_flight::{Claim, InFlight};
use super::preflight::{self, PROTOCOL_VERSION_HEADER};
use super::request_body::BodyLimiter;
use super::rmcp_service::RmcpService;
use super::sessions::SessionGuard;
use super::stream_limiter::StreamLimiter;
use crate::access::Principal;
use crate::host::Host;
use crate::server::budget::{Account, Charge};
use crate::server::client::Client;
use crate::server::client_id::ClientId;
use crate::server::json::Encoder;
use crate::server::jsonrpc::{self, Incoming, Kind, Message, Rejection};
use crate::server::methods;
use crate::server::params::InvalidParams;
use crate::server::reencode;
use crate::server::resource_requests::{self, Reply, ResourceRequest};
use crate::server::revision::Revision;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Takes what is posted.
pub(super) struct PostHandler {
    host: Arc<Host>,
    in_flight: InFlight,
    rmcp: Arc<RmcpService>,
    body_limiter: BodyLimiter,
    stream_limiter: Arc<StreamLimiter>,
}

/// What becomes of a message that is taken.
enum Dispatch {
    /// It is answered here.
    Direct(Box<DirectRequest>),
    /// It goes to rmcp. The id of a request is claimed until it is answered.
    Forward(Option<Claim>),
}

/// A request for resources that is in order.
struct DirectRequest {
    id: RequestId,
    request: Result<ResourceRequest, InvalidParams>,
    principal: Principal,
    revision: Revision,
    session: Option<SessionGuard>,
    claim: Option<Claim>,
}

/// Whether what is posted is said to be a message. What is not, rmcp answers as it should.
pub(super) fn is_json_post(request: &Request) -> bool {
    let value = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    request.method() == Method::POST
        && essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

impl PostHandler {
    pub(super) fn new(host: Arc<Host>, rmcp: Arc<RmcpService>, stream_limiter: Arc<StreamLimiter>) -> Self {
        Self { host, in_flight: InFlight::default(), rmcp, body_limiter: BodyLimiter::default(), stream_limiter }
    }

    /// Answers a message of that principal, or a batch of them.
    pub(super) async fn handle(&self, request: Request, principal: &Principal, account: &Arc<Account>) -> Response {
        let (mut parts, body) = request.into_parts();
        let sent =
            match self.body_limiter.receive(body, &parts, account.client(), &self.host.config().http.limits).await {
                // The text is not needed any more.
                Ok(body) => jsonrpc::parse(&body, Some(header_revision(&parts)), &self.host.config().server.extensions),
                Err(refused) => return refused,
            };
        match sent {
            Ok(Incoming::Single(message)) => match self.dispatch(&mut parts, &message, principal) {
                Ok(Dispatch::Direct(answering)) => answering.respond(&self.host, account).await,
                Ok(Dispatch::Forward(claim)) => self.forward(parts, claim, &message, account.client()).await,
                Err((status, refusal)) => message_response(status, &refusal.into_message()),
            },
            Ok(Incoming::Batch(messages)) => self.batch(parts, messages, principal, account).await,
            Err(refusal) => message_response(StatusCode::BAD_REQUEST, &refusal.into_message()),
        }
    }

    /// Takes a message, or refuses it.
    fn dispatch(
        &self,
        parts: &mut Parts,
        message: &Message,
        principal: &Principal,
    ) -> Result<Dispatch, (StatusCode, Rejection)> {
        let session = parts.headers.get(SESSION_ID_HEADER).and_then(|session| session.to_str().ok());
        let Kind::Request { id, params, .. } = &message.kind else {
            if let Some((session, id)) = session.zip(message.cancelled_request()) {
                self.in_flight.cancel(session, id);
            }
            return Ok(Dispatch::Forward(None));
        };
        let used = session.and_then(|session| self.rmcp.sessions().acquire(session));
        let client = used.as_ref().and_then(SessionGuard::client);
        let claim = claim_id(&self.host, &self.in_flight, session.map(|session| (session, client)), message)?;
        if let Some(revision) = preflight::direct_revision(&parts.headers, message, client)
            && let Some(request) = ResourceRequest::from_message(&self.host, revision, message)
        {
            let (id, principal) = (id.clone(), principal.clone());
            return Ok(Dispatch::Direct(Box::new(DirectRequest {
                id,
                request,
                principal,
                revision,
                session: used,
                claim,
            })));
        }
        if let Err(malformed) = params {
            parts.extensions.insert(malformed.clone());
        }
        Ok(Dispatch::Forward(claim))
    }

    /// Passes one message on to rmcp. That it was said to be JSON has been checked, so a 415 only says that rmcp could not
    /// make sense of it, which is put into words.
    async fn forward(&self, parts: Parts, claim: Option<Claim>, message: &Message, client: ClientId) -> Response {
        let place = match self.stream_limiter.acquire_for(message, client) {
            Ok(place) => place,
            Err(refused) => return refused.into_response(),
        };
        let unreadable = || message_response(StatusCode::BAD_REQUEST, &message.rejection().into_message());
        let Some(json) = reencode::to_json(message) else { return unreadable() };
        let response = self.rmcp.forward(Request::from_parts(parts, Body::from(json))).await;
        match response.status() {
            StatusCode::UNSUPPORTED_MEDIA_TYPE => unreadable(),
            _ => response.map(|body| GuardedBody::wrap(body, (claim, place))),
        }
    }

    async fn batch(
        &self,
        parts: Parts,
        messages: Vec<Result<Message, Rejection>>,
        principal: &Principal,
        account: &Arc<Account>,
    ) -> Response {
        let mut refused = Vec::new();
        let mut streams: Vec<BoxStream<'static, SseEvent>> = Vec::new();
        for message in messages {
            let mut parts = parts.clone();
            let admitted = message.and_then(|message| {
                let admitted = self.dispatch(&mut parts, &message, principal).map_err(|(_, refusal)| refusal)?;
                Ok((message, admitted))
            });
            let (message, claim) = match admitted {
                Ok((message, Dispatch::Forward(claim))) => (message, claim),
                Ok((_, Dispatch::Direct(answering))) => {
                    // A task of its own: an answer is charged for when it comes, not when its turn to be sent does.
                    let (host, account) = (self.host.clone(), account.clone());
                    let answering = tokio::spawn(async move { answering.execute(&host, &account).await });
                    let answer = stream::once(AbortOnDropHandle::new(answering));
                    streams.push(answer.filter_map(async |answer| Some(SseEvent::Reply(answer.ok()??))).boxed());
                    continue;
                }
                Err(refusal) => {
                    refused.push(refusal.into_message());
                    continue;
                }
            };
            let response = self.forward(parts, claim, &message, account.client()).await;
            match response.status() {
                StatusCode::OK => streams.push(response.into_body().into_data_stream().map(SseEvent::Encoded).boxed()),
                StatusCode::ACCEPTED => {}
                // What is wrong is wrong with all of them: there is no such session, or the headers say nonsense.
                _ => return response,
            }
        }
        if streams.is_empty() {
            return match refused.is_empty() {
                true => StatusCode::ACCEPTED.into_response(),
                false => message_response(StatusCode::BAD_REQUEST, &refused),
            };
        }
        let refused = refused.iter().map(|refusal| SseEvent::Rejection(jsonrpc::to_json(refusal)));
        // Each is an event, and is sent to its end before the next.
        let events_of_all = stream::iter(refused.collect::<Vec<_>>()).chain(stream::select_all(streams));
        sse_response(Body::from_stream(events_of_all.flat_map(SseEvent::into_chunks)))
    }
}

/// An event of the answer to a batch.
enum SseEvent {
    /// A message that is refused.
    Rejection(Vec<u8>),
    /// An answer of ours.
    Reply(Reply),
    /// As it comes from rmcp, whose every piece is one event.
    Encoded(Result<Bytes, axum::Error>),
}

impl SseEvent {
    fn into_chunks(self) -> BoxStream<'static, Result<Bytes, axum::Error>> {
        let (json, charge) = match self {
            Self::Encoded(ready) => return stream::iter([ready]).boxed(),
            Self::Rejection(json) => (Encoder::from_json(json), None),
            Self::Reply(Reply { json, charge, .. }) => (json, charge),
        };
        chunks(json.wrap("data: ", "\n\n"), charge).map(Ok).boxed()
    }
}

/// A document piece by piece, as they are asked for, and what is dropped with it. Between two pieces the thread is yielded, so that
/// a client that reads as fast as they are made keeps no other from its answer.
fn chunks(json: Encoder, charge: Option<Charge>) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::unfold((json, charge, false), async |(mut json, charge, is_begun)| {
        if is_begun {
            tokio::task::yield_now().await;
        }
        let piece = json.next_chunk()?;
        Some((Bytes::from(piece), (json, charge, true)))
    })
}

impl DirectRequest {
    /// The answer as a response. A request that is cancelled has none, which is what a stream says that ends.
    async fn respond(self, host: &Host, account: &Arc<Account>) -> Response {
        let is_unknown = matches!(self.request, Ok(ResourceRequest::Unknown(_)));
        let is_of_session = self.session.is_some() && self.revision.has_sessions();
        let Some(answer) = self.execute(host, account).await else { return sse_response(Body::empty()) };
        if is_unknown && is_of_session {
            return sse_response(Body::from_stream(SseEvent::Reply(answer).into_chunks()));
        }
        let Reply { mut json, charge, .. } = answer;
        let status = if is_unknown { StatusCode::NOT_FOUND } else { StatusCode::OK };
        let first = json.next_chunk().unwrap_or_default();
        let mut response = match json.is_finished() {
            true => json_response(status, first),
            false => {
                let first = stream::iter([Bytes::from(first)]);
                let body = Body::from_stream(first.chain(chunks(json, None)).map(Ok::<_, Infallible>));
                (status, [(CONTENT_TYPE, JSON)], body).into_response()
            }
        };
        if let Some(charge) = charge {
            response.extensions_mut().insert(ResponseCharge::new(charge));
        }
        response
    }

    /// The answer, unless the request is cancelled.
    async fn execute(self, host: &Host, account: &Arc<Account>) -> Option<Reply> {
        let Self { id, request: asked, principal, revision, session, claim } = self;
        let answering = resource_requests::respond(host, &principal, account, id, asked, revision);
        let answer = match &claim {
            Some(claim) => tokio::select! {
                answer = answering => answer,
                () = claim.cancelled() => return None,
            },
            None => answering.await,
        };
        if let Some(client) = session.as_ref().and_then(SessionGuard::client) {
            client.warn_missing(&answer.missing).await;
        }
        Some(answer)
    }
}

/// The revision that the headers name. Without one it is the first that had this transport (MCP 2025-06-18, "Protocol
/// Version Header"); that of one which nobody knows does not matter, as rmcp refuses it.
fn header_revision(parts: &Parts) -> Revision {
    let Some(named) = parts.headers.get(PROTOCOL_VERSION_HEADER) else { return Revision::V2025_03_26 };
    named.to_str().ok().and_then(Revision::from_name).unwrap_or(Revision::LATEST)
}

/// Claims the id of a request, if it can be taken as it is.
fn claim_id(
    host: &Host,
    in_flight: &InFlight,
    session: Option<(&str, Option<&Client>)>,
    message: &Message,
) -> Result<Option<Claim>, (StatusCode, Rejection)> {
    let Kind::Request { id, method, params } = &message.kind else { return Ok(None) };
    if method == "initialize" {
        if message.is_stateless() {
            let error = methods::method_not_found(host, Revision::LATEST, method);
            return Err((StatusCode::NOT_FOUND, Rejection { id: Some(id.clone()), error }));
        }
        if session.is_some() {
            let refusal = Rejection::invalid_request(Some(id.clone()), jsonrpc::ALREADY_INITIALIZED);
            return Err((StatusCode::BAD_REQUEST, refusal));
        }
        params.as_ref().map_err(|malformed| (StatusCode::OK, Rejection::invalid_params(id.clone(), malformed)))?;
    }
    if let ("server/discover", Some((_, client)), false) = (method.as_str(), session, message.is_stateless()) {
        let revision = client.map_or(Revision::LATEST_WITH_SESSIONS, |client| client.revision);
        let error = methods::method_not_found(host, revision, method);
        return Err((StatusCode::OK, Rejection { id: Some(id.clone()), error }));
    }
    let claim = session.map(|(session, _)| {
        in_flight.claim(session, id).ok_or_else(|| {
            let reason = format!("the id {id} is that of a request that has not been answered");
            (StatusCode::BAD_REQUEST, Rejection::invalid_request(Some(id.clone()), reason))
        })
    });
    claim.transpose()
}

fn message_response(status: StatusCode, message: &impl serde::Serialize) -> Response {
    json_response(status, serde_json::to_vec(message).unwrap_or_default())
}

/// The answer to one message.
fn json_response(status: StatusCode, json: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, JSON)], json).into_response()
}

fn sse_response(body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE, EVENT_STREAM),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Some proxies keep back what is not yet much.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}
