//! Seccomp: a filter of the program's system calls, in addition to the filter of all processes of this host ([`HOSTILE`]).
//!
//! | refused system calls | error |
//! |---|---|
//! | [`HOSTILE`]: other processes (`ptrace`), mounts, namespaces, the kernel itself, keys, users | `EPERM` |
//! | sockets other than TCP, UDP, Unix and `NETLINK_ROUTE`, which lists network interfaces; without namespaces, all sockets except pairs of Unix sockets | `EPERM` |
//! | shared anonymous memory (`mmap`), which the kernel keeps after a process has unmapped all of it but one page | `EPERM` |
//! | memory outside of any process: `memfd_create`, System V shared memory, messages and semaphores | `ENOSYS`, so that libraries work without it |
//! | `clone3`, whose flags a filter cannot read | `ENOSYS`, so that libraries use `clone` |
//!
//! [`HOSTILE`]: mcp_host_base::seccomp::HOSTILE

use mcp_host_base::seccomp::{
    Rules, bits, condition, errno, every, filter, flag_is_set, hostile, install, rule, unreadable,
};
use seccompiler::{BackendError, SeccompAction, SeccompCmpOp, SeccompRule};

/// Memory that is not resident in a process, so that a measurement would miss it.
const UNACCOUNTED: [i64; 5] =
    [libc::SYS_memfd_create, libc::SYS_memfd_secret, libc::SYS_shmget, libc::SYS_msgget, libc::SYS_semget];

/// Protocols of IP sockets. Others would be loaded into the kernel as modules.
const PROTOCOLS: [libc::c_int; 4] = [libc::IPPROTO_IP, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_MPTCP];
/// The bits of the type of a socket. The others are flags.
const SOCKET_TYPE: libc::c_int = 0xf;

/// Filters the system calls of this process, and of everything that it starts.
pub(super) fn confine(has_namespaces: bool) -> Result<(), seccompiler::Error> {
    let mut refused = hostile()?;
    refused.extend(sockets(has_namespaces)?);
    refused.insert(libc::SYS_mmap, vec![shared_anonymous_memory()?]);
    let refused = filter(refused, SeccompAction::Allow, errno(libc::EPERM))?;
    let absent = filter(every(&UNACCOUNTED), SeccompAction::Allow, errno(libc::ENOSYS))?;
    install(&[refused, absent, unreadable()?])
}

fn shared_anonymous_memory() -> Result<SeccompRule, BackendError> {
    let kinds = SeccompCmpOp::MaskedEq(bits(libc::MAP_TYPE | libc::MAP_ANONYMOUS));
    rule([condition(3, kinds, bits(libc::MAP_SHARED | libc::MAP_ANONYMOUS))?])
}

fn sockets(has_namespaces: bool) -> Result<Rules, BackendError> {
    let is_other = |family| condition(0, SeccompCmpOp::Ne, bits(family));
    let mut rules = Rules::new();
    // A pair of another family would be refused too, but only after its module was loaded into the kernel.
    rules.insert(libc::SYS_socketpair, vec![rule([is_other(libc::AF_UNIX)?])?]);
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
            // Only streams (1) and datagrams (2): a type also selects a protocol, such as SCTP.
            let raw = condition(1, SeccompCmpOp::MaskedEq(bits(SOCKET_TYPE)), bits(libc::SOCK_RAW))?;
            for other_type in [raw, flag_is_set(1, 4)?, flag_is_set(1, 8)?] {
                all.push(rule([condition(0, SeccompCmpOp::Eq, bits(family))?, other_type])?);
            }
        }
        rules.insert(libc::SYS_socket, all);
    } else {
        rules.extend(every(&[libc::SYS_socket]));
    }
    Ok(rules)
}
