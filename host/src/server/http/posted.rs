//! What clients post: requests for resources that are in order are answered here, the rest goes to rmcp, checked before as it
//! answers bad JSON with 415, and knows no batches.
//!
//! | posted | status | body |
//! |---|---|---|
//! | no JSON, no message ([`message`](crate::server::message)) | 400 | the error, without an `id` where none can be read |
//! | more than [`limits.body`](crate::config::HttpServerLimits::body) | 413 | text |
//! | more than there is room for beside other bodies ([`received`](super::received)) | 503 | text |
//! | `subscriptions/listen` when as many [streams](super::streams) are open as there may be | 503 | text |
//! | not whole within [`limits.read-timeout`](crate::config::HttpServerLimits::read_timeout) | 408 | text |
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

use super::SESSION;
use super::connection::Charged;
use super::guarded::Guarded;
use super::in_flight::{Claim, InFlight};
use super::onward::Onward;
use super::received::Bodies;
use super::sessions::Use;
use super::standing::{self, PROTOCOL_VERSION};
use super::streams::Streams;
use crate::access::Principal;
use crate::host::Host;
use crate::server::budget::{Account, Charge};
use crate::server::client::Client;
use crate::server::client_id::ClientId;
use crate::server::json::Encoder;
use crate::server::message::{self, Kind, Message, Refusal, Sent};
use crate::server::methods;
use crate::server::params::Malformed;
use crate::server::requests::{self, Answer, Asked};
use crate::server::revision::Revision;
use crate::server::rewritten;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Takes what is posted.
pub(super) struct Posts {
    host: Arc<Host>,
    in_flight: InFlight,
    onward: Arc<Onward>,
    bodies: Bodies,
    streams: Arc<Streams>,
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
    pub(super) fn new(host: Arc<Host>, onward: Arc<Onward>, streams: Arc<Streams>) -> Self {
        Self { host, in_flight: InFlight::default(), onward, bodies: Bodies::default(), streams }
    }

