//! Starting programs and reading their output.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use mcp_host_child::{Child, EndReason, Kernel, Launcher, LauncherProgram, Outcome, Program, Spec};
use tokio::io::AsyncReadExt;

/// The path of the separate launcher program, or of the one in the variable, such as `mcp-host`.
pub(crate) fn launcher_path() -> PathBuf {
    std::env::var_os("MCP_HOST_TEST_LAUNCHER")
        .map_or_else(|| env!("CARGO_BIN_EXE_mcp-host-launcher").into(), PathBuf::from)
}

/// Returns the launcher of these tests.
pub(crate) fn launcher() -> &'static Launcher {
    static LAUNCHER: OnceLock<Launcher> = OnceLock::new();
    LAUNCHER.get_or_init(|| Launcher::start(&LauncherProgram::Program(launcher_path()), None).unwrap())
}

/// Returns whether programs can be confined with namespaces. A test that needs them prints that it is
/// skipped.
pub(crate) fn has_namespaces() -> bool {
    let Kernel { namespaces, seccomp, landlock_abi, lacks, .. } = launcher().kernel();
    let confines = *namespaces && *seccomp && landlock_abi.is_some();
    if !confines {
        eprintln!("skipped: this kernel cannot confine programs with namespaces: {lacks:?}");
    }
    confines
}

/// Returns an interpreter of the system. A test that needs it prints that it is skipped.
pub(crate) fn system_program(name: &str) -> Option<String> {
    let found = ["/usr/bin", "/usr/local/bin", "/bin"].map(|dir| format!("{dir}/{name}"));
    let found = found.into_iter().find(|path| std::fs::metadata(path).is_ok());
    if found.is_none() {
        eprintln!("skipped: this machine has no {name}");
    }
    found
}

/// A program that runs a shell script.
pub(crate) fn shell(script: &str) -> Spec {
    Spec::new(["/bin/sh", "-c", script])
}

/// A program that runs a Python script.
pub(crate) fn python(script: &str) -> Option<Spec> {
    Some(Spec::new([system_program("python3")?, "-c".to_owned(), script.to_owned()]))
}

/// The output of a program, and its end.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) outcome: Outcome,
}

impl Said {
    /// Returns its standard output. Asserts that it exited with code 0.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert_eq!(self.outcome.reason, EndReason::Exit(0), "{self:?}");
        self.stdout
    }
}

/// Checks a program.
pub(crate) fn program(spec: Spec) -> Program {
    launcher().program(spec).unwrap()
}

/// Starts a program, and reads its output until it ends.
pub(crate) async fn run(spec: Spec) -> Said {
    run_with(launcher(), spec).await
}

/// Does the same with another launcher.
pub(crate) async fn run_with(launcher: &Launcher, spec: Spec) -> Said {
    read(launcher.program(spec).unwrap().launch().await.unwrap()).await
}

/// Reads the output of a program until it ends, without input.
pub(crate) async fn read(mut child: Child) -> Said {
    drop(child.stdin.take());
    let (mut out, mut lines) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let stdout = async {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).await.unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let stderr = async {
        let mut text = String::new();
        while let Some(line) = lines.next_line().await {
            text.push_str(&line);
            text.push('\n');
        }
        text
    };
    let (stdout, stderr, outcome) = tokio::join!(stdout, stderr, child.wait());
    Said { stdout, stderr, outcome }
}

/// Reads one line of a program's standard output.
pub(crate) async fn first_line(child: &mut Child) -> String {
    let out = child.stdout.as_mut().unwrap();
    let mut line = Vec::new();
    loop {
        match out.read_u8().await {
            Ok(b'\n') => return String::from_utf8(line).unwrap(),
            Ok(byte) => line.push(byte),
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&line)),
        }
    }
}

/// Returns a number that no other process of this machine has among its arguments: a sleeping time for a
/// test's process.
pub(crate) fn marker() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{:04}", 100_000_000 + std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A process of a test, killed at the end of the test.
pub(crate) struct Ended(pub(crate) std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process of the host that sleeps for this time.
pub(crate) fn sleeping(marker: &str) -> Ended {
    let null = std::process::Stdio::null;
    Ended(Command::new("sleep").arg(marker).stdin(null()).stdout(null()).stderr(null()).spawn().unwrap())
}

/// Returns the processes that sleep for this time.
pub(crate) fn sleepers(marker: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let sleeps = |id: &i32| {
        let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        command.starts_with(b"sleep\0") && command.split(|byte| *byte == 0).any(|word| word == marker.as_bytes())
    };
    ids.filter(sleeps).collect()
}

/// Waits until `count` processes sleep for this time: a shell forks before it executes.
pub(crate) fn wait_for_sleepers(marker: &str, count: usize) -> Vec<i32> {
    loop {
        let found = sleepers(marker);
        if found.len() >= count {
            return found;
        }
        std::thread::yield_now();
    }
}

/// Returns this test executable, to run only the test with this name.
pub(crate) fn this_test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command
}
