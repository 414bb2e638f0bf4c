//! The keys of an issuer that publishes them at a URL.
//!
//! | keys | a token |
//! |---|---|
//! | none yet, or older than [`MAX_AGE`] | waits for them |
//! | older than [`REFRESH_AFTER`] | is verified with them, and they are requested again in the background |
//! | without the one that it names | waits for new ones, unless they were requested less than [`MIN_INTERVAL`] ago |
//!
//! They are requested first when the server starts, or when a reload adds the issuer, so that a wrong URL is logged at once.
//!
//! So keys that were removed are used for a bounded time, also when the issuer cannot be reached, and tokens with random key ids
//! cause two requests a minute. One request is made at a time, and all tokens that wait share it. It is a task of its own: a client
//! that disconnects does not cancel it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::fetch::Fetcher;
use super::token_error::TokenError;
use crate::config::EndpointUrl;
use crate::config::issuer::KeySet;
use crate::log_target;

/// The age of keys from which on they are requested again.
const REFRESH_AFTER: Duration = Duration::from_mins(5);
/// The age of keys from which on they are not used any more.
const MAX_AGE: Duration = Duration::from_hours(1);
/// The minimum interval between two requests of keys while there are some.
const MIN_INTERVAL: Duration = Duration::from_secs(30);
/// The minimum interval between two requests of keys while there are none.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Keys, and when they were requested.
#[derive(Debug)]
pub(super) struct FetchedKeys {
    pub(super) keys: KeySet,
    requested: Instant,
}

/// The last request of keys: when it ended, so that those who waited for it share its result, and why it failed.
type LastRequest = Option<(Instant, Option<Arc<str>>)>;

/// The keys at a URL.
#[derive(Debug)]
pub(super) struct RemoteKeys {
    url: EndpointUrl,
    fetcher: Fetcher,
    current: ArcSwapOption<FetchedKeys>,
    /// Held during a request.
    last_request: Arc<Mutex<LastRequest>>,
}

impl RemoteKeys {
    pub(super) fn new(url: EndpointUrl, fetcher: Fetcher) -> Self {
        Self { url, fetcher, current: ArcSwapOption::empty(), last_request: Arc::default() }
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
                let unavailable = TokenError::Unavailable("there are no keys".into());
                self.request(Self::usable, RETRY_INTERVAL, unavailable).await
            }
        }
    }

    /// Returns newer keys than those, if they may be requested now or have been meanwhile, else `unknown`.
    pub(super) async fn get_newer(
        self: &Arc<Self>,
        than: &Arc<FetchedKeys>,
        unknown: TokenError,
    ) -> Result<Arc<FetchedKeys>, TokenError> {
        self.request(|keys| keys.usable().filter(|now| !Arc::ptr_eq(now, than)), MIN_INTERVAL, unknown).await
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
        if let Ok(last) = self.last_request.clone().try_lock_owned()
            && last.as_ref().is_none_or(|(ended, _)| ended.elapsed() >= MIN_INTERVAL)
        {
            tokio::spawn(self.clone().fetch(last));
        }
    }

    /// Returns what `find` finds after the request that is being made, or after a new one. Fails without a request if the last one
    /// is less than `interval` ago: with `unknown`, if that did not fail.
    async fn request(
        self: &Arc<Self>,
        find: impl Fn(&Self) -> Option<Arc<FetchedKeys>>,
        interval: Duration,
        unknown: TokenError,
    ) -> Result<Arc<FetchedKeys>, TokenError> {
        let last = self.last_request.clone().lock_owned().await;
        if let Some(found) = find(self) {
            return Ok(found);
        }
        match &*last {
            Some((ended, failure)) if ended.elapsed() < interval => Err(match failure {
                Some(failure) => TokenError::Unavailable(failure.clone()),
                None => unknown,
            }),
            _ => {
                let fetched = tokio::spawn(self.clone().fetch(last)).await;
                fetched.unwrap_or_else(|error| Err(TokenError::Unavailable(error.to_string().into())))
            }
        }
    }

    async fn fetch(self: Arc<Self>, mut last: OwnedMutexGuard<LastRequest>) -> Result<Arc<FetchedKeys>, TokenError> {
        let requested = Instant::now();
        let url = self.url.as_str();
        let fetched = match self.fetcher.get(&self.url).await {
            Ok(json) => KeySet::from_json(&json).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match fetched {
            Ok(keys) => {
                tracing::debug!(target: log_target::SERVER, url, ?keys, "the keys of an issuer were requested");
                *last = Some((Instant::now(), None));
                let keys = Arc::new(FetchedKeys { keys, requested });
                self.current.store(Some(keys.clone()));
                Ok(keys)
            }
            Err(reason) => {
                tracing::warn!(target: log_target::SERVER, url, reason, "the keys of an issuer cannot be requested");
                let reason: Arc<str> = reason.into();
                *last = Some((Instant::now(), Some(reason.clone())));
                Err(TokenError::Unavailable(reason))
            }
        }
    }
}
