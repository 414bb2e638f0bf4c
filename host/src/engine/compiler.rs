//! Compilation of components, in this process or in a child process under limits.
//!
//! In a child, compilation of hostile input is bounded by the operating system, not by trust. The child is the current
//! executable or another program, started with arguments of ours and no environment but two variables. Before it reads a byte it sets
//! its own limits on CPU time and address space, and a low priority, so that serving is not slowed down, and confines
//! itself by Landlock and seccomp to its standard streams, memory and threads (module `confinement`). It is killed at its
//! deadline, and by any system call that only an attacker would make. Its standard input is the component's file, so that no component is ever in the host's own memory,
//! and its standard output is the file that the code goes to. It compiles only input with the digest that it was given:
//! a file that changes meanwhile is never taken for the one that was checked (TOCTOU). A crash of the compiler is an
//! error message here.
//!
//! The child identifies itself: [`run_compiler`] first writes [`HANDSHAKE`] to standard error. A child that ends, or exceeds its
//! deadline, without that line is a program that does not call [`run_compiler`], and the error says so. Such a program runs its
//! own `main`; it exits where it starts an engine, so that it does not start children recursively.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::thread::available_parallelism;
use std::time::Duration;

use humantime::format_duration;
use rustix::process::Signal;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use self::job::{CHILD_ARGUMENT, CompileJob};
use super::config::{MAX_COMPONENT_SIZE, codegen_config};
use crate::config;
use crate::confinement::confine_compiler;
use crate::digest::Digest;
use crate::thread_priority::lower_priority;

mod job;

/// Set in the child, so that a program that does not call [`run_compiler`] exits and does not start children recursively.
const CHILD_ENV_VAR: &str = "MCP_HOST_COMPILER";
/// The first line that [`run_compiler`] writes to standard error.
const HANDSHAKE: &str = "mcp-host compiler";
/// The number of threads that the child compiles on, for the library that starts them.
const THREADS_ENV_VAR: &str = "RAYON_NUM_THREADS";
/// The exit code of the child when the component is invalid.
const EXIT_INVALID: i32 = 1;
/// The exit code of the child when the component does not have the expected digest.
const EXIT_CHANGED: i32 = 3;
/// The exit code of a child that does not call [`run_compiler`] and starts an engine.
const EXIT_NO_COMPILER: i32 = 4;
/// The niceness of the child relative to the host's threads.
const NICENESS: i32 = 10;
/// The bytes of the child's standard error that are kept.
const MAX_MESSAGE: u64 = 4096;

/// Why a component did not compile. The causes are texts: they come from another process, and the failure is stored for as long
/// as the config names the component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The component is invalid, says the compiler.
    #[error("{0}")]
    Invalid(String),
    /// The compiler exceeded its wall-clock deadline.
    #[error("the compiler was terminated after {} (`server.compile.deadline`)", format_duration(*.0))]
    Deadline(Duration),
    /// The compiler exceeded its CPU time.
    #[error("the compiler was terminated after {} of CPU time (`server.compile.cpu`)", format_duration(*.0))]
    Cpu(Duration),
    /// The compiler exceeded its memory.
    #[error("the compiler exceeded {} of memory (`server.compile.memory`)", bytesize::ByteSize(*.0))]
    Memory(u64),
    /// The compiled code exceeds the largest size.
    #[error("the compiled code is larger than {}", bytesize::ByteSize(*.0))]
    OutputTooLarge(u64),
    /// The compiler crashed: a bug of its own, or a component made to cause that.
    #[error("the compiler crashed ({0})")]
    Crash(String),
    /// The compiler made a system call that no compilation needs: a component made it do what its author wants, or a bug.
    #[error("the compiler was killed by the kernel for a forbidden system call: the component may be an attack on it")]
    ForbiddenSystemCall,
    /// The file changed while it was read.
    #[error("the file changed while it was read; try again when it is written")]
    Changed,
    /// The compiler could not be started.
    #[error("cannot start the compiler: {0}")]
    Start(String),
    /// The program that was started as the compiler, [`Compiler::CurrentExe`] or [`Compiler::Program`], is none.
    #[error(
        "{program} was started as the compiler, and its `main` does not begin with \
         `mcp_resource_host::engine::run_compiler()`: {outcome}"
    )]
    NoCompiler {
        /// The program.
        program: String,
        /// How it ended, and what it wrote to standard error.
        outcome: String,
    },
    /// The compiler was terminated because the config no longer names the component.
    #[error("the compiler was terminated because the component is no longer in the config")]
    Cancelled,
}

