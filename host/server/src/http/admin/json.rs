//! JSON of the administration listener: the bodies of requests, answers, and errors.
//!
//! The body of a request has at most [`MAX_BODY`] bytes, and arrives within [`BODY_TIMEOUT`].

use std::fmt::Display;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use mcp_host_base::bounded_body::{self, BodyError};
use mcp_host_base::escape;
use mcp_host_model::resource::Error;
use mcp_resource_host::audit::AuditState;
use mcp_resource_host::host::AdminError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::api::types::{ErrorAnswer, RequestBody};
use crate::http::head::check_json_body;

/// The maximum size of the body of a request.
const MAX_BODY: usize = 64 << 10;
/// The time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// An error answer to a request.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    answer: ErrorAnswer,
    /// The allowed methods of the path, if the request has another method.
    allow: Option<&'static str>,
    /// Whether the audit log has no space for a record of the request.
    is_unrecorded: bool,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: impl Into<String>, help: Option<&str>) -> Self {
        let answer = ErrorAnswer { error: error.into(), help: help.map(str::to_owned) };
        Self { status, answer, allow: None, is_unrecorded: false }
    }

    /// The refusal of a request that the host cannot answer now.
    pub(super) fn unavailable(error: &Error) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string(), None);
        Self { is_unrecorded: matches!(error, Error::AuditUnavailable), ..refusal }
    }

    /// Names the audit log and why it cannot be written, for an administrator, if this is the reason of the refusal.
    pub(super) fn naming_audit_log(self, audit: Option<AuditState>) -> Self {
        let Some(AuditState { file, failure: Some(failure), .. }) = audit.filter(|_| self.is_unrecorded) else {
            return self;
        };
        let file = file.map(|file| format!(" {}", file.display())).unwrap_or_default();
        let error = format!("the audit log{file} cannot be written: {}", failure.reason);
        let help = "correct that, such as by freeing space, or write `on-full = \"drop\"` under `[audit]`";
        Self::new(self.status, escape::line(&error), Some(help))
    }

    pub(super) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, None)
    }

    pub(super) fn method(allow: &'static str) -> Self {
        let refusal = Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("this path has {allow}"), None);
        Self { allow: Some(allow), ..refusal }
    }

    pub(super) fn no_path() -> Self {
        let help = "see docs/operations.md, or `mcp-host schema admin`";
        Self::new(StatusCode::NOT_FOUND, "the API has no such path", Some(help))
    }

    pub(super) fn into_response(self) -> Response {
        let mut response = json(self.status, &self.answer);
        if let Some(allow) = self.allow {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"mcp-host administration\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<AdminError> for Refusal {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::NoPlugin(_) => {
                let help = "`mcp-host status` shows the plugins; those that the program brings have no such action";
                Self::new(StatusCode::NOT_FOUND, error.to_string(), Some(help))
            }
            AdminError::NotLoaded(_) | AdminError::NotPossible(_) => {
                Self::new(StatusCode::CONFLICT, error.to_string(), None)
            }
            AdminError::Refused(error) => Self::unavailable(&error),
            error => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string(), None),
        }
    }
}

/// Reads the body of a request, an object with the keys of `T`.
pub(super) async fn read_body<T: RequestBody>(request: Request) -> Result<T, Refusal> {
    parse_object(&receive_body(request).await?, &format!("send a JSON object with {}", join_quoted(T::KEYS)))
}

/// Parses the body of a request, a JSON object. `help` says what to send.
fn parse_object<T: DeserializeOwned>(body: &[u8], help: &str) -> Result<T, Refusal> {
    let refuse = |error: String| Refusal::new(StatusCode::BAD_REQUEST, error, Some(help));
    if body.is_empty() {
        return Err(refuse("the request has no body".to_owned()));
    }
    // Serde would read an array as the values of the keys in order.
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(_)) => {}
        Ok(_) => return Err(refuse("the body is not a JSON object".to_owned())),
        Err(error) => return Err(refuse(format!("the body is not JSON: {error}"))),
    }
    serde_json::from_slice(body).map_err(|error| refuse(format!("the body is not what this path takes: {error}")))
}

/// The names in backticks, separated by commas.
pub(super) fn join_quoted(names: &[impl Display]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Receives the body of a request.
pub(super) async fn receive_body(request: Request) -> Result<Bytes, Refusal> {
    let declared = check_json_body(request.headers());
    let body = timeout(BODY_TIMEOUT, bounded_body::receive(request.into_body(), MAX_BODY)).await;
    let body = body.map_err(|_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time", None))?;
    let body = body.map_err(|error| match error {
        BodyError::TooLarge(_) => Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string(), None),
        BodyError::ShortChunks(_) => Refusal::bad_request(error.to_string()),
        BodyError::Receive(_) => Refusal::bad_request("the body is not complete"),
    })?;
    match declared {
        Err(rejection) if !body.is_empty() => {
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, rejection.text(), None))
        }
        _ => Ok(body),
    }
}

/// Reads the body of a request of the console.
pub(super) async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Refusal> {
    parse_object(&receive_body(request).await?, "send a JSON object; `mcp-host schema admin` prints its schema")
}

/// An answer.
pub(super) fn ok(answer: &impl Serialize) -> Response {
    json(StatusCode::OK, answer)
}

/// A JSON response that no cache on the way stores.
pub(super) fn json(status: StatusCode, answer: &impl Serialize) -> Response {
    // The types of the API have only text keys, so this does not fail.
    let mut response = Response::new(Body::from(serde_json::to_vec(answer).unwrap_or_default()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
