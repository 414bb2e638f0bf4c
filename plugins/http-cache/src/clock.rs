//! What time it is.

use std::time::{Duration, SystemTime};

/// Tells the time; in tests, the time that the test is about.
pub trait Clock {
    /// Now.
    fn now(&self) -> SystemTime;
}

/// The time of the host.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Milliseconds since 1970; 0 for any time before.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time that so many milliseconds since 1970 stand for, as far as times go.
pub(crate) fn time(millis: u64) -> SystemTime {
    after(SystemTime::UNIX_EPOCH, Duration::from_millis(millis.min(MAX_MILLIS)))
}

/// So long after a time, as far as times go.
pub(crate) fn after(time: SystemTime, duration: Duration) -> SystemTime {
    time.checked_add(duration.min(Duration::from_millis(MAX_MILLIS))).unwrap_or(time)
}

/// The year 9999.
const MAX_MILLIS: u64 = 253_370_764_800_000;
