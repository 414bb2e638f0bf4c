//! Responses whose body is one JSON document.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

/// Returns a response with a message.
pub(super) fn message_response(status: StatusCode, message: &impl serde::Serialize) -> Response {
    json_response(status, serde_json::to_vec(message).unwrap_or_default())
}

/// Returns a response with JSON.
pub(super) fn json_response(status: StatusCode, json: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], json.into()).into_response()
}
