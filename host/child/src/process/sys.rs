//! System calls for which no library has a safe wrapper.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::unistd::ForkResult;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Forks this process, which must have one thread. Returns none in the child.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the launcher and all processes below it have one thread, so no other thread holds a lock.
    #[allow(unsafe_code, reason = "see above")]
    let forked = unsafe { nix::unistd::fork() }?;
    match forked {
        ForkResult::Child => Ok(None),
        ForkResult::Parent { child } => {
            Pid::from_raw(child.as_raw()).map(Some).ok_or_else(|| io::ErrorKind::Other.into())
        }
    }
}

/// Ends this process, without the exit handlers of the launcher.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: there is no precondition.
    #[allow(unsafe_code, reason = "see above")]
    unsafe {
        libc::_exit(code)
    }
}

/// Closes a descriptor of the parent process, which this process must not use any more.
pub(super) fn close(descriptor: &impl AsFd) {
    // SAFETY: this process ends with `exit`, so that the owner of the descriptor is not dropped in it.
    #[allow(unsafe_code, reason = "see above")]
    unsafe {
        libc::close(descriptor.as_fd().as_raw_fd());
    }
}

/// Enters new namespaces.
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the flags are namespaces; none of them is `FILES`.
    #[allow(unsafe_code, reason = "see above")]
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Adds attributes to a mount, and to all mounts below it if `is_recursive`. Removes no attribute.
pub(super) fn add_mount_attributes(path: &CStr, attributes: u64, is_recursive: bool) -> io::Result<()> {
    /// `struct mount_attr`.
    #[repr(C)]
    struct MountAttributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let all = MountAttributes { set: attributes, clear: 0, propagation: 0, user_namespace: 0 };
    let flags = if is_recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the kernel reads the path, which ends with zero, and the given number of bytes of `all`.
    #[allow(unsafe_code, reason = "see above")]
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const all,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes `exec` close all descriptors except the standard streams, including those that this process was
/// started with.
pub(super) fn close_others_on_exec() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    const CLOSE_ON_EXEC: libc::c_uint = 4;
    // SAFETY: closes nothing now.
    #[allow(unsafe_code, reason = "see above")]
    let result = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, CLOSE_ON_EXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the loopback interface of this network namespace up.
pub(super) fn set_loopback_up(socket: impl AsFd) -> io::Result<()> {
    // SAFETY: zeros are a valid value of this structure of numbers.
    #[allow(unsafe_code, reason = "see above")]
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
    // SAFETY: the kernel reads this structure.
    #[allow(unsafe_code, reason = "see above")]
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether the kernel has seccomp, by the error for a null pointer.
pub(super) fn has_seccomp() -> bool {
    let null = std::ptr::null::<u32>();
    // SAFETY: the kernel refuses the null pointer.
    #[allow(unsafe_code, reason = "see above")]
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, null) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Returns whether two processes have the same memory, or both have none. False if the kernel does not tell.
pub(super) fn have_same_memory(one: i32, other: i32) -> bool {
    const MEMORY: libc::c_int = 1;
    // SAFETY: the kernel compares the processes by their ids, and writes nothing.
    #[allow(unsafe_code, reason = "see above")]
    let result = unsafe { libc::syscall(libc::SYS_kcmp, one, other, MEMORY, 0, 0) };
    result == 0
}
