//! Filters of system calls, for all threads of this process.

use mcp_host_base::seccomp::{
    HOSTILE, Rules, bits, condition, errno, every, filter, flag_is_set, hostile, install, rule, unreadable,
};
use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition};

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

/// Refuses to open Unix sockets. A filter cannot read their paths, and the kernel restricts them by path only from
/// Linux 7.1 on (Landlock ABI 9). Pairs of connected streams stay allowed, which cannot be reconnected: the runtime
/// uses one for signals.
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

/// Allows only the system calls that the compiler needs. Hostile system calls kill the process, which the host reports.
/// All others fail as if the kernel lacked them: libraries try many optional ones, such as reading `/proc/self/cgroup`.
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

/// System calls that only an attacker makes a compiler issue, in addition to [`HOSTILE`]. They kill the compiler.
const FATAL_TO_COMPILER: &[i64] = &[
    // Programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // Sockets.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    // Changes to files.
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_truncate,
    libc::SYS_memfd_create,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    // Code, and memory shared with other processes.
    libc::SYS_pkey_mprotect,
    libc::SYS_shmat,
    libc::SYS_shmget,
];

/// System calls that the compiler needs: memory, threads, time, and open streams. Some other calls are allowed with
/// certain arguments only; see [`confine_compiler`].
const COMPILER: &[i64] = &[
    // Streams.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getcpu,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals of this process.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time, random numbers, usage.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
];
