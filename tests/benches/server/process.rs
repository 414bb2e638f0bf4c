//! A server process: the host or a baseline, over HTTP or stdio.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use mcp_host_tests::{WrittenConfig, host_command};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::plugin_count::Memory;
use crate::{bare_axum, native};

/// The program to start.
#[derive(Clone, Copy)]
pub(crate) enum Program<'a> {
    /// The lower bound, over HTTP only.
    BareAxum,
    /// The baseline.
    Native,
    /// The same with that number of listed resources, over HTTP only.
    NativeOf(usize),
    /// The real binary, with that config.
    Host(&'a WrittenConfig),
}

/// A running server. It is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
}

impl Program<'_> {
    /// Starts it over HTTP, and waits until it listens.
    pub(crate) async fn over_http(self) -> (Server, SocketAddr) {
        let mut command = match self {
            Self::BareAxum => this_program(bare_axum::HTTP),
            Self::Native => this_program(native::HTTP),
            Self::NativeOf(count) => {
                let mut command = this_program(native::HTTP);
                command.arg(count.to_string());
                command
            }
            Self::Host(config) => host(config, &["--http", "127.0.0.1:0"]),
        };
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stderr.take().expect("it is a pipe")).lines();
        let address = loop {
            let line = said.next_line().await.expect("text").expect("it says where it listens");
            if let Some((_, behind)) = line.split_once("listening on http://") {
                break behind.split('/').next().and_then(|address| address.parse().ok()).expect("an address");
            }
            eprintln!("{line}");
        };
        tokio::spawn(async move {
            while let Ok(Some(line)) = said.next_line().await {
                eprintln!("{line}");
            }
        });
        (Server { child }, address)
    }

    /// Starts it over stdio.
    pub(crate) fn over_stdio(self) -> (Server, ChildStdin, ChildStdout) {
        let mut command = match self {
            Self::BareAxum | Self::Native | Self::NativeOf(_) => this_program(native::STDIO),
            Self::Host(config) => host(config, &["--stdio"]),
        };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        (Server { child }, stdin.expect("it is a pipe"), stdout.expect("it is a pipe"))
    }
}

fn this_program(argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program knows its own file"));
    command.arg(argument).env_clear().kill_on_drop(true);
    command
}

fn host(config: &WrittenConfig, transport: &[&str]) -> Command {
    let mut command = host_command();
    command.args(["serve", "--log", "error", "--config"]).arg(config.path()).args(transport);
    command
}

/// Compiles the components of that config, however long it takes.
pub(crate) async fn compile(config: &WrittenConfig) {
    let checked = host_command().arg("check").arg("--config").arg(config.path()).output().await.expect("it starts");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

impl Server {
    /// Returns its CPU time so far, in nanoseconds: `/proc/PID/stat` has steps of 10 ms.
    pub(crate) fn cpu_time(&self) -> Duration {
        let pid = i32::try_from(self.id()).expect("the id of a process is positive");
        let clock = nix::time::clock_getcpuclockid(nix::unistd::Pid::from_raw(pid)).expect("the process has a clock");
        nix::time::clock_gettime(clock).expect("the clock of a process can be read").into()
    }

    /// Returns its peak resident memory, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|kibibytes| kibibytes.parse::<u64>().ok()).unwrap_or(0) << 10
    }

    /// Returns its current memory.
    pub(crate) fn memory(&self) -> Memory {
        let maps = self.proc("smaps_rollup");
        let of = |key: &str| {
            let line = maps.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
            line.split_whitespace().next().and_then(|kibibytes| kibibytes.parse::<u64>().ok()).unwrap_or(0) << 10
        };
        Memory { resident: of("Rss:"), private: of("Private_Dirty:") }
    }

    /// Returns the number of its open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).map_or(0, Iterator::count)
    }

    /// Returns the number of its threads.
    pub(crate) fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.id())).map_or(0, Iterator::count)
    }

    /// Sends it SIGHUP, which reloads the config.
    pub(crate) fn hang_up(&self) {
        let id = Pid::from_raw(self.id().cast_signed()).expect("it still runs");
        kill_process(id, Signal::HUP).expect("a process may signal its child");
    }

    /// Kills it.
    pub(crate) async fn end(mut self) {
        self.child.kill().await.expect("a process may kill its child");
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.id())).unwrap_or_default()
    }

    fn id(&self) -> u32 {
        self.child.id().expect("it still runs")
    }
}
