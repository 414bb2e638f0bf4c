//! Responses whose body is a stream of server-sent events.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

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