impl CompileError {
    /// Whether the failure would be the same the next time, with the same component, limits and compiler.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Invalid(_)
            | Self::Deadline(_)
            | Self::Cpu(_)
            | Self::Memory(_)
            | Self::OutputTooLarge(_)
            | Self::NoCompiler { .. }
            | Self::Crash(_)
            | Self::ForbiddenSystemCall => true,
            Self::Changed | Self::Start(_) | Self::Cancelled => false,
        }
    }
}

/// Where components are compiled.
///
/// A compiler is a large program, and hostile input may make it compute for long, use much memory, or crash. A child process is
/// bounded by `server.compile`; this process is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compiler {
    /// In this process, on a thread for blocking work. No limit of `server.compile` applies: for components that you trust as
    /// far as the compiler goes. Their code still runs in its sandbox, under its limits.
    #[default]
    InProcess,
    /// In a child process that runs the current executable, under the limits of `server.compile`. Its `main` must begin with
    /// [`run_compiler`].
    CurrentExe,
    /// In a child process that runs another program whose `main` begins with [`run_compiler`], such as `mcp-host`, under the
    /// limits of `server.compile`.
    Program(PathBuf),
}

/// Compiles a component and exits, if a host started this process for that; returns at once otherwise.
///
/// Must be the first call in the `main` of a program that is used with [`Compiler::CurrentExe`] or
/// [`Compiler::Program`].
pub fn run_compiler() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == CHILD_ARGUMENT) {
        let _ = writeln!(io::stderr(), "{HANDSHAKE}");
        let code = match child_main(arguments.filter_map(|argument| argument.into_string().ok())) {
            Ok(()) => 0,
            Err(error) => {
                let _ = write!(io::stderr(), "{error}");
                if matches!(error, CompileError::Changed) { EXIT_CHANGED } else { EXIT_INVALID }
            }
        };
        std::process::exit(code);
    }
}

/// Exits if a host started this process as its compiler: then its `main` does not begin with [`run_compiler`].
pub(super) fn exit_if_started_as_compiler() {
    if std::env::var_os(CHILD_ENV_VAR).is_some() {
        let _ = writeln!(
            io::stderr(),
            "this process was started to compile a component, as {CHILD_ENV_VAR} says: call \
             `mcp_resource_host::engine::run_compiler()` first thing in `main`"
        );
        std::process::exit(EXIT_NO_COMPILER);
    }
}

/// The main function of the child.
fn child_main(arguments: impl Iterator<Item = String>) -> Result<(), CompileError> {
    let invalid = |error: io::Error| CompileError::Invalid(error.to_string());
    let job = CompileJob::from_arguments(arguments).ok_or_else(|| {
        CompileError::Start(
            "it was asked in a way that it does not know; is the compiler of another version?".to_owned(),
        )
    })?;
    job.apply_rlimits().map_err(invalid)?;
    // Before there are other threads, which inherit both.
    lower_priority(NICENESS);
    confine_compiler();
    job::exit_with_parent();
    let code = compile(io::stdin().lock(), job.digest)?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(&code).and_then(|()| stdout.flush()).map_err(invalid)
}

fn compile(component: impl Read, digest: Digest) -> Result<Vec<u8>, CompileError> {
    let mut bytes = Vec::new();
    component
        .take(MAX_COMPONENT_SIZE.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| CompileError::Invalid(error.to_string()))?;
    if Digest::compute(&bytes) != digest {
        return Err(CompileError::Changed);
    }
    let invalid = |error: wasmtime::Error| CompileError::Invalid(format!("{error:#}"));
    wasmtime::Engine::new(&codegen_config()).and_then(|engine| engine.precompile_component(&bytes)).map_err(invalid)
}

