//! What clients post, checked before rmcp sees it: it answers bad JSON with 415, and knows no batches.
//!
//! | posted | status | body |
//! |---|---|---|
//! | no JSON, no message ([`message`](crate::server::message)) | 400 | the error, without an `id` where none can be read |
//! | more than [`limits.body`](crate::config::HttpServerLimits::body) | 413 | text |
//! | not whole within [`limits.receive`](crate::config::HttpServerLimits::receive) | 408 | text |
//! | another `initialize` within a session, or a request with the id of one in flight | 400 | the error |
//! | `initialize` with parameters that are none; `server/discover` within a session | 200 | the error |
//! | `initialize` of a revision that has none | 404 | the error |
//!
//! Each message of a batch goes to rmcp by itself, with the headers of the whole. The answers are the events of one stream,
//! in the order in which they are ready; a batch in which nothing wants an answer is accepted with 202.
//!
//! A batch is one of revision 2025-03-26, whose clients send no `MCP-Protocol-Version`: a request that names another
//! revision there has none.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream, StreamExt as _};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rmcp::model::ServerJsonRpcMessage;
use tokio::time::timeout;

use super::SESSION;
use super::diverted::divert;
use super::guarded::Guarded;
use super::in_flight::{Claim, InFlight};
use crate::config::HttpServerLimits;
use crate::host::Host;
use crate::server::extensions;
use crate::server::message::{self, Kind, Message, Refusal, Sent};
use crate::server::revision::Revision;

/// The header that says which revision the client speaks.
pub(super) const PROTOCOL_VERSION: &str = "mcp-protocol-version";

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// What is posted is checked against.
#[derive(Clone)]
pub(super) struct Posts {
    host: Arc<Host>,
    in_flight: InFlight,
}

/// Whether a message goes on as it was sent.
struct Admitted {
    claim: Option<Claim>,
    /// It is another now: [`Message::value`] is what goes on.
    is_changed: bool,
}

impl Posts {
    pub(super) fn to(host: Arc<Host>) -> Self {
        Self { host, in_flight: InFlight::default() }
    }
}

/// Checks what is posted, and passes on what makes sense.
pub(super) async fn check(State(posts): State<Posts>, request: Request, next: Next) -> Response {
    // What is not even said to be JSON, rmcp answers as it should.
    if request.method() != Method::POST || !is_json(&request) {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let text = match collected(body, &posts.host.config().http.limits).await {
        Ok(text) => text,
        Err(refused) => return refused,
    };
    match message::read(&text, Some(revision(&parts))) {
        Ok(Sent::One(mut message)) => match posts.admit(&mut parts, &mut message) {
            Ok(Admitted { claim, is_changed }) => {
                let body = if is_changed { Body::from(message.value.to_string()) } else { Body::from(text) };
                one(Request::from_parts(parts, body), claim, &message, next).await
            }
            Err((status, refusal)) => answer(status, &refusal.into_message()),
        },
        Ok(Sent::Batch(messages)) => batch(&posts, parts, messages, next).await,
        Err(refusal) => answer(StatusCode::BAD_REQUEST, &refusal.into_message()),
    }
}

/// The body, within its limits.
async fn collected(body: Body, limits: &HttpServerLimits) -> Result<Bytes, Response> {
    let most = limits.body.bytes();
    let collecting = Limited::new(body, usize::try_from(most).unwrap_or(usize::MAX)).collect();
    let (status, text) = match timeout(limits.receive.duration(), collecting).await {
        Ok(Ok(collected)) => return Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {most} bytes\n"))
        }
        Ok(Err(_)) => (StatusCode::BAD_REQUEST, "the body breaks off\n".to_owned()),
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the body takes too long\n".to_owned()),
    };
    Err((status, text).into_response())
}

