//! Access tokens that the host adds to requests: `oauth` of an entry of `grants.http`.
//!
//! [`AccessTokens`] belong to one entry of one plugin. A token is requested from the token endpoint when a request
//! needs it, cached, and used until shortly before its expiry. A token never enters the guest: the host adds it when
//! the request is sent, and no error, log line or message contains a part of it or of the credentials.
//!
//! | event | mechanism |
//! |---|---|
//! | several requests need a token | single flight: one of them requests it, and the others wait (a mutex) |
//! | a token has a very short lifetime | it is used for [`MIN_USE`], so that it causes no request to the token server for each request |
//! | the call that requests a token ends | the request for the token continues in a separate task, so a token server that is slower than the calls still serves the next call |
//! | the token server fails or refuses | the cached token is used until its expiry; then requests fail immediately, without being sent, during an exponential back-off of at most [`MAX_BACKOFF`] |
//! | the origin answers 401 | the cached token is replaced, at most once in [`MIN_REPLACEMENT_INTERVAL`] |
//! | the token server sends another refresh token (rotation) | the new one is used from then on, and kept in memory only |
//!
//! The wall clock of this machine is used only for the times in the assertion of a service account: expiry is measured
//! from the request of the token.

mod answer;
mod assertion;
mod endpoint;
mod token_request;

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use mcp_host_base::backoff::Backoff;
use mcp_host_base::task;
use mcp_host_config::Secret;
use mcp_host_config::grants::{AuthorizationGrant, OAuth};
use mcp_host_model::net::Origin;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::answer::{ErrorCode, TokenAnswer};
use self::endpoint::TokenEndpoint;
use super::connect::{Network, SystemNetwork};
use super::tls::TlsRoots;
use crate::outbound_http::retry_advice;

/// The minimum interval between two replacements of tokens that the origin answered with 401, so that an origin that
/// always answers 401 does not flood the token server.
const MIN_REPLACEMENT_INTERVAL: Duration = Duration::from_secs(5);
/// The margin before the expiry of a token: it is used until then, or until a fifth of its lifetime is left if that is
/// shorter.
const EXPIRY_MARGIN: Duration = Duration::from_secs(60);
/// The minimum time for which a token is used after its arrival, even if its lifetime is shorter.
const MIN_USE: Duration = Duration::from_secs(1);
/// The maximum backoff after failures of the token server, and the maximum `Retry-After` that is honored.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// The reason why there is no access token. Its text is for the log, and contains no text of a server.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum TokenError {
    #[error("cannot reach the token server: {0}")]
    Unreachable(String),
    #[error("the token server did not answer within {} s", endpoint::TIMEOUT.as_secs())]
    Timeout,
    #[error("the exchange with the token server failed: {0}")]
    Exchange(String),
    #[error("the token server answered {status}{}", describe(*.status, *.code, *.retry_after))]
    Refused { status: StatusCode, code: Option<&'static ErrorCode>, retry_after: Option<Duration> },
    #[error("the answer of the token server {0}; check `token-uri`")]
    InvalidAnswer(&'static str),
    #[error("the request for a token cannot be made: {0}")]
    Request(&'static str),
}

/// The meaning of a refusal, and the remedy. A busy or failing server does not know whether the config is wrong.
fn describe(status: StatusCode, code: Option<&ErrorCode>, retry_after: Option<Duration>) -> String {
    match (retry_advice(status, retry_after), code) {
        (Some(advice), Some(code)) => format!(", {}: {advice}", code.name()),
        (Some(advice), None) => format!(": {advice}"),
        (None, Some(code)) => format!(", {code}"),
        (None, None) => ", without an error code that is known: check `token-uri`".to_owned(),
    }
}

/// Access tokens for the host's own requests, such as requests of an upstream. They use the network of this machine.
#[derive(Clone)]
pub struct HostAccessTokens(Arc<AccessTokens>);

impl HostAccessTokens {
    /// Creates the tokens of this source.
    pub fn new(config: &OAuth, tls_roots: Arc<TlsRoots>) -> Self {
        Self(AccessTokens::new(config, Arc::new(SystemNetwork), tls_roots))
    }

    /// The value of `Authorization`: with the cached token, or with a new one.
    ///
    /// # Errors
    ///
    /// The reason why there is no token, without text of the server.
    pub async fn authorization(&self) -> Result<HeaderValue, String> {
        let token = self.0.token().await;
        token.map(|token| token.header()).map_err(|error| format!("{}: {error}", self.0.server()))
    }

    /// Drops a token that a server answered with 401. Returns whether another one is available now.
    pub async fn reject(&self, rejected: &HeaderValue) -> bool {
        self.0.reject(&AccessToken { authorization: rejected.clone(), is_cached: true }).await
    }
}

impl std::fmt::Debug for HostAccessTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HostAccessTokens").field(self.0.server()).finish()
    }
}

/// The access tokens of one entry of `grants.http`.
pub(super) struct AccessTokens {
    config: OAuth,
    endpoint: TokenEndpoint,
    cache: Arc<Mutex<Cache>>,
}

struct Cache {
    current: Option<CachedToken>,
    /// The refresh token that replaces the config's.
    refresh_token: Option<Secret<String>>,
    /// The time when a token was last replaced because the origin rejected it.
    replaced_at: Option<Instant>,
    /// The last failure, if no success followed it.
    failure: Option<Failure>,
    backoff: Backoff,
}

impl Default for Cache {
    fn default() -> Self {
        let backoff = Backoff::up_to(MAX_BACKOFF);
        Self { current: None, refresh_token: None, replaced_at: None, failure: None, backoff }
    }
}

