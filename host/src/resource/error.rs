//! Why a request has no answer.

use std::time::Duration;

/// Why a request has no answer, as the one who asked may know it.
///
/// What only an administrator may know (what a trap of a guest says, a path of the machine) is in the log, under the plugin's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such resource, or none that this principal may know of.
    #[error("there is no resource {uri}")]
    NotFound {
        /// The URI as it was asked for.
        uri: String,
    },
    /// The request makes no sense.
    #[error("{message}")]
    InvalidRequest {
        /// What was expected and what was found.
        message: String,
    },
    /// The cursor is not one that this host gave this principal for this listing, or it is from another key.
    #[error("the cursor is not one that this server gave out for this listing; start again without a cursor")]
    InvalidCursor,
    /// Whoever runs the data behind the plugin refuses.
    #[error("{message}")]
    Denied {
        /// What the provider says of it.
        message: String,
    },
    /// The resource exists or may exist, but cannot be had now.
    #[error("plugin `{plugin}` cannot answer now: {reason}")]
    Unavailable {
        /// The plugin's name in the configuration.
        plugin: String,
        /// Why, and what would help.
        reason: String,
        /// When another try makes sense, where that is known.
        retry_after: Option<Duration>,
    },
    /// The host is shutting down ([`Host::shutdown`](crate::Host::shutdown)).
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The plugin is at fault; the log says how.
    #[error("plugin `{plugin}` failed; the server's log says why")]
    Internal {
        /// The plugin's name in the configuration.
        plugin: String,
    },
}

impl Error {
    /// What kind of error it is, in a word or two, for logs.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not found",
            Self::InvalidRequest { .. } => "invalid request",
            Self::InvalidCursor => "invalid cursor",
            Self::Denied { .. } => "denied",
            Self::Unavailable { .. } | Self::ShuttingDown => "unavailable",
            Self::Internal { .. } => "internal",
        }
    }
}
