//! `POST` requests, in one pass ([`Endpoint::post`]): a request is received, authorized, [dispatched](crate::dispatch)
//! and answered. A request is in flight once its body is complete, so a client that never completes a body does not
//! delay a shutdown.
//!
//! | request | status | body |
//! |---|---|---|
//! | malformed JSON, not a message ([`jsonrpc`](crate::jsonrpc)) | 400 | the error, without an `id` where none can be read |
//! | more than [`limits.body`](mcp_host_config::http::HttpServerLimits::body) | 413 | text |
//! | more than the limit of all bodies that are being received ([`request_body`](super::request_body)) | 503 | text |
//! | a batch of more messages than its client may send now ([`rate_limiter`](super::rate_limiter)) | 429 | the error |
//! | `subscriptions/listen` beyond the limit of open streams | 503 | text |
//! | incomplete after [`limits.read-timeout`](mcp_host_config::http::HttpServerLimits::read_timeout) | 408 | text |
//! | another `initialize` within a session, or a request with the id of one in flight | 400 | the error |
//! | headers or `_meta` that do not confirm the revision ([`preflight`]) | 400 | the error |
//! | `initialize` with malformed parameters; `server/discover` within a session | 200 | the error |
//! | `initialize` of a revision without sessions | 404 | the error |
//! | any message in a session that does not exist, is over, or is another principal's | 404 | the error |
//! | `resources/subscribe`, `resources/unsubscribe` and `logging/setLevel` outside of a session | 400 | the error |
//! | any message without a session that requires one; an unknown revision in the header | 400 | the error |
//!
//! A body is parsed as soon as it is complete, and then dropped: [`params`](crate::params) bounds the parts that are
//! retained until the answer. A session is [opened](super::sessions) before `initialize` is answered. In a session, a
//! request of the protocol itself is answered by an event stream of one event, and any other by JSON.
//!
//! Each message of a batch is dispatched separately, with the headers of the batch. The answers are the events of one
//! stream, in the order in which they are ready; a batch without requests is accepted with 202. The errors of rejected
//! messages, and one for each request whose answer will have no room, are charged to the client's
//! [budget](crate::budget) before the requests are executed, whose answers may take all of it. A batch without room for
//! these errors is rejected with 503, and none of its requests is executed.
//!
//! Batches belong to revision 2025-03-26, whose clients do not send `MCP-Protocol-Version`. A batch is rejected if this
//! header names another revision, or if the request names no session.

mod exchange;
mod pending_call;

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request as HttpRequest;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream, StreamExt as _};
use mcp_host_base::trace::TraceParent;
use mcp_host_config::Operation;
use mcp_host_model::caller::AccessToken;
use tracing::Instrument as _;

use self::exchange::{Exchange, InFlightRequest, traceparent_of};
use self::pending_call::{PendingCall, SseEvent};
use super::endpoint::Endpoint;
use super::head::check_json_body;
use super::layers::accept;
use super::preflight::{self, Headers};
use super::request_source::RequestSource;
use super::response::{
    GuardedBody, ResponseCharge, chunks, document_response, event, message_response, rejection_response, sse_response,
    with_keep_alive,
};
use super::sessions::{self, Change, Missing, SessionGuard};
use crate::SESSION_ID_HEADER;
use crate::budget::{self, Account, Charge};
use crate::dispatch::{Call, Dispatch, dispatch};
use crate::error::{Outcome, RpcError};
use crate::json::Encoder;
use crate::jsonrpc::{self, Incoming, Kind, Message, Rejection, RejectionStatus, RequestId};
use crate::listen::{self, Listener};
use crate::method::Method;
use crate::params::{InitializeParams, ListenParams};
use crate::request_context::RequestContext;
use crate::respond::budget_error;
use crate::revision::Revision;
use crate::server_info;
use crate::server_metrics::Transport;
use crate::trace::{Arrival, Rejected};

