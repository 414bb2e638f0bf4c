//! What clients post: requests for resources that are in order are answered here, the rest goes to rmcp, checked before as it
//! answers bad JSON with 415, and knows no batches.
//!
//! | posted | status | body |
//! |---|---|---|
//! | no JSON, no message ([`message`](crate::server::message)) | 400 | the error, without an `id` where none can be read |
//! | more than [`limits.body`](crate::config::HttpServerLimits::body) | 413 | text |
//! | more than there is room for beside other bodies ([`received`](super::received)) | 503 | text |
//! | not whole within [`limits.receive`](crate::config::HttpServerLimits::receive) | 408 | text |
//! | another `initialize` within a session, or a request with the id of one in flight | 400 | the error |
//! | `initialize` with parameters that are none; `server/discover` within a session | 200 | the error |
//! | `initialize` of a revision that has none | 404 | the error |
//!
//! A body is read as soon as it is whole, and then goes away: what is kept of it until the answer is what
//! [`params`](crate::server::params) bounds, and rmcp gets a message that is [written anew](crate::server::rewritten).
//!
//! Each message of a batch is taken by itself, with the headers of the whole. The answers are the events of one stream,
//! in the order in which they are ready; a batch in which nothing wants an answer is accepted with 202.
//!
//! A batch is one of revision 2025-03-26, whose clients send no `MCP-Protocol-Version`: a request that names another
//! revision there has none.

use std::convert::Infallible;
use std::iter;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream, StreamExt as _};
use rmcp::model::RequestId;

use super::SESSION;
use super::guarded::Guarded;
use super::in_flight::{Claim, InFlight};
use super::onward::Onward;
use super::received::Bodies;
use super::sessions::Use;
use super::standing::{self, PROTOCOL_VERSION};
use crate::access::Principal;
use crate::host::Host;
use crate::server::client::Client;
use crate::server::message::{self, Kind, Message, Refusal, Sent};
use crate::server::methods;
use crate::server::params::Malformed;
use crate::server::requests::{self, Asked};
use crate::server::revision::Revision;
use crate::server::rewritten;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The bytes of an answer that the system is given at once: it takes megabytes in one go, and nobody else's meanwhile.
const PIECE: usize = 256 << 10;

/// Takes what is posted.
pub(super) struct Posts {
    host: Arc<Host>,
    in_flight: InFlight,
    onward: Arc<Onward>,
    bodies: Bodies,
}

/// What becomes of a message that is taken.
enum Admitted {
    /// It is answered here.
    Here(Box<Answering>),
    /// It goes to rmcp. The id of a request is claimed until it is answered.
    Onward(Option<Claim>),
}

/// A request for resources that is in order.
struct Answering {
    id: RequestId,
    asked: Result<Asked, Malformed>,
    who: Principal,
    revision: Revision,
    session: Option<Use>,
    claim: Option<Claim>,
}

