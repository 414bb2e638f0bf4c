//! The keys of an issuer that publishes them at a URL.
//!
//! | keys | a token |
//! |---|---|
//! | none yet, or older than [`MAX_AGE`] | waits for them |
//! | older than [`REFRESH_AFTER`] | is verified with them, and they are requested again in the background |
//! | without the one that it names | waits for new ones, if they may be requested now; else it may be sent again later |
//!
//! They are requested first when the server starts, or when a reload adds the issuer, so that a wrong URL is logged at once.
//! So keys that were removed are used for a bounded time, also when the issuer cannot be reached.
//!
//! # Tokens with unknown keys
//!
//! Anybody can send such a token, and one with a key that is new looks the same. Requests of keys for them are limited, by two
//! limits of which neither takes from the other:
//!
//! | the token | requests of keys |
//! |---|---|
//! | of a client that had a valid token of the issuer in the last hour, or itself valid before | one in [`KNOWN_INTERVAL`] |
//! | another | one in [`MIN_INTERVAL`] |
//!
//! So strangers cannot delay that a new key is found for the clients of an issuer, and cause two requests a minute. A token that
//! has to wait for the next request is not invalid: [`TokenError::KeyPending`] says when to send it again. It is invalid
//! once keys that were requested for it are without its key, until they are requested again.
//!
//! One request is made at a time, and all tokens that wait share it. It is a task of its own: a client that disconnects does not
//! cancel it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use mcp_host_base::log_target;
use mcp_host_config::issuer::KeySet;
use mcp_host_config::{EndpointUrl, TokenDigest};
use quick_cache::sync::Cache;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::fetch::Fetcher;
use super::token_error::TokenError;
use crate::client_id::ClientId;

/// The age of keys from which on they are requested again.
const REFRESH_AFTER: Duration = Duration::from_mins(5);
/// The age of keys from which on they are not used any more.
const MAX_AGE: Duration = Duration::from_hours(1);
/// The minimum interval between two requests of keys while there are some; for unknown keys, which anybody can name.
const MIN_INTERVAL: Duration = Duration::from_secs(30);
/// The minimum interval between two requests of keys for unknown keys of known clients.
const KNOWN_INTERVAL: Duration = Duration::from_secs(5);
/// The time for which a client is known after a token of it was valid.
const KNOWN_TIME: Duration = Duration::from_hours(1);
/// The maximum number of clients that are known.
const MAX_KNOWN: usize = 4096;
/// The maximum number of tokens whose keys are known to be missing.
const MAX_MISSING: usize = 1024;
/// The minimum interval between two requests of keys while there are none.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Keys, and when they were requested.
#[derive(Debug)]
pub(super) struct FetchedKeys {
    pub(super) keys: KeySet,
    requested: Instant,
}

/// A token whose key is unknown.
pub(super) struct UnknownKey<'a> {
    pub(super) digest: &'a TokenDigest,
    /// Who sends it.
    pub(super) client: &'a ClientId,
    /// It has been valid before.
    pub(super) was_valid: bool,
}

/// The last requests of keys.
#[derive(Debug, Default)]
struct Requests {
    /// When the last one ended, so that those who waited for it share its result, and why it failed.
    last: Option<(Instant, Option<Arc<str>>)>,
    /// When the last one for an unknown key of a known client ended.
    for_known: Option<Instant>,
    /// When the last one for an unknown key of a stranger ended.
    for_strangers: Option<Instant>,
}

/// Who causes a request of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// There are no keys, or they are old.
    Age,
    /// The unknown key of a known client.
    KnownClient,
    /// The unknown key of a stranger.
    Stranger,
}

/// The keys at a URL.
#[derive(Debug)]
pub(super) struct RemoteKeys {
    url: EndpointUrl,
    fetcher: Fetcher,
    current: ArcSwapOption<FetchedKeys>,
    /// Held during a request.
    requests: Arc<Mutex<Requests>>,
    /// The clients that had a valid token, and when.
    known: Cache<ClientId, Instant>,
    /// The tokens for which keys were requested that are without theirs, with when these were requested.
    missing: Cache<TokenDigest, Instant>,
}

impl RemoteKeys {
    pub(super) fn new(url: EndpointUrl, fetcher: Fetcher) -> Self {
        Self {
            url,
            fetcher,
            current: ArcSwapOption::empty(),
            requests: Arc::default(),
            known: Cache::new(MAX_KNOWN),
            missing: Cache::new(MAX_MISSING),
        }
    }

    /// Returns keys that are not too old.
    pub(super) async fn get(self: &Arc<Self>) -> Result<Arc<FetchedKeys>, TokenError> {
        match self.usable() {
            Some(current) => {
                if current.requested.elapsed() >= REFRESH_AFTER {
                    self.refresh_stale();
                }
                Ok(current)
            }
            None => {
                let requests = self.requests.clone().lock_owned().await;
                if let Some(found) = self.usable() {
                    return Ok(found);
                }
                match &requests.last {
                    Some((ended, failure)) if ended.elapsed() < RETRY_INTERVAL => {
                        Err(TokenError::Unavailable(failure.clone().unwrap_or_else(|| "there are no keys".into())))
                    }
                    _ => self.fetch_in_task(requests, Cause::Age).await,
                }
            }
        }
    }

