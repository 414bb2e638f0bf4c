//! Responses: one JSON document, or a stream of server-sent events, and the guards that are held until they have been
//! sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt as _};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::timeout;

use crate::budget::Charge;
use crate::json::{Encoder, MAX_CHUNK, MAX_SHARED_CHUNK};
use crate::jsonrpc::{Rejection, RejectionStatus};

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// The comment on an idle stream, so that proxies keep the connection open.
const KEEP_ALIVE_COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// Returns a response with a message.
pub(super) fn message_response(status: StatusCode, message: &impl Serialize) -> Response {
    json_response(status, serde_json::to_vec(message).unwrap_or_default())
}

/// Returns the response to a rejected message.
pub(super) fn rejection_response(rejection: Rejection) -> Response {
    let status = match rejection.status {
        RejectionStatus::Ok => StatusCode::OK,
        RejectionStatus::BadRequest => StatusCode::BAD_REQUEST,
        RejectionStatus::NotFound => StatusCode::NOT_FOUND,
        RejectionStatus::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = message_response(status, &rejection.into_response());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Returns the response to a request that exceeds a limit temporarily, and can be retried.
pub(super) fn unavailable(text: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response()
}

fn json_response(status: StatusCode, json: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], json.into()).into_response()
}

/// Returns a response with a document. It has `Content-Length` if the length is known before encoding.
pub(super) fn document_response(status: StatusCode, mut json: Encoder) -> Response {
    let first = json.next_chunk().unwrap_or_default();
    if json.is_finished() {
        return json_response(status, first);
    }
    let (begun, rest) = (first.len(), json.known_len());
    let body = stream::iter([first]).chain(chunks(json, None, begun));
    let mut response = json_response(status, Body::from_stream(body.map(Ok::<_, Infallible>)));
    if let Some(rest) = rest {
        response.headers_mut().insert(CONTENT_LENGTH, begun.saturating_add(rest).into());
    }
    response
}

/// Returns the chunks of a document, of which `encoded` bytes have been encoded without a yield. Each chunk is encoded
/// when it is polled, and the charge is dropped with the stream. The task yields after [`MAX_CHUNK`] encoded bytes, and
/// after [`MAX_SHARED_CHUNK`] bytes that are passed on, so that a fast reader does not starve other clients. The stream
/// is fused: a compressing layer polls it again after its end.
pub(super) fn chunks(
    json: Encoder,
    charge: Option<Charge>,
    encoded: usize,
) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::unfold((json, charge, encoded), async |(mut json, charge, mut encoded)| {
        if encoded >= MAX_CHUNK {
            tokio::task::yield_now().await;
            encoded = 0;
        }
        let weight = if json.next_is_shared() { MAX_SHARED_CHUNK / MAX_CHUNK } else { 1 };
        let piece = json.next_chunk()?;
        encoded = encoded.saturating_add(piece.len().div_euclid(weight));
        Some((piece, (json, charge, encoded)))
    })
    .fuse()
}

/// Returns a response with events.
pub(super) fn sse_response(body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE, EVENT_STREAM),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Some proxies buffer short responses; this header prevents it.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

/// Returns an event-stream response with one event, a document.
pub(super) fn event_response(json: Encoder) -> Response {
    let mut event = json.wrap("data: ", "\n\n");
    let first = event.next_chunk().unwrap_or_default();
    if event.is_finished() {
        return sse_response(first.into());
    }
    let begun = first.len();
    let event = stream::iter([first]).chain(chunks(event, None, begun));
    sse_response(Body::from_stream(event.map(Ok::<_, Infallible>)))
}

/// Encodes a message as an event.
pub(super) fn event(message: &impl Serialize) -> Bytes {
    // The members of a message always serialize.
    let json = serde_json::to_string(message).unwrap_or_default();
    format!("data: {json}\n\n").into()
}

/// Encodes a message as an event with an id, from which a client can resume.
pub(super) fn numbered_event(id: &str, message: &impl Serialize) -> Bytes {
    let json = serde_json::to_string(message).unwrap_or_default();
    format!("id: {id}\ndata: {json}\n\n").into()
}

/// Adds a comment whenever the events pause for the given time.
pub(super) fn with_keep_alive(
    events: impl Stream<Item = Bytes> + Send,
    interval: Duration,
) -> impl Stream<Item = Bytes> + Send {
    stream::unfold((Box::pin(events), interval), async |(mut events, interval)| {
        let next = timeout(interval, events.next()).await.unwrap_or(Some(KEEP_ALIVE_COMMENT))?;
        Some((next, (events, interval)))
    })
    .fuse()
}

/// The budget charge of an answer, in the extensions of its response: it passes through the layers to the connection
/// that sends the answer.
#[derive(Clone)]
pub(super) struct ResponseCharge(Arc<Mutex<Option<Charge>>>);

impl ResponseCharge {
    /// Attaches a charge to a response.
    pub(super) fn attach(response: &mut Response, charge: Charge) {
        response.extensions_mut().insert(Self(Arc::new(Mutex::new(Some(charge)))));
    }

    /// Returns the charge of a response, if it has one.
    pub(super) fn of(response: &Response) -> Option<Self> {
        response.extensions().get::<Self>().cloned()
    }

    /// Adds bytes to the charge. Returns false if there is no room for them.
    pub(super) fn add(&self, bytes: usize) -> bool {
        let mut charge = self.0.lock();
        charge.as_mut().is_some_and(|charge| charge.resize(charge.bytes().saturating_add(bytes)).is_ok())
    }

    /// Subtracts bytes from the charge.
    pub(super) fn subtract(&self, bytes: usize) {
        if let Some(charge) = &mut *self.0.lock() {
            // Shrinking never fails.
            let _ = charge.resize(charge.bytes().saturating_sub(bytes));
        }
    }

    /// Takes the charge from a response, if it has one.
    pub(super) fn take_from(response: &mut Response) -> Option<Charge> {
        let Self(charge) = response.extensions_mut().remove()?;
        charge.lock().take()
    }
}

/// A body with a guard, which is dropped with the body.
pub(super) struct GuardedBody<G> {
    body: Body,
    guard: Option<G>,
    /// Whether the guard is dropped with the last frame, before the body is dropped.
    until_last_frame: bool,
}

impl<G: Send + Unpin + 'static> GuardedBody<G> {
    /// Wraps a body with a guard that is dropped as soon as the last frame is taken: before the client can know that
    /// this frame was the last.
    pub(super) fn wrap(body: Body, guard: G) -> Body {
        Body::new(Self { body, guard: Some(guard), until_last_frame: true })
    }

    /// Wraps a body with a guard that is dropped when the body is.
    pub(super) fn until_dropped(body: Body, guard: G) -> Body {
        Body::new(Self { body, guard: Some(guard), until_last_frame: false })
    }
}

impl<G: Unpin> HttpBody for GuardedBody<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if self.until_last_frame && (matches!(frame, Poll::Ready(None)) || self.body.is_end_stream()) {
            self.guard = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
