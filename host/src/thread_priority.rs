//! How the operating system shares out its processors between threads of this process.
//!
//! Only Linux can be told. Since 6.6 its scheduler (EEVDF) lets a thread, of whatever priority, have its turn of a millisecond
//! or more before one that has just woken up; since 6.12 a thread can say that its turns are short. Earlier kernels take no note of
//! that.

#[cfg(target_os = "linux")]
mod linux;

/// Has the threads that wake up to answer a request wait less for this one; and this one, when it wakes up, wait less for those
/// that compute.
pub(crate) fn set_short_time_slice() {
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::adjust(0) {
        tracing::debug!(target: crate::log_target::SERVER, %error, "cannot shorten the time slice of a thread");
    }
}

/// The same, and has the system prefer all other threads to this one: beside one of them, it gets a tenth of a processor if it is
/// nicer by 10, and two fifths if by 2.
pub(crate) fn lower_priority(nice_delta: i32) {
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::adjust(nice_delta) {
        tracing::debug!(target: crate::log_target::SERVER, %error, "cannot lower the priority of a thread");
    }
}