/// The pending answer to a message of a batch.
enum BatchAnswer {
    /// The answer to a request, which has not been executed.
    Call(Box<PendingCall>),
    /// An event stream.
    Events(BoxStream<'static, SseEvent>),
}

impl BatchAnswer {
    /// Returns the bytes to reserve for an error instead of the answer.
    fn refusal_cost(&self) -> usize {
        match self {
            Self::Call(call) => call.refusal_cost(),
            Self::Events(_) => 0,
        }
    }
}

/// The received message, messages of a batch, or none.
type Received = Result<Incoming, Rejection>;

impl Endpoint {
    /// Answers a request of this source, whose credentials are verified again if that is necessary.
    pub(super) async fn post(&self, request: HttpRequest, source: &mut RequestSource) -> Result<Response, Response> {
        check_head(request.headers()).map_err(|rejected| *rejected)?;
        let (headers, received) = self.receive(request, source).await?;
        self.authorize(&received, source).await?;
        let source = &*source;
        let in_flight = self.begin_request().map_err(|closed| *closed)?;
        let response = match received {
            Ok(Incoming::Single(message)) => {
                let rejected = Rejected::of(Some(&message));
                let answer = self.answer(message, &headers, source).await;
                answer.inspect_err(|rejection| self.record_rejection(rejected, rejection, &headers, source))
            }
            Ok(Incoming::Batch(messages)) => Box::pin(self.answer_batch(messages, &headers, source)).await,
            Err(rejection) => {
                self.record_rejection(Rejected::of(None), &rejection, &headers, source);
                Err(rejection)
            }
        };
        // The request is in flight until the answer has been sent.
        Ok(response.unwrap_or_else(rejection_response).map(|body| GuardedBody::wrap(body, in_flight)))
    }

    /// Receives and parses the body of a request. The text is dropped after parsing.
    async fn receive(&self, request: HttpRequest, source: &RequestSource) -> Result<(HeaderMap, Received), Response> {
        let (head, body) = request.into_parts();
        let (client, limits) = (source.account.client(), &source.config.http.limits);
        let body = self.body_limiter.receive(body, source.peer.bodies.as_ref(), client, limits).await?;
        let headers = Headers(&head.headers);
        let received = match headers.check_repetition() {
            Ok(()) => jsonrpc::parse(&body, Some(headers.revision()), &source.config.server.extensions),
            Err(error) => Err(Rejection::new(None, error)),
        };
        Ok((head.headers, received))
    }

    /// Checks the rates and the authorization of the source, now that the body has been received. Credentials that are
    /// verified again replace the source's, because a token may have other scopes then, and its issuer may require
    /// others.
    async fn authorize(&self, received: &Received, source: &mut RequestSource) -> Result<(), Response> {
        let RequestSource { config, authenticated, account, .. } = source;
        let client = account.client();
        if let Ok(Incoming::Batch(messages)) = received
            && let Some(further) = NonZeroU32::new(u32::try_from(messages.len().saturating_sub(1)).unwrap_or(u32::MAX))
        {
            let taken = self.rate_limiter.take(client, further, &config.http.limits);
            taken.map_err(IntoResponse::into_response)?;
        }
        // Receiving the body may have taken long.
        if authenticated.is_outdated() {
            let verified = Box::pin(self.authenticator.verify_again(authenticated)).await;
            *authenticated = verified.map_err(|error| self.reject(&error, client))?;
        }
        let operations = match received {
            Ok(Incoming::Single(message)) => self.operations(message),
            Ok(Incoming::Batch(messages)) => {
                messages.iter().flatten().flat_map(|message| self.operations(message)).collect()
            }
            Err(_) => Vec::new(),
        };
        authenticated.require_scopes(&operations).map_err(|error| self.reject(&error, client))
    }

    /// Returns the operations that a message requests.
    fn operations(&self, message: &Message) -> Vec<Operation> {
        match &message.kind {
            Kind::Request { method: Some(method), request, .. } => method.operations(&self.host, request.as_ref().ok()),
            _ => Vec::new(),
        }
    }

