//! Why a call gives no answer.
//!
//! A provider's functions return [`Result`], whose error is a [`Failure`]. The host tells the client, the log or both,
//! by its kind. The errors that reading data usually meets convert with `?`.

use std::time::Duration;

/// What a provider's functions return.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a call gives no answer. What the client gets to see of it depends on the kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is no such resource.
    #[error("not found")]
    NotFound,
    /// The request makes no sense: a path of no shape that the provider knows, a cursor that it did not give out. The text
    /// says what was expected; the client sees it.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// Whoever runs the data refuses. The client sees the text, so it should hold no secrets.
    #[error("denied: {0}")]
    Denied(String),
    /// It exists or may exist, but cannot be had now.
    #[error("unavailable: {}", .0.reason)]
    Unavailable(Retry),
    /// The provider is at fault, or its data or its config are broken. The text goes to the log only, never to a client.
    #[error("internal: {0}")]
    Internal(String),
}

impl Failure {
    /// The request makes no sense; `expected` tells the client what would.
    pub fn invalid(expected: impl Into<String>) -> Self {
        Self::InvalidRequest(expected.into())
    }

    /// Whoever runs the data refuses; `reason` is for the client.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::Denied(reason.into())
    }

    /// It cannot be had now; `reason` is for the client and the log. With a time to wait: [`Retry::after`].
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable(Retry::new(reason))
    }

    /// The provider is at fault, or its data or config are; `fault` is for the log.
    pub fn internal(fault: impl Into<String>) -> Self {
        Self::Internal(fault.into())
    }
}

/// When to come back for what is unavailable.
///
/// ```
/// use mcp_provider::{Failure, Retry};
/// use std::time::Duration;
///
/// let failure = Failure::from(Retry::new("the index is being rebuilt").after(Duration::from_secs(5)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// Why it cannot be had now and what would help. Clients see it.
    pub reason: String,
    /// How long to wait before another try makes sense, where that is known.
    pub after: Option<Duration>,
}

impl Retry {
    /// Comes back at a time unknown.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), after: None }
    }

    /// Comes back after this time.
    pub fn after(mut self, after: Duration) -> Self {
        self.after = Some(after);
        self
    }
}

impl From<Retry> for Failure {
    fn from(retry: Retry) -> Self {
        Self::Unavailable(retry)
    }
}

/// What is not there, or lies behind something that is no directory, is not found; a refusal (of the sandbox, too) is
/// denied; what may pass is unavailable, and so is what there is no room for; the rest is internal.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => Self::NotFound,
            ErrorKind::PermissionDenied => Self::denied("the file system refuses access to it"),
            ErrorKind::ResourceBusy | ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::OutOfMemory => {
                Self::unavailable("the file system cannot give it now; try again later")
            }
            ErrorKind::QuotaExceeded | ErrorKind::StorageFull => Self::unavailable("there is no room left to write to"),
            _ => Self::Internal(format!("input or output failed: {error}")),
        }
    }
}

/// Data that must be text and are not.
impl From<std::str::Utf8Error> for Failure {
    fn from(error: std::str::Utf8Error) -> Self {
        Self::Internal(format!("expected UTF-8 text: {error}"))
    }
}

/// Data that must be text and are not.
impl From<std::string::FromUtf8Error> for Failure {
    fn from(error: std::string::FromUtf8Error) -> Self {
        Self::from(error.utf8_error())
    }
}

/// Data that must be JSON and are not.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Internal(format!("expected JSON: {error}"))
    }
}

/// A template of the provider's own that cannot be used.
impl From<crate::TemplateError> for Failure {
    fn from(error: crate::TemplateError) -> Self {
        Self::Internal(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn an_io_error_becomes_the_failure_that_a_client_can_act_on() {
        let failure = |kind: ErrorKind| Failure::from(Error::from(kind));
        assert_eq!(failure(ErrorKind::NotFound), Failure::NotFound);
        assert_eq!(failure(ErrorKind::NotADirectory), Failure::NotFound);
        assert!(matches!(failure(ErrorKind::PermissionDenied), Failure::Denied(_)));
        assert!(matches!(failure(ErrorKind::ResourceBusy), Failure::Unavailable(_)));
        assert!(matches!(failure(ErrorKind::OutOfMemory), Failure::Unavailable(_)));
        assert!(matches!(failure(ErrorKind::QuotaExceeded), Failure::Unavailable(_)));
        assert!(matches!(failure(ErrorKind::Other), Failure::Internal(_)));
    }

    #[test]
    fn a_denied_io_error_does_not_repeat_what_the_system_said() {
        let error = Error::new(ErrorKind::PermissionDenied, "/secret/place");
        assert!(!Failure::from(error).to_string().contains("secret"));
    }

    #[test]
    fn errors_of_text_and_json_convert_with_a_question_mark() {
        fn text(bytes: &[u8]) -> Result<String> {
            Ok(std::str::from_utf8(bytes)?.to_owned())
        }
        fn owned(bytes: &[u8]) -> Result<String> {
            Ok(String::from_utf8(bytes.to_vec())?)
        }
        fn json(text: &str) -> Result<serde_json::Value> {
            Ok(serde_json::from_str(text)?)
        }
        assert!(matches!(text(b"\xff"), Err(Failure::Internal(_))));
        assert!(matches!(owned(b"\xff"), Err(Failure::Internal(_))));
        assert!(matches!(json("{"), Err(Failure::Internal(_))));
    }

    #[test]
    fn a_retry_becomes_unavailable_and_keeps_its_time() {
        let retry = Retry::new("locked").after(Duration::from_secs(2));
        assert_eq!(Failure::from(retry.clone()), Failure::Unavailable(retry));
    }
}
