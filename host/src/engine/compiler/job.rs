//! What a host asks the compiler's process to do, as that process's arguments.

use std::io;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::config;
use crate::digest::Digest;

/// The argument that makes a program the compiler; see [`run_compiler`](super::run_compiler).
pub(super) const CHILD_ARGUMENT: &str = "--mcp-host-compile-component";
/// The largest code that is kept, in bytes.
pub(super) const MAX_CODE_SIZE: u64 = 2 << 30;

/// What to compile, and what it may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompileJob {
    /// What the component must be.
    pub(super) digest: Digest,
    /// CPU time in seconds.
    cpu: u64,
    /// Address space in bytes.
    memory: u64,
}

impl CompileJob {
    /// An order to compile what has that digest within those limits.
    pub(super) fn new(digest: Digest, limits: &config::compile::CompileLimits) -> Self {
        Self { digest, cpu: limits.cpu.duration().as_secs(), memory: limits.memory.bytes() }
    }

    /// The arguments of the process.
    pub(super) fn arguments(&self) -> [String; 4] {
        [CHILD_ARGUMENT.to_owned(), self.digest.to_string(), self.cpu.to_string(), self.memory.to_string()]
    }

    /// What stands behind the first of those arguments; none if it is not understood.
    pub(super) fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let job = Self {
            digest: arguments.next()?.parse().ok()?,
            cpu: arguments.next()?.parse().ok()?,
            memory: arguments.next()?.parse().ok()?,
        };
        arguments.next().is_none().then_some(job)
    }

    /// Puts this process under the limits.
    pub(super) fn apply_rlimits(&self) -> io::Result<()> {
        // One second more, then it is killed: the first signal tells what it was ended for.
        rlimit::Resource::CPU.set(self.cpu, self.cpu.saturating_add(1))?;
        rlimit::Resource::AS.set(self.memory, self.memory)?;
        rlimit::Resource::FSIZE.set(MAX_CODE_SIZE, MAX_CODE_SIZE)?;
        rlimit::Resource::CORE.set(0, 0)
    }
}

/// Ends this process as soon as nobody listens to its standard error: whoever ordered is gone, and nothing else would end
/// it before its limits do.
pub(super) fn exit_with_parent() {
    thread::spawn(|| {
        let stderr = io::stderr();
        // With no event to wait for it returns when the other end is closed.
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
