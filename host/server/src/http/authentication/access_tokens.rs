//! Access tokens of the issuers of one config.
//!
//! The issuer of a token is the one that its claim `iss` names. A token that is not a JSON Web Token names no issuer.
//! It is sent to the issuer with an introspection endpoint; a config has at most one, so that no other issuer sees the
//! token.
//!
//! Positive results are cached for [`CACHE_TIME`], at most until the token expires, and only while its issuer publishes
//! the signing key. Negative results of introspection are cached for [`CACHE_TIME`], and failures to reach the issuer
//! for [`FAILURE_TIME`]. Concurrent requests with the same token share one verification (single flight). Tokens are
//! stored as digests.
//!
//! Tokens that were valid before are always introspected. Unknown tokens are introspected only while the client is
//! below its rate limit of failed authentication.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mcp_host_config::issuer::{Issuer, Jwks, KeySet};
use mcp_host_config::{Config, TokenDigest};
use quick_cache::sync::Cache;
use tokio::time::Instant;

use super::claims::{AccessToken, Claims};
use super::fetch::Fetcher;
use super::introspection::{Introspector, RateCheck};
use super::jwt::TokenForm;
use super::remote_keys::{FetchedKeys, RemoteKeys, UnknownKey};
use super::token_error::{TokenError, excerpt};
use super::{jwt, ring_provider};
use crate::client_id::ClientId;

/// The time for which the result of a verification is cached.
pub(super) const CACHE_TIME: Duration = Duration::from_secs(15);
/// The time for which a failure to reach the issuer is cached.
const FAILURE_TIME: Duration = Duration::from_secs(1);
/// The maximum number of cached tokens.
const MAX_TOKENS: usize = 4096;

/// The access tokens that are accepted.
pub(super) struct AccessTokens {
    audiences: Vec<String>,
    /// The issuers by their claim `iss`.
    issuers: HashMap<String, Arc<IssuerVerifier>>,
    /// The groups of issuers that the config names.
    known_groups: HashSet<String>,
    verified: Arc<Cache<TokenDigest, Verified>>,
    /// The tokens that were valid, possibly under an earlier config, and have not been found invalid since, each with
    /// the `number` of the access tokens at that time.
    accepted: Arc<Cache<TokenDigest, u64>>,
    /// Changes with each config that may judge tokens differently.
    number: u64,
}

/// An issuer, with the method by which its tokens are verified.
struct IssuerVerifier {
    issuer: Arc<Issuer>,
    method: Method,
}

enum Method {
    Keys(KeySet),
    RemoteKeys(Arc<RemoteKeys>),
    Introspection(Box<Introspector>),
}

/// A token that a client sends.
struct Sent<'a> {
    token: &'a str,
    digest: &'a TokenDigest,
    client: &'a ClientId,
    /// Whether the token was valid before.
    was_valid: bool,
}

/// The result of a verification.
#[derive(Clone)]
struct Verified {
    token: Result<Arc<AccessToken>, TokenError>,
    until: Instant,
    /// The issuer's keys at the time of the verification.
    keys: UsedKeys,
}

/// The keys that verified a token, with their source. None for keys in a file, and for introspection.
type UsedKeys = Option<(Arc<RemoteKeys>, Arc<FetchedKeys>)>;

impl Verified {
    fn counts(&self, now: Instant) -> bool {
        now < self.until && self.keys.as_ref().is_none_or(|(remote, keys)| remote.is_current(keys))
    }
}

