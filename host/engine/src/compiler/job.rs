//! A compile job, encoded as arguments of the compiler process.

use std::io;
use std::thread;
use std::time::Duration;

use mcp_host_config as config;
use mcp_host_model::digest::Digest;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::EXIT_DEADLINE;
use crate::config::Codegen;

/// The argument that turns a program into the compiler; see [`run_compiler`](super::run_compiler).
pub(super) const CHILD_ARGUMENT: &str = "--mcp-host-compile-component";
/// The maximum size of compiled code in bytes.
pub(super) const MAX_CODE_SIZE: u64 = 2 << 30;

/// A component to compile, and the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompileJob {
    /// The digest of the component.
    pub(super) digest: Digest,
    /// CPU time in seconds.
    cpu: u64,
    /// Address space in bytes.
    memory: u64,
    /// Wall-clock time in milliseconds.
    deadline: u64,
    /// How the code is generated.
    pub(super) codegen: Codegen,
    /// Whether an author waits for the code.
    pub(super) is_urgent: bool,
    /// Whether a later host can use the code if the host that started this process ends first.
    can_outlive_host: bool,
}

impl CompileJob {
    /// Creates a job to compile the component with this digest within these limits.
    pub(super) fn new(
        digest: Digest,
        limits: &config::limits::CompileLimits,
        codegen: Codegen,
        is_urgent: bool,
        can_outlive_host: bool,
    ) -> Self {
        Self {
            digest,
            cpu: limits.cpu.duration().as_secs(),
            memory: limits.memory.bytes(),
            deadline: u64::try_from(limits.deadline.duration().as_millis()).unwrap_or(u64::MAX),
            codegen,
            is_urgent,
            can_outlive_host,
        }
    }

    /// Returns the arguments of the process.
    pub(super) fn arguments(&self) -> [String; 8] {
        let Self { digest, cpu, memory, deadline, codegen, is_urgent, can_outlive_host } = self;
        [
            CHILD_ARGUMENT.to_owned(),
            digest.to_string(),
            cpu.to_string(),
            memory.to_string(),
            deadline.to_string(),
            codegen.name().to_owned(),
            is_urgent.to_string(),
            can_outlive_host.to_string(),
        ]
    }

    /// Parses the arguments after the first; none if they are invalid.
    pub(super) fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let job = Self {
            digest: arguments.next()?.parse().ok()?,
            cpu: arguments.next()?.parse().ok()?,
            memory: arguments.next()?.parse().ok()?,
            deadline: arguments.next()?.parse().ok()?,
            codegen: Codegen::from_name(&arguments.next()?)?,
            is_urgent: arguments.next()?.parse().ok()?,
            can_outlive_host: arguments.next()?.parse().ok()?,
        };
        arguments.next().is_none().then_some(job)
    }

    /// Applies the limits to this process.
    pub(super) fn apply_rlimits(&self) -> io::Result<()> {
        // SIGKILL follows one second later: the soft limit's SIGXCPU reveals the reason first.
        rlimit::Resource::CPU.set(self.cpu, self.cpu.saturating_add(1))?;
        rlimit::Resource::AS.set(self.memory, self.memory)?;
        rlimit::Resource::FSIZE.set(MAX_CODE_SIZE, MAX_CODE_SIZE)?;
        rlimit::Resource::CORE.set(0, 0)
    }

    /// Exits at the deadline, on a separate thread, because a live host may be slightly late to kill this process.
    /// A child that cannot outlive its host also exits with the host, when the other end of standard error is
    /// closed.
    pub(super) fn exit_at_end(&self) {
        let (deadline, can_outlive_host) = (Duration::from_millis(self.deadline), self.can_outlive_host);
        thread::spawn(move || {
            if can_outlive_host {
                thread::sleep(deadline);
            } else {
                let stderr = io::stderr();
                // With no events requested, this returns when the other end is closed.
                let mut watched = [PollFd::new(&stderr, PollFlags::empty())];
                let timeout = Timespec::try_from(deadline).ok();
                while poll(&mut watched, timeout.as_ref()) == Err(Errno::INTR) {}
            }
            std::process::exit(EXIT_DEADLINE);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_given() {
        for (codegen, is_urgent, can_outlive_host) in [
            (Codegen::Optimized, false, false),
            (Codegen::Optimized, false, true),
            (Codegen::Debuggable, true, false),
            (Codegen::Baseline, true, true),
        ] {
            let limits = config::limits::CompileLimits::default();
            let job = CompileJob::new(Digest::compute(b"component"), &limits, codegen, is_urgent, can_outlive_host);
            let [first, rest @ ..] = job.arguments();
            assert_eq!(first, CHILD_ARGUMENT);
            assert_eq!(CompileJob::from_arguments(rest.into_iter()), Some(job));
        }
    }

    #[test]
    fn an_order_of_another_kind_is_not_understood() {
        for arguments in [&[][..], &["sha256:"], &["1", "2", "3"]] {
            assert_eq!(CompileJob::from_arguments(arguments.iter().map(ToString::to_string)), None);
        }
    }
}
