//! The `sched_setattr` system call, for which no library has a wrapper.

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

/// The shortest possible time slice in nanoseconds.
const TIME_SLICE_NS: u64 = 100_000;
/// The highest nice value, which is the lowest priority.
const MAX_NICE: i32 = 19;

/// Sets the shortest time slice for this thread and increases its nice value by `nice_delta`. On kernels without
/// `sched_setattr`, only changes the nice value.
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
    // SAFETY: the kernel reads `size` bytes of `attributes`, and retains no reference to them.
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
