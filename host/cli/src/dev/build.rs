//! One run of the build command in a process group, which ends as a whole.
//!
//! `sh` runs the command in the directory of the project, without standard input. Standard output and standard error
//! share one pipe, so their lines keep their order; each line goes to standard error. When the shell ends, the rest of
//! its group is killed. [`Build::cancel`] sends SIGTERM to the group, and SIGKILL after [`GRACE`].

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_base::task;
use mcp_host_config::BuildCommand;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::build_output::BuildOutput;
use crate::messages::Messages;

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// The longest wait for output after the end of the command: a process that left the group may keep the pipe open.
const DRAIN: Duration = Duration::from_millis(200);
/// The bytes per read.
const CHUNK: usize = 16 << 10;

/// A build that is running. Dropping it kills its processes.
#[derive(Debug)]
pub(super) struct Build {
    group: Arc<Group>,
    task: JoinHandle<Finished>,
}

/// The end of a build.
#[derive(Debug)]
pub(super) struct Finished {
    /// The exit status of the shell, or the error of waiting for it.
    pub(super) status: io::Result<ExitStatus>,
    /// The duration of the build.
    pub(super) elapsed: Duration,
}

/// The process group. `None` after the leader was reaped: the number may then belong to another group.
#[derive(Debug)]
struct Group(Mutex<Option<Pid>>);

impl Group {
    fn kill(&self, signal: Signal) {
        if let Some(group) = *self.0.lock() {
            // The call fails if all processes of the group have ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Build {
    /// Starts the command.
    ///
    /// # Errors
    ///
    /// The shell does not start.
    pub(super) fn start(command: &BuildCommand, dir: &Path, messages: &Messages) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command.as_str()).current_dir(dir).process_group(0);
        shell.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        if messages.is_colored() {
            // Without a terminal the tools of a build would not color their output.
            for (variable, value) in [("CARGO_TERM_COLOR", "always"), ("CLICOLOR_FORCE", "1"), ("FORCE_COLOR", "1")] {
                if std::env::var_os(variable).is_none() {
                    shell.env(variable, value);
                }
            }
        }
        let began = Instant::now();
        let child = shell.spawn()?;
        let group = Arc::new(Group(Mutex::new(Some(Pid::from_child(&child)))));
        // Closes the shell's copies of the pipe: the reader sees the end of the output when the last writer is closed.
        drop(shell);
        let task = task::spawn(run(child, group.clone(), output, messages.clone(), began));
        Ok(Self { group, task })
    }

    /// Waits for the end of the build, and until its output is printed. Cancel-safe until it has returned.
    pub(super) async fn finished(&mut self) -> Finished {
        match (&mut self.task).await {
            Ok(finished) => finished,
            Err(error) => Finished { status: Err(io::Error::other(error)), elapsed: Duration::ZERO },
        }
    }

    /// Ends the processes of the build, and waits for their end.
    pub(super) async fn cancel(mut self) {
        self.group.kill(Signal::TERM);
        if timeout(GRACE, &mut self.task).await.is_err() {
            self.group.kill(Signal::KILL);
            // Only a process that is stuck in the kernel, such as on a broken disk, takes longer.
            let _ = timeout(GRACE, &mut self.task).await;
        }
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        self.group.kill(Signal::KILL);
    }
}

/// Prints the output until the command ends, and ends its group.
async fn run(
    child: Child,
    group: Arc<Group>,
    mut output: pipe::Receiver,
    messages: Messages,
    began: Instant,
) -> Finished {
    let mut lines = BuildOutput::new(messages.is_colored());
    let mut chunk = vec![0; CHUNK];
    let mut ended = task::spawn_blocking(move || end(child, &group));
    let mut status = None;
    let drained = tokio::time::sleep(Duration::ZERO);
    tokio::pin!(drained);
    loop {
        // No timeout before the command ends; then a timeout for the rest of the pipe.
        let read = tokio::select! {
            read = output.read(&mut chunk) => read,
            ended = &mut ended, if status.is_none() => {
                status = Some((ended.unwrap_or_else(|error| Err(io::Error::other(error))), began.elapsed()));
                drained.set(tokio::time::sleep(DRAIN));
                continue;
            }
            () = &mut drained, if status.is_some() => break,
        };
        match read {
            Ok(0) | Err(_) => break,
            Ok(length) => messages.print_lines(&lines.push(chunk.get(..length).unwrap_or_default())),
        }
    }
    messages.print_lines(&lines.finish());
    let (status, elapsed) = match status {
        Some(ended) => ended,
        None => (ended.await.unwrap_or_else(|error| Err(io::Error::other(error))), began.elapsed()),
    };
    Finished { status, elapsed }
}

/// Waits for the end of the shell, and kills the rest of its group. Blocks.
fn end(mut child: Child, group: &Group) -> io::Result<ExitStatus> {
    let leader = WaitId::Pid(Pid::from_child(&child));
    // The shell is not reaped yet, so the kernel cannot reuse the number of the group.
    let waited = rustix::io::retry_on_intr(|| waitid(leader.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
    group.kill(Signal::KILL);
    let mut number = group.0.lock();
    *number = None;
    waited?;
    child.wait()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ColorChoice;

    /// Starts a command that writes the number of its group to a file, and waits for the file.
    async fn start(command: &str) -> (tempfile::TempDir, Build, Pid) {
        let dir = tempfile::tempdir().unwrap();
        let command = format!("{command} echo $$ > group; wait");
        let build = Build::start(&command.parse().unwrap(), dir.path(), &Messages::stderr(ColorChoice::Never)).unwrap();
        let file = dir.path().join("group");
        let group = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            match text.strip_suffix('\n').map(|text| Pid::from_raw(text.parse().unwrap()).unwrap()) {
                Some(group) => break group,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        (dir, build, group)
    }

    /// Waits until the group has no processes left but zombies.
    async fn wait_until_gone(group: Pid) {
        while rustix::process::test_kill_process_group(group).is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_build_that_is_cancelled_leaves_no_process_even_if_it_ignores_the_signal() {
        for command in ["sleep 600 & sleep 600 &", "trap '' TERM; sleep 600 &"] {
            let (_dir, build, group) = start(command).await;
            build.cancel().await;
            wait_until_gone(group).await;
        }
    }

    #[tokio::test]
    async fn a_build_that_is_dropped_leaves_no_process() {
        let (_dir, build, group) = start("sleep 600 &").await;
        drop(build);
        wait_until_gone(group).await;
    }

    #[tokio::test]
    async fn what_a_command_leaves_behind_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let command = "sleep 600 & echo $$ > group; exit 3".parse().unwrap();
        let mut build = Build::start(&command, dir.path(), &Messages::stderr(ColorChoice::Never)).unwrap();
        assert_eq!(build.finished().await.status.unwrap().code(), Some(3));
        let group = std::fs::read_to_string(dir.path().join("group")).unwrap().trim().parse().unwrap();
        wait_until_gone(Pid::from_raw(group).unwrap()).await;
    }
}
