//! Authentication: from the credentials of a request to its principal.
//!
//! | request | principal |
//! |---|---|
//! | an application inserted a [`Principal`] | that one |
//! | `Authorization: Bearer TOKEN` with a token of `[[principal]]` | the principal of the token |
//! | another token, or another scheme | none: 401 `invalid_token` |
//! | no credentials, and the config has no principals | the default of the [`HttpOptions`](super::HttpOptions) |
//! | no credentials, and the config has principals | the default, if a rule allows it something; else none: 401 |
//!
//! Credentials are taken from the header only, never from a URL, and are removed from the request at once: no provider,
//! no session and no log gets them. An event stream that was opened with a token ends as soon as a reload removes the token.
//! A token is compared by its SHA-256 digest in constant time, and where the comparison
//! happens depends on a key of this process.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::access::Principal;
use crate::config::{Config, TokenDigest};
use crate::host::Host;

/// The maximum size of a token in bytes.
const MAX_TOKEN_LEN: usize = 16 << 10;

/// Why a request has no principal (RFC 6750, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AuthenticationError {
    /// It has no credentials, and is not allowed anything without.
    #[error("credentials are required: send `Authorization: Bearer TOKEN`")]
    Missing,
    /// Its credentials are malformed, or there are several.
    #[error("the credentials are malformed: send one `Authorization: Bearer TOKEN`")]
    Malformed,
    /// It has a token that is unknown.
    #[error("the access token is invalid")]
    InvalidToken,
}

impl AuthenticationError {
    /// The parameters of `WWW-Authenticate`. A request without credentials gets no error code.
    fn challenge(self) -> &'static str {
        match self {
            Self::Missing => "Bearer",
            Self::Malformed => "Bearer error=\"invalid_request\"",
            Self::InvalidToken => "Bearer error=\"invalid_token\"",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::Missing | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::Malformed => StatusCode::BAD_REQUEST,
        }
    }
}

impl IntoResponse for AuthenticationError {
    fn into_response(self) -> Response {
        let challenge = HeaderValue::from_static(self.challenge());
        (self.status(), [(WWW_AUTHENTICATE, challenge)], format!("{self}\n")).into_response()
    }
}

/// A principal, and the token by which it was authenticated.
pub(super) struct Authenticated {
    pub(super) principal: Principal,
    /// None for a principal of an application, and for the default.
    pub(super) token: Option<TokenDigest>,
}

/// Authenticates the requests of a server, by the current config.
pub(super) struct Authenticator {
    host: Arc<Host>,
    /// The tokens of the last config that was used.
    tokens: ArcSwapOption<TokenTable>,
}

impl Authenticator {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self { host, tokens: ArcSwapOption::empty() }
    }

    /// Removes the credentials from a request, and returns the principal that they authenticate, or `default` for a request
    /// without. None if there is no default.
    pub(super) fn authenticate(
        &self,
        headers: &mut HeaderMap,
        default: Option<&Principal>,
    ) -> Result<Option<Authenticated>, AuthenticationError> {
        let table = self.token_table();
        let mut credentials = headers.get_all(AUTHORIZATION).iter();
        let (first, more) = (credentials.next().cloned(), credentials.next().is_some());
        headers.remove(AUTHORIZATION);
        match first {
            Some(_) if more => Err(AuthenticationError::Malformed),
            // Without principals there is nobody to authenticate: the header may be for a reverse proxy.
            Some(value) if !table.is_empty() => {
                let token = bearer_token(&value)?;
                table.authenticate(token).map(Some).ok_or(AuthenticationError::InvalidToken)
            }
            _ => match default {
                Some(principal) if !table.is_empty() && !self.may_do_anything(principal) => {
                    Err(AuthenticationError::Missing)
                }
                default => Ok(default.cloned().map(|principal| Authenticated { principal, token: None })),
            },
        }
    }

    /// Waits until that token is not one of that principal any more. None of the host is retained.
    pub(super) fn until_revoked(
        &self,
        principal: Principal,
        token: TokenDigest,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (host, mut generations) = (Arc::downgrade(&self.host), self.host.generations());
        async move {
            while let Some(host) = host.upgrade() {
                let config = host.config();
                drop(host);
                let mut holders = config.principals.iter().filter(|one| one.name.as_str() == principal.name());
                if !holders.any(|one| one.token_sha256.contains(&token)) {
                    return;
                }
                if generations.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    /// Whether a rule allows the principal something.
    fn may_do_anything(&self, principal: &Principal) -> bool {
        self.host.policy(principal).may_allow_anything()
    }

    /// The tokens of the current config.
    fn token_table(&self) -> Arc<TokenTable> {
        let config = self.host.config();
        match self.tokens.load_full() {
            Some(table) if Arc::ptr_eq(&table.config, &config) => table,
            _ => {
                let table = Arc::new(TokenTable::new(config));
                self.tokens.store(Some(table.clone()));
                table
            }
        }
    }
}

/// Returns the token of the credentials (RFC 6750, section 2.1).
fn bearer_token(value: &HeaderValue) -> Result<&str, AuthenticationError> {
    let text = value.to_str().map_err(|_| AuthenticationError::Malformed)?;
    let (scheme, token) = text.split_once(' ').ok_or(AuthenticationError::Malformed)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(AuthenticationError::InvalidToken);
    }
    let token = token.trim_matches(' ');
    let is_token = !token.is_empty() && token.len() <= MAX_TOKEN_LEN && !token.contains(char::is_whitespace);
    if is_token { Ok(token) } else { Err(AuthenticationError::Malformed) }
}

/// The tokens of one config.
struct TokenTable {
    config: Arc<Config>,
    /// By a hash of the digest under a random key, so that the time of a look-up says nothing about the digests.
    by_hash: HashMap<u64, Vec<(TokenDigest, Principal)>>,
    hasher: RandomState,
}

impl TokenTable {
    fn new(config: Arc<Config>) -> Self {
        let hasher = RandomState::new();
        let mut by_hash: HashMap<u64, Vec<_>> = HashMap::new();
        for principal in &config.principals {
            let identity = Principal::new(principal.name.as_str());
            for digest in principal.token_sha256.iter() {
                by_hash.entry(hasher.hash_one(digest)).or_default().push((digest.clone(), identity.clone()));
            }
        }
        Self { config, by_hash, hasher }
    }

    fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    fn authenticate(&self, token: &str) -> Option<Authenticated> {
        let digest = TokenDigest::of(token);
        let candidates = self.by_hash.get(&self.hasher.hash_one(&digest))?;
        let found = candidates.iter().find(|(known, _)| known.matches(&digest));
        found.map(|(known, principal)| Authenticated { principal: principal.clone(), token: Some(known.clone()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_from_one_bearer_scheme() {
        let token = |value: &str| bearer_token(&HeaderValue::from_str(value).unwrap()).map(str::to_owned);
        assert_eq!(token("Bearer abc"), Ok("abc".to_owned()));
        assert_eq!(token("bearer  abc "), Ok("abc".to_owned()));
        assert_eq!(token("Basic abc"), Err(AuthenticationError::InvalidToken));
        for malformed in ["Bearer", "Bearer ", "Bearer a b", "abc"] {
            assert_eq!(token(malformed), Err(AuthenticationError::Malformed), "{malformed}");
        }
        assert_eq!(token(&format!("Bearer {}", "x".repeat(MAX_TOKEN_LEN + 1))), Err(AuthenticationError::Malformed));
    }
}
