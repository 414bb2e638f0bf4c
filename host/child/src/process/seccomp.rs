//! Seccomp: a filter of the program's system calls, in addition to the filter of all processes of this host
//! ([`HOSTILE`]).
//!
//! | refused system calls | error |
//! |---|---|
//! | [`HOSTILE`]: other processes (`ptrace`), mounts, namespaces, the kernel itself, keys, users | `EPERM` |
//! | sockets other than TCP, UDP, Unix and `NETLINK_ROUTE`, which lists network interfaces; without namespaces, all sockets except pairs of Unix sockets | `EPERM` |
//! | shared anonymous memory (`mmap`), which the kernel keeps after a process has unmapped all of it but one page | `EPERM` |
//! | memory outside of any process: `memfd_create`, System V shared memory, messages and semaphores | `ENOSYS`, so that libraries work without it |
//! | files with the set-user-id or set-group-id bit: others could execute them with the rights of the host's user | `EPERM` |
//! | without namespaces, limits and priorities of other processes, also of all of a user: the host's processes have the same user | `EPERM` |
//! | without namespaces, owners, modes, times and extended attributes of files by path: Landlock does not restrict them | `EPERM` |
//! | `openat2`, whose mode is in memory, where a filter cannot read it | `ENOSYS`, so that libraries use `openat` |
//! | threads with their own descriptors (`clone`, `close_range`), which no measurement finds | `EPERM` |
//! | `clone3`, whose flags a filter cannot read | `ENOSYS`, so that libraries use `clone` |
//!
//! [`HOSTILE`]: mcp_host_base::seccomp::HOSTILE