    /// Answers one message.
    async fn answer(
        &self,
        message: Message,
        headers: &HeaderMap,
        source: &RequestSource,
    ) -> Result<Response, Rejection> {
        let is_stateless = message.is_stateless();
        let session = match self.session_of(headers, source, !is_stateless).await {
            // A message of a revision without sessions belongs to no session, even if a header names one.
            Err(_) if is_stateless => None,
            session => session.map_err(|missing| missing.rejection(message.request_id().cloned()))?,
        };
        let exchange = Exchange { headers, source, session };
        let traceparent = message.meta.traceparent;
        match self.dispatch(message, &exchange)? {
            Dispatch::Request(id, call) => Ok(self.call(id, call, traceparent, &exchange)?.respond().await),
            // Boxed, because these cases are rare (`Endpoint::handle`).
            Dispatch::Listen(id, params) => Box::pin(self.listen(id, params, traceparent, &exchange)).await,
            Dispatch::Initialize(id, params) => {
                Ok(Box::pin(self.initialize(id, &params, traceparent, &exchange)).await)
            }
            one_way => {
                self.accept(&one_way, &exchange).await;
                Ok(StatusCode::ACCEPTED.into_response())
            }
        }
    }

    /// Answers the messages of a batch, which only sessions have, with a stream of one event per answer, in the order
    /// in which the answers are ready.
    async fn answer_batch(
        &self,
        messages: Vec<Result<Message, Rejection>>,
        headers: &HeaderMap,
        source: &RequestSource,
    ) -> Result<Response, Rejection> {
        let first = messages.iter().flatten().next().and_then(|message| message.request_id().cloned());
        let session = match self.session_of(headers, source, true).await {
            Ok(Some(session)) => Some(session),
            without => {
                let rejection = match without {
                    Ok(_) => Rejection::new(first, preflight::no_session()),
                    Err(missing) => missing.rejection(first),
                };
                for message in &messages {
                    self.record_rejection(Rejected::of(message.as_ref().ok()), &rejection, headers, source);
                }
                return Err(rejection);
            }
        };
        let exchange = Exchange { headers, source, session };
        let (mut rejected, mut answers) = (Vec::new(), Vec::new());
        for message in messages {
            let of_message = Rejected::of(message.as_ref().ok());
            match self.answer_in_batch(message, &exchange).await {
                Ok(answer) => answers.extend(answer),
                Err(rejection) => {
                    self.record_rejection(of_message, &rejection, headers, source);
                    rejected.push(rejection.into_response());
                }
            }
        }
        if rejected.is_empty() && answers.is_empty() {
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        let errors = match answers.is_empty() {
            true => serde_json::to_vec(&rejected).unwrap_or_default(),
            false => rejected.iter().flat_map(event).collect(),
        };
        let of_rejected = if errors.is_empty() { 0 } else { budget::encoded_cost(errors.len()) };
        let price = answers.iter().map(BatchAnswer::refusal_cost).fold(of_rejected, usize::saturating_add);
        let mut charge = source.account.charge(price).await.map_err(|exceeded| {
            Rejection::new(first, budget_error(exceeded, price)).with_status(RejectionStatus::Unavailable)
        })?;
        let errors = Encoder::from_json(errors);
        if answers.is_empty() {
            let mut response = document_response(StatusCode::BAD_REQUEST, errors);
            ResponseCharge::attach(&mut response, charge);
            return Ok(response);
        }
        let streams = answers.into_iter().map(|answer| {
            let reserved = charge.split(answer.refusal_cost());
            match answer {
                BatchAnswer::Call(call) => call.events(reserved),
                BatchAnswer::Events(events) => events,
            }
        });
        // Each answer is one event, which is sent completely before the next one.
        let events = stream::select_all(streams).flat_map(SseEvent::into_chunks);
        Ok(sse_response(Body::from_stream(chunks(errors, Some(charge), 0).map(Ok).chain(events))))
    }

    /// Returns the answer to one message of a batch. None if the message has no answer.
    async fn answer_in_batch(
        &self,
        message: Result<Message, Rejection>,
        exchange: &Exchange<'_>,
    ) -> Result<Option<BatchAnswer>, Rejection> {
        let message = message?;
        let traceparent = message.meta.traceparent;
        Ok(match self.dispatch(message, exchange)? {
            Dispatch::Request(id, call) => {
                Some(BatchAnswer::Call(Box::new(self.call(id, call, traceparent, exchange)?)))
            }
            Dispatch::Listen(id, params) => {
                let events = self.listen(id, params, traceparent, exchange).await?.into_body().into_data_stream();
                Some(BatchAnswer::Events(events.map(SseEvent::Encoded).boxed()))
            }
            one_way => {
                self.accept(&one_way, exchange).await;
                None
            }
        })
    }

    /// Returns the session that the headers of a request name, if any. With `may_restore`, a session of another replica
    /// can be restored.
    async fn session_of(
        &self,
        headers: &HeaderMap,
        source: &RequestSource,
        may_restore: bool,
    ) -> Result<Option<SessionGuard>, Missing> {
        let Some(id) = sessions::session_id(headers) else { return Ok(None) };
        self.sessions.find(id, source, may_restore).await.map(Some)
    }

    /// Processes a message that has no answer.
    async fn accept(&self, message: &Dispatch, exchange: &Exchange<'_>) {
        exchange.accept(message);
        if let (Dispatch::Initialized, Some(session)) = (message, &exchange.session) {
            // There is no answer to report the error in.
            let _ = Box::pin(self.sessions.share(session, Change::Initialized)).await;
        }
    }

    fn dispatch(&self, message: Message, exchange: &Exchange<'_>) -> Result<Dispatch, Rejection> {
        let session = exchange.session.as_ref().map(|session| &**session.session());
        let source = exchange.source;
        dispatch(
            &self.host,
            &source.config,
            &source.authenticated.principal,
            message,
            session,
            &Headers(exchange.headers),
        )
    }

    /// Counts and traces a message that is rejected.
    fn record_rejection(&self, rejected: Rejected, rejection: &Rejection, headers: &HeaderMap, source: &RequestSource) {
        let (http, address) = (traceparent_of(headers), source.peer.account.client().address());
        let arrival = Arrival { config: &source.config, transport: Transport::Http, http, address };
        rejected.record(&self.metrics, &arrival, rejection);
    }

    /// Prepares a request that is answered once.
    fn call(
        &self,
        id: RequestId,
        call: Call,
        traceparent: Option<TraceParent>,
        exchange: &Exchange<'_>,
    ) -> Result<PendingCall, Rejection> {
        let InFlightRequest { claim, trace, audit } =
            exchange.begin(&id, call.method, call.request.as_ref().ok(), call.revision, traceparent)?;
        let RequestSource { config, authenticated, account, .. } = exchange.source;
        let context = RequestContext {
            host: self.host.clone(),
            config: config.clone(),
            principal: authenticated.principal.clone(),
            account: account.clone(),
            revision: call.revision,
            session: exchange.session.as_ref().map(SessionGuard::session).cloned(),
            audit,
            trace,
            scopes: authenticated.scopes(),
            issued_token: authenticated.issued_token(),
        };
        let timer = self.metrics.begin_request(Transport::Http, call.method, call.revision);
        let session = exchange.session.clone();
        Ok(PendingCall { id, call, context, sessions: self.sessions.clone(), session, claim, timer })
    }

    /// Opens an event stream, within the limit of streams. The stream ends at graceful shutdown, and has a comment
    /// after each pause of `http.keep-alive`.
    async fn listen(
        &self,
        id: RequestId,
        mut params: ListenParams,
        traceparent: Option<TraceParent>,
        exchange: &Exchange<'_>,
    ) -> Result<Response, Rejection> {
        let InFlightRequest { claim, trace, audit } =
            exchange.begin(&id, listen::method(), None, Revision::LATEST, traceparent)?;
        let RequestSource { config, authenticated, account, .. } = exchange.source;
        // The acknowledgment leaves out the subscriptions that the token does not allow.
        let scopes = authenticated.scopes();
        params.list_changed = params.list_changed.filter(|_| scopes.include(Operation::List));
        let permit = match self.acquire_stream(exchange.source) {
            Ok(permit) => permit,
            Err(rejected) => {
                listen::count(&self.metrics, Transport::Http, Outcome::Unavailable);
                return Ok(*rejected);
            }
        };
        let end = event(&listen::end(config, id.clone()));
        let principal = &authenticated.principal;
        let beginning = Listener::begin(&self.host, id.clone(), params, principal, audit);
        let beginning = scopes.scope(beginning.instrument(trace.span()));
        let beginning = AccessToken::scope(authenticated.issued_token(), beginning);
        let begun = match account.client().requester(principal).scope(beginning).await {
            Ok(listener) => acknowledge(listener, account).await,
            Err(error) => Err(error),
        };
        listen::count(&self.metrics, Transport::Http, trace.record(&begun));
        let (listener, acknowledged) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                return Ok(message_response(StatusCode::OK, &jsonrpc::Response::new(id, Err(error))));
            }
        };
        // The charge is held until the event after the first one is requested.
        let first = stream::unfold(acknowledged, async |(first, charge)| Some((first?, (None, charge))));
        let notifications = first.chain(listener.notifications().map(|notification| event(&notification)));
        let events = notifications.take_until(self.shutdown.clone().cancelled_owned()).chain(stream::iter([end]));
        let events = with_keep_alive(events, config.http.keep_alive.duration());
        let body = Body::from_stream(events.map(Ok::<_, Infallible>));
        Ok(sse_response(GuardedBody::wrap(body, (claim, permit))))
    }

