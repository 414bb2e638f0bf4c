//! A program as an upstream: its pipes, its standard error, and its end.
//!
//! A [`Launcher`] starts the program. `SandboxLauncher` is the implementation for Linux. [`Unconfined`] only starts
//! programs with `sandbox = "none"`, on any system and without a launcher process: in a new process group, with only
//! the granted environment variables, and `/` as its directory. When its connection ends, its standard input is closed.
//! Its process group gets `SIGTERM` half a second later, and `SIGKILL` after two more seconds, or as soon as the
//! program itself has ended (MCP 2025-11-25, Lifecycle, "Shutdown"). The end of a program that the host stops is
//! recorded after that.
//!
//! Lines of standard error go to the plugin's log, a [`ProgramLog`], which limits their number. In addition, the last
//! [`LAST_LINES`] lines of each start are kept, because they show why a program has ended. Standard error is read at
//! the rate of the [`Buckets`] of one identity: a program that writes more waits until its pipe is read (backpressure).

#[cfg(target_os = "linux")]
mod sandbox;
mod state;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::bounded_body::shortfall;
use mcp_host_base::escape;
use mcp_host_base::task;
use mcp_host_base::text::truncate;
use mcp_host_config::{Plugin, SandboxMode, UpstreamCommand};
use mcp_host_model::provider::{ProgramEndReason, ProgramLimits, async_trait};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::state::Ledger;
pub use self::state::ProgramState;

#[cfg(target_os = "linux")]
pub use self::sandbox::{SandboxError, SandboxLauncher};
#[cfg(target_os = "linux")]
pub use mcp_host_child::{LauncherProgram, run_launcher};

use crate::guard::Buckets;

/// The time for which a program may end by itself after its standard input was closed.
const CLOSED: Duration = Duration::from_millis(500);
/// The time between `SIGTERM` and `SIGKILL`.
const GRACE: Duration = Duration::from_secs(2);
/// The maximum length of a logged line of standard error, in bytes.
const MAX_LINE: usize = 8 * 1024;
/// The time for which standard error is not read after more than its rate.
const BACKPRESSURE: Duration = Duration::from_millis(100);
/// The number of kept lines of standard error for each start.
const LAST_LINES: usize = 10;
/// The maximum length of a kept line in bytes.
const MAX_LAST_LINE: usize = 256;
/// The first and the maximum interval of polling for the end of a program without a launcher process. The interval
/// doubles.
const LOOKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Starts the programs of upstreams.
#[async_trait]
pub trait Launcher: fmt::Debug + Send + Sync + 'static {
    /// Starts the program of an upstream, within its grants and limits.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    async fn launch(&self, plugin: &Plugin, command: &UpstreamCommand) -> io::Result<Launched>;

    /// Returns the restrictions that the program's sandbox lacks on this machine, as texts for administrators.
    fn lacks(&self, _command: &UpstreamCommand) -> Vec<String> {
        Vec::new()
    }

    /// Returns the grants that the program cannot use on this machine because of its user, as texts for administrators.
    fn unusable_grants(&self, _plugin: &Plugin, _command: &UpstreamCommand) -> Vec<String> {
        Vec::new()
    }
}

/// Receives lines of standard error, and limits the number of logged lines.
pub trait ProgramLog: Send + Sync + 'static {
    /// Logs an unescaped line of at most 8 KiB.
    fn line(&self, line: &str);
}

/// Discards all lines.
impl ProgramLog for () {
    fn line(&self, _: &str) {}
}

/// A started program.
pub struct Launched {
    /// Its standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its standard error.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Ends the program, and all processes that it started, when dropped.
    pub running: Box<dyn Send + Sync>,
    /// The state of the program. Its end must be recorded by [`ProgramState::set_ended`]: until then, the program
    /// counts towards the maximum number of programs of its upstream.
    pub state: Arc<ProgramState>,
}

impl fmt::Debug for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launched").finish_non_exhaustive()
    }
}

/// Starts programs without a sandbox, if their config allows that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unconfined;

