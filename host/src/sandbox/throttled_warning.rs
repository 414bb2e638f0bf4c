//! What is worth a line in the log, but not a line for each time.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use crate::sandbox::bindings::logging::Level;
use crate::sandbox::guest_log::GuestLog;
use crate::throttle::Throttle;

/// How often such a line is logged.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A warning about one plugin that stands in the log at most once a minute, with how often there was reason for it.
#[derive(Debug)]
pub(crate) struct ThrottledWarning {
    log: Arc<GuestLog>,
    throttle: Throttle,
}

impl ThrottledWarning {
    /// A warning in that log.
    pub(crate) fn new(log: Arc<GuestLog>) -> Self {
        Self { log, throttle: Throttle::new(LOG_INTERVAL) }
    }

    /// There is reason for it.
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
