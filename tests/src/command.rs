//! `mcp-host` as a command that runs to its end.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::terminal::open_terminal;
use crate::{TIMEOUT, artifacts};

/// Returns the command `mcp-host`, not started yet, with an empty environment but for the directories of the tests.
pub fn host_command() -> Command {
    let mut command = Command::new(artifacts::host_binary());
    command.env_clear().env("HOME", "/nonexistent").env("XDG_CACHE_HOME", artifacts::user_cache());
    command.env("XDG_STATE_HOME", artifacts::user_state());
    command.current_dir("/").kill_on_drop(true);
    command
}

/// Whether this machine allows user namespaces with mounts of their own. A test that needs them says that it is
/// skipped.
pub fn has_user_namespaces() -> bool {
    let unshare = ["--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"];
    let namespace = std::process::Command::new("unshare").args(unshare).output();
    let has = namespace.is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("not tested: `unshare --user --mount` does not work here");
    }
    has
}

/// Runs `mcp-host` with those arguments and a pipe as standard output.
pub async fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    let mut command = host_command();
    command.args(arguments).stdin(Stdio::null());
    Output::of(&mut command).await
}

/// Runs `mcp-host` with those arguments and a terminal of 100 columns as standard output, and returns what the terminal
/// received.
pub async fn run_on_terminal<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    run_on_terminal_of(100, arguments).await
}

/// Runs it on a terminal with this number of columns.
pub async fn run_on_terminal_of<A: AsRef<OsStr>>(columns: u16, arguments: impl IntoIterator<Item = A>) -> Output {
    let (ours, theirs) = open_terminal(columns);
    let mut command = host_command();
    command.args(arguments).stdin(Stdio::null()).stdout(theirs).stderr(Stdio::piped());
    on_terminal(command, ours).await
}

/// Runs `mcp-host` in a directory with both outputs on a terminal of 100 columns, as a user does, without what it logs;
/// and returns what the terminal received, whatever the exit code.
pub async fn type_on_terminal<A: AsRef<OsStr>>(directory: &Path, arguments: impl IntoIterator<Item = A>) -> String {
    let (ours, theirs) = open_terminal(100);
    let mut command = host_command();
    let errors = theirs.try_clone().expect("it can be duplicated");
    command.args(arguments).stdin(Stdio::null()).stdout(theirs).stderr(errors);
    command.current_dir(directory).env("MCP_HOST_LOG", "off").env("TERM", "xterm-256color");
    on_terminal(command, ours).await.text()
}

/// Runs a command that writes to a terminal, whose end is ours.
async fn on_terminal(mut command: Command, ours: OwnedFd) -> Output {
    let child = command.spawn().expect("`mcp-host` starts");
    // The terminal hangs up when the last handle to its other end is closed, so ours must be closed too.
    drop(command);
    let screen = tokio::task::spawn_blocking(move || {
        let (mut terminal, mut screen) = (File::from(ours), Vec::new());
        // A terminal that hangs up is a read error after everything that was written.
        let _ = terminal.read_to_end(&mut screen);
        screen
    });
    let output =
        timeout(TIMEOUT, child.wait_with_output()).await.expect("`mcp-host` ends").expect("it can be waited for");
    let stdout = screen.await.expect("the terminal can be read");
    Output { status: output.status, stdout, stderr: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// The result of a command.
#[derive(Debug)]
pub struct Output {
    /// The exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Runs a command to its end.
    pub(crate) async fn of(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = timeout(TIMEOUT, command.output()).await.expect("`mcp-host` ends").expect("`mcp-host` starts");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { status: output.status, stdout: output.stdout, stderr }
    }

    /// Returns the exit code.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("it was ended by a signal: {}\n{}", self.status, self.stderr))
    }

    /// Returns the output after asserting success.
    pub fn success(self) -> Self {
        assert_eq!(self.code(), 0, "{}\n{}", self.text(), self.stderr);
        self
    }

    /// Returns standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns standard output as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.text(), self.stderr))
    }
}