#[async_trait]
impl Launcher for Unconfined {
    async fn launch(&self, plugin: &Plugin, command: &UpstreamCommand) -> io::Result<Launched> {
        if command.sandbox != SandboxMode::None {
            let message = "this host was started without what confines programs (Linux only); restart it, or write `sandbox = \"none\"` if the \
                           program is trusted like the host";
            return Err(io::Error::other(message));
        }
        let variables = plugin.grants.env.iter().map(|(name, value)| (name.as_str(), value.expose().as_str()));
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .env_clear()
            .envs(variables)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("a pipe of the program is missing");
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let state = Arc::new(ProgramState::new(child.id(), ProgramLimits::default()));
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let looking = leader.map(|leader| task::spawn(look_for_end(leader, state.clone())));
        let looking = looking.map(AbortOnDropHandle::new);
        Ok(Launched {
            stdin: Box::new(stdin.ok_or_else(missing)?),
            stdout: Box::new(stdout.ok_or_else(missing)?),
            stderr: Box::new(stderr.ok_or_else(missing)?),
            running: Box::new(ProcessGroup {
                child: Some(child),
                runtime: Handle::current(),
                looking,
                state: state.clone(),
            }),
            state,
        })
    }
}

/// Polls for the end of a program, and records it.
async fn look_for_end(leader: Pid, state: Arc<ProgramState>) {
    let (reason, how) = end_of(leader).await;
    state.set_ended(reason, how);
}

/// Polls for the end of a program. The program is not reaped, so that the number of its process group is not reused.
async fn end_of(leader: Pid) -> (ProgramEndReason, String) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let mut pause = LOOKS.0;
    loop {
        match waitid(WaitId::Pid(leader), options) {
            Ok(Some(status)) => return how_it_ended(&status),
            Ok(None) => {}
            Err(error) => return (ProgramEndReason::Unknown, format!("it cannot be waited for: {error}")),
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(LOOKS.1);
    }
}

fn how_it_ended(status: &WaitIdStatus) -> (ProgramEndReason, String) {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (ProgramEndReason::Exit, format!("it exited with code {code}")),
        (None, Some(signal)) => (ProgramEndReason::Signal, format!("signal {signal} ended it")),
        (None, None) => (ProgramEndReason::Unknown, "no exit status and no signal is known".to_owned()),
    }
}

/// The process group of a program. The group ends when this value is dropped.
struct ProcessGroup {
    child: Option<Child>,
    runtime: Handle,
    /// Polls for the end of the leader.
    looking: Option<AbortOnDropHandle<()>>,
    state: Arc<ProgramState>,
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let group = Group(leader);
        let (looking, state) = (self.looking.take(), self.state.clone());
        // The task owns the group: if the runtime ends first, the group is killed immediately.
        self.runtime.spawn(async move {
            let ends_by_itself = match looking {
                Some(looking) => tokio::time::timeout(CLOSED, looking).await.is_ok(),
                None => false,
            };
            if let Some(leader) = leader.filter(|_| !ends_by_itself) {
                group.signal(Signal::TERM);
                let _ = tokio::time::timeout(GRACE, end_of(leader)).await;
            }
            // The leader is reaped only after its group was killed, so that the number of the group is not reused.
            drop(group);
            let _ = child.wait().await;
            if !ends_by_itself {
                state.set_ended(ProgramEndReason::Stopped, "the host ended it".to_owned());
            }
        });
    }
}

/// The processes of a group, which are killed when this value is dropped.
struct Group(Option<Pid>);

impl Group {
    /// Sends a signal. Ignores processes that have already ended.
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The last lines of standard error, escaped, oldest first.
#[derive(Debug, Default)]
pub(crate) struct LastLines(Mutex<VecDeque<String>>);

impl LastLines {
    fn push(&self, line: &str) {
        let mut lines = self.0.lock();
        if lines.len() >= LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(truncate(escape::line(line).into_owned(), MAX_LAST_LINE));
    }

