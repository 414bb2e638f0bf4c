//! Namespaces: users and processes by the supervisor, the others by init. The network has a loopback interface, where the host's proxy
//! listens.

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

/// A new user namespace in which this process has its user and group only, and all capabilities.
pub(super) fn enter_user_namespace() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER)?;
    // One that changed its user before cannot write to its own files in `/proc` otherwise.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    // Without it, groups could be given up, which can give access.
    match fs::write("/proc/self/setgroups", "deny") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// A new process namespace for the next process that is forked.
pub(super) fn unshare_processes() -> io::Result<()> {
    unshare(UnshareFlags::NEWPID)
}

/// New namespaces of all kinds that are left: mounts, network, IPC, host name, control groups.
pub(super) fn unshare_rest() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS)?;
    // A kernel without control groups.
    let _ = unshare(UnshareFlags::NEWCGROUP);
    Ok(())
}

/// Sets up the loopback interface of this network namespace.
pub(super) fn set_up_loopback() -> io::Result<()> {
    set_loopback_up(socket(AddressFamily::INET, SocketType::DGRAM, None)?)
}

/// A socket in this network that the host accepts the connections of.
pub(super) fn listen_for_proxy() -> io::Result<OwnedFd> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?.into())
}