    /// Answers a message of that principal, or a batch of them.
    pub(super) async fn answer(&self, request: Request, who: &Principal, account: &Arc<Account>) -> Response {
        let (mut parts, body) = request.into_parts();
        let sent = match self.bodies.receive(body, &parts, account.client(), &self.host.config().http.limits).await {
            // The text is not needed any more.
            Ok(body) => message::read(&body, Some(revision(&parts)), &self.host.config().server.extensions),
            Err(refused) => return refused,
        };
        match sent {
            Ok(Sent::One(message)) => match self.admit(&mut parts, &message, who) {
                Ok(Admitted::Here(answering)) => answering.respond(&self.host, account).await,
                Ok(Admitted::Onward(claim)) => self.pass_on(parts, claim, &message, account.client()).await,
                Err((status, refusal)) => answer(status, &refusal.into_message()),
            },
            Ok(Sent::Batch(messages)) => self.batch(parts, messages, who, account).await,
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
    async fn pass_on(&self, parts: Parts, claim: Option<Claim>, message: &Message, client: ClientId) -> Response {
        let place = match self.streams.place_for(message, client) {
            Ok(place) => place,
            Err(refused) => return refused.into_response(),
        };
        let unreadable = || answer(StatusCode::BAD_REQUEST, &message.unreadable().into_message());
        let Some(json) = rewritten::to_json(message) else { return unreadable() };
        let response = self.onward.answer(Request::from_parts(parts, Body::from(json))).await;
        match response.status() {
            StatusCode::UNSUPPORTED_MEDIA_TYPE => unreadable(),
            _ => response.map(|body| Guarded::body(body, (claim, place))),
        }
    }

    async fn batch(
        &self,
        parts: Parts,
        messages: Vec<Result<Message, Refusal>>,
        who: &Principal,
        account: &Arc<Account>,
    ) -> Response {
        let mut refused = Vec::new();
        let mut streams: Vec<BoxStream<'static, Event>> = Vec::new();
        for message in messages {
            let mut parts = parts.clone();
            let admitted = message.and_then(|message| {
                let admitted = self.admit(&mut parts, &message, who).map_err(|(_, refusal)| refusal)?;
                Ok((message, admitted))
            });
            let (message, claim) = match admitted {
                Ok((message, Admitted::Onward(claim))) => (message, claim),
                Ok((_, Admitted::Here(answering))) => {
                    // A task of its own: an answer is charged for when it comes, not when its turn to be sent does.
                    let (host, account) = (self.host.clone(), account.clone());
                    let answering = tokio::spawn(async move { answering.answer(&host, &account).await });
                    let answer = stream::once(AbortOnDropHandle::new(answering));
                    streams.push(answer.filter_map(async |answer| Some(Event::Answer(answer.ok()??))).boxed());
                    continue;
                }
                Err(refusal) => {
                    refused.push(refusal.into_message());
                    continue;
                }
            };
            let response = self.pass_on(parts, claim, &message, account.client()).await;
            match response.status() {
                StatusCode::OK => streams.push(response.into_body().into_data_stream().map(Event::Ready).boxed()),
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
        let refused = refused.iter().map(|refusal| Event::Refusal(message::to_json(refusal)));
        // Each is an event, and is sent to its end before the next.
        let events_of_all = stream::iter(refused.collect::<Vec<_>>()).chain(stream::select_all(streams));
        events(Body::from_stream(events_of_all.flat_map(Event::pieces)))
    }
}

/// An event of the answer to a batch.
enum Event {
    /// A message that is refused.
    Refusal(Vec<u8>),
    /// An answer of ours.
    Answer(Answer),
    /// As it comes from rmcp, whose every piece is one event.
    Ready(Result<Bytes, axum::Error>),
}

impl Event {
    fn pieces(self) -> BoxStream<'static, Result<Bytes, axum::Error>> {
        let (json, charge) = match self {
            Self::Ready(ready) => return stream::iter([ready]).boxed(),
            Self::Refusal(json) => (Encoder::of_json(json), None),
            Self::Answer(Answer { json, charge, .. }) => (json, charge),
        };
        pieces(json.between("data: ", "\n\n"), charge).map(Ok).boxed()
    }
}

/// A document piece by piece, as they are asked for, and what is dropped with it. Between two pieces the thread is yielded, so that
/// a client that reads as fast as they are made keeps no other from its answer.
fn pieces(json: Encoder, charge: Option<Charge>) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::unfold((json, charge, false), async |(mut json, charge, is_begun)| {
        if is_begun {
            tokio::task::yield_now().await;
        }
        let piece = json.next_piece()?;
        Some((Bytes::from(piece), (json, charge, true)))
    })
}

impl Answering {
    /// The answer as a response. A request that is cancelled has none, which is what a stream says that ends.
    async fn respond(self, host: &Host, account: &Arc<Account>) -> Response {
        let is_unknown = matches!(self.asked, Ok(Asked::Unknown(_)));
        let is_of_session = self.session.is_some() && self.revision.has_sessions();
        let Some(answer) = self.answer(host, account).await else { return events(Body::empty()) };
        if is_unknown && is_of_session {
            return events(Body::from_stream(Event::Answer(answer).pieces()));
        }
        let Answer { mut json, charge, .. } = answer;
        let status = if is_unknown { StatusCode::NOT_FOUND } else { StatusCode::OK };
        let first = json.next_piece().unwrap_or_default();
        let mut response = match json.is_finished() {
            true => whole(status, first),
            false => {
                let first = stream::iter([Bytes::from(first)]);
                let body = Body::from_stream(first.chain(pieces(json, None)).map(Ok::<_, Infallible>));
                (status, [(CONTENT_TYPE, JSON)], body).into_response()
            }
        };
        if let Some(charge) = charge {
            response.extensions_mut().insert(Charged::new(charge));
        }
        response
    }

    /// The answer, unless the request is cancelled.
    async fn answer(self, host: &Host, account: &Arc<Account>) -> Option<Answer> {
        let Self { id, asked, who, revision, session, claim } = self;
        let answering = requests::answer(host, &who, account, id, asked, revision);
        let answer = match &claim {
            Some(claim) => tokio::select! {
                answer = answering => answer,
                () = claim.cancelled() => return None,
            },
            None => answering.await,
        };
        if let Some(client) = session.as_ref().and_then(Use::client) {
            client.report(&answer.missing).await;
        }
        Some(answer)
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

fn answer(status: StatusCode, message: &impl serde::Serialize) -> Response {
    whole(status, serde_json::to_vec(message).unwrap_or_default())
}

/// The answer to one message.
fn whole(status: StatusCode, json: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, JSON)], json).into_response()
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
