//! The host's side of the compiler process: its start, its end, and when it is killed.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

use humantime::format_duration;
use mcp_host_config::limits::CompileLimits;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio_util::sync::CancellationToken;

use super::functions::FunctionFiles;
use super::job::{CompileJob, MAX_CODE_SIZE};
use super::{
    CHILD_ENV_VAR, CompileError, CompileRequest, EXIT_CHANGED, EXIT_DEADLINE, EXIT_INVALID, EXIT_OUTPUT, HANDSHAKE,
    KEY_ENV_VAR,
};

/// The child's number of compiler threads, for the library that starts them.
const THREADS_ENV_VAR: &str = "RAYON_NUM_THREADS";
/// The child's settings of jemalloc, if its program allocates by it: freed memory is not returned to the system. The
/// child lives for seconds and uses the memory again, which takes a tenth less processor time, and a tenth more memory.
const ALLOCATOR_SETTINGS: (&str, &str) = ("_RJEM_MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1");
/// The maximum length of the child's standard error that is kept, in bytes.
const MAX_MESSAGE: u64 = 4096;

/// A compiler process. Dropping this kills it, unless it may outlive the host and its compilation was not cancelled.
struct CompilerProcess {
    child: Child,
    may_outlive_host: AtomicBool,
    cancelled: CancellationToken,
}

impl Drop for CompilerProcess {
    fn drop(&mut self) {
        if !self.may_outlive_host.load(Ordering::Relaxed) || self.cancelled.is_cancelled() {
            // A process that has exited cannot be killed.
            let _ = self.child.start_kill();
        }
    }
}

/// Runs this program as the compiler.
pub(super) async fn run(program: PathBuf, request: CompileRequest, limits: &CompileLimits) -> Result<(), CompileError> {
    let start = |error: std::io::Error| CompileError::Start(format!("{}: {error}", program.display()));
    let mut command = Command::new(&program);
    if request.can_outlive_host {
        command.process_group(0);
    }
    let CompileRequest { digest, codegen, is_urgent, can_outlive_host, .. } = request;
    let child = command
        .args(CompileJob::new(digest, limits, codegen, is_urgent, can_outlive_host).arguments())
        .env_clear()
        .env(CHILD_ENV_VAR, "1")
        // In the environment, because every user of the machine may read arguments.
        .env(KEY_ENV_VAR, request.key.to_text())
        .envs(request.functions.iter().flat_map(FunctionFiles::variables))
        // The child cannot read how many processors its control group may use.
        .env(THREADS_ENV_VAR, available_parallelism().map_or(1, usize::from).to_string())
        .envs([ALLOCATOR_SETTINGS])
        .current_dir("/")
        .stdin(request.component)
        .stdout(request.into)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    let mut process = CompilerProcess { child, may_outlive_host: AtomicBool::new(false), cancelled: request.cancelled };
    // Kept outside of the future, so that it survives the deadline.
    let mut message = Vec::new();
    let stderr = process.child.stderr.take();
    let (may_outlive_host, can_outlive_host) = (&process.may_outlive_host, request.can_outlive_host);
    let listen = async {
        if let Some(stderr) = stderr {
            // Only after the handshake: a program that is not a compiler has no limits.
            let on_handshake = || may_outlive_host.store(can_outlive_host, Ordering::Relaxed);
            read_messages(stderr, &mut message, on_handshake).await;
        }
    };
    let deadline = limits.deadline.duration();
    let run = async { tokio::join!(listen, process.child.wait()).1 };
    let status = tokio::time::timeout(deadline, run).await;
    process.may_outlive_host.store(false, Ordering::Relaxed);
    let message = String::from_utf8_lossy(&message);
    let Some(message) = after_handshake(&message) else {
        let how = match &status {
            Ok(Ok(status)) => format!("it ended with {status}"),
            _ => format!("it was terminated after {} (`server.compile.deadline`)", format_duration(deadline)),
        };
        return Err(no_compiler(&program, how, message.trim()));
    };
    let Ok(status) = status else { return Err(CompileError::Deadline(deadline)) };
    interpret_exit(status.map_err(start)?, message.to_owned(), limits)
}

