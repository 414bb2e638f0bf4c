//! Failures: why a call returns no result.
//!
//! A provider's functions return [`Result`], whose error is a [`Failure`]. Its kind decides whether the host reports
//! it to the client, to the log, or to both. Common errors of reading data convert with `?`.

use std::time::Duration;

/// The result type of a provider's functions.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a call failed. The kind decides how much of it the client sees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The resource does not exist.
    #[error("not found")]
    NotFound,
    /// The request is malformed: an unknown path shape, or a cursor that the provider did not issue. The text states
    /// the expected input; the client sees it.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The data source denied access. The client sees the text, so it must not contain secrets.
    #[error("denied: {0}")]
    Denied(String),
    /// The resource exists or may exist, but is temporarily unavailable.
    #[error("unavailable: {}", .0.reason)]
    Unavailable(Retry),
    /// The provider, its data or its config is faulty. The text goes to the log only, never to a client.
    #[error("internal: {0}")]
    Internal(String),
}

impl Failure {
    /// Creates an invalid-request failure; `expected` tells the client which input is valid.
    pub fn invalid(expected: impl Into<String>) -> Self {
        Self::InvalidRequest(expected.into())
    }

    /// Creates a denied failure; `reason` is shown to the client.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::Denied(reason.into())
    }

    /// Creates an unavailable failure; `reason` is shown to the client and logged. Use [`Retry::after`] to add a
    /// delay.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable(Retry::new(reason))
    }

    /// Creates an internal failure for a fault of the provider, its data or its config; `fault` is logged.
    pub fn internal(fault: impl Into<String>) -> Self {
        Self::Internal(fault.into())
    }
}

/// Why a resource is unavailable, and when to retry.
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
    /// The reason, and how to fix it. Clients see it.
    pub reason: String,
    /// The delay after which a retry makes sense, if known.
    pub after: Option<Duration>,
}

impl Retry {
    /// Creates a retry without a known delay.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), after: None }
    }

    /// Sets the delay before the next retry.
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

/// Maps I/O errors by kind. A missing file, or a path component that is not a directory, is not found; a permission
/// error (of the sandbox, too) is denied; a transient error and a full disk are unavailable; everything else is
/// internal.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => Self::NotFound,
            ErrorKind::PermissionDenied => Self::denied("the file system denied access"),
            ErrorKind::ResourceBusy | ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::OutOfMemory => {
                Self::unavailable("the file system is temporarily unavailable; try again later")
            }
            ErrorKind::QuotaExceeded | ErrorKind::StorageFull => Self::unavailable("no space left to write to"),
            _ => Self::Internal(format!("I/O error: {error}")),
        }
    }
}

/// Data that must be UTF-8 text and is not.
impl From<std::str::Utf8Error> for Failure {
    fn from(error: std::str::Utf8Error) -> Self {
        Self::Internal(format!("expected UTF-8 text: {error}"))
    }
}

/// Data that must be UTF-8 text and is not.
impl From<std::string::FromUtf8Error> for Failure {
    fn from(error: std::string::FromUtf8Error) -> Self {
        Self::from(error.utf8_error())
    }
}

/// Data that must be JSON and is not.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Internal(format!("expected JSON: {error}"))
    }
}

/// An unusable template of the provider itself.
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
