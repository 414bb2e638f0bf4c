//! Filters of system calls (seccomp): building blocks for the filters of this program and of its child
//! processes.
//!
//! Several filters are stacked; the most severe of their results applies.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

/// System calls with rules about their arguments. A call matches if any of its rules does, or, without rules,
/// with any arguments.
pub type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The namespaces that `clone` can create.
const NEW_NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];
/// `TIOCSTI` and `TIOCLINUX` insert input into a terminal, which would make a shell execute it.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541c];

/// System calls that neither grants nor the host need. Each fails with `EPERM` in `mcp-host` and in a server
/// that it starts, and kills the compiler.
pub const HOSTILE: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts, swap, quotas.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // The kernel itself, and its large interfaces.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_lookup_dcookie,
    libc::SYS_vhangup,
    libc::SYS_personality,
    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_env = "gnu")))]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    // Keys of the kernel.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Users, groups, capabilities.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    // The clock and the names of the machine.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Devices, files by handle, other processes' file accesses.
    libc::SYS_mknodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
];

/// Returns rules for [`HOSTILE`], `clone` of namespaces, and insertion of input into a terminal.
///
/// # Errors
///
/// None.
pub fn hostile() -> Result<Rules, BackendError> {
    let mut rules = every(HOSTILE);
    let namespaces = NEW_NAMESPACES.into_iter().map(|flag| rule([flag_is_set(0, flag)?]));
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    let terminal = TERMINAL_INPUT.into_iter().map(|request| rule([condition(1, SeccompCmpOp::Eq, request)?]));
    rules.insert(libc::SYS_ioctl, terminal.collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Returns a filter that refuses `clone3`, whose flags are in memory, where a filter cannot read them. The
/// call fails as if the kernel lacked it, and the C library uses `clone` instead.
///
/// # Errors
///
/// There is no filter for this processor.
pub fn unreadable() -> Result<BpfProgram, BackendError> {
    filter(every(&[libc::SYS_clone3]), SeccompAction::Allow, errno(libc::ENOSYS))
}

/// Installs the filters in this order, for all threads of this process: the last one may refuse `seccomp`
/// itself.
///
/// # Errors
///
/// The kernel rejects a filter.
pub fn install(filters: &[BpfProgram]) -> Result<(), seccompiler::Error> {
    #[cfg(target_arch = "x86_64")]
    apply_filter_all_threads(&without_x32())?;
    filters.iter().try_for_each(|filter| apply_filter_all_threads(filter))
}

/// Returns a filter that refuses the x32 ABI of x86-64, which has separate numbers for all system calls, as
/// if the kernel lacked it.
#[cfg(target_arch = "x86_64")]
fn without_x32() -> BpfProgram {
    use seccompiler::sock_filter;

    /// Set in the system call numbers of this ABI.
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

/// Creates a filter for this processor. System calls of another architecture, such as a 32-bit program's,
/// kill the process.
///
/// # Errors
///
/// There is no filter for this processor, or the filter would be too long.
pub fn filter(rules: Rules, others: SeccompAction, matching: SeccompAction) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, others, matching, TargetArch::try_from(std::env::consts::ARCH)?)?.try_into()
}

/// Returns rules for these system calls, with any arguments.
pub fn every(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Returns a rule that requires all of these conditions.
///
/// # Errors
///
/// None with a valid argument.
pub fn rule<const N: usize>(conditions: [SeccompCondition; N]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into())
}

/// Returns the condition that the argument with this number has this flag.
///
/// # Errors
///
/// None with a valid argument.
pub fn flag_is_set(argument: u8, flag: libc::c_int) -> Result<SeccompCondition, BackendError> {
    condition(argument, SeccompCmpOp::MaskedEq(bits(flag)), bits(flag))
}

/// Returns a condition on the lower half of the argument with this number. The kernel only uses this half.
///
/// # Errors
///
/// None with a valid argument.
pub fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// Returns the bits of a number, as conditions compare them.
pub fn bits(value: libc::c_int) -> u64 {
    value.cast_unsigned().into()
}

/// Returns the action that a system call fails with this error.
pub fn errno(number: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(number.cast_unsigned())
}