    /// Returns newer keys than those, which are without the key of a token: ones that have been requested meanwhile, or are now.
    /// `unknown` is the error if there are none, and the token is invalid.
    pub(super) async fn get_newer(
        self: &Arc<Self>,
        than: &Arc<FetchedKeys>,
        token: &UnknownKey<'_>,
        unknown: TokenError,
    ) -> Result<Arc<FetchedKeys>, TokenError> {
        let requests = self.requests.clone().lock_owned().await;
        if let Some(found) = self.usable().filter(|now| !Arc::ptr_eq(now, than)) {
            return Ok(found);
        }
        let is_known = token.was_valid || self.known.get(token.client).is_some_and(|at| at.elapsed() < KNOWN_TIME);
        let (cause, last, interval) = match is_known {
            true => (Cause::KnownClient, requests.for_known, KNOWN_INTERVAL),
            false => (Cause::Stranger, requests.for_strangers, MIN_INTERVAL),
        };
        let wait = last.map(|last| interval.saturating_sub(last.elapsed())).filter(|wait| !wait.is_zero());
        match (&requests.last, wait) {
            (Some((ended, Some(failure))), _) if ended.elapsed() < RETRY_INTERVAL => {
                Err(TokenError::Unavailable(failure.clone()))
            }
            (_, None) => self.fetch_in_task(requests, cause).await,
            (_, Some(_)) if self.missing.get(token.digest) == Some(than.requested) => Err(unknown),
            (_, Some(retry_after)) => Err(TokenError::KeyPending { unknown: Box::new(unknown), retry_after }),
        }
    }

    /// Records that keys that were requested for a token, or meanwhile, are without its key.
    pub(super) fn set_missing(&self, token: &TokenDigest, keys: &FetchedKeys) {
        self.missing.insert(token.clone(), keys.requested);
    }

    /// Records that this client has a valid token.
    pub(super) fn set_known(&self, client: &ClientId) {
        self.known.insert(client.clone(), Instant::now());
    }

    /// Returns whether those keys are the current ones, and not too old.
    pub(super) fn is_current(&self, keys: &Arc<FetchedKeys>) -> bool {
        self.usable().is_some_and(|now| Arc::ptr_eq(&now, keys))
    }

    fn usable(&self) -> Option<Arc<FetchedKeys>> {
        self.current.load_full().filter(|keys| keys.requested.elapsed() < MAX_AGE)
    }

    /// Requests the keys in the background if there are none yet.
    pub(super) fn prefetch(self: &Arc<Self>) {
        if self.usable().is_none() {
            self.refresh_stale();
        }
    }

    /// Requests the keys once more in the background, unless somebody does.
    fn refresh_stale(self: &Arc<Self>) {
        if let Ok(requests) = self.requests.clone().try_lock_owned()
            && requests.last.as_ref().is_none_or(|(ended, _)| ended.elapsed() >= MIN_INTERVAL)
        {
            tokio::spawn(self.clone().fetch(requests, Cause::Age));
        }
    }

    /// Requests the keys in a task of its own.
    async fn fetch_in_task(
        self: &Arc<Self>,
        requests: OwnedMutexGuard<Requests>,
        cause: Cause,
    ) -> Result<Arc<FetchedKeys>, TokenError> {
        let fetched = tokio::spawn(self.clone().fetch(requests, cause)).await;
        fetched.unwrap_or_else(|error| Err(TokenError::Unavailable(error.to_string().into())))
    }

    async fn fetch(
        self: Arc<Self>,
        mut requests: OwnedMutexGuard<Requests>,
        cause: Cause,
    ) -> Result<Arc<FetchedKeys>, TokenError> {
        let requested = Instant::now();
        let url = self.url.as_str();
        let fetched = match self.fetcher.get(&self.url).await {
            Ok(json) => KeySet::from_json(&json).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let ended = Instant::now();
        match cause {
            Cause::Age => {}
            Cause::KnownClient => requests.for_known = Some(ended),
            Cause::Stranger => requests.for_strangers = Some(ended),
        }
        match fetched {
            Ok(keys) => {
                tracing::debug!(target: log_target::SERVER, url, ?keys, "the keys of an issuer were requested");
                requests.last = Some((ended, None));
                let keys = Arc::new(FetchedKeys { keys, requested });
                self.current.store(Some(keys.clone()));
                Ok(keys)
            }
            Err(reason) => {
                tracing::warn!(target: log_target::SERVER, url, reason, "the keys of an issuer cannot be requested");
                let reason: Arc<str> = reason.into();
                requests.last = Some((ended, Some(reason.clone())));
                Err(TokenError::Unavailable(reason))
            }
        }
    }
}