    /// Opens a session. It counts towards the limit of sessions before the response exists, even if the response is
    /// never sent.
    async fn initialize(
        &self,
        id: RequestId,
        params: &InitializeParams,
        traceparent: Option<TraceParent>,
        exchange: &Exchange<'_>,
    ) -> Response {
        let source = exchange.source;
        let (agreement, result) =
            server_info::initialize(&self.host, &source.config, &source.authenticated.principal, &params.version);
        let (method, revision) = (Method::named("initialize", &[]), Some(agreement.revision));
        let trace = exchange.trace(&id, method, None, agreement.revision, traceparent);
        let session = match self.sessions.open(source, agreement) {
            Ok(session) => session,
            Err(rejected) => {
                self.metrics.count_request(Transport::Http, method, revision, Outcome::Unavailable);
                trace.fail_with(Outcome::Unavailable);
                return *rejected;
            }
        };
        self.sessions.opened(&session).await;
        trace.opened(session.hash());
        self.metrics.count_request(Transport::Http, method, revision, Outcome::Ok);
        let mut response = sse_response(event(&jsonrpc::Response::new(id, Ok(result))).into());
        // A session id consists of hexadecimal digits.
        if let Ok(id) = HeaderValue::from_str(session.id()) {
            response.headers_mut().insert(SESSION_ID_HEADER, id);
        }
        response.map(|body| GuardedBody::wrap(body, session))
    }
}

/// The first event of a stream, with its charge.
type FirstEvent = (Option<Bytes>, Charge);

/// Takes the first event of a stream, and charges it to the client: it repeats the resources of the request, of up to
/// 256 KiB, and a client may have many streams.
async fn acknowledge(mut listener: Listener, account: &Arc<Account>) -> Result<(Listener, FirstEvent), RpcError> {
    let first = listener.take_acknowledged().map(|acknowledged| event(&acknowledged));
    let price = budget::encoded_cost(first.as_ref().map_or(0, Bytes::len));
    let charge = account.charge(price).await.map_err(|exceeded| budget_error(exceeded, price))?;
    Ok((listener, (first, charge)))
}

/// Checks that the client accepts both media types of an answer, and sends JSON.
fn check_head(headers: &HeaderMap) -> Result<(), Box<Response>> {
    if !accept::accepts_json_and_sse(headers) {
        let text = "Not Acceptable: Client must accept both application/json and text/event-stream";
        return Err(Box::new((StatusCode::NOT_ACCEPTABLE, text).into_response()));
    }
    check_json_body(headers).map_err(|rejection| Box::new(rejection.into_response()))
}
