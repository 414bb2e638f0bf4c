//! A compile job, as the arguments of the compiler process.

use std::io;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::config;
use crate::digest::Digest;

/// The argument that turns a program into the compiler; see [`run_compiler`](super::run_compiler).
pub(super) const CHILD_ARGUMENT: &str = "--mcp-host-compile-component";
/// The largest compiled code, in bytes.
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
}

impl CompileJob {
    /// A job to compile the component of that digest within those limits.
    pub(super) fn new(digest: Digest, limits: &config::compile::CompileLimits) -> Self {
        Self { digest, cpu: limits.cpu.duration().as_secs(), memory: limits.memory.bytes() }
    }

    /// Returns the arguments of the process.
    pub(super) fn arguments(&self) -> [String; 4] {
        [CHILD_ARGUMENT.to_owned(), self.digest.to_string(), self.cpu.to_string(), self.memory.to_string()]
    }

    /// Parses the arguments that follow the first; none if they are not understood.
    pub(super) fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let job = Self {
            digest: arguments.next()?.parse().ok()?,
            cpu: arguments.next()?.parse().ok()?,
            memory: arguments.next()?.parse().ok()?,
        };
        arguments.next().is_none().then_some(job)
    }

    /// Applies the limits to this process.
    pub(super) fn apply_rlimits(&self) -> io::Result<()> {
        // One second more before SIGKILL: the soft limit's SIGXCPU tells the reason.
        rlimit::Resource::CPU.set(self.cpu, self.cpu.saturating_add(1))?;
        rlimit::Resource::AS.set(self.memory, self.memory)?;
        rlimit::Resource::FSIZE.set(MAX_CODE_SIZE, MAX_CODE_SIZE)?;
        rlimit::Resource::CORE.set(0, 0)
    }
}

/// Exits as soon as the other end of standard error is closed: then the host is gone, and nothing else would end this
/// process before its limits do.
pub(super) fn exit_with_parent() {
    thread::spawn(|| {
        let stderr = io::stderr();
        // Without events to wait for, it returns when the other end is closed.
        let mut watched = [PollFd::new(&stderr, PollFlags::empty())];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        std::process::exit(1);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_given() {
        let job = CompileJob::new(Digest::compute(b"component"), &config::compile::CompileLimits::default());
        let [first, rest @ ..] = job.arguments();
        assert_eq!(first, CHILD_ARGUMENT);
        assert_eq!(CompileJob::from_arguments(rest.into_iter()), Some(job));
    }

    #[test]
    fn an_order_of_another_kind_is_not_understood() {
        for arguments in [&[][..], &["sha256:"], &["1", "2", "3"]] {
            assert_eq!(CompileJob::from_arguments(arguments.iter().map(ToString::to_string)), None);
        }
    }
}
