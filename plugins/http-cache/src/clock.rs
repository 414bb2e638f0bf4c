//! Time.

use std::time::{Duration, SystemTime};

/// A clock. Tests use a settable one.
pub trait Clock {
    /// Returns the current time.
    fn now(&self) -> SystemTime;
}

/// The host's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Returns milliseconds since 1970; 0 for earlier times.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Converts milliseconds since 1970 to a time, clamped to the year 9999.
pub(crate) fn time(millis: u64) -> SystemTime {
    after(SystemTime::UNIX_EPOCH, Duration::from_millis(millis.min(MAX_MILLIS)))
}

/// Adds a duration to a time, clamped to the year 9999.
pub(crate) fn after(time: SystemTime, duration: Duration) -> SystemTime {
    time.checked_add(duration.min(Duration::from_millis(MAX_MILLIS))).unwrap_or(time)
}

/// The year 9999.
const MAX_MILLIS: u64 = 253_370_764_800_000;
