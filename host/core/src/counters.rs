//! Counters of a host that only metrics use.

use std::collections::BTreeMap;
use std::time::SystemTime;

use mcp_host_base::metrics::{Counter, LastTime};
use parking_lot::Mutex;

/// A config, or a part of it, that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadFailure {
    /// When the reload failed. For a reload that is retried: when it last failed.
    pub at: SystemTime,
    /// Why it failed, and what is served instead.
    pub reason: String,
}

/// The counters of a host.
#[derive(Debug, Default)]
pub(crate) struct HostCounters {
    pub(crate) reloads: Counter,
    pub(crate) failed_reloads: Counter,
    pub(crate) last_reload: LastTime,
    /// Why the last reload failed; none if it succeeded.
    pub(crate) reload_failure: Mutex<Option<ReloadFailure>>,
    /// The number of failed logins by reason: a few dozen, which the servers name.
    pub(crate) failed_logins: Mutex<BTreeMap<&'static str, u64>>,
}

impl HostCounters {
    /// The counters of a starting host.
    pub(crate) fn new() -> Self {
        let counters = Self::default();
        counters.last_reload.set_now();
        counters
    }

    /// Counts a reload.
    pub(crate) fn record_reload(&self, is_ok: bool) {
        if is_ok {
            self.reloads.increment();
            self.last_reload.set_now();
        } else {
            self.failed_reloads.increment();
        }
    }

    /// Records the outcome of the last reload.
    pub(crate) fn record_reload_outcome<T>(&self, outcome: &Result<T, String>) {
        let failure = |reason: &String| ReloadFailure { at: SystemTime::now(), reason: reason.clone() };
        *self.reload_failure.lock() = outcome.as_ref().err().map(failure);
    }

    /// Returns why the last reload failed; none if it succeeded.
    pub(crate) fn reload_failure(&self) -> Option<ReloadFailure> {
        self.reload_failure.lock().clone()
    }

    /// Counts credentials that are not accepted.
    pub(crate) fn record_failed_login(&self, reason: &'static str) {
        let mut failed = self.failed_logins.lock();
        let count = failed.entry(reason).or_default();
        *count = count.saturating_add(1);
    }
}