struct CachedToken {
    authorization: HeaderValue,
    /// The time from which another token is requested.
    usable_until: Instant,
    expires_at: Instant,
}

impl Cache {
    /// Returns the token if it does not have to be replaced yet.
    fn usable(&self, now: Instant) -> Option<AccessToken> {
        self.current.as_ref().filter(|token| token.usable_until > now).map(AccessToken::cached)
    }

    /// Returns the token if it is still valid, as a fallback.
    fn unexpired(&self, now: Instant) -> Option<AccessToken> {
        self.current.as_ref().filter(|token| token.expires_at > now).map(AccessToken::cached)
    }
}

struct Failure {
    error: TokenError,
    retry_at: Instant,
}

/// An access token, as the value of `Authorization`.
#[derive(Clone, Debug)]
pub(super) struct AccessToken {
    authorization: HeaderValue,
    /// Whether the token was requested for an earlier request, so that it may have become invalid.
    is_cached: bool,
}

impl AccessToken {
    fn cached(token: &CachedToken) -> Self {
        Self { authorization: token.authorization.clone(), is_cached: true }
    }

    /// Returns the header, whose value `Debug` hides.
    pub(super) fn header(&self) -> HeaderValue {
        self.authorization.clone()
    }
}

impl AccessTokens {
    pub(super) fn new(config: &OAuth, network: Arc<dyn Network>, tls_roots: Arc<TlsRoots>) -> Arc<Self> {
        let endpoint = TokenEndpoint::new(config.token_uri.clone(), config.ca.clone(), network, tls_roots);
        Arc::new(Self { config: config.clone(), endpoint, cache: Arc::default() })
    }

    /// Returns the origin of the token endpoint.
    pub(super) fn server(&self) -> &Origin {
        self.config.token_uri.origin()
    }

    /// Returns a token: the cached one, or a new one.
    pub(super) async fn token(self: &Arc<Self>) -> Result<AccessToken, TokenError> {
        let cache = self.cache.clone().lock_owned().await;
        let now = Instant::now();
        if let Some(token) = cache.usable(now) {
            return Ok(token);
        }
        if let Some(failure) = cache.failure.as_ref().filter(|failure| failure.retry_at > now) {
            return cache.unexpired(now).ok_or_else(|| failure.error.clone());
        }
        self.clone().spawn_refresh(cache).await.unwrap_or(Err(TokenError::Request("its task was aborted")))
    }

    fn spawn_refresh(self: Arc<Self>, cache: OwnedMutexGuard<Cache>) -> JoinHandle<Result<AccessToken, TokenError>> {
        task::spawn(async move { self.refresh(cache).await })
    }

    /// Drops a token that the origin rejected with 401. Returns whether [`token`](Self::token) may now return a
    /// different token.
    pub(super) async fn reject(&self, rejected: &AccessToken) -> bool {
        if !rejected.is_cached {
            return false;
        }
        let mut cache = self.cache.lock().await;
        let is_current = cache.current.as_ref().is_some_and(|token| token.authorization == rejected.authorization);
        if !is_current {
            return true;
        }
        let now = Instant::now();
        let is_too_early = |replaced_at| now.saturating_duration_since(replaced_at) < MIN_REPLACEMENT_INTERVAL;
        if cache.replaced_at.is_some_and(is_too_early) {
            return false;
        }
        cache.replaced_at = Some(now);
        cache.current = None;
        true
    }

    /// Requests a token, and records the outcome.
    async fn refresh(&self, mut cache: OwnedMutexGuard<Cache>) -> Result<AccessToken, TokenError> {
        let requested_at = Instant::now();
        match self.request(cache.refresh_token.as_ref()).await {
            Ok(answer) => {
                (cache.failure, cache.backoff) = (None, Backoff::up_to(MAX_BACKOFF));
                if answer.refresh_token.is_some()
                    && matches!(self.config.grant, AuthorizationGrant::RefreshToken { .. })
                {
                    cache.refresh_token = answer.refresh_token;
                }
                let after = |instant: Instant, time| instant.checked_add(time).unwrap_or(instant);
                let min_use = after(Instant::now(), MIN_USE);
                cache.current = Some(CachedToken {
                    authorization: answer.authorization.clone(),
                    usable_until: after(requested_at, usable_time(answer.lifetime)).max(min_use),
                    expires_at: after(requested_at, answer.lifetime),
                });
                Ok(AccessToken { authorization: answer.authorization, is_cached: false })
            }
            Err(error) => {
                let (now, delay) = (Instant::now(), cache.backoff.next_delay().max(retry_after(&error)));
                let retry_at = now.checked_add(delay).unwrap_or(now);
                cache.failure = Some(Failure { error: error.clone(), retry_at });
                cache.unexpired(now).ok_or(error)
            }
        }
    }

    async fn request(&self, refresh_token: Option<&Secret<String>>) -> Result<TokenAnswer, TokenError> {
        let request = token_request::build(&self.config, refresh_token)?;
        self.endpoint.exchange(request).await
    }
}

/// Returns the time for which a token of this lifetime is used.
fn usable_time(lifetime: Duration) -> Duration {
    lifetime.saturating_sub(EXPIRY_MARGIN.min(lifetime.checked_div(5).unwrap_or_default()))
}

/// Returns the delay that the token server requests (`Retry-After`), bounded.
fn retry_after(error: &TokenError) -> Duration {
    match error {
        TokenError::Refused { retry_after, .. } => retry_after.unwrap_or_default().min(MAX_BACKOFF),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests;
