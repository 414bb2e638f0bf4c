//! The bucket as a cache.
//!
//! The bucket is optional: without it, more requests are sent.

use mcp_provider::keyvalue::Store;
use mcp_provider::{Failure, log};

/// A store used as a cache: a failure of the store is logged, and the call succeeds.
#[derive(Clone, Copy)]
pub(crate) struct Cache<'a>(pub(crate) &'a dyn Store);

impl Cache<'_> {
    /// Returns the value of a key.
    pub(crate) fn get(self, key: &str) -> Option<Vec<u8>> {
        self.0.get(key).inspect_err(log_failure).ok().flatten()
    }

    /// Sets the value of a key. If the bucket is full, all stored values are deleted first. Returns whether the value
    /// is stored.
    pub(crate) fn set(self, key: &str, value: &[u8]) -> bool {
        let stored = self.0.set(key, value).or_else(|failure| match failure {
            Failure::Unavailable(_) => self.0.clear().and_then(|()| self.0.set(key, value)),
            failure => Err(failure),
        });
        stored.inspect_err(log_failure).is_ok()
    }

    /// Deletes keys.
    pub(crate) fn delete(self, keys: &[impl AsRef<str>]) {
        let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        let _ = self.0.delete_many(&keys).inspect_err(log_failure);
    }
}

/// Logs a failure. A missing grant of the bucket is the administrator's choice, and `mcp-host check` reports it.
fn log_failure(failure: &Failure) {
    match failure {
        Failure::Internal(_) => log::debug!("nothing is stored: {failure}"),
        _ => log::warn!("the bucket cannot be used: {failure}"),
    }
}