impl AccessTokens {
    /// Creates the access tokens of a config. Keys of unchanged issuers are taken from `previous`, and so are cached
    /// results, if nothing that they depend on has changed.
    pub(super) fn new(config: &Config, previous: Option<&Self>) -> Self {
        if !config.issuers.is_empty() {
            ring_provider::install();
        }
        let verifier = |issuer: &Issuer| {
            let known = previous.and_then(|previous| previous.issuers.get(issuer.issuer.as_written()));
            let verifier = match known {
                Some(known) if *known.issuer == *issuer => known.clone(),
                _ => Arc::new(IssuerVerifier::new(issuer)?),
            };
            Some((issuer.issuer.as_written().to_owned(), verifier))
        };
        let in_rules = config.rules.iter().flat_map(|rule| &rule.groups);
        let tokens = Self {
            audiences: own_audiences(config),
            issuers: config.issuers.iter().filter_map(verifier).collect(),
            known_groups: in_rules.chain(config.groups.iter().flat_map(|group| &group.groups)).cloned().collect(),
            verified: Arc::new(Cache::new(MAX_TOKENS)),
            accepted: previous.map_or_else(|| Arc::new(Cache::new(MAX_TOKENS)), |previous| previous.accepted.clone()),
            number: previous.map_or(0, |previous| previous.number.saturating_add(1)),
        };
        match previous.filter(|previous| previous.is_equal(&tokens)) {
            Some(previous) => Self { verified: previous.verified.clone(), number: previous.number, ..tokens },
            None => tokens,
        }
    }

    /// Returns whether both judge all tokens alike.
    fn is_equal(&self, other: &Self) -> bool {
        let is_known = |(url, verifier): (&String, &Arc<IssuerVerifier>)| {
            self.issuers.get(url).is_some_and(|known| Arc::ptr_eq(known, verifier))
        };
        self.audiences == other.audiences
            && self.known_groups == other.known_groups
            && self.issuers.len() == other.issuers.len()
            && other.issuers.iter().all(is_known)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.issuers.is_empty()
    }

    /// Requests keys of issuers in the background if they have none yet.
    pub(super) fn request_keys(&self) {
        for verifier in self.issuers.values() {
            if let Method::RemoteKeys(remote) = &verifier.method {
                remote.prefetch();
            }
        }
    }

    /// Verifies a token of this client. A token that was not valid before is introspected only if `check_rate` allows
    /// it.
    pub(super) async fn verify(
        &self,
        token: &str,
        client: &ClientId,
        check_rate: &RateCheck<'_>,
    ) -> Result<Arc<AccessToken>, TokenError> {
        let (digest, now) = (TokenDigest::of(token), Instant::now());
        loop {
            match self.verified.get_value_or_guard_async(&digest).await {
                Ok(known) if known.counts(now) => return known.token,
                Ok(_) => {
                    self.verified.remove_if(&digest, |known| !known.counts(now));
                }
                Err(guard) => {
                    let accepted = self.accepted.get(&digest);
                    let check_rate = if accepted.is_some() { &|| Ok(()) } else { check_rate };
                    let is_logged = accepted == Some(self.number);
                    let sent = Sent { token, digest: &digest, client, was_valid: accepted.is_some() };
                    let verified = self.verify_now(&sent, check_rate, is_logged).await?;
                    let result = verified.token.clone();
                    match &result {
                        Ok(_) if !is_logged => self.accepted.insert(digest.clone(), self.number),
                        Ok(_) | Err(TokenError::Unavailable(_)) => {}
                        Err(_) => {
                            self.accepted.remove(&digest);
                        }
                    }
                    // Insertion fails if the entry was removed meanwhile: then the next request verifies the token
                    // again.
                    let _ = guard.insert(verified);
                    return result;
                }
            }
        }
    }

    /// Verifies a token without the cache, and logs its claims unless they have been logged. An outer error is not
    /// cached, because finding it again is cheap.
    async fn verify_now(
        &self,
        sent: &Sent<'_>,
        check_rate: &RateCheck<'_>,
        is_logged: bool,
    ) -> Result<Verified, TokenError> {
        let form = jwt::form(sent.token);
        let verifier = match &form {
            TokenForm::Jwt(named) => named.as_ref().and_then(|named| self.issuers.get(named)),
            TokenForm::Opaque => {
                self.issuers.values().find(|verifier| matches!(verifier.method, Method::Introspection(_)))
            }
        };
        let verifier = verifier.ok_or_else(|| self.unknown(&form))?;
        let is_introspected = matches!(verifier.method, Method::Introspection(_));
        let found = verifier.claims(sent, &self.audiences, check_rate).await.and_then(|(claims, keys)| {
            let token = AccessToken::from_claims(&claims, &verifier.issuer, &self.known_groups)?;
            let time = token.expires_in().map_or(CACHE_TIME, |time| time.min(CACHE_TIME));
            if time.is_zero() {
                return Err(TokenError::Expired);
            }
            if !is_logged {
                token.log(&claims);
            }
            Ok((token, time, keys))
        });
        let now = Instant::now();
        let until = |time| now.checked_add(time).unwrap_or(now);
        match found {
            Ok((token, time, keys)) => Ok(Verified { token: Ok(Arc::new(token)), until: until(time), keys }),
            Err(error @ TokenError::Unavailable(_)) => {
                Ok(Verified { token: Err(error), until: until(FAILURE_TIME), keys: None })
            }
            Err(error) if is_introspected => Ok(Verified { token: Err(error), until: until(CACHE_TIME), keys: None }),
            Err(error) => Err(error),
        }
    }

