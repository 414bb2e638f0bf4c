//! Durations as the numbers that logs and protocols have.

use std::time::Duration;

/// The duration in whole milliseconds, at most [`u64::MAX`].
pub(crate) fn saturating_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
