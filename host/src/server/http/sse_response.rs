//! Responses whose body is a stream of server-sent events.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt as _};
use serde::Serialize;
use tokio::time::timeout;

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// What is sent when there is nothing to send, so that proxies keep the connection open.
const KEEP_ALIVE_COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// Returns a response with events.
pub(super) fn sse_response(body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE, EVENT_STREAM),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Some proxies buffer short responses.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

/// Encodes a message as an event.
pub(super) fn event(message: &impl Serialize) -> Bytes {
    // The members of a message do not fail to serialize.
    let json = serde_json::to_string(message).unwrap_or_default();
    format!("data: {json}\n\n").into()
}

/// Encodes a message as an event with an id, from which a client can resume.
pub(super) fn numbered_event(id: u64, message: &impl Serialize) -> Bytes {
    let json = serde_json::to_string(message).unwrap_or_default();
    format!("id: {id}\ndata: {json}\n\n").into()
}

/// Adds a comment wherever the events pause for so long.
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
