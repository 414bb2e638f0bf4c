//! Why an upstream cannot be connected to, and what an admin is told of it.

use std::error::Error;

use rmcp::service::ClientInitializeError;

/// The bytes of a reason that are shown.
pub(super) const MAX_REASON: usize = 1024;

/// Why an upstream cannot be connected to.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct ConnectError {
    /// The reason, in one line.
    pub reason: String,
    /// What the program wrote last on standard error, if it is one: lines that are escaped.
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

/// Why a connection was not opened.
#[derive(Debug)]
pub(super) enum OpenError {
    /// The program cannot be started.
    Start(String),
    /// The server does not answer as it should.
    Handshake(Box<ClientInitializeError>),
}

impl From<ClientInitializeError> for OpenError {
    fn from(error: ClientInitializeError) -> Self {
        Self::Handshake(Box::new(error))
    }
}

/// Whether a handshake ended with its connection.
pub(super) fn is_of_transport(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => true,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_of_transport(fallback),
        _ => false,
    }
}

/// Why no connection was opened, for an admin.
pub(super) fn reason(error: &ClientInitializeError) -> String {
    if error.is_authorization_required() {
        return "the server refuses the credentials; set `auth` to a token that it accepts".to_owned();
    }
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => reason(fallback),
        ClientInitializeError::TransportError { error, context } => {
            format!("{}, {context}", with_causes(&*error.error))
        }
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            "the server answers with something else than what it is asked".to_owned()
        }
        other => other.to_string(),
    }
}

/// The text of an error and of its causes, in one line.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text = format!("{text}: {next_text}");
        }
        cause = next.source();
    }
    text
}
