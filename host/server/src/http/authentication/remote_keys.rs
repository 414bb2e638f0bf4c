//! The keys of an issuer that publishes them at a URL.
//!
//! | keys | a token |
//! |---|---|
//! | none yet, or older than [`MAX_AGE`] | waits for a request of keys |
//! | older than [`REFRESH_AFTER`] | is verified with them, and they are requested again in the background |
//! | without the key that the token names | waits for new keys, if they may be requested now; else it may be sent again later |
//!
//! Keys are prefetched when the server starts or a reload adds the issuer, so that a wrong URL is logged immediately.
//! Removed keys are used for a bounded time, even if the issuer cannot be reached.
//!
//! # Tokens with unknown keys
//!
//! Any client can send a token with an invented key, and a token with a new key looks the same. Requests of keys for
//! such tokens are therefore limited, by two independent limits:
//!
//! | the token | requests of keys |
//! |---|---|
//! | its client had a valid token of the issuer in the last hour, or the token was valid before | one in [`KNOWN_INTERVAL`] |
//! | another | one in [`MIN_INTERVAL`] |
//!
//! So strangers cannot delay key rotation for the clients of an issuer, and cause at most two requests a minute. A
//! token that has to wait for the next request is not invalid: [`TokenError::KeyPending`] says when to send it again.
//! It is invalid once keys that were requested for it lack its key, until they are requested again.
//!
//! One request is in flight at a time, and all waiting tokens share it (single flight). The request runs in its own
//! task, so a client that disconnects does not cancel it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_config::issuer::KeySet;
use mcp_host_config::{EndpointUrl, TokenDigest};
use quick_cache::sync::Cache;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::fetch::Fetcher;
use super::token_error::TokenError;
use crate::client_id::ClientId;

/// The age after which keys are requested again in the background.
const REFRESH_AFTER: Duration = Duration::from_mins(5);
/// The age after which keys are no longer used.
const MAX_AGE: Duration = Duration::from_hours(1);
/// The minimum interval between two requests of keys while there are some, and between two for unknown keys of
/// strangers.
const MIN_INTERVAL: Duration = Duration::from_secs(30);
/// The minimum interval between two requests of keys for unknown keys of known clients.
const KNOWN_INTERVAL: Duration = Duration::from_secs(5);
/// The time for which a client is known after it had a valid token.
const KNOWN_TIME: Duration = Duration::from_hours(1);
/// The maximum number of known clients.
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
    /// The sender of the token.
    pub(super) client: &'a ClientId,
    /// Whether the token was valid before.
    pub(super) was_valid: bool,
}

/// The most recent requests of keys.
#[derive(Debug, Default)]
struct Requests {
    /// The end of the last request, and the reason if it failed. Tokens that waited for it share its result.
    last: Option<(Instant, Option<Arc<str>>)>,
    /// The end of the last request for an unknown key of a known client.
    for_known: Option<Instant>,
    /// The end of the last request for an unknown key of a stranger.
    for_strangers: Option<Instant>,
}

/// The cause of a request of keys.
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
    /// The clients that had a valid token, with the time.
    known: Cache<ClientId, Instant>,
    /// The tokens whose key is missing from keys that were requested for them, with the time of that request.
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

    /// Returns newer keys than `than`, which lack the key of a token: keys that were requested meanwhile, or are
    /// requested now. If there are none, the token is invalid, and the error is `unknown`.
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

    /// Records that these keys, which were requested for the token or meanwhile, lack its key.
    pub(super) fn set_missing(&self, token: &TokenDigest, keys: &FetchedKeys) {
        self.missing.insert(token.clone(), keys.requested);
    }

    /// Records that this client has a valid token.
    pub(super) fn set_known(&self, client: &ClientId) {
        self.known.insert(client.clone(), Instant::now());
    }

    /// Returns whether these keys are the current ones, and not too old.
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

    /// Requests the keys again in the background, unless a request is in flight or recent.
    fn refresh_stale(self: &Arc<Self>) {
        if let Ok(requests) = self.requests.clone().try_lock_owned()
            && requests.last.as_ref().is_none_or(|(ended, _)| ended.elapsed() >= MIN_INTERVAL)
        {
            task::spawn(self.clone().fetch(requests, Cause::Age));
        }
    }

    /// Requests the keys in a separate task.
    async fn fetch_in_task(
        self: &Arc<Self>,
        requests: OwnedMutexGuard<Requests>,
        cause: Cause,
    ) -> Result<Arc<FetchedKeys>, TokenError> {
        let fetched = task::spawn(self.clone().fetch(requests, cause)).await;
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
