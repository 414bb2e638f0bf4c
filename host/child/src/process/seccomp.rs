//! Seccomp: a filter of the program's system calls, in addition to the filter of all processes of this host ([`HOSTILE`]).
//!
//! | refused system calls | error |
//! |---|---|
//! | [`HOSTILE`]: other processes (`ptrace`), mounts, namespaces, the kernel itself, keys, users | `EPERM` |
//! | sockets other than TCP, UDP, Unix and `NETLINK_ROUTE`, which lists network interfaces; without namespaces, all sockets except pairs of Unix sockets | `EPERM` |
//! | memory outside of any process: `memfd_create`, System V shared memory and messages | `ENOSYS`, so that libraries work without it |
//! | `clone3`, whose flags a filter cannot read | `ENOSYS`, so that libraries use `clone` |
//!
//! [`HOSTILE`]: mcp_host_base::seccomp::HOSTILE

use mcp_host_base::seccomp::{Rules, bits, condition, errno, every, filter, hostile, install, rule, unreadable};
use seccompiler::{SeccompAction, SeccompCmpOp, SeccompRule};

/// Memory that is not resident in a process, so that a measurement would miss it.
const UNACCOUNTED: [i64; 4] = [libc::SYS_memfd_create, libc::SYS_memfd_secret, libc::SYS_shmget, libc::SYS_msgget];

/// Protocols of IP sockets. Others would be loaded into the kernel as modules.
const PROTOCOLS: [libc::c_int; 4] = [libc::IPPROTO_IP, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_MPTCP];

/// Filters the system calls of this process, and of everything that it starts.
pub(super) fn confine(has_namespaces: bool) -> Result<(), seccompiler::Error> {
    let mut refused = hostile()?;
    refused.extend(sockets(has_namespaces)?);
    let refused = filter(refused, SeccompAction::Allow, errno(libc::EPERM))?;
    let absent = filter(every(&UNACCOUNTED), SeccompAction::Allow, errno(libc::ENOSYS))?;
    install(&[refused, absent, unreadable()?])
}

fn sockets(has_namespaces: bool) -> Result<Rules, seccompiler::BackendError> {
    let is_other = |family| condition(0, SeccompCmpOp::Ne, bits(family));
    let mut rules = Rules::new();
    if has_namespaces {
        let other = rule([
            is_other(libc::AF_UNIX)?,
            is_other(libc::AF_INET)?,
            is_other(libc::AF_INET6)?,
            is_other(libc::AF_NETLINK)?,
        ])?;
        let other_netlink = rule([
            condition(0, SeccompCmpOp::Eq, bits(libc::AF_NETLINK))?,
            condition(2, SeccompCmpOp::Ne, bits(libc::NETLINK_ROUTE))?,
        ])?;
        let mut all = vec![other, other_netlink];
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut conditions = vec![condition(0, SeccompCmpOp::Eq, bits(family))?];
            for protocol in PROTOCOLS {
                conditions.push(condition(2, SeccompCmpOp::Ne, bits(protocol))?);
            }
            all.push(SeccompRule::new(conditions)?);
        }
        rules.insert(libc::SYS_socket, all);
    } else {
        rules.extend(every(&[libc::SYS_socket]));
        rules.insert(libc::SYS_socketpair, vec![rule([is_other(libc::AF_UNIX)?])?]);
    }
    Ok(rules)
}
