//! The errors of connecting to an upstream, and their reasons for administrators.

use mcp_host_base::text::with_causes;
use mcp_host_config::Plugin;
use rmcp::service::ClientInitializeError;

use crate::guard::Excess;
use crate::http;

/// The maximum length of a shown reason in bytes.
pub(super) const MAX_REASON: usize = 1024;

/// An error that prevents a connection to an upstream.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct ConnectError {
    /// The reason, in one line.
    pub reason: String,
    /// The last lines that the program wrote to standard error, escaped. Empty for a URL.
    pub last_errors: Vec<String>,
}

impl From<String> for ConnectError {
    fn from(reason: String) -> Self {
        Self { reason, last_errors: Vec::new() }
    }
}

impl ConnectError {
    pub(crate) fn no_token_client() -> Self {
        Self::from("this host was built without a client for token endpoints".to_owned())
    }

    pub(crate) fn no_upstream() -> Self {
        Self::from("the plugin is a component, and no upstream".to_owned())
    }
}

/// An error of an attempt to open a connection.
#[derive(Debug)]
pub(super) enum OpenError {
    /// The program cannot be started.
    Start(String),
    /// The handshake with the server has failed.
    Handshake(Box<ClientInitializeError>),
    /// The server sent too much during the handshake.
    Excess(Excess),
}

impl From<ClientInitializeError> for OpenError {
    fn from(error: ClientInitializeError) -> Self {
        Self::Handshake(Box::new(error))
    }
}

/// Returns whether a handshake failed because its connection ended.
pub(super) fn is_of_transport(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => true,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_of_transport(fallback),
        _ => false,
    }
}

/// Returns the reason of a failed handshake with this upstream, for administrators.
pub(super) fn reason(error: &ClientInitializeError, upstream: &Plugin) -> String {
    if error.is_authorization_required() {
        return "the server refuses the credentials; set `auth` to a token that it accepts".to_owned();
    }
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => reason(fallback, upstream),
        ClientInitializeError::TransportError { error, context } => {
            let of_url = http::handshake_reason(&*error.error, &upstream.source());
            of_url.unwrap_or_else(|| format!("{}, {context}", with_causes(&*error.error)))
        }
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            "the server's response does not match the request".to_owned()
        }
        other => other.to_string(),
    }
}
