//! Why a provider has no answer.

use std::time::Duration;

/// The answer of a provider's function.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a provider has no answer. The variant determines what the client sees of the failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is no such resource.
    #[error("not found")]
    NotFound,
    /// The request is invalid: a path of an unknown form, a foreign cursor. The client sees the text, which says what
    /// was expected.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The owner of the data denies access. The client sees the text, which should not contain secrets.
    #[error("denied: {0}")]
    Denied(String),
    /// The resource exists or may exist, but is temporarily unavailable.
    #[error("unavailable: {reason}")]
    Unavailable {
        /// The reason and the remedy. The client sees it.
        reason: String,
        /// The time after which a retry makes sense, if known.
        retry_after: Option<Duration>,
    },
    /// The provider has failed, or its data is corrupt. The text is logged; no client sees it.
    #[error("internal: {0}")]
    Internal(String),
}

impl Failure {
    /// An invalid request. `expected` describes a valid one, for the client.
    pub fn invalid(expected: impl Into<String>) -> Self {
        Self::InvalidRequest(expected.into())
    }

    /// A denial; `reason` is for the client.
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::Denied(reason.into())
    }

    /// Temporary unavailability; `reason` is for the client and the log.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: None }
    }

    /// A fault of the provider; `fault` is for the log.
    pub fn internal(fault: impl Into<String>) -> Self {
        Self::Internal(fault.into())
    }
}

/// Missing files are not found. Denied access is denied, without the system's text. Transient errors and a full disk
/// are unavailable. All other errors are internal.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => Self::NotFound,
            ErrorKind::PermissionDenied => Self::denied("the file system denies access to it"),
            ErrorKind::ResourceBusy | ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::OutOfMemory => {
                Self::unavailable("the file system is busy; try again later")
            }
            ErrorKind::QuotaExceeded | ErrorKind::StorageFull => Self::unavailable("the disk is full"),
            _ => Self::Internal(format!("input or output failed: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn an_io_error_becomes_the_failure_that_a_client_can_act_on() {
        let failure = |kind: ErrorKind| Failure::from(Error::from(kind));
        assert_eq!(failure(ErrorKind::NotFound), Failure::NotFound);
        assert!(matches!(failure(ErrorKind::StorageFull), Failure::Unavailable { .. }));
        assert!(matches!(failure(ErrorKind::Other), Failure::Internal(_)));
        let denied = Failure::from(Error::new(ErrorKind::PermissionDenied, "/secret/place"));
        assert!(matches!(&denied, Failure::Denied(reason) if !reason.contains("secret")), "{denied}");
    }
}