/// Whether what is posted is said to be a message. What is not, rmcp answers as it should.
pub(super) fn is_message(request: &Request) -> bool {
    let value = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    request.method() == Method::POST
        && essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

impl Posts {
    pub(super) fn new(host: Arc<Host>, onward: Arc<Onward>) -> Self {
        Self { host, in_flight: InFlight::default(), onward, bodies: Bodies::default() }
    }

    /// Answers a message of that principal, or a batch of them.
    pub(super) async fn answer(&self, request: Request, who: &Principal) -> Response {
        let (mut parts, body) = request.into_parts();
        let sent = match self.bodies.receive(body, &parts, &self.host.config().http.limits).await {
            // The text is not needed any more.
            Ok(body) => message::read(&body, Some(revision(&parts)), &self.host.config().server.extensions),
            Err(refused) => return refused,
        };
        match sent {
            Ok(Sent::One(message)) => match self.admit(&mut parts, &message, who) {
                Ok(Admitted::Here(answering)) => answering.respond(&self.host).await,
                Ok(Admitted::Onward(claim)) => self.pass_on(parts, claim, &message).await,
                Err((status, refusal)) => answer(status, &refusal.into_message()),
            },
            Ok(Sent::Batch(messages)) => self.batch(parts, messages, who).await,
            Err(refusal) => answer(StatusCode::BAD_REQUEST, &refusal.into_message()),
        }
    }

    /// Takes a message, or refuses it.
    fn admit(&self, parts: &mut Parts, message: &Message, who: &Principal) -> Result<Admitted, (StatusCode, Refusal)> {
        let session = parts.headers.get(SESSION).and_then(|session| session.to_str().ok());
        let Kind::Request { id, params, .. } = &message.kind else {
            if let Some((session, id)) = session.zip(message.cancels()) {
                self.in_flight.cancel(session, id);
            }
            return Ok(Admitted::Onward(None));
        };
        let used = session.and_then(|session| self.onward.sessions().using(session));
        let client = used.as_ref().and_then(Use::client);
        let claim = claim(&self.host, &self.in_flight, session.map(|session| (session, client)), message)?;
        if let Some(revision) = standing::revision(&parts.headers, message, client)
            && let Some(asked) = Asked::of(&self.host, revision, message)
        {
            let (id, who) = (id.clone(), who.clone());
            return Ok(Admitted::Here(Box::new(Answering { id, asked, who, revision, session: used, claim })));
        }
        if let Err(malformed) = params {
            parts.extensions.insert(malformed.clone());
        }
        Ok(Admitted::Onward(claim))
    }

    /// Passes one message on to rmcp. That it was said to be JSON has been checked, so a 415 only says that rmcp could not
    /// make sense of it, which is put into words.
    async fn pass_on(&self, parts: Parts, claim: Option<Claim>, message: &Message) -> Response {
        let unreadable = || answer(StatusCode::BAD_REQUEST, &message.unreadable().into_message());
        let Some(json) = rewritten::to_json(message) else { return unreadable() };
        let response = self.onward.answer(Request::from_parts(parts, Body::from(json))).await;
        match response.status() {
            StatusCode::UNSUPPORTED_MEDIA_TYPE => unreadable(),
            _ => response.map(|body| Guarded::body(body, claim)),
        }
    }

    async fn batch(&self, parts: Parts, messages: Vec<Result<Message, Refusal>>, who: &Principal) -> Response {
        let mut refused = Vec::new();
        let mut streams: Vec<BoxStream<'static, Result<Bytes, axum::Error>>> = Vec::new();
        for message in messages {
            let mut parts = parts.clone();
            let admitted = message.and_then(|message| {
                let admitted = self.admit(&mut parts, &message, who).map_err(|(_, refusal)| refusal)?;
                Ok((message, admitted))
            });
            let (message, claim) = match admitted {
                Ok((message, Admitted::Onward(claim))) => (message, claim),
                Ok((_, Admitted::Here(answering))) => {
                    let host = self.host.clone();
                    let answer = stream::once(async move { answering.answer(&host).await });
                    streams.push(answer.filter_map(async |json| Some(Ok(event(&json?)))).boxed());
                    continue;
                }
                Err(refusal) => {
                    refused.push(refusal.into_message());
                    continue;
                }
            };
            let response = self.pass_on(parts, claim, &message).await;
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
        let refused = refused.iter().map(|refusal| Ok::<_, axum::Error>(event(&message::to_json(refusal))));
        // Every piece of such a stream is one event, so they can be told apart when they are mixed.
        events(Body::from_stream(stream::iter(refused.collect::<Vec<_>>()).chain(stream::select_all(streams))))
    }
}

impl Answering {
    /// The answer as a response. A request that is cancelled has none, which is what a stream says that ends.
    async fn respond(self, host: &Host) -> Response {
        let is_unknown = matches!(self.asked, Ok(Asked::Unknown(_)));
        let is_of_session = self.session.is_some() && self.revision.has_sessions();
        match self.answer(host).await {
            Some(json) if is_unknown && is_of_session => events(Body::from(event(&json))),
            Some(json) if is_unknown => whole(StatusCode::NOT_FOUND, json),
            Some(json) => whole(StatusCode::OK, json),
            None => events(Body::empty()),
        }
    }

    /// The answer, unless the request is cancelled.
    async fn answer(self, host: &Host) -> Option<Vec<u8>> {
        let Self { id, asked, who, revision, session, claim } = self;
        let answering = requests::answer(host, &who, id, asked, revision);
        let (json, missing) = match &claim {
            Some(claim) => tokio::select! {
                answer = answering => answer,
                () = claim.cancelled() => return None,
            },
            None => answering.await,
        };
        if let Some(client) = session.as_ref().and_then(Use::client) {
            client.report(&missing).await;
        }
        Some(json)
    }
}

/// The revision that the headers name. Without one it is the first that had this transport (MCP 2025-06-18, "Protocol
/// Version Header"); that of one which nobody knows does not matter, as rmcp refuses it.
fn revision(parts: &Parts) -> Revision {
    let Some(named) = parts.headers.get(PROTOCOL_VERSION) else { return Revision::Mar2025 };
    named.to_str().ok().and_then(Revision::named).unwrap_or(Revision::NEWEST)
}

/// Claims the id of a request, if it can be taken as it is.
fn claim(
    host: &Host,
    in_flight: &InFlight,
    session: Option<(&str, Option<&Client>)>,
    message: &Message,
) -> Result<Option<Claim>, (StatusCode, Refusal)> {
    let Kind::Request { id, method, params } = &message.kind else { return Ok(None) };
    if method == "initialize" {
        if message.is_stateless() {
            let error = methods::unknown(host, Revision::NEWEST, method);
            return Err((StatusCode::NOT_FOUND, Refusal { id: Some(id.clone()), error }));
        }
        if session.is_some() {
            let refusal = Refusal::invalid(Some(id.clone()), message::SECOND_INITIALIZE);
            return Err((StatusCode::BAD_REQUEST, refusal));
        }
        params.as_ref().map_err(|malformed| (StatusCode::OK, Refusal::malformed(id.clone(), malformed)))?;
    }
    if let ("server/discover", Some((_, client)), false) = (method.as_str(), session, message.is_stateless()) {
        let revision = client.map_or(Revision::NEWEST_WITH_SESSIONS, |client| client.revision);
        let error = methods::unknown(host, revision, method);
        return Err((StatusCode::OK, Refusal { id: Some(id.clone()), error }));
    }
    let claim = session.map(|(session, _)| {
        in_flight.claim(session, id).ok_or_else(|| {
            let reason = format!("the id {id} is that of a request that has not been answered");
            (StatusCode::BAD_REQUEST, Refusal::invalid(Some(id.clone()), reason))
        })
    });
    claim.transpose()
}

fn event(json: &[u8]) -> Bytes {
    [b"data: ", json, b"\n\n"].concat().into()
}

fn answer(status: StatusCode, message: &impl serde::Serialize) -> Response {
    whole(status, serde_json::to_vec(message).unwrap_or_default())
}

/// The answer to one message.
fn whole(status: StatusCode, json: Vec<u8>) -> Response {
    if json.len() <= PIECE {
        return (status, [(CONTENT_TYPE, JSON)], json).into_response();
    }
    let length = HeaderValue::from(json.len());
    let mut left = Bytes::from(json);
    let pieces = iter::from_fn(move || (!left.is_empty()).then(|| left.split_to(left.len().min(PIECE))));
    let body = Body::from_stream(stream::iter(pieces.map(Ok::<_, Infallible>)));
    (status, [(CONTENT_TYPE, JSON), (CONTENT_LENGTH, length)], body).into_response()
}

fn events(body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE, EVENTS),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Some proxies keep back what is not yet much.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}
