//! Times and durations as the numbers that logs, protocols and the search index have.

use std::time::Duration;
#[cfg(feature = "search")]
use std::time::{SystemTime, UNIX_EPOCH};

/// The duration in whole milliseconds, at most [`u64::MAX`].
pub(crate) fn saturating_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The time, in milliseconds since 1970.
#[cfg(feature = "search")]
pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
