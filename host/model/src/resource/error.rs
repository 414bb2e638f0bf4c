//! Errors of requests.

use std::time::Duration;

use crate::uri::excerpt;

/// Why a request failed, as far as the client may know.
///
/// Details for an administrator only (the message of a guest's trap, a path of the machine) are in the log, under
/// the plugin's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The resource does not exist, or this principal may not know of it. The message has at most the first 128 bytes
    /// of the URI.
    #[error("there is no resource {}", excerpt(uri))]
    NotFound {
        /// The requested URI.
        uri: String,
    },
    /// The request is invalid.
    #[error("{message}")]
    InvalidRequest {
        /// The expected and the actual value.
        message: String,
    },
    /// The cursor was not issued by this host to this principal for this listing, or was sealed with another key.
    #[error("the cursor was not issued by this server for this listing; start again without a cursor")]
    InvalidCursor,
    /// The provider denies access to the data.
    #[error("{message}")]
    Denied {
        /// The provider's message.
        message: String,
    },
    /// The resource exists or may exist, but is unavailable: for some time if this is known, else perhaps until
    /// its data changes.
    #[error("plugin `{plugin}` cannot answer{}: {reason}", if retry_after.is_some() { " now" } else { "" })]
    Unavailable {
        /// The plugin's name in the configuration.
        plugin: String,
        /// The reason, and a remedy.
        reason: String,
        /// The time after which to retry, if known.
        retry_after: Option<Duration>,
    },
    /// The audit log has no space for a record of the request, and its config refuses such requests (`on-full =
    /// "refuse"`).
    #[error("the server cannot answer now, as it can keep no record of requests; try again later")]
    AuditUnavailable,
    /// The host is shutting down (`Host::shutdown`).
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The plugin failed; the log has the details.
    #[error("plugin `{plugin}` failed; the server's log says why")]
    Internal {
        /// The plugin's name in the configuration.
        plugin: String,
    },
}

impl Error {
    /// Returns the kind of error in a word or two, for logs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not found",
            Self::InvalidRequest { .. } => "invalid request",
            Self::InvalidCursor => "invalid cursor",
            Self::Denied { .. } => "denied",
            Self::Unavailable { .. } | Self::AuditUnavailable | Self::ShuttingDown => "unavailable",
            Self::Internal { .. } => "internal",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_quotes_a_uri_whole_or_its_beginning() {
        let message = |uri: &str| Error::NotFound { uri: uri.to_owned() }.to_string();
        let usual = "git://linux/blob/0123456789abcdef0123456789abcdef01234567/Documentation/it's%20here.rst";
        assert_eq!(message(usual), format!("there is no resource {usual}"));
        let long = message(&format!("x:{}", "a".repeat(8000)));
        assert_eq!(long, format!("there is no resource x:{}…", "a".repeat(126)));
    }
}
