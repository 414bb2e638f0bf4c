//! The network of a program: a loopback interface, where the host's proxy listens.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, socket};

use super::sys::set_loopback_up;

/// The port of the proxy. The network has no other one that is used.
pub(super) const PROXY_PORT: u16 = 3128;

/// Sets up the loopback interface of this network namespace.
pub(super) fn set_up() -> io::Result<()> {
    set_loopback_up(socket(AddressFamily::INET, SocketType::DGRAM, None)?)
}

/// A socket in this network that the host accepts the connections of.
pub(super) fn listen() -> io::Result<OwnedFd> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?.into())
}
