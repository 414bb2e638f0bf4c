//! Filters of system calls, for all threads of this process.
//!
//! Several filters are installed one upon the other; of their results the most severe counts.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

use super::syscalls::{COMPILER, FATAL_TO_COMPILER, HOSTILE};

/// System calls, each with the arguments that the rule is about: any of the rules, or any arguments if there is no rule.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Namespaces that `clone` can make.
const NEW_NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];
/// Kinds of sockets that the host and the system's resolver use.
const SOCKET_FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// `TIOCSTI` and `TIOCLINUX`: insertion of input into a terminal, which would make a shell execute it.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541c];

/// Refuses what neither the host nor a grant of a plugin needs.
///
/// `clone3` has its flags in memory, where a filter cannot read them. It fails as if the kernel did not have it, and the C
/// library uses `clone` instead.
pub(super) fn confine_server() -> Result<(), seccompiler::Error> {
    let mut rules = every(HOSTILE);
    let namespaces = NEW_NAMESPACES.into_iter().map(|flag| rule([flag_is_set(0, flag)?]));
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    let is_other = |family| condition(0, SeccompCmpOp::Ne, bits(family));
    let [unix, inet, inet6, netlink] = SOCKET_FAMILIES.map(is_other);
    rules.insert(libc::SYS_socket, vec![rule([unix?, inet?, inet6?, netlink?])?]);
    let terminal = TERMINAL_INPUT.into_iter().map(|request| rule([condition(1, SeccompCmpOp::Eq, request)?]));
    rules.insert(libc::SYS_ioctl, terminal.collect::<Result<_, _>>()?);
    let hostile = filter(rules, SeccompAction::Allow, errno(libc::EPERM))?;
    let unreadable = filter(every(&[libc::SYS_clone3]), SeccompAction::Allow, errno(libc::ENOSYS))?;
    install(&[hostile, unreadable])
}

/// Refuses to open Unix sockets, whose paths a filter cannot read: the kernel restricts them by path from Linux 7.1 on only (Landlock
/// ABI 9). Pairs of connected streams remain, which cannot be connected again; the runtime has one for signals.
pub(super) fn deny_unix_sockets() -> Result<(), seccompiler::Error> {
    /// The bits of the argument that are the type; the others are flags.
    const TYPE: u64 = 0xf;
    let unix = || condition(0, SeccompCmpOp::Eq, bits(libc::AF_UNIX));
    let types = [libc::SOCK_DGRAM, libc::SOCK_SEQPACKET, libc::SOCK_RAW];
    let pairs = types.map(|kind| rule([condition(1, SeccompCmpOp::MaskedEq(TYPE), bits(kind))?]));
    let mut rules = Rules::new();
    rules.insert(libc::SYS_socket, vec![rule([unix()?])?]);
    rules.insert(libc::SYS_socketpair, pairs.into_iter().collect::<Result<_, _>>()?);
    install(&[filter(rules, SeccompAction::Allow, errno(libc::EPERM))?])
}

/// Allows what the compiler needs. Hostile system calls kill the process, which the host reports. All others fail as if the
/// kernel did not have them: libraries try many that they can do without, such as reading `/proc/self/cgroup`.
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
    // Reading limits.
    let without_new = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    needed.insert(libc::SYS_prlimit64, vec![rule([without_new])?]);
    let needed = filter(needed, errno(libc::ENOSYS), SeccompAction::Allow)?;
    install(&[fatal, needed])
}

/// Installs the filters in that order: the last may refuse `seccomp` itself.
fn install(filters: &[BpfProgram]) -> Result<(), seccompiler::Error> {
    #[cfg(target_arch = "x86_64")]
    apply_filter_all_threads(&without_x32())?;
    filters.iter().try_for_each(|filter| apply_filter_all_threads(filter))
}

/// Refuses the x32 ABI of x86-64, which has numbers of its own for all system calls, as if the kernel did not have it.
#[cfg(target_arch = "x86_64")]
fn without_x32() -> BpfProgram {
    use seccompiler::sock_filter;

    /// Set in the numbers of that ABI.
    const X32: u32 = 0x4000_0000;
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let refuse = u32::from(errno(libc::ENOSYS));
    let allow = u32::from(SeccompAction::Allow);
    vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_GREATER_OR_EQUAL, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: refuse },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: allow },
    ]
}

/// A filter for this processor. System calls of another architecture, such as 32-bit programs make, kill the process.
fn filter(rules: Rules, others: SeccompAction, matching: SeccompAction) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, others, matching, TargetArch::try_from(std::env::consts::ARCH)?)?.try_into()
}

/// Those system calls, with any arguments.
fn every(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// All of these conditions.
fn rule<const N: usize>(conditions: [SeccompCondition; N]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into())
}

/// The argument of that number has that flag.
fn flag_is_set(argument: u8, flag: libc::c_int) -> Result<SeccompCondition, BackendError> {
    condition(argument, SeccompCmpOp::MaskedEq(bits(flag)), bits(flag))
}

/// The lower half of the argument of that number, which the kernel uses only, compared with the value.
fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn bits(value: libc::c_int) -> u64 {
    value.cast_unsigned().into()
}

fn errno(number: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(number.cast_unsigned())
}
