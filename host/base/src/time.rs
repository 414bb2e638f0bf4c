//! Times and durations as numbers for logs, protocols and the search index; the processor time of a thread.

use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The duration in whole milliseconds, at most [`u64::MAX`].
pub fn saturating_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The processor time of this thread, in user mode and in system calls (`CLOCK_THREAD_CPUTIME_ID`).
pub fn thread_cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Returns the processor time of a child process that has not been waited for yet, in user mode and in system calls;
/// none if the system does not report it.
#[cfg(target_os = "linux")]
pub fn process_cpu_time(process: u32) -> Option<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let process = libc::pid_t::try_from(process).ok()?;
    // SAFETY: both functions write only to the place that they are given.
    #[allow(unsafe_code, reason = "see above; the library has the clocks of this process only")]
    let is_read = unsafe {
        libc::clock_getcpuclockid(process, &raw mut clock) == 0 && libc::clock_gettime(clock, &raw mut time) == 0
    };
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).ok()?);
    is_read.then(|| seconds.saturating_add(Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn process_cpu_time(_: u32) -> Option<Duration> {
    None
}

/// The time, in milliseconds since 1970.
pub fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
