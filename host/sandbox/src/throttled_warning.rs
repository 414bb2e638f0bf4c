//! Throttled warnings: at most one log line per interval for a recurring condition.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::throttle::Throttle;

use crate::bindings::logging::Level;
use crate::guest_log::GuestLog;

/// The shortest time between two lines of one warning.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A warning about one plugin, logged at most once per [`LOG_INTERVAL`] with the number of occurrences since the
/// previous line.
#[derive(Debug)]
pub(crate) struct ThrottledWarning {
    log: Arc<GuestLog>,
    throttle: Throttle,
}

impl ThrottledWarning {
    /// Creates a warning that is written to `log`.
    pub(crate) fn new(log: Arc<GuestLog>) -> Self {
        Self { log, throttle: Throttle::new(LOG_INTERVAL) }
    }

    /// Records one occurrence, and logs `message` unless the warning is throttled.
    pub(crate) fn warn(&self, message: impl Display) {
        if let Some(suppressed) = self.throttle.record() {
            let line = match suppressed.saturating_add(1) {
                1 => message.to_string(),
                times => format!("{message} ({times} times)"),
            };
            self.log.line(Level::Warn, "", &line);
        }
    }
}
