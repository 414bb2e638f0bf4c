//! What is worth a line in the log, but not a line for each time.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::plugin::bindings::logging::Level;
use crate::plugin::guest_log::GuestLog;

/// A warning about one plugin that stands in the log at most once a minute, with how often there was reason for it.
#[derive(Debug)]
pub(super) struct Notice {
    log: Arc<GuestLog>,
    gate: DefaultDirectRateLimiter,
    /// How often since the last line.
    times: AtomicU64,
}

impl Notice {
    /// A warning in that log.
    pub(super) fn new(log: Arc<GuestLog>) -> Self {
        let gate = RateLimiter::direct(Quota::per_minute(NonZeroU32::MIN));
        Self { log, gate, times: AtomicU64::new(0) }
    }

    /// There is reason for it.
    pub(super) fn give(&self, message: impl Display) {
        self.times.fetch_add(1, Ordering::Relaxed);
        if self.gate.check().is_ok() {
            let line = match self.times.swap(0, Ordering::Relaxed) {
                0 | 1 => message.to_string(),
                times => format!("{message} ({times} times)"),
            };
            self.log.line(Level::Warn, "", &line);
        }
    }
}
