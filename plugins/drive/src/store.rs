//! The bucket as a cache, with the age and the digest by which a stored value is recognized as stale.
//!
//! The bucket is optional: without it, more requests are sent.

use mcp_provider::keyvalue::Store;
use mcp_provider::{Failure, log};
use siphasher::sip::SipHasher;
use std::hash::{Hash, Hasher};
use std::time::{Duration, SystemTime};

/// A store used as a cache: a failure of the store is logged, and the call succeeds.
#[derive(Clone, Copy)]
pub(crate) struct Cache<'a> {
    store: &'a dyn Store,
    /// The time of the call.
    now: SystemTime,
}

impl<'a> Cache<'a> {
    pub(crate) fn new(store: &'a dyn Store, now: SystemTime) -> Self {
        Self { store, now }
    }

    /// Returns the value of a key.
    pub(crate) fn get(self, key: &str) -> Option<Vec<u8>> {
        self.store.get(key).inspect_err(log_failure).ok().flatten()
    }

    /// Sets the value of a key. If the bucket is full, all stored values are deleted first. Returns whether the value
    /// is stored.
    pub(crate) fn set(self, key: &str, value: &[u8]) -> bool {
        let stored = self.store.set(key, value).or_else(|failure| match failure {
            Failure::Unavailable(_) => self.store.clear().and_then(|()| self.store.set(key, value)),
            failure => Err(failure),
        });
        stored.inspect_err(log_failure).is_ok()
    }

    /// Deletes keys.
    pub(crate) fn delete(self, keys: &[impl AsRef<str>]) {
        let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        let _ = self.store.delete_many(&keys).inspect_err(log_failure);
    }

    /// Returns the time in milliseconds since 1970.
    pub(crate) fn now_millis(self) -> u64 {
        let since = self.now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns whether data fetched at a time are fresh. A time in the future (the clock was set back) is not fresh.
    pub(crate) fn is_fresh(self, at: u64, ttl: Duration) -> bool {
        let age = self.now_millis().checked_sub(at).map(Duration::from_millis);
        age.is_some_and(|age| age < ttl)
    }
}

/// Logs a failure. A missing grant of the bucket is the administrator's choice, and `mcp-host check` reports it.
fn log_failure(failure: &Failure) {
    match failure {
        Failure::Internal(_) => log::debug!("nothing is stored: {failure}"),
        _ => log::warn!("the bucket cannot be used: {failure}"),
    }
}

/// Returns the digest of a value, the same in every instance.
pub(crate) fn digest(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = SipHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
