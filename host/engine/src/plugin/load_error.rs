//! Why a plugin cannot be loaded.

use crate::ComponentError;
use crate::fault::Fault;
use crate::recording::RecordingError;

/// Why a plugin cannot be loaded. Other plugins are served without it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The component cannot be loaded.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// The component loads, but `describe` fails.
    #[error("the provider cannot describe itself: {0}")]
    Describe(#[source] Fault),
    /// The host refuses the role of a granted database.
    #[error("{0}")]
    Database(String),
    /// An existing server cannot be connected to.
    #[error("the upstream cannot be connected to: {0}")]
    Upstream(#[from] UpstreamError),
    /// Its calls cannot be recorded.
    #[error("{0}")]
    Recording(#[from] RecordingError),
    /// The host was shut down before the plugin was loaded.
    #[error("the host was shut down before it was loaded")]
    Cancelled,
}

impl LoadError {
    /// The message for the log: without a program's standard error, which has its own log lines.
    pub fn summary(&self) -> String {
        match self {
            Self::Upstream(UpstreamError { reason, .. }) => Self::Upstream(reason.clone().into()).to_string(),
            error => error.to_string(),
        }
    }

    /// Returns whether a retry without a change may succeed: `describe` failed, perhaps because the machine is
    /// busy, or the [component error](ComponentError::is_transient) is transient.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Component(error) => error.is_transient(),
            Self::Describe(_) | Self::Database(_) | Self::Upstream(_) => true,
            Self::Cancelled | Self::Recording(_) => false,
        }
    }

    /// Returns the reason as a word of a closed list, for counting; none if the host ended the load.
    pub(super) fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Self::Component(error) => match error {
                ComponentError::Read { .. } => "read",
                ComponentError::NotAComponent { .. } => "not-a-component",
                ComponentError::TooLarge { .. } => "too-large",
                ComponentError::Memory { .. } => "memory",
                ComponentError::DigestMismatch { .. } => "digest",
                ComponentError::Compile { .. } => "compile",
                ComponentError::Import { .. } => "import",
                ComponentError::NotAProvider { .. } => "not-a-provider",
                ComponentError::Cache { .. } | ComponentError::CacheKey { .. } => "cache",
            },
            Self::Describe(_) => "describe",
            Self::Database(_) => "database",
            Self::Upstream(_) => "upstream",
            Self::Recording(_) | Self::Cancelled => return None,
        })
    }
}

/// Why an existing server cannot be connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}{}", indented(.last_errors))]
pub struct UpstreamError {
    /// The reason, in one line.
    pub reason: String,
    /// The last lines of its program's standard error, escaped, if it is a program.
    pub last_errors: Vec<String>,
}

impl From<String> for UpstreamError {
    fn from(reason: String) -> Self {
        Self { reason, last_errors: Vec::new() }
    }
}

/// Formats the last lines of standard error, one per line, for the end of a message.
fn indented(last_errors: &[String]) -> String {
    match last_errors {
        [] => String::new(),
        lines => format!("; its standard error ends with:\n  {}", lines.join("\n  ")),
    }
}
