//! Limits of the kernel, for each process of a program.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::spec::Limits;

/// Processes of ours that the kernel counts with the program's: the supervisor and init.
const OWN_PROCESSES: u64 = 2;

/// Limits this process, and all that it starts.
pub(super) fn apply(limits: &Limits) -> io::Result<()> {
    let set = |resource, most: u64| {
        let current = rustix::process::getrlimit(resource);
        // The host's own limit may be less, and only root may exceed it.
        let most = current.maximum.map_or(most, |maximum| most.min(maximum));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
    };
    set(Resource::Data, limits.memory.saturating_add(Limits::UNUSED))?;
    set(Resource::Nproc, u64::from(limits.processes).saturating_add(OWN_PROCESSES))?;
    set(Resource::Nofile, limits.files.into())?;
    set(Resource::Fsize, limits.file_size)?;
    set(Resource::Core, 0)?;
    // System V and POSIX message queues are memory that no process has.
    set(Resource::Msgqueue, 0)?;
    if let Some(cpu) = limits.cpu {
        set(Resource::Cpu, whole_seconds(cpu))?;
    }
    Ok(())
}

/// The kernel counts whole seconds.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}
