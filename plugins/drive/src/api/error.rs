//! Errors of the API: by status, and by the reason in the body.
//!
//! ```json
//! { "error": { "code": 403, "message": "…", "errors": [{ "domain": "usageLimits", "reason": "userRateLimitExceeded" }] } }
//! ```

use super::{Response, read_to_limit};
use mcp_provider::{Failure, Retry, http};
use serde::Deserialize;
use std::io;
use std::time::Duration;

/// The maximum size of the body of an error, in bytes.
const MAX_BODY: usize = 64 * 1024;

/// The maximum length of a text of the server in messages, in characters.
const MAX_TEXT: usize = 300;

/// The reasons why a request fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// The file does not exist, or the account has no access: Drive does not distinguish these.
    #[error("Drive has no such file")]
    NotFound,
    /// A parameter is invalid: a query or a page token.
    #[error("Drive refuses the request: {0}")]
    Invalid(String),
    /// The page token is no longer valid (410).
    #[error("Drive no longer accepts the page token")]
    Gone,
    /// The exported document has more than 10 MB.
    #[error("the document has more than 10 MB in this format, the limit of Drive's export")]
    ExportTooLarge,
    /// The range starts after the end of the file.
    #[error("the range begins behind the end of the file")]
    RangeNotSatisfiable,
    /// Too many requests, or a failure of the server. The request should be retried, after `Retry-After` if present.
    #[error("{reason}")]
    Busy {
        /// Drive's message.
        reason: String,
        /// The time of `Retry-After`.
        after: Option<Duration>,
    },
    /// Everything else.
    #[error("{0}")]
    Other(#[from] Failure),
}

impl Error {
    /// Creates the error for an answer that violates the API.
    pub(super) fn nonsense(found: impl AsRef<str>) -> Self {
        let found = shorten(found.as_ref());
        Failure::unavailable(format!("the answer of Drive is not what its API says: {found}")).into()
    }

    /// Returns the error of an unsuccessful response.
    pub(super) fn of_response(response: Response) -> Self {
        let Response { status, retry_after: after, body, .. } = response;
        let body = read_to_limit(body, MAX_BODY).unwrap_or_default();
        let Body { error } = serde_json::from_slice(&body).unwrap_or_default();
        let reason = error.errors.first().map(|first| shorten(&first.reason)).unwrap_or_default();
        let said = shorten(&error.message);
        let said = if said.is_empty() { format!("status {status}") } else { said };
        match (status, reason.as_str()) {
            (400, _) => Self::Invalid(said),
            (401, _) => Failure::denied(
                "Drive does not accept the credential of this plugin (status 401): it is missing, has expired or was revoked",
            )
            .into(),
            (403, "userRateLimitExceeded" | "rateLimitExceeded") | (429, _) => {
                Self::Busy { reason: format!("too many requests to Drive: {said}"), after }
            }
            // A pause of seconds does not help here.
            (403, "dailyLimitExceeded" | "quotaExceeded" | "downloadQuotaExceeded" | "sharingRateLimitExceeded") => {
                let retry = Retry::new(format!("the quota of Drive is used up: {said}"));
                Failure::from(retry.after(after.unwrap_or(Duration::from_secs(3600)))).into()
            }
            (403, "exportSizeLimitExceeded") => Self::ExportTooLarge,
            (403, "accessNotConfigured") => {
                Failure::denied("the Drive API is not enabled in the project of the credential (accessNotConfigured)").into()
            }
            (403, "") => Failure::denied(format!("Drive denies access: {said}")).into(),
            (403, reason) => Failure::denied(format!("Drive denies access ({reason}): {said}")).into(),
            (404, _) => Self::NotFound,
            (410, _) => Self::Gone,
            (416, _) => Self::RangeNotSatisfiable,
            (500 | 502..=504, _) => Self::Busy { reason: format!("Drive is not ready: {said}"), after },
            _ => Self::nonsense(format!("status {status}")),
        }
    }

    /// Returns whether the request should be retried, with the pause if the response contains one.
    pub(super) fn pause(&self) -> Option<Option<Duration>> {
        match self {
            Self::Busy { after, .. } => Some(*after),
            _ => None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => Self::NotFound,
            Error::Busy { reason, after } => Retry::new(reason).after(after.unwrap_or(Duration::from_secs(5))).into(),
            Error::ExportTooLarge => Self::denied(error.to_string()),
            Error::RangeNotSatisfiable => Self::invalid(error.to_string()),
            // The parameters come from the provider or from the config.
            Error::Invalid(_) | Error::Gone => Self::internal(error.to_string()),
            Error::Other(failure) => failure,
        }
    }
}

/// Returns the failure of an interrupted transfer.
pub(super) fn of_transfer(error: &io::Error) -> Failure {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<http::Error>());
    Failure::from(cause.cloned().unwrap_or(http::Error::Host))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Body {
    error: ErrorBody,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorBody {
    message: String,
    errors: Vec<ErrorItem>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorItem {
    reason: String,
}

/// Returns the beginning of a text, on one line.
fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_TEXT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