    /// Returns why a token of this form has no issuer in the config.
    fn unknown(&self, form: &TokenForm) -> TokenError {
        let named = match form {
            TokenForm::Jwt(Some(named)) => named,
            TokenForm::Jwt(None) => return TokenError::Claim("iss".to_owned()),
            TokenForm::Opaque => return TokenError::Opaque,
        };
        let bare = |issuer: &str| issuer.trim_end_matches('/').to_ascii_lowercase();
        let wanted = bare(named);
        let similar = self.issuers.keys().find(|issuer| bare(issuer) == wanted).cloned();
        TokenError::UnknownIssuer { named: excerpt(named), similar }
    }
}

impl IssuerVerifier {
    /// Returns none for an issuer without keys and introspection, which only an application can make: its tokens cannot
    /// be verified.
    fn new(issuer: &Issuer) -> Option<Self> {
        let fetcher = || Fetcher::new(issuer.ca.clone());
        let method = match (&issuer.jwks, &issuer.introspection) {
            (_, Some(endpoint)) => Method::Introspection(Box::new(Introspector::new(endpoint.clone(), fetcher()))),
            (Some(Jwks::File(keys)), None) => Method::Keys(keys.clone()),
            (Some(Jwks::Url(url)), None) => Method::RemoteKeys(Arc::new(RemoteKeys::new(url.clone(), fetcher()))),
            (None, None) => return None,
        };
        Some(Self { issuer: Arc::new(issuer.clone()), method })
    }

    /// Returns the claims of a token that is valid for one of these audiences, and the keys that verified it.
    async fn claims(
        &self,
        sent: &Sent<'_>,
        audiences: &[String],
        check_rate: &RateCheck<'_>,
    ) -> Result<(Claims, UsedKeys), TokenError> {
        let &Sent { token, digest, client, was_valid } = sent;
        let audiences: Vec<_> = audiences.iter().chain(&self.issuer.audiences).cloned().collect();
        let verify = |keys: &KeySet| jwt::verify(token, &self.issuer, &audiences, keys);
        match &self.method {
            Method::Keys(keys) => Ok((verify(keys)?, None)),
            Method::Introspection(introspector) => {
                Ok((introspector.introspect(token, client, &self.issuer, &audiences, check_rate).await?, None))
            }
            Method::RemoteKeys(remote) => {
                // Checked first: no key would help, so the client must not get `Retry-After` when there are no keys.
                jwt::check_header(token, &self.issuer)?;
                let mut fetched = remote.get().await?;
                let verified = match verify(&fetched.keys) {
                    Err(unknown @ TokenError::UnknownKey { .. }) => {
                        fetched =
                            remote.get_newer(&fetched, &UnknownKey { digest, client, was_valid }, unknown).await?;
                        verify(&fetched.keys).inspect_err(|error| {
                            if matches!(error, TokenError::UnknownKey { .. }) {
                                remote.set_missing(digest, &fetched);
                            }
                        })
                    }
                    verified => verified,
                };
                let claims = verified?;
                remote.set_known(client);
                Ok((claims, Some((remote.clone(), fetched))))
            }
        }
    }
}

/// The audiences of tokens for this server: its public URL with and without a trailing slash, because URL libraries add
/// one to an empty path.
fn own_audiences(config: &Config) -> Vec<String> {
    let Some(url) = &config.http.public_url else { return Vec::new() };
    let bare = url.as_str().trim_end_matches('/');
    vec![bare.to_owned(), format!("{bare}/")]
}
