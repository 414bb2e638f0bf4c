//! The errors of an exchange, and their meaning for the connection and for clients.

use std::error::Error;
use std::time::Duration;

use mcp_host_base::text::{Excerpt, with_causes};
use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::{HttpStatusError, StreamableHttpError};

use super::MAX_REST;
use crate::connections::SendError;
use crate::guard::Excess;

/// The bounds of a server's `Retry-After` that is passed on to clients.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{}", with_causes(.0))]
    Send(#[from] SendError),
    #[error("{}", with_causes(.0))]
    Body(#[from] hyper::Error),
    #[error(transparent)]
    Request(#[from] hyper::http::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the answer broke off: {0}")]
    Broken(String),
    #[error("an event has more than {0} bytes")]
    EventTooLarge(usize),
    #[error("the stream continues after the answer for more than {MAX_REST} bytes")]
    RestTooLarge,
    #[error("there is no access token from {0}")]
    Token(String),
    #[error(transparent)]
    Excess(#[from] Excess),
    #[error("the request was cancelled")]
    Cancelled,
}

pub(crate) type Failed = StreamableHttpError<HttpError>;

/// Returns whether the server answered the request, and the connection remains usable.
pub(crate) fn is_answered(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    matches!(
        error.error.downcast_ref::<Failed>(),
        Some(
            StreamableHttpError::HttpStatus(_)
                | StreamableHttpError::ResponseBodyTooLarge { .. }
                | StreamableHttpError::UnexpectedContentType(_)
                | StreamableHttpError::UnexpectedServerResponse(_)
        )
    )
}

/// Returns whether the exchange of one request failed. This shows nothing about other requests, unless the server
/// cannot be connected to.
pub(crate) fn is_of_one_exchange(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    let Some(error) = error.error.downcast_ref::<Failed>() else { return false };
    !matches!(
        error,
        StreamableHttpError::TransportChannelClosed
            | StreamableHttpError::Client(HttpError::Send(SendError::Connect(_)))
    )
}

/// Returns whether the error shows that the server is unavailable: it rejects the credentials, or the status is 5xx.
pub(crate) fn is_outage(error: &ServiceError) -> bool {
    error.auth_challenge().is_some() || status_error(error).is_some_and(|error| error.status >= 500)
}

/// The status of a response that is not successful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrorStatus {
    pub(crate) status: u16,
    /// The time after which a retry makes sense, if the server is busy or unavailable and has set it.
    pub(crate) retry_after: Option<Duration>,
}

/// Returns the status of the response, if the error is that it is not successful.
pub(crate) fn error_status(error: &ServiceError) -> Option<ErrorStatus> {
    let HttpStatusError { status, retry_after: text, .. } = status_error(error)?;
    let is_passed = matches!(*status, 429 | 503);
    let retry_after = text.as_deref().filter(|_| is_passed).and_then(retry_after);
    Some(ErrorStatus { status: *status, retry_after })
}

fn status_error(error: &ServiceError) -> Option<&HttpStatusError> {
    let ServiceError::TransportSend(error) = error else { return None };
    match error.error.downcast_ref::<Failed>()? {
        StreamableHttpError::HttpStatus(error) => Some(error),
        _ => None,
    }
}

/// Parses `Retry-After` (RFC 9110, section 10.2.3): a number of seconds of any size, within [`RETRY_AFTER`]. None for a
/// date, because the clock of this machine may differ from the server's.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = is_number.then(|| text.parse().unwrap_or(u64::MAX))?;
    Some(Duration::from_secs(seconds).clamp(RETRY_AFTER.0, RETRY_AFTER.1))
}

/// Returns why a request of the handshake failed, for administrators, if the URL or its server can be the cause.
pub(crate) fn handshake_reason(error: &(dyn Error + Send + Sync + 'static), url: &str) -> Option<String> {
    match error.downcast_ref::<Failed>()? {
        StreamableHttpError::Client(HttpError::Send(SendError::Connect(cause))) => {
            let text = with_causes(&**cause);
            // The prefixes of hyper's connector.
            let reached = ["tcp connect error: ", "dns error: "].iter().find_map(|prefix| text.strip_prefix(prefix));
            Some(match reached {
                Some(text) => format!("{url}: {text}; start that server, or correct `url`"),
                None => format!("{url}: {text}"),
            })
        }
        StreamableHttpError::HttpStatus(HttpStatusError { status, .. }) => Some(match *status {
            300..=399 | 404 | 405 | 410 => {
                format!("{url} answers HTTP {status}, as no MCP endpoint does: correct `url`")
            }
            _ => format!("{url} answers HTTP {status}"),
        }),
        StreamableHttpError::UnexpectedContentType(found) => {
            let found = match found {
                Some(found) => format!("with the content type `{}`", Excerpt(found)),
                None => "without a content type".to_owned(),
            };
            Some(format!("{url} answers {found}, as no MCP endpoint does: correct `url`"))
        }
        _ => None,
    }
}

/// Returns a failed exchange as an error of rmcp's transport.
pub(super) fn failed(error: impl Into<HttpError>) -> Failed {
    StreamableHttpError::Client(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_retry_is_limited_and_a_date_is_none() {
        let seconds = |text: &str| retry_after(text).map(|time| time.as_secs());
        assert_eq!(["0", " 5 ", "3600", "99999999999999999999"].map(seconds), [1, 5, 300, 300].map(Some));
        assert_eq!(["", "-1", "+5", "1.5", "Fri, 31 Dec 9999 23:59:59 GMT"].map(seconds), [None; 5]);
    }
}
