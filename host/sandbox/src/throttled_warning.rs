//! Throttled warnings: at most one log line per interval for a recurring condition.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::throttle::ThrottlePerReason;

use crate::bindings::logging::Level;
use crate::guest_log::GuestLog;

/// The shortest time between two lines of one warning.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The warnings about one part of a plugin, each logged at most once per [`LOG_INTERVAL`] with the number of occurrences since its
/// previous line.
#[derive(Debug)]
pub(crate) struct ThrottledWarnings {
    log: Arc<GuestLog>,
    throttle: ThrottlePerReason,
}

impl ThrottledWarnings {
    /// Creates warnings that are written to `log`.
    pub(crate) fn new(log: Arc<GuestLog>) -> Self {
        Self { log, throttle: ThrottlePerReason::new(LOG_INTERVAL) }
    }

    /// Records one occurrence of that reason, and logs `message` unless the warning is throttled.
    pub(crate) fn warn(&self, reason: &'static str, message: impl Display) {
        if let Some(times) = self.record(reason) {
            let line = match times {
                1 => message.to_string(),
                times => format!("{message} ({times} times)"),
            };
            self.log.line(Level::Warn, "", &line);
        }
    }

    /// Records one occurrence of a reason that is logged elsewhere. Returns the number of occurrences that the line stands for, if one
    /// is due.
    pub(crate) fn record(&self, reason: &'static str) -> Option<u64> {
        self.throttle.record(reason).map(|suppressed| suppressed.saturating_add(1))
    }
}