fn is_json(request: &Request) -> bool {
    let value = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// The revision that the headers name. Without one it is the first that had this transport (MCP 2025-06-18, "Protocol
/// Version Header"); that of one which nobody knows does not matter, as rmcp refuses it.
fn revision(parts: &Parts) -> Revision {
    let Some(named) = parts.headers.get(PROTOCOL_VERSION) else { return Revision::Mar2025 };
    named.to_str().ok().and_then(Revision::named).unwrap_or(Revision::NEWEST)
}

impl Posts {
    /// Lets a message pass, with what the handler has to know of it.
    fn admit(&self, parts: &mut Parts, message: &mut Message) -> Result<Admitted, (StatusCode, Refusal)> {
        let claim = claim(&self.in_flight, parts, message)?;
        let is_changed = match extensions::look(&self.host.config().server.extensions, message) {
            Ok(Some(asked)) => divert(parts, message, asked),
            Ok(None) => false,
            Err(malformed) => {
                parts.extensions.insert(malformed);
                false
            }
        };
        Ok(Admitted { claim, is_changed })
    }
}

/// Claims the id of a request, if it can be taken as it is.
fn claim(in_flight: &InFlight, parts: &Parts, message: &Message) -> Result<Option<Claim>, (StatusCode, Refusal)> {
    let Kind::Request { id, method, params } = &message.kind else { return Ok(None) };
    let session = parts.headers.get(SESSION).and_then(|session| session.to_str().ok());
    if method == "initialize" {
        if message.is_stateless() {
            return Err((StatusCode::NOT_FOUND, Refusal::unknown(id.clone(), "initialize")));
        }
        if session.is_some() {
            let refusal = Refusal::invalid(Some(id.clone()), message::SECOND_INITIALIZE);
            return Err((StatusCode::BAD_REQUEST, refusal));
        }
        params.as_ref().map_err(|malformed| (StatusCode::OK, Refusal::malformed(id.clone(), malformed)))?;
    }
    if method == "server/discover" && session.is_some() && !message.is_stateless() {
        return Err((StatusCode::OK, Refusal::unknown(id.clone(), "server/discover")));
    }
    let claim = session.map(|session| {
        in_flight.claim(session, id).ok_or_else(|| {
            let reason = format!("the id {id} is that of a request that has not been answered");
            (StatusCode::BAD_REQUEST, Refusal::invalid(Some(id.clone()), reason))
        })
    });
    claim.transpose()
}

/// Passes one message on. That it was said to be JSON has been checked, so a 415 only says that rmcp could not make sense
/// of it, which is put into words.
async fn one(request: Request, claim: Option<Claim>, message: &Message, next: Next) -> Response {
    let response = next.run(request).await;
    match response.status() {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => answer(StatusCode::BAD_REQUEST, &message.unreadable().into_message()),
        _ => response.map(|body| Guarded::body(body, claim)),
    }
}

async fn batch(posts: &Posts, parts: Parts, messages: Vec<Result<Message, Refusal>>, next: Next) -> Response {
    let mut refused = Vec::new();
    let mut streams: Vec<BoxStream<'static, Result<Bytes, axum::Error>>> = Vec::new();
    for message in messages {
        let mut parts = parts.clone();
        let admitted = message.and_then(|mut message| {
            let admitted = posts.admit(&mut parts, &mut message).map_err(|(_, refusal)| refusal)?;
            Ok((message, admitted.claim))
        });
        let (message, claim) = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => {
                refused.push(refusal.into_message());
                continue;
            }
        };
        let request = Request::from_parts(parts, Body::from(message.value.to_string()));
        let response = one(request, claim, &message, next.clone()).await;
        match response.status() {
            StatusCode::OK => streams.push(Box::pin(response.into_body().into_data_stream())),
            StatusCode::ACCEPTED => {}
            // What is wrong is wrong with all of them: there is no such session, or the headers say nonsense.
            _ => return response,
        }
    }
    if streams.is_empty() {
        return match refused.is_empty() {
            true => StatusCode::ACCEPTED.into_response(),
            false => answer(StatusCode::BAD_REQUEST, &refused),
        };
    }
    let refused = refused.iter().map(event).map(Ok::<_, axum::Error>);
    // Every piece of such a stream is one event, so they can be told apart when they are mixed.
    let events = stream::iter(refused.collect::<Vec<_>>()).chain(stream::select_all(streams));
    let headers = [
        (CONTENT_TYPE, EVENTS),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Some proxies keep back what is not yet much.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(events)).into_response()
}

fn event(message: &ServerJsonRpcMessage) -> Bytes {
    let data = serde_json::to_string(message).unwrap_or_default();
    format!("data: {data}\n\n").into()
}

fn answer(status: StatusCode, message: &impl serde::Serialize) -> Response {
    let body = serde_json::to_vec(message).unwrap_or_default();
    (status, [(CONTENT_TYPE, JSON)], body).into_response()
}