use mcp_host_base::seccomp::{
    Rules, bits, condition, errno, every, filter, flag_is_set, hostile, install, rule, unreadable,
};
use seccompiler::{BackendError, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

/// Memory that is not resident in a process, so that a measurement would miss it. `io_setup` takes from a number of
/// requests that all users of the machine share.
const UNACCOUNTED: [i64; 6] = [
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_io_setup,
];

/// Protocols of IP sockets. Others would be loaded into the kernel as modules.
const PROTOCOLS: [libc::c_int; 4] = [libc::IPPROTO_IP, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_MPTCP];
/// The bits of the type of a socket. The others are flags.
const SOCKET_TYPE: libc::c_int = 0xf;
/// The flag of `close_range` by which a thread gets its own descriptors.
const UNSHARE: libc::c_int = 2;

/// Filters the system calls of this process, and of everything that it starts.
pub(super) fn confine(has_namespaces: bool) -> Result<(), seccompiler::Error> {
    let mut refused = hostile()?;
    refused.extend(sockets(has_namespaces)?);
    refused.insert(libc::SYS_mmap, vec![shared_anonymous_memory()?]);
    refused.extend(files_with_a_user()?);
    // The supervisor looks at the descriptors of processes, and not of threads.
    let kinds = SeccompCmpOp::MaskedEq(bits(libc::CLONE_THREAD | libc::CLONE_FILES));
    let thread = rule([condition(0, kinds, bits(libc::CLONE_THREAD))?])?;
    refused.entry(libc::SYS_clone).or_default().push(thread);
    refused.insert(libc::SYS_close_range, vec![rule([flag_is_set(2, UNSHARE)?])?]);
    if !has_namespaces {
        refused.extend(other_processes()?);
        refused.extend(attributes_by_path()?);
    }
    let refused = filter(refused, SeccompAction::Allow, errno(libc::EPERM))?;
    let absent = UNACCOUNTED.into_iter().chain([libc::SYS_openat2]).collect::<Vec<_>>();
    let absent = filter(every(&absent), SeccompAction::Allow, errno(libc::ENOSYS))?;
    install(&[refused, absent, unreadable()?])
}

fn shared_anonymous_memory() -> Result<SeccompRule, BackendError> {
    let kinds = SeccompCmpOp::MaskedEq(bits(libc::MAP_TYPE | libc::MAP_ANONYMOUS));
    rule([condition(3, kinds, bits(libc::MAP_SHARED | libc::MAP_ANONYMOUS))?])
}

/// Calls that create a file with the set-user-id or set-group-id bit, or set the bit.
fn files_with_a_user() -> Result<Rules, BackendError> {
    /// Not declared for all processors.
    const SYS_FCHMODAT2: i64 = 452;
    /// `O_TMPFILE` without `O_DIRECTORY`.
    const TEMPORARY: libc::c_int = libc::O_TMPFILE & !libc::O_DIRECTORY;
    /// Each call, and the number of its argument with the mode.
    const CHANGES: &[(i64, u8)] = &[
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (SYS_FCHMODAT2, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
    ];
    /// Each call, and the numbers of its arguments with the flags and the mode. The mode is undefined if no file is
    /// created.
    const OPENINGS: &[(i64, u8, u8)] = &[
        (libc::SYS_openat, 2, 3),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1, 2),
    ];
    let bits_of_mode = [0o4000, 0o2000];
    let mut rules = Rules::new();
    for &(call, mode) in CHANGES {
        let all = bits_of_mode.map(|bit| rule([flag_is_set(mode, bit)?]));
        rules.insert(call, all.into_iter().collect::<Result<_, _>>()?);
    }
    for &(call, flags, mode) in OPENINGS {
        let mut all = Vec::new();
        for bit in bits_of_mode {
            for creates in [libc::O_CREAT, TEMPORARY] {
                all.push(rule([flag_is_set(flags, creates)?, flag_is_set(mode, bit)?])?);
            }
        }
        rules.insert(call, all);
    }
    Ok(rules)
}

/// Calls that set the limits or the priority of another process.
fn other_processes() -> Result<Rules, BackendError> {
    /// Each call, and the number of its argument with the process; 0 is the caller.
    const CALLS: [(i64, u8); 7] = [
        (libc::SYS_prlimit64, 0),
        (libc::SYS_sched_setaffinity, 0),
        (libc::SYS_sched_setattr, 0),
        (libc::SYS_sched_setparam, 0),
        (libc::SYS_sched_setscheduler, 0),
        (libc::SYS_setpriority, 1),
        (libc::SYS_ioprio_set, 1),
    ];
    /// Calls that can set the priority of a group, or of all processes of a user, and the first argument for a process.
    /// The user 0 is the caller's.
    const KINDS: [(i64, u64); 2] = [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];
    let mut rules = Rules::new();
    for (call, process) in CALLS {
        rules.entry(call).or_default().push(rule([condition(process, SeccompCmpOp::Ne, 0)?])?);
    }
    for (call, process) in KINDS {
        rules.entry(call).or_default().push(rule([condition(0, SeccompCmpOp::Ne, process)?])?);
    }
    Ok(rules)
}

/// Calls that change the attributes of a file by its path. A program can change the attributes of its open files.
fn attributes_by_path() -> Result<Rules, BackendError> {
    /// Not declared for all processors.
    const SYS_FCHMODAT2: i64 = 452;
    /// Not declared for all processors.
    const SYS_SETXATTRAT: i64 = 463;
    /// Not declared for all processors.
    const SYS_REMOVEXATTRAT: i64 = 466;
    /// Not declared for all processors.
    const SYS_FILE_SETATTR: i64 = 469;
    const CALLS: &[i64] = &[
        libc::SYS_fchmodat,
        SYS_FCHMODAT2,
        libc::SYS_fchownat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        SYS_SETXATTRAT,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        SYS_REMOVEXATTRAT,
        SYS_FILE_SETATTR,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chown,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lchown,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utime,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utimes,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_futimesat,
    ];
    let mut rules = every(CALLS);
    // Without a path, it sets the times of an open file. A path is an address, of which all bits count.
    let has_path = SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_utimensat, vec![rule([has_path])?]);
    Ok(rules)
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