    /// Returns the lines.
    pub(crate) fn get(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}

/// Logs the lines of standard error, and keeps the last ones.
pub(crate) async fn log_lines(stderr: impl AsyncRead + Unpin, log: Arc<dyn ProgramLog>, last: Arc<LastLines>) {
    let buckets = Buckets::default();
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(piece) = reader.fill_buf().await {
        if piece.is_empty() {
            break;
        }
        let (taken, is_end) = match piece.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end.saturating_add(1), true),
            None => (piece.len(), false),
        };
        while buckets.take(is_end.into(), taken.saturating_add(shortfall(piece.len()))).is_err() {
            tokio::time::sleep(BACKPRESSURE).await;
        }
        let room = MAX_LINE.saturating_sub(line.len());
        line.extend(piece.iter().take(taken.min(room)));
        reader.consume(taken);
        if is_end {
            log_line(&line, &*log, &last);
            line.clear();
        }
    }
    log_line(&line, &*log, &last);
}

fn log_line(line: &[u8], log: &dyn ProgramLog, last: &LastLines) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    if !text.is_empty() {
        last.push(text);
        log.line(text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use mcp_host_model::provider::ProgramUsage;
    use rustix::process::test_kill_process;

    use super::*;

    #[tokio::test]
    async fn a_line_without_end_takes_no_more_memory_than_a_line_and_the_last_lines_are_kept() {
        let last = Arc::<LastLines>::default();
        let endless = vec![b'a'; 1 << 20];
        log_lines(endless.as_slice(), Arc::new(()), last.clone()).await;
        assert!(last.get()[0].len() <= MAX_LAST_LINE + '…'.len_utf8());
        let many: String = (0..20).map(|n| format!("line {n}\u{1b}[2J\r\n\n")).collect();
        log_lines(many.as_bytes(), Arc::new(()), last.clone()).await;
        let kept = last.get();
        assert_eq!((kept.len(), kept[9].as_str()), (LAST_LINES, "line 19\\u{1b}[2J"));
    }

    #[tokio::test]
    async fn standard_error_is_read_at_a_rate() {
        struct Count(AtomicUsize);
        impl ProgramLog for Count {
            fn line(&self, _: &str) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (count, began) = (Arc::new(Count(AtomicUsize::new(0))), Instant::now());
        let endless = b"a line\n".repeat(1_000_000);
        let reading = log_lines(endless.as_slice(), count.clone(), Arc::default());
        assert!(tokio::time::timeout(Duration::from_millis(300), reading).await.is_err(), "it waits");
        let most = 10_000.0 + 1000.0 * began.elapsed().as_secs_f64();
        assert!((10_000.0..=most).contains(&(count.0.load(Ordering::Relaxed) as f64)));
    }

    #[tokio::test]
    async fn the_end_of_a_program_is_known_with_its_status() {
        let mut child = Command::new("/bin/sh").args(["-c", "exit 3"]).spawn().unwrap();
        let leader = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
        let state = Arc::new(ProgramState::new(child.id(), ProgramLimits::default()));
        let usage = ProgramUsage { memory: 5, ..ProgramUsage::default() };
        state.set_usage(usage);
        assert_eq!((state.memory(), state.usage()), (5, Some(usage)));
        look_for_end(leader, state.clone()).await;
        let end = state.ended().await;
        assert_eq!((end.reason, end.text.as_str()), (ProgramEndReason::Exit, "it exited with code 3"));
        assert_eq!((state.memory(), state.usage()), (0, None));
        child.wait().await.unwrap();
    }

    #[tokio::test]
    async fn the_end_of_a_program_that_is_stopped_is_recorded_after_its_process_has_ended() {
        let script = "trap 'sleep 0.3; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
        let mut child =
            Command::new("/bin/sh").args(["-c", script]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
        let leader = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
        let state = Arc::new(ProgramState::new(child.id(), ProgramLimits::default()));
        let looking = Some(AbortOnDropHandle::new(tokio::spawn(look_for_end(leader, state.clone()))));
        drop(ProcessGroup { child: Some(child), runtime: Handle::current(), looking, state: state.clone() });
        assert_eq!(state.ended().await.reason, ProgramEndReason::Stopped);
        assert!(test_kill_process(leader).is_err(), "it still runs");
    }
}
