//! Filters of system calls, for all threads of this process.

use mcp_host_base::seccomp::{
    HOSTILE, Rules, bits, condition, errno, every, filter, flag_is_set, hostile, install, rule, unreadable,
};
use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition};

use super::syscalls::{COMPILER, FATAL_TO_COMPILER};

/// The families of sockets that the host and the system's resolver use.
const SOCKET_FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Refuses system calls that neither the host nor a grant of a plugin needs.
pub(super) fn confine_server() -> Result<(), seccompiler::Error> {
    let mut rules = hostile()?;
    let is_other = |family| condition(0, SeccompCmpOp::Ne, bits(family));
    let [unix, inet, inet6, netlink] = SOCKET_FAMILIES.map(is_other);
    rules.insert(libc::SYS_socket, vec![rule([unix?, inet?, inet6?, netlink?])?]);
    install(&[filter(rules, SeccompAction::Allow, errno(libc::EPERM))?, unreadable()?])
}

/// Refuses to open Unix sockets. A filter cannot read their paths, and the kernel restricts them by path only from Linux 7.1 on
/// (Landlock ABI 9). Pairs of connected streams stay allowed, which cannot be reconnected: the runtime uses one for signals.
pub(super) fn deny_unix_sockets() -> Result<(), seccompiler::Error> {
    /// The bits of the argument that hold the type; the other bits are flags.
    const TYPE: u64 = 0xf;
    let unix = || condition(0, SeccompCmpOp::Eq, bits(libc::AF_UNIX));
    let types = [libc::SOCK_DGRAM, libc::SOCK_SEQPACKET, libc::SOCK_RAW];
    let pairs = types.map(|kind| rule([condition(1, SeccompCmpOp::MaskedEq(TYPE), bits(kind))?]));
    let mut rules = Rules::new();
    rules.insert(libc::SYS_socket, vec![rule([unix()?])?]);
    rules.insert(libc::SYS_socketpair, pairs.into_iter().collect::<Result<_, _>>()?);
    install(&[filter(rules, SeccompAction::Allow, errno(libc::EPERM))?])
}

/// Allows only the system calls that the compiler needs. Hostile system calls kill the process, which the host reports. All others
/// fail as if the kernel lacked them: libraries try many optional ones, such as reading `/proc/self/cgroup`.
pub(super) fn confine_compiler() -> Result<(), seccompiler::Error> {
    let mut fatal = every(HOSTILE);
    fatal.extend(every(FATAL_TO_COMPILER));
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        fatal.insert(call, vec![rule([flag_is_set(2, libc::PROT_EXEC)?])?]);
    }
    let fatal = filter(fatal, SeccompAction::Allow, SeccompAction::KillProcess)?;

    let mut needed = every(COMPILER);
    needed.extend(every(&[libc::SYS_mmap, libc::SYS_mprotect]));
    needed.insert(libc::SYS_clone, vec![rule([flag_is_set(0, libc::CLONE_THREAD)?])?]);
    needed.insert(libc::SYS_tgkill, vec![rule([condition(0, SeccompCmpOp::Eq, std::process::id().into())?])?]);
    needed.insert(libc::SYS_prctl, vec![rule([condition(0, SeccompCmpOp::Eq, bits(libc::PR_SET_NAME))?])?]);
    // Allowed for reading limits only.
    let without_new = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    needed.insert(libc::SYS_prlimit64, vec![rule([without_new])?]);
    let needed = filter(needed, errno(libc::ENOSYS), SeccompAction::Allow)?;
    install(&[fatal, needed])
}
