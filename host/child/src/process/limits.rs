//! Limits of the kernel, for each process of a program.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::spec::Limits;

/// The host's processes that the kernel counts with the program's: the supervisor and init.
const OWN_PROCESSES: u64 = 2;

/// The maximum number of pending signals and timers.
const MAX_SIGNALS: u64 = 1024;

/// The number by which the limit of open files of a program is below the host's. The kernel counts descriptors in
/// messages to Unix sockets for the user, and lets a process send more while there are at most as many as its own limit
/// of open files. One message has up to 253, so with the host's limit a program could keep the host of the same user
/// from starting programs.
const FILES_BELOW_HOST: u64 = 256;

/// The minimum limit of open files of a program. A host with a limit below the sum of both is not protected.
const MIN_FILES: u64 = 64;

/// Limits this process, and everything that it starts. The kernel counts `others` other processes and threads
/// with these.
pub(super) fn apply(limits: &Limits, others: u64) -> io::Result<()> {
    let set_both = |resource, soft: u64, hard: u64| {
        // The host's own limit may be lower, and only root may exceed it.
        let own = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        setrlimit(resource, Rlimit { current: Some(soft.min(own)), maximum: Some(hard.min(own)) })
    };
    let set = |resource, most| set_both(resource, most, most);
    set(Resource::Data, limits.memory.saturating_add(Limits::UNUSED))?;
    set(Resource::Nproc, u64::from(limits.processes).saturating_add(OWN_PROCESSES).saturating_add(others))?;
    // The launcher has the limit that the host had when it started the launcher.
    let of_host = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    set(Resource::Nofile, u64::from(limits.files).min(of_host.saturating_sub(FILES_BELOW_HOST).max(MIN_FILES)))?;
    set(Resource::Fsize, limits.file_size)?;
    set(Resource::Core, 0)?;
    // The kernel counts signals for the user, too, and so those of the host.
    set(Resource::Sigpending, MAX_SIGNALS)?;
    // System V and POSIX message queues are memory outside of any process.
    set(Resource::Msgqueue, 0)?;
    if let Some(cpu) = limits.cpu {
        let seconds = whole_seconds(cpu);
        // The first signal, `SIGXCPU`, reveals the reason; the second, `SIGKILL`, cannot be ignored.
        set_both(Resource::Cpu, seconds, seconds.saturating_add(1))?;
    }
    Ok(())
}

/// Rounds up, because the kernel counts whole seconds.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}
