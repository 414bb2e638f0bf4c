//! A server process, from its start to its clean exit.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::fs::{FileType, fstat};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open, pidfd_send_signal,
};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::log::Log;
use crate::{TIMEOUT, WrittenConfig};

/// A running server. Dropping one that was not ended fails the test.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stderr: Log,
    has_ended: bool,
    /// Its config, which stays while it runs.
    config: Option<WrittenConfig>,
}

/// Processes that are killed when this is dropped.
#[derive(Debug)]
pub struct KilledOnDrop(Vec<OwnedFd>);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        for process in &self.0 {
            // It may have ended.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

/// The end of a server process.
#[derive(Debug)]
pub struct Exit {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Everything that it wrote to standard error.
    pub log: String,
}

impl Process {
    /// Starts the command with pipes for all standard streams.
    pub(crate) fn start(command: Command) -> (Self, ChildStdin, ChildStdout) {
        let (mut process, stdin, stdout, stderr) = Self::start_with_raw_stderr(command);
        process.stderr = Log::new(stderr);
        (process, stdin, stdout)
    }

    /// The same, with standard error returned to the caller instead of read.
    pub(crate) fn start_with_raw_stderr(mut command: Command) -> (Self, ChildStdin, ChildStdout, ChildStderr) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("`mcp-host` starts");
        let stdin = child.stdin.take().expect("it is a pipe");
        let stdout = child.stdout.take().expect("it is a pipe");
        let stderr = child.stderr.take().expect("it is a pipe");
        (Self { child, stderr: Log::new(tokio::io::empty()), has_ended: false, config: None }, stdin, stdout, stderr)
    }

    /// Starts the command with a terminal as standard input.
    pub(crate) fn start_on_terminal(mut command: Command, terminal: OwnedFd) -> (Self, ChildStdout) {
        command.stdin(terminal).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("`mcp-host` starts");
        let stdout = child.stdout.take().expect("it is a pipe");
        let stderr = Log::new(child.stderr.take().expect("it is a pipe"));
        (Self { child, stderr, has_ended: false, config: None }, stdout)
    }

    /// Keeps the files of its config while it runs.
    pub(crate) fn keep(&mut self, config: &WrittenConfig) {
        self.config = Some(config.clone());
    }

    /// Its standard error.
    pub(crate) fn stderr(&self) -> &Log {
        &self.stderr
    }

    /// Waits until every plugin is loaded or has failed to load.
    pub(crate) async fn wait_plugins_loaded(&self) {
        self.stderr.wait_for_line("finished loading plugins").await;
    }

    /// The peak resident memory so far, in bytes: `VmHWM` of Linux.
    pub(crate) fn peak_rss(&self) -> u64 {
        self.proc_status("VmHWM:")
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("a process may signal its child");
    }

    /// Its process id.
    pub(crate) fn id(&self) -> Pid {
        self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it still runs")
    }

    /// The resident memory, in bytes: `VmRSS` of Linux.
    pub(crate) fn rss(&self) -> u64 {
        self.proc_status("VmRSS:")
    }

    fn proc_status(&self, key: &str) -> u64 {
        let id = self.child.id().expect("it still runs");
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("a process has a status");
        let value = status_value(&status, key).expect("it has memory");
        let kibibytes: u64 = value.trim_end_matches(" kB").parse().expect("a number of kB");
        kibibytes << 10
    }

    /// A value of the status of each of its threads: `/proc/PID/task/TID/status` of Linux.
    pub(crate) fn thread_statuses(&self, key: &str) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id().as_raw_nonzero()));
        // One that has ended meanwhile has no status.
        let statuses = threads
            .expect("a process has threads")
            .flatten()
            .filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
        statuses.map(|status| status_value(&status, key).expect("a status has that key").to_owned()).collect()
    }

    /// The number of its child processes that still run.
    pub(crate) fn child_count(&self) -> usize {
        self.child_ids().len()
    }

    /// Its child processes.
    pub(crate) fn kill_children_on_drop(&self) -> KilledOnDrop {
        // One that exited meanwhile is not there to be killed.
        KilledOnDrop(self.child_ids().into_iter().filter_map(|id| pidfd_open(id, PidfdFlags::empty()).ok()).collect())
    }

    fn child_ids(&self) -> Vec<Pid> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id().as_raw_nonzero()));
        let threads = threads.expect("a process has threads").flatten();
        // One that exited meanwhile has no such file.
        let of =
            |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let ids = threads.map(of).collect::<Vec<_>>().join(" ");
        ids.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
    }

    /// The number of its inotify watches.
    pub(crate) fn inotify_watches(&self) -> usize {
        let id = self.child.id().expect("it still runs");
        let files = std::fs::read_dir(format!("/proc/{id}/fdinfo")).expect("a process has files");
        // One that was closed meanwhile has no watches.
        let infos = files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
        infos.map(|info| info.lines().filter(|line| line.starts_with("inotify wd:")).count()).sum()
    }

    /// Duplicates of its sockets: reading from one takes data away from the process.
    pub(crate) fn sockets(&self) -> Vec<OwnedFd> {
        let process = pidfd_open(self.id(), PidfdFlags::empty()).expect("it still runs");
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.id().as_raw_nonzero())).expect("a process has files");
        let numbers = files.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok());
        // One may be closed meanwhile.
        let copies = numbers.filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok());
        copies.filter(|copy| fstat(copy).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_socket())).collect()
    }

    /// Waits for the process to exit by itself, as it must after a signal or at the end of its input.
    pub(crate) async fn wait_exit(mut self) -> Exit {
        let status = timeout(TIMEOUT, self.child.wait()).await;
        let Ok(status) = status else {
            panic!("it did not end within {TIMEOUT:?}, but said:\n{}", self.stderr.snapshot())
        };
        self.has_ended = true;
        let code = status.expect("a child can be waited for").code();
        Exit { code, log: self.stderr.clone().read_to_end().await }
    }
}

/// A value of `/proc/PID/status`.
fn status_value<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.stderr.snapshot());
        } else {
            assert!(self.has_ended, "a test must end its server");
        }
    }
}

impl Exit {
    /// The same, after asserting a clean exit.
    pub(crate) fn assert_clean_exit(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.log);
        self
    }
}
