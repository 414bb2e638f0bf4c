//! Authentication: determines the principal of a request from its credentials.
//!
//! | request | principal |
//! |---|---|
//! | an application inserted a [`Principal`] | that one |
//! | `Authorization: Bearer TOKEN` with a token of `[[principal]]` | the principal of the token |
//! | `Authorization: Bearer TOKEN` with an access token of an `[[issuer]]` | `ISSUER/NAME`, with the groups that it names |
//! | an access token without a scope that is required | none: 403 `insufficient_scope` |
//! | an access token whose issuer cannot be reached, or whose key is unknown while the keys may not be requested again yet | none: 503 |
//! | an access token that is not introspected, because too many tokens from its address were invalid | none: 429 |
//! | another token, or another scheme | none: 401 `invalid_token` |
//! | no token, over a connection with a client certificate of one `http.client-ca` | `CA/NAME` |
//! | no token, over a connection with a client certificate that leads to several authorities | none: 401 |
//! | no credentials, and the config has no principals to authenticate | the default of the [`HttpOptions`](super::HttpOptions) |
//! | no credentials, and the config has a principal with a token, an issuer or a client CA | the default, if a rule allows it something; else none: 401 |
//!
//! Credentials are taken from the header only, never from a URL, and are removed from the request immediately: no
//! provider, session or log receives them.
//!
//! An event stream ends as soon as its credentials would no longer open it: when an access token expires, when a reload
//! removes a token, an issuer or an authority, when a token authenticates another principal or other groups, or when a
//! token has no longer the scopes of every operation that it was for when the stream began. So there is no list of the
//! operations of each stream, which could lack one. Access tokens are verified again every
//! [`CACHE_TIME`](access_tokens::CACHE_TIME), so one whose key is removed, or that its issuer revokes, ends its
//! streams, too. Credentials of a request whose body took long are verified again before it is executed.

mod access_tokens;
mod challenge;
mod claims;
mod client_certificate;
mod fetch;
mod introspection;
mod jwt;
mod remote_keys;
pub(super) mod resource_metadata;
mod ring_provider;
mod static_tokens;
mod token_error;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::response::Response;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use self::access_tokens::AccessTokens;
use self::challenge::Challenge;
use self::claims::AccessToken;
pub(super) use self::client_certificate::{ClientCertificate, ClientCertificateVerifier};
use mcp_host_base::log_target;
use mcp_host_base::throttle::ThrottlePerReason;
use mcp_host_config::issuer::Scope;
use mcp_host_config::{Config, Operation};
use mcp_host_model::caller;
use mcp_resource_host::access::rate::{RateClient, RateExceeded};
use mcp_resource_host::access::{CredentialScopes, Principal};
use mcp_resource_host::host::Host;

use self::static_tokens::StaticTokens;
use self::token_error::TokenError;
use crate::client_id::ClientId;

/// The maximum size of a token in bytes.
const MAX_TOKEN_LEN: usize = 16 << 10;
/// The interval of warnings about rejected tokens.
const WARN_INTERVAL: Duration = Duration::from_secs(10);
/// The time for which an event stream continues while the issuer of its token does not answer.
const GRACE_TIME: Duration = Duration::from_secs(15);
/// The interval of retries during that time.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum time for which a timer of an event stream runs, because the wall clock of token expiry may be changed
/// meanwhile.
const MAX_SLEEP: Duration = Duration::from_mins(10);

