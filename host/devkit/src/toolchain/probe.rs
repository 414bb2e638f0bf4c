//! Runs a tool to query it. The timeout is [`TIMEOUT`], and at most [`MAX_OUTPUT`] bytes of output are read; at the
//! end, all processes of its group are killed.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

/// The timeout of a tool: the first run of an interpreter from a slow disk takes seconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of bytes read from each stream.
const MAX_OUTPUT: u64 = 64 * 1024;

/// The answer of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The tool exited with code 0 and this output.
    Said(String),
    /// The program does not exist.
    Missing,
    /// The program failed, or could not be started.
    Failed(String),
    /// The tool did not answer within this time, and was killed. It may be usable: a busy machine is slow.
    TimedOut(Duration),
}

/// Variables that prevent tools from installing anything and from prompting.
const QUIET: &[(&str, &str)] = &[
    ("GOTOOLCHAIN", "local"),
    ("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
    ("RUSTUP_AUTO_INSTALL", "0"),
    ("RUST_BACKTRACE", "0"),
];

/// Runs a program, and returns its output.
pub(super) async fn run(program: &Path, arguments: &[impl AsRef<OsStr>]) -> Answer {
    run_within(TIMEOUT, program, arguments).await
}

async fn run_within(time: Duration, program: &Path, arguments: &[impl AsRef<OsStr>]) -> Answer {
    let mut command = Command::new(program);
    command.args(arguments).envs(QUIET.iter().copied()).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Answer::Missing,
        Err(error) => return Answer::Failed(format!("it cannot be started: {error}")),
    };
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let answer = timeout(time, async { tokio::join!(child.wait(), read(stdout), read(stderr)) }).await;
    if let Some(group) = group {
        // The call fails if all processes of the group have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    match answer {
        Err(_) => Answer::TimedOut(time),
        Ok((Ok(status), said, _)) if status.success() => Answer::Said(said),
        Ok((Ok(status), _, reason)) => {
            let reason = reason.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
            Answer::Failed(if reason.is_empty() { status.to_string() } else { format!("{status}: {reason}") })
        }
        Ok((Err(error), _, _)) => Answer::Failed(error.to_string()),
    }
}

/// Reads the beginning of a stream; the rest is discarded, so that the tool does not block.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let mut bytes = Vec::new();
    // After an error, the output so far is the answer.
    let _ = (&mut stream).take(MAX_OUTPUT).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the path of a program in PATH.
pub(super) fn find(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH")?, program.as_ref())
}

fn find_in(path: &OsStr, program: &OsStr) -> Option<PathBuf> {
    let mut files = std::env::split_paths(path).map(|folder| folder.join(program));
    files.find(|file| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Instant;

    use super::*;

    /// Longer than a shell takes on a busy machine.
    const LONG: Duration = Duration::from_secs(300);

    async fn shell(time: Duration, script: &str) -> Answer {
        run_within(time, Path::new("/bin/sh"), &["-c", script]).await
    }

    #[tokio::test]
    async fn what_a_tool_prints_is_its_answer() {
        assert_eq!(shell(LONG, "echo 1.2; echo oops >&2").await, Answer::Said("1.2\n".to_owned()));
        let Answer::Failed(reason) = shell(LONG, "echo; echo broken >&2; exit 3").await else { panic!("it failed") };
        assert!(reason.ends_with("3: broken"), "{reason}");
        assert_eq!(run(Path::new("/nonexistent"), &[""]).await, Answer::Missing);
    }

    #[tokio::test]
    async fn a_tool_that_hangs_is_killed_with_what_it_started() {
        let started = Instant::now();
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let script = format!("sleep 600 & echo $! > '{}'; wait", pid.display());
        let time = Duration::from_secs(5);
        assert_eq!(shell(time, &script).await, Answer::TimedOut(time));
        assert!(started.elapsed() < Duration::from_secs(60));
        let status = Path::new("/proc").join(std::fs::read_to_string(pid).unwrap().trim()).join("stat");
        // The process is gone, or a zombie that is not reaped yet.
        let gone = || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
        while !gone() {
            assert!(started.elapsed() < Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn of_a_tool_that_never_stops_printing_the_beginning_is_kept() {
        let script = "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done";
        let Answer::Said(said) = shell(LONG, script).await else { panic!("it ends") };
        assert_eq!(said.len() as u64, MAX_OUTPUT);
    }

    #[test]
    fn only_an_executable_file_in_the_path_is_a_program() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("tool");
        let found = || find_in(dir.path().as_os_str(), OsStr::new("tool"));
        std::fs::write(&tool, "").unwrap();
        std::fs::set_permissions(&tool, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(found(), None);
        std::fs::set_permissions(&tool, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found(), Some(tool));
    }
}
