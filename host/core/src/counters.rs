//! What a host counts for metrics only.

use std::collections::BTreeMap;
use std::time::SystemTime;

use mcp_host_base::metrics::{Counter, LastTime};
use parking_lot::Mutex;

/// Why a config, or a part of it, is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadFailure {
    /// When the reload failed. For a reload that is tried again: when it failed last.
    pub at: SystemTime,
    /// Why, and what is served instead.
    pub reason: String,
}

/// The counters of a host.
#[derive(Debug, Default)]
pub(crate) struct HostCounters {
    pub(crate) reloads: Counter,
    pub(crate) failed_reloads: Counter,
    pub(crate) last_reload: LastTime,
    /// Why the last reload failed; none if it did not.
    pub(crate) reload_failure: Mutex<Option<ReloadFailure>>,
    /// By reason: a few dozen, which the servers name.
    pub(crate) failed_logins: Mutex<BTreeMap<&'static str, u64>>,
}

impl HostCounters {
    /// The counters of a host that starts.
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

    /// Records how the last reload ended.
    pub(crate) fn record_reload_outcome<T>(&self, outcome: &Result<T, String>) {
        let failure = |reason: &String| ReloadFailure { at: SystemTime::now(), reason: reason.clone() };
        *self.reload_failure.lock() = outcome.as_ref().err().map(failure);
    }

    /// Returns why the last reload failed; none if it did not.
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
