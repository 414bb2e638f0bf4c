//! The system call behind it, which no library has.

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

/// The shortest turn that there is, in nanoseconds.
const TIME_SLICE_NS: u64 = 100_000;
/// The lowest priority that there is.
const MAX_NICE: i32 = 19;

/// Gives this thread the shortest turns, and makes it that much nicer than it is; the latter at least, where there is only the
/// older of both calls.
pub(super) fn adjust(nice_delta: i32) -> io::Result<()> {
    let niceness = getpriority_process(None)?.saturating_add(nice_delta).min(MAX_NICE);
    sched_setattr(niceness).or_else(|_| Ok(setpriority_process(None, niceness)?))
}

fn sched_setattr(niceness: i32) -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(u32::MAX),
        sched_policy: u32::try_from(libc::SCHED_OTHER).unwrap_or(0),
        sched_flags: 0,
        sched_nice: niceness,
        sched_priority: 0,
        sched_runtime: TIME_SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    let (own_thread, flags) = (0, 0);
    // SAFETY: the kernel reads `attributes`, as many bytes of it as `size` says, and keeps nothing of it.
    #[allow(unsafe_code, reason = "see above")]
    let failed = unsafe { libc::syscall(libc::SYS_sched_setattr, own_thread, &raw const attributes, flags) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_way_by_itself() {
        let niceness = || getpriority_process(None).unwrap();
        let before = niceness();
        let lowered = std::thread::spawn(move || {
            adjust(10).unwrap();
            niceness()
        });
        assert_eq!((lowered.join().unwrap(), niceness()), ((before + 10).min(MAX_NICE), before));
    }
}
