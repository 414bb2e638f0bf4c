//! Throttled warnings: at most one log line per interval for a recurring condition.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use crate::plugin::bindings::logging::Level;
use crate::plugin::guest_log::GuestLog;
use crate::plugin::throttle::Throttle;

/// The shortest time between two lines of one warning.
pub(super) const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A warning about one plugin, logged at most once per [`LOG_INTERVAL`] with the number of occurrences since the
/// previous line.
#[derive(Debug)]
pub(super) struct ThrottledWarning {
    log: Arc<GuestLog>,
    throttle: Throttle,
}

impl ThrottledWarning {
    /// Creates a warning that is written to `log`.
    pub(super) fn new(log: Arc<GuestLog>) -> Self {
        Self { log, throttle: Throttle::new(LOG_INTERVAL) }
    }

    /// Records one occurrence, and logs `message` unless the warning is throttled.
    pub(super) fn warn(&self, message: impl Display) {
        if let Some(suppressed) = self.throttle.record() {
            let line = match suppressed.saturating_add(1) {
                1 => message.to_string(),
                times => format!("{message} ({times} times)"),
            };
            self.log.line(Level::Warn, "", &line);
        }
    }
}