/// Reads the process's standard error, up to [`MAX_MESSAGE`] bytes, and reports the handshake.
async fn read_messages(stderr: ChildStderr, message: &mut Vec<u8>, on_handshake: impl Fn()) {
    let mut lines = BufReader::new(stderr.take(MAX_MESSAGE));
    while let Ok(1..) = lines.read_until(b'\n', message).await {
        if message.trim_ascii_end().ends_with(HANDSHAKE.as_bytes()) {
            on_handshake();
        }
    }
}

fn no_compiler(program: &Path, how: String, message: &str) -> CompileError {
    let outcome = match message {
        "" => how,
        message => format!("{how} and wrote: {message}"),
    };
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned()).display().to_string();
    CompileError::NoCompiler { program, outcome }
}

/// Returns the child's output after its handshake; none without a handshake. A program may write something before it.
fn after_handshake(stderr: &str) -> Option<&str> {
    let (_, message) = stderr.split_once(HANDSHAKE)?;
    Some(message.trim())
}

/// Turns the exit of the child into a result.
fn interpret_exit(status: ExitStatus, message: String, limits: &CompileLimits) -> Result<(), CompileError> {
    let is_out_of_memory = message.contains("memory allocation of") || message.contains("Cannot allocate memory");
    let ended_by = |signal: Signal| status.signal() == Some(signal.as_raw());
    Err(match status.code() {
        Some(0) => return Ok(()),
        Some(EXIT_CHANGED) => CompileError::Changed,
        Some(EXIT_DEADLINE) => CompileError::Deadline(limits.deadline.duration()),
        Some(EXIT_OUTPUT) => CompileError::Output(message),
        _ if is_out_of_memory => CompileError::Memory(limits.memory.bytes()),
        Some(EXIT_INVALID) => CompileError::Invalid(message),
        None if ended_by(Signal::XCPU) => CompileError::Cpu(limits.cpu.duration()),
        // For CPU time, the kernel sends SIGKILL only a second later, to a process that ignores SIGXCPU.
        None if ended_by(Signal::KILL) => CompileError::Killed,
        None if ended_by(Signal::SYS) => CompileError::ForbiddenSystemCall,
        None if ended_by(Signal::XFSZ) => CompileError::OutputTooLarge(MAX_CODE_SIZE),
        _ => CompileError::Crash(status.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_the_kernel_killed_for_a_system_call_is_told_from_a_crash() {
        let limits = CompileLimits::default();
        let outcome = |signal: Signal| interpret_exit(ExitStatus::from_raw(signal.as_raw()), String::new(), &limits);
        assert_eq!(outcome(Signal::SYS), Err(CompileError::ForbiddenSystemCall));
        assert!(matches!(outcome(Signal::SEGV), Err(CompileError::Crash(_))));
        assert!(CompileError::ForbiddenSystemCall.is_permanent());
    }

    #[test]
    fn a_compiler_that_ended_itself_at_its_deadline_is_told_from_one_that_found_a_mistake() {
        let limits = CompileLimits::default();
        let outcome = |code: i32| interpret_exit(ExitStatus::from_raw(code << 8), String::new(), &limits);
        assert_eq!(outcome(EXIT_DEADLINE), Err(CompileError::Deadline(limits.deadline.duration())));
        assert_eq!(outcome(EXIT_INVALID), Err(CompileError::Invalid(String::new())));
    }

    #[test]
    fn a_compiler_that_was_killed_is_told_from_one_that_used_up_its_time() {
        let limits = CompileLimits::default();
        let outcome = |signal: Signal| interpret_exit(ExitStatus::from_raw(signal.as_raw()), String::new(), &limits);
        assert_eq!(outcome(Signal::KILL), Err(CompileError::Killed));
        assert_eq!(outcome(Signal::XCPU), Err(CompileError::Cpu(limits.cpu.duration())));
    }

    #[test]
    fn a_disk_that_is_full_is_no_fault_of_the_component() {
        let full = "No space left on device (os error 28)".to_owned();
        let outcome = interpret_exit(ExitStatus::from_raw(EXIT_OUTPUT << 8), full.clone(), &CompileLimits::default());
        assert_eq!(outcome, Err(CompileError::Output(full)));
        assert!(!outcome.unwrap_err().is_permanent());
    }
}
