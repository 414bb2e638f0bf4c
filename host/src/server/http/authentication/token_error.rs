//! Why an access token is not accepted.

use std::sync::Arc;

/// The reason why an access token of an issuer is not accepted. `Display` is for the log.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum TokenError {
    /// No issuer of the config issued it.
    #[error("its issuer is not one of the config")]
    UnknownIssuer,
    /// It is signed in a way that is not accepted, or has header parameters that are not understood.
    #[error("its header is not accepted: {0}")]
    Header(&'static str),
    /// The issuer has no key that can have signed it.
    #[error("it is signed with a key that its issuer does not publish")]
    UnknownKey,
    /// The signature is wrong, or the token is malformed.
    #[error("its signature or its form is wrong")]
    Signature,
    /// It has expired.
    #[error("it has expired")]
    Expired,
    /// It is not valid yet.
    #[error("it is not valid yet")]
    NotYetValid,
    /// It was issued for another server.
    #[error("it was issued for another audience")]
    Audience,
    /// It is one of another issuer.
    #[error("it is one of another issuer")]
    Issuer,
    /// A claim is missing or malformed.
    #[error("its claim `{0}` is missing or malformed")]
    Claim(String),
    /// The claim that names its principal is missing or not usable as a name.
    #[error("its claim `{0}` does not name a principal")]
    NoPrincipal(String),
    /// It is bound to a key of the client, whose possession this server cannot verify.
    #[error("it is bound to a key of the client (`cnf`), and is not a bearer token")]
    SenderConstrained,
    /// The issuer says that it is not active.
    #[error("its issuer says that it is not active")]
    Inactive,
    /// The issuer cannot be reached, or does not answer as it should.
    #[error("its issuer cannot be asked: {0}")]
    Unavailable(Arc<str>),
}

impl TokenError {
    /// A description for the client (RFC 6750, section 3). Reasons of which a client learns more about the config than it may know
    /// are not told apart.
    pub(super) fn description(&self) -> &'static str {
        match self {
            Self::Expired => "the access token has expired",
            Self::NotYetValid => "the access token is not valid yet",
            Self::Audience => "the access token was issued for another resource",
            Self::SenderConstrained => "the access token is not a bearer token",
            _ => "the access token is invalid",
        }
    }
}
