//! Namespaces: the supervisor creates those for users and processes, init all others. The network has a
//! loopback interface, on which the host's proxy listens.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::UnshareFlags;

use super::sys::{set_loopback_up, unshare};

/// The port of the proxy on the loopback interface, the only interface of the network namespace.
pub(super) const PROXY_PORT: u16 = 3128;

/// Limits of the program's user namespace. The kernel also counts its objects towards the limits of the program's user
/// outside of the namespace, who may be the host's user.
const USER_LIMITS: [(&str, u32); 3] =
    [("max_inotify_instances", 16), ("max_inotify_watches", 65_536), ("max_user_namespaces", 0)];

/// Enters a new user namespace, in which this process has only its user and group, and all capabilities.
pub(super) fn enter_user_namespace() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER)?;
    // Without this, a process that changed its user cannot write to its own files in `/proc`.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    // Without this, a process could drop groups, which can give access.
    match fs::write("/proc/self/setgroups", "deny") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Limits what is counted for each user, in this user namespace. A `/proc` without these files limits nothing.
pub(super) fn limit_user() {
    for (name, most) in USER_LIMITS {
        let _ = fs::write(format!("/proc/sys/user/{name}"), most.to_string());
    }
}

/// Creates a new process namespace for the next forked process.
pub(super) fn unshare_processes() -> io::Result<()> {
    unshare(UnshareFlags::NEWPID)
}

/// Enters new namespaces of all remaining kinds: mounts, network, IPC, host name, control groups.
pub(super) fn unshare_rest() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS)?;
    // The kernel may have no control groups.
    let _ = unshare(UnshareFlags::NEWCGROUP);
    Ok(())
}

/// Sets up the loopback interface of this network namespace.
pub(super) fn set_up_loopback() -> io::Result<()> {
    set_loopback_up(socket(AddressFamily::INET, SocketType::DGRAM, None)?)
}

/// Returns a listening socket in this network. The host accepts its connections.
pub(super) fn listen_for_proxy() -> io::Result<OwnedFd> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?.into())
}
