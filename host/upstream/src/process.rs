//! A program as an upstream: its pipes, its standard error, and its end.
//!
//! A [`Launcher`] starts it. `SandboxLauncher` is the one of Linux. [`Unconfined`] starts only what has `sandbox = "none"`, on any system and
//! without a process for that: in a process group of its own, with an environment of the granted variables alone, and `/` as its directory.
//! When its connection ends, its standard input is closed, and its group gets `SIGTERM`, and `SIGKILL` two seconds later.
//!
//! Lines of standard error go to the log of the plugin, within `limits.log`; what exceeds that is dropped and counted.

#[cfg(target_os = "linux")]
mod sandbox;

use std::fmt;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_base::log_target;
use mcp_host_config::{Plugin, SandboxMode, UpstreamCommand};
use mcp_host_model::provider::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

#[cfg(target_os = "linux")]
pub use self::sandbox::{SandboxError, SandboxLauncher};
#[cfg(target_os = "linux")]
pub use mcp_host_child::{LauncherProgram, run_launcher};

/// The time that a program has to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// The maximum length of a line of standard error that is logged, in bytes.
const MAX_LINE: usize = 8 * 1024;

/// Starts the programs of upstreams.
#[async_trait]
pub trait Launcher: fmt::Debug + Send + Sync + 'static {
    /// Starts the program of an upstream, within its grants and limits.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    async fn launch(&self, plugin: &Plugin, command: &UpstreamCommand) -> io::Result<Launched>;

    /// What the sandbox of that program lacks on this machine: each a text for an admin.
    fn lacks(&self, _command: &UpstreamCommand) -> Vec<String> {
        Vec::new()
    }
}

/// A program that was started.
pub struct Launched {
    /// Its standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its standard error.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// What ends it, and everything that it started, when it is dropped.
    pub running: Box<dyn Send + Sync>,
}

impl fmt::Debug for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launched").finish_non_exhaustive()
    }
}

/// Starts programs without a sandbox, if their config says so.
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
        Ok(Launched {
            stdin: Box::new(stdin.ok_or_else(missing)?),
            stdout: Box::new(stdout.ok_or_else(missing)?),
            stderr: Box::new(stderr.ok_or_else(missing)?),
            running: Box::new(ProcessGroup { child: Some(child), runtime: Handle::current() }),
        })
    }
}

/// The process group of a program, which ends with this.
struct ProcessGroup {
    child: Option<Child>,
    runtime: Handle,
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        group.signal(Signal::TERM);
        // The task has the group: if the runtime ends first, the group is killed at once.
        self.runtime.spawn(async move {
            // The leader is not reaped before its group is gone, so that the number of the group stays its own.
            tokio::time::sleep(GRACE).await;
            drop(group);
            let _ = child.wait().await;
        });
    }
}

/// The processes of a group, which are killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    /// Sends a signal. What has ended already is no error.
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

/// Logs the lines of standard error, within so many bytes a minute.
pub(crate) async fn log_lines(stderr: impl AsyncRead + Unpin, name: Arc<str>, per_minute: u64) {
    let mut allowance = ByteAllowance::new(per_minute);
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
        let room = MAX_LINE.saturating_sub(line.len());
        line.extend(piece.iter().take(taken.min(room)));
        reader.consume(taken);
        if is_end {
            log_line(&line, &name, &mut allowance);
            line.clear();
        }
    }
    if !line.is_empty() {
        log_line(&line, &name, &mut allowance);
    }
}

fn log_line(line: &[u8], name: &str, allowance: &mut ByteAllowance) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    if text.is_empty() {
        return;
    }
    if let Some(dropped) = allowance.take(text.len(), Instant::now()) {
        if dropped > 0 {
            tracing::warn!(target: log_target::PLUGIN, plugin = name, dropped, "bytes of the upstream's standard error were dropped, beyond `limits.log`");
        }
        tracing::info!(target: log_target::GUEST, plugin = name, message = text);
    }
}

/// Bytes a minute, with a burst of one minute.
struct ByteAllowance {
    per_minute: f64,
    left: f64,
    at: Option<Instant>,
    dropped: u64,
}

impl ByteAllowance {
    fn new(per_minute: u64) -> Self {
        let per_minute = f64::from(u32::try_from(per_minute).unwrap_or(u32::MAX));
        Self { per_minute, left: per_minute, at: None, dropped: 0 }
    }

    /// Takes bytes. Returns how many were dropped before, or none if these are.
    fn take(&mut self, bytes: usize, now: Instant) -> Option<u64> {
        let since = self.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        self.at = Some(now);
        self.left = (since / 60.0).mul_add(self.per_minute, self.left).min(self.per_minute);
        let size = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        if size > self.left {
            self.dropped = self.dropped.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
            return None;
        }
        self.left -= size;
        Some(std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_error_has_an_allowance_and_what_is_dropped_is_counted() {
        let (start, mut allowance) = (Instant::now(), ByteAllowance::new(100));
        assert_eq!(allowance.take(60, start), Some(0));
        assert_eq!(allowance.take(60, start), None);
        assert_eq!(allowance.take(60, start + Duration::from_secs(60)), Some(60));
    }

    #[tokio::test]
    async fn a_line_without_end_takes_no_more_memory_than_a_line() {
        let endless = vec![b'a'; 1 << 20];
        log_lines(endless.as_slice(), "p".into(), 1 << 20).await;
    }
}