/// The reason why a request is not authenticated, or not authorized (RFC 6750, section 3.1).
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum AuthenticationError {
    /// The request has no credentials, and anonymous clients are not allowed anything.
    #[error("credentials are required: send `Authorization: Bearer TOKEN`")]
    Missing,
    /// The credentials are malformed, or there are several.
    #[error("the credentials are malformed: send one `Authorization: Bearer TOKEN`, of at most 16 KiB")]
    Malformed,
    /// The token is not accepted.
    #[error("{0}")]
    InvalidToken(&'static str),
    /// The token lacks at least one of these required scopes.
    #[error("the access token does not have the scopes that this requires")]
    InsufficientScope(Vec<Scope>),
    /// The token cannot be verified now.
    #[error("the access token cannot be verified now; try again later")]
    Unavailable,
    /// The issuer's keys lack the key that the token names. They may be requested again after this time.
    #[error("the key of the access token is not known yet; try again later")]
    KeyPending(Duration),
    /// Too many requests from the address had invalid credentials, so the issuer is not requested for this token.
    #[error("{0}")]
    TooManyFailures(RateExceeded),
}

const INVALID_TOKEN: AuthenticationError = AuthenticationError::InvalidToken("the access token is invalid");

/// The credentials of a request, which an event stream keeps to verify them again.
#[derive(Clone)]
enum Credentials {
    /// The principals of an embedding application, if it has any.
    None,
    Token(Zeroizing<String>),
    Certificate(Arc<ClientCertificate>),
}

/// An authenticated request.
#[derive(Clone)]
pub(super) struct Authenticated {
    pub(super) principal: Principal,
    credentials: Credentials,
    access_token: Option<Arc<AccessToken>>,
    /// The sender of the credentials. None if there are none.
    client: Option<ClientId>,
    /// The expiry of the credentials, independent of the config. None if they do not expire.
    expires: Option<Instant>,
    /// The host's generations, subscribed before the verification. None if there are no credentials.
    generations: Option<watch::Receiver<u64>>,
}

impl Authenticated {
    /// A request whose principal the application authenticated.
    pub(super) fn by_application(principal: Principal) -> Self {
        Self {
            principal,
            credentials: Credentials::None,
            access_token: None,
            client: None,
            expires: None,
            generations: None,
        }
    }

    /// The access token that authenticated the request, which may be exchanged for another one.
    pub(super) fn issued_token(&self) -> Option<caller::AccessToken> {
        match (&self.credentials, &self.access_token) {
            (Credentials::Token(token), Some(_)) => Some(caller::AccessToken::new(token)),
            _ => None,
        }
    }

    /// Returns the expiry of the credentials, independent of the config. None if they do not expire.
    pub(super) fn expires(&self) -> Option<Instant> {
        self.expires
    }

    /// Returns whether the credentials have to be verified again, because the config may have changed or they may have
    /// expired.
    pub(super) fn is_outdated(&self) -> bool {
        let has_changed = |generations: &watch::Receiver<u64>| generations.has_changed().unwrap_or(true);
        self.generations.as_ref().is_some_and(has_changed)
            || self.expires.is_some_and(|expires| expires <= Instant::now())
    }

    /// Returns whether the request was authenticated by its own credentials, which may expire or be revoked.
    pub(super) fn has_credentials(&self) -> bool {
        !matches!(self.credentials, Credentials::None)
    }

    /// The operations that the scopes of the access token allow. What lasts longer than the check of its request keeps
    /// them: an event stream delivers only what they allow, and ends when the token allows less
    /// ([`Authenticator::until_revoked`]).
    pub(super) fn scopes(&self) -> CredentialScopes {
        match &self.access_token {
            Some(_) => CredentialScopes::new(|operation| self.require_scopes(&[operation]).is_ok()),
            None => CredentialScopes::default(),
        }
    }

    /// Returns the scopes that the operations require as an error, if the access token lacks any of them.
    pub(super) fn require_scopes(&self, operations: &[Operation]) -> Result<(), AuthenticationError> {
        let Some(token) = &self.access_token else { return Ok(()) };
        let required = token.issuer.required_scopes(operations);
        if token.has_scopes(required.iter().map(|scope| scope.as_str())) {
            return Ok(());
        }
        Err(AuthenticationError::InsufficientScope(required.into_iter().cloned().collect()))
    }
}

/// Authenticates the requests of a server, by the current config.
pub(super) struct Authenticator {
    host: Arc<Host>,
    /// The snapshot of the most recently used config.
    current: ArcSwapOption<Snapshot>,
    /// Locked while a snapshot is made, so that fetched keys are not lost.
    update: parking_lot::Mutex<()>,
    /// The throttles of log lines about rejected credentials.
    rejection_log: ThrottlePerReason,
}

/// The credentials that one config accepts.
struct Snapshot {
    config: Arc<Config>,
    static_tokens: StaticTokens,
    access_tokens: AccessTokens,
    challenge: Challenge,
}

impl Snapshot {
    fn new(config: Arc<Config>, previous: Option<&Self>) -> Self {
        Self {
            static_tokens: StaticTokens::new(&config),
            access_tokens: AccessTokens::new(&config, previous.map(|previous| &previous.access_tokens)),
            challenge: Challenge::new(&config),
            config,
        }
    }

    fn authenticates_anybody(&self) -> bool {
        !self.static_tokens.is_empty() || !self.access_tokens.is_empty() || !self.config.http.client_ca.is_empty()
    }
}

impl Authenticator {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self {
            host,
            current: ArcSwapOption::empty(),
            update: parking_lot::Mutex::new(()),
            rejection_log: ThrottlePerReason::new(WARN_INTERVAL),
        }
    }

    /// Removes the credentials from a request, and returns the principal that they or the client certificate of the
    /// connection authenticate, or `default` for a request without credentials. None if there is no default.
    pub(super) async fn authenticate(
        &self,
        request: &mut Request,
        client: &ClientId,
        certificate: Option<&Arc<ClientCertificate>>,
        default: Option<&Principal>,
    ) -> Result<Option<Authenticated>, AuthenticationError> {
        // Subscribed before the config is loaded: a verification with an old config is then repeated.
        let generations = self.host.generations();
        let snapshot = self.snapshot();
        let mut values = request.headers().get_all(AUTHORIZATION).iter();
        let (first, more) = (values.next().cloned(), values.next().is_some());
        request.headers_mut().remove(AUTHORIZATION);
        match (first, certificate) {
            (Some(_), _) if more => Err(AuthenticationError::Malformed),
            // If the config has no principals, the header may be for a reverse proxy.
            (Some(value), _) if snapshot.authenticates_anybody() => {
                let token = Zeroizing::new(bearer_token(&value)?.to_owned());
                self.verify(&snapshot, client, Credentials::Token(token), generations).await.map(Some)
            }
            (_, Some(certificate)) if !snapshot.config.http.client_ca.is_empty() => self
                .verify(&snapshot, client, Credentials::Certificate(certificate.clone()), generations)
                .await
                .map(Some),
            _ => match default {
                Some(principal) if snapshot.authenticates_anybody() && !self.may_do_anything(principal) => {
                    Err(AuthenticationError::Missing)
                }
                default => Ok(default.cloned().map(Authenticated::by_application)),
            },
        }
    }

    /// Returns the response to an unauthenticated request of this client.
    pub(super) fn reject(&self, error: &AuthenticationError, client: &ClientId) -> Response {
        match error {
            AuthenticationError::Malformed => self.log_rejection("malformed", &error.to_string(), client),
            AuthenticationError::InsufficientScope(scopes) => {
                let scopes: Vec<_> = scopes.iter().map(Scope::as_str).collect();
                let reason = format!("the access token does not have all of the scopes `{}`", scopes.join(" "));
                self.log_rejection("scope", &reason, client);
            }
            // Every client begins without credentials. The other reasons have been logged.
            AuthenticationError::Missing
            | AuthenticationError::InvalidToken(_)
            | AuthenticationError::Unavailable
            | AuthenticationError::KeyPending(_)
            | AuthenticationError::TooManyFailures(_) => {}
        }
        self.snapshot().challenge.response(error)
    }

    /// Verifies credentials.
    async fn verify(
        &self,
        snapshot: &Snapshot,
        client: &ClientId,
        credentials: Credentials,
        generations: watch::Receiver<u64>,
    ) -> Result<Authenticated, AuthenticationError> {
        let (principal, access_token, expires_in) = match &credentials {
            Credentials::None => return Err(AuthenticationError::Missing),
            Credentials::Token(token) => match snapshot.static_tokens.authenticate(token) {
                Some(principal) => (principal, None, None),
                None if snapshot.access_tokens.is_empty() => {
                    // Without a config file, as with `serve PATH`, there is no table to name.
                    let known = match snapshot.config.file {
                        Some(_) => "the token is not one of a `[[principal]]`",
                        None => "the token is not one that this server accepts",
                    };
                    self.log_rejection("token", known, client);
                    return Err(INVALID_TOKEN);
                }
                None => {
                    let check_rate = || self.check_introspection_rate(client);
                    let verified = snapshot.access_tokens.verify(token, client, &check_rate).await;
                    let token = verified.map_err(|error| self.token_error(&error, client))?;
                    let expires_in = token.expires_in();
                    (token.principal.clone(), Some(token), expires_in)
                }
            },
            Credentials::Certificate(certificate) => {
                let named = certificate.principal(&snapshot.config);
                let (principal, expires_in) = named.map_err(|refusal| {
                    self.log_rejection(refusal.kind(), &refusal.to_string(), client);
                    AuthenticationError::InvalidToken(refusal.description())
                })?;
                (principal, None, Some(expires_in))
            }
        };
        let expires = expires_in.and_then(|time| Instant::now().checked_add(time));
        let (client, generations) = (Some(client.clone()), Some(generations));
        let authenticated = Authenticated { principal, credentials, access_token, client, expires, generations };
        authenticated.require_scopes(&[])?;
        Ok(authenticated)
    }

    /// Waits until the credentials of a request no longer authenticate this principal, or lack the scopes of an
    /// operation that they had the scopes of. If an issuer does not answer, its request is retried for [`GRACE_TIME`].
    /// The future does not keep the host alive.
    pub(super) fn until_revoked(
        self: &Arc<Self>,
        authenticated: Authenticated,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (authenticator, scopes) = (Arc::downgrade(self), authenticated.scopes());
        let again = if authenticated.access_token.is_some() { access_tokens::CACHE_TIME } else { MAX_SLEEP };
        let Authenticated { principal, credentials, client, mut expires, generations, .. } = authenticated;
        async move {
            let (Some(client), Some(mut generations)) = (client, generations) else { return };
            let mut failing_since = None;
            loop {
                let pause = if failing_since.is_some() { RETRY_INTERVAL } else { again };
                tokio::select! {
                    () = sleep(expires.map_or(pause, |at| at.saturating_duration_since(Instant::now()).min(pause))) => {}
                    changed = generations.changed() => if changed.is_err() { return },
                }
                let Some(authenticator) = authenticator.upgrade() else { return };
                let snapshot = authenticator.snapshot();
                let verified = authenticator.verify(&snapshot, &client, credentials.clone(), generations.clone()).await;
                match verified {
                    Ok(verified) if verified.principal == principal && verified.scopes().cover(scopes) => {
                        (expires, failing_since) = (verified.expires, None);
                    }
                    Err(
                        AuthenticationError::Unavailable
                        | AuthenticationError::KeyPending(_)
                        | AuthenticationError::TooManyFailures(_),
                    ) if expires.is_none_or(|at| Instant::now() < at)
                        && failing_since.get_or_insert_with(Instant::now).elapsed() < GRACE_TIME => {}
                    _ => return,
                }
            }
        }
    }

    /// Verifies the credentials of a request again. Returns the request with their current scopes and expiry.
    pub(super) async fn verify_again(&self, outdated: &Authenticated) -> Result<Authenticated, AuthenticationError> {
        let Some(client) = &outdated.client else { return Ok(outdated.clone()) };
        let generations = self.host.generations();
        let verified = self.verify(&self.snapshot(), client, outdated.credentials.clone(), generations).await?;
        if verified.principal == outdated.principal { Ok(verified) } else { Err(INVALID_TOKEN) }
    }

    /// Logs why an access token is rejected, and returns the error for its client.
    fn token_error(&self, error: &TokenError, client: &ClientId) -> AuthenticationError {
        if let TokenError::TooManyFailures(exceeded) = error {
            self.host.record_failed_login(client, error.kind());
            return AuthenticationError::TooManyFailures(*exceeded);
        }
        self.log_rejection(error.kind(), &format!("an access token is not accepted: {error}"), client);
        match error {
            TokenError::Unavailable(_) => AuthenticationError::Unavailable,
            TokenError::KeyPending { retry_after, .. } => AuthenticationError::KeyPending(*retry_after),
            error => AuthenticationError::InvalidToken(error.description()),
        }
    }

    /// Logs why the credentials of a client are rejected, throttled by the kind of the reason. The audit log records
    /// it, too.
    fn log_rejection(&self, kind: &'static str, reason: &str, client: &ClientId) {
        self.host.record_failed_login(client, kind);
        match self.rejection_log.record(kind) {
            Some(suppressed) => {
                tracing::warn!(target: log_target::SERVER, %client, suppressed, reason, "a request is not authenticated");
            }
            None => tracing::debug!(target: log_target::SERVER, %client, reason, "a request is not authenticated"),
        }
    }

    /// Checks whether a token of this client may be introspected: not if too many tokens of the client have failed.
    fn check_introspection_rate(&self, client: &ClientId) -> Result<(), RateExceeded> {
        match client.rate_client() {
            RateClient::Address(address) => {
                let config = self.host.config();
                self.host.rates().check_failed_authentications(&config.http.limits, address)
            }
            RateClient::Principal(_) => Ok(()),
        }
    }

    /// Requests the keys of all issuers that publish them at a URL, and after each reload the keys of new issuers, so
    /// that a wrong URL is logged before a client needs it. Runs until the host is dropped.
    pub(super) fn request_keys(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let (authenticator, mut generations) = (Arc::downgrade(self), self.host.generations());
        async move {
            while let Some(authenticator) = authenticator.upgrade() {
                authenticator.snapshot().access_tokens.request_keys();
                drop(authenticator);
                if generations.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    /// Whether a rule allows the principal any operation.
    fn may_do_anything(&self, principal: &Principal) -> bool {
        self.host.policy(principal).may_allow_anything()
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        let current = || {
            let config = self.host.config();
            self.current.load_full().filter(|snapshot| Arc::ptr_eq(&snapshot.config, &config))
        };
        current().unwrap_or_else(|| {
            let _update = self.update.lock();
            current().unwrap_or_else(|| {
                let snapshot = Arc::new(Snapshot::new(self.host.config(), self.current.load().as_deref()));
                self.current.store(Some(snapshot.clone()));
                snapshot
            })
        })
    }
}

/// Returns the token of the credentials (RFC 6750, section 2.1).
fn bearer_token(value: &HeaderValue) -> Result<&str, AuthenticationError> {
    let text = value.to_str().map_err(|_| AuthenticationError::Malformed)?;
    let (scheme, token) = text.split_once(' ').ok_or(AuthenticationError::Malformed)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(INVALID_TOKEN);
    }
    let token = token.trim_matches(' ');
    let is_token = !token.is_empty() && token.len() <= MAX_TOKEN_LEN && !token.contains(char::is_whitespace);
    if is_token { Ok(token) } else { Err(AuthenticationError::Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_from_one_bearer_scheme() {
        let token = |value: &str| bearer_token(&HeaderValue::from_str(value).unwrap()).map(str::to_owned);
        assert_eq!(token("Bearer abc").unwrap(), "abc");
        assert_eq!(token("bearer  abc ").unwrap(), "abc");
        assert!(matches!(token("Basic abc"), Err(AuthenticationError::InvalidToken(_))));
        for malformed in
            ["Bearer", "Bearer ", "Bearer a b", "abc", &format!("Bearer {}", "x".repeat(MAX_TOKEN_LEN + 1))]
        {
            assert!(matches!(token(malformed), Err(AuthenticationError::Malformed)), "{malformed}");
        }
    }
}