impl Compiler {
    /// Compiles a component that has that digest into a file.
    pub(crate) async fn compile(
        &self,
        component: File,
        digest: Digest,
        mut into: File,
        limits: &config::compile::CompileLimits,
    ) -> Result<(), CompileError> {
        let start = |error: String| CompileError::Start(error);
        let program = match self {
            Self::InProcess => {
                let compiled = tokio::task::spawn_blocking(move || {
                    let code = compile(component, digest)?;
                    into.write_all(&code).map_err(|error| CompileError::Invalid(error.to_string()))
                });
                return compiled.await.map_err(|error| start(error.to_string()))?;
            }
            Self::CurrentExe => current_exe().map_err(|error| start(error.to_string()))?,
            Self::Program(program) => program.clone(),
        };
        run_child(program, component, &CompileJob::new(digest, limits), into, limits).await
    }
}

/// Returns the current executable, even if its file was replaced since.
fn current_exe() -> io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { Ok(own) } else { std::env::current_exe() }
}

async fn run_child(
    program: PathBuf,
    component: File,
    job: &CompileJob,
    into: File,
    limits: &config::compile::CompileLimits,
) -> Result<(), CompileError> {
    let start = |error: io::Error| CompileError::Start(format!("{}: {error}", program.display()));
    let mut child = Command::new(&program)
        .args(job.arguments())
        .env_clear()
        .env(CHILD_ENV_VAR, "1")
        // The child cannot read how many processors its control group may use.
        .env(THREADS_ENV_VAR, available_parallelism().map_or(1, usize::from).to_string())
        .current_dir("/")
        .stdin(component)
        .stdout(into)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    // Kept outside of the future, for the case of the deadline.
    let mut message = Vec::new();
    let stderr = child.stderr.take();
    let listen = async {
        if let Some(stderr) = stderr {
            let _ = stderr.take(MAX_MESSAGE).read_to_end(&mut message).await;
        }
    };
    let deadline = limits.deadline.duration();
    let run = async { tokio::join!(listen, child.wait()).1 };
    let status = tokio::time::timeout(deadline, run).await;
    let message = String::from_utf8_lossy(&message);
    let Some(message) = after_handshake(&message) else {
        let how = match &status {
            Ok(Ok(status)) => format!("it ended with {status}"),
            _ => format!("it was terminated after {} (`server.compile.deadline`)", format_duration(deadline)),
        };
        let outcome = match message.trim() {
            "" => how,
            message => format!("{how} and wrote: {message}"),
        };
        let program = program.canonicalize().unwrap_or(program).display().to_string();
        return Err(CompileError::NoCompiler { program, outcome });
    };
    let Ok(status) = status else { return Err(CompileError::Deadline(deadline)) };
    interpret_exit(status.map_err(start)?, message.to_owned(), limits)
}

/// Returns what the child wrote after its handshake; none if there is no handshake. A program may write something before it.
fn after_handshake(stderr: &str) -> Option<&str> {
    let (_, message) = stderr.split_once(HANDSHAKE)?;
    Some(message.trim())
}

/// Turns the exit of the child into a result.
fn interpret_exit(
    status: ExitStatus,
    message: String,
    limits: &config::compile::CompileLimits,
) -> Result<(), CompileError> {
    let is_out_of_memory = message.contains("memory allocation of") || message.contains("Cannot allocate memory");
    let ended_by = |signal: Signal| status.signal() == Some(signal.as_raw());
    Err(match status.code() {
        Some(0) => return Ok(()),
        Some(EXIT_CHANGED) => CompileError::Changed,
        _ if is_out_of_memory => CompileError::Memory(limits.memory.bytes()),
        Some(EXIT_INVALID) => CompileError::Invalid(message),
        // A kill by anyone else, such as the out-of-memory killer, cannot be told apart.
        None if ended_by(Signal::XCPU) || ended_by(Signal::KILL) => CompileError::Cpu(limits.cpu.duration()),
        None if ended_by(Signal::SYS) => CompileError::ForbiddenSystemCall,
        None if ended_by(Signal::XFSZ) => CompileError::OutputTooLarge(job::MAX_CODE_SIZE),
        _ => CompileError::Crash(status.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_the_kernel_killed_for_a_system_call_is_told_from_a_crash() {
        let limits = config::compile::CompileLimits::default();
        let outcome = |signal: Signal| interpret_exit(ExitStatus::from_raw(signal.as_raw()), String::new(), &limits);
        assert_eq!(outcome(Signal::SYS), Err(CompileError::ForbiddenSystemCall));
        assert!(matches!(outcome(Signal::SEGV), Err(CompileError::Crash(_))));
        assert!(CompileError::ForbiddenSystemCall.is_permanent());
    }
}
