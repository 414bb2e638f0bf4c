//! Compilation of components, in this process or in a child process under limits.
//!
//! In a child, the operating system bounds the compilation of hostile input, so it need not be trusted. The child is
//! the current executable or another program, started with the host's arguments and only a few environment variables.
//! Before it reads a byte, it limits its own CPU time and address space, takes a low priority, so that serving is not
//! slowed down (unless an author waits for the code), and confines itself by Landlock and seccomp to its standard
//! streams, memory and threads (module `confinement`). It is killed at its deadline, and by any system call that only
//! an attacker would make. Its standard input is the component's file, so no component is ever in the host's own
//! memory, and its standard output is the file for the code. It compiles only input with the given digest: a file that
//! changes meanwhile is never mistaken for the checked one (TOCTOU). A crash of the compiler becomes an error message
//! of the host.
//!
//! A child outlives its host if a later host can use its code: clients over stdio end a host seconds after its start,
//! and a component with an interpreter takes longer to compile. So the child has its own process group, which signals
//! to the host's process group from a client or a terminal do not reach. The child appends the tag that authenticates
//! its code, with a key for this component only (module `code_key`), and holds the lock of the file (module
//! `pending_code`). Its limits hold without a host, too: the kernel limits CPU time and memory, and the child ends
//! itself at its deadline. A component that takes over the child could sleep beyond the deadline, but not use more than
//! its memory. A live host kills the child of a component that is no longer wanted. In every other case the child ends
//! with the host.
//!
//! Handshake: [`run_compiler`] first writes [`HANDSHAKE`] to standard error. If a child ends or exceeds its deadline
//! without this line, its program does not call [`run_compiler`], and the error says so. Such a program runs its own
//! `main`; it exits where it starts an engine, so it does not start children recursively.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use humantime::format_duration;
use mcp_host_base::task;
use mcp_host_base::threads::lower_priority;
use mcp_host_config as config;
use mcp_host_model::digest::Digest;
use tokio_util::sync::CancellationToken;

use self::functions::{FunctionFiles, Functions};
use self::job::{CHILD_ARGUMENT, CompileJob};
use super::code_key::CodeKey;
use super::config::{Codegen, MAX_COMPONENT_SIZE, engine_config};
use super::static_content::StaticContent;
use crate::confinement::confine_compiler;

pub(crate) mod functions;
mod job;
mod process;

/// Set in the child, so that a program that does not call [`run_compiler`] exits and does not start children
/// recursively.
pub(crate) const CHILD_ENV_VAR: &str = "MCP_HOST_COMPILER";
/// The first line that [`run_compiler`] writes to standard error.
const HANDSHAKE: &str = "mcp-host compiler";
/// The key with which the child authenticates its code.
const KEY_ENV_VAR: &str = "MCP_HOST_COMPILER_KEY";
/// The exit code of the child when the component is invalid.
const EXIT_INVALID: i32 = 1;
/// The exit code of the child when the component does not have the expected digest.
const EXIT_CHANGED: i32 = 3;
/// The exit code of a child that does not call [`run_compiler`] and starts an engine.
const EXIT_NO_COMPILER: i32 = 4;
/// The exit code of a child that reached its deadline.
const EXIT_DEADLINE: i32 = 5;
/// The exit code of a child that could not write the code.
const EXIT_OUTPUT: i32 = 6;
/// The niceness of the child relative to the host's threads, unless an author waits for the code.
const NICENESS: i32 = 10;

/// Why a component did not compile. The causes are texts, because they come from another process, and the failure is
/// stored while the config names the component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The compiler rejects the component as invalid.
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
    /// The compiled code exceeds the maximum size.
    #[error("the compiled code is larger than {}", bytesize::ByteSize(*.0))]
    OutputTooLarge(u64),
    /// The compiled code could not be written: the disk is full, or failed.
    #[error("the compiled code cannot be written to the cache (`server.cache`): {0}")]
    Output(String),
    /// The compiler was killed, but not for its CPU time.
    #[error(
        "the compiler was killed (SIGKILL), as the kernel does when the machine is out of memory; a reload or a restart tries again"
    )]
    Killed,
    /// The compiler crashed: by its own bug, or because of a malicious component.
    #[error("the compiler crashed ({0})")]
    Crash(String),
    /// The compiler made a system call that no compilation needs: because of a malicious component, or a bug.
    #[error("the compiler was killed by the kernel for a forbidden system call: the component may be an attack on it")]
    ForbiddenSystemCall,
    /// The file changed while it was read.
    #[error("the file changed while it was read; try again when it is written")]
    Changed,
    /// The compiler could not be started.
    #[error("cannot start the compiler: {0}")]
    Start(String),
    /// The program that was started as the compiler, [`Compiler::CurrentExe`] or [`Compiler::Program`], is not a
    /// compiler.
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
    /// Returns whether the failure is expected to repeat with the same component, limits and compiler. A killed
    /// compiler is not restarted automatically, because the machine would run out of memory again.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Invalid(_)
            | Self::Deadline(_)
            | Self::Cpu(_)
            | Self::Memory(_)
            | Self::OutputTooLarge(_)
            | Self::NoCompiler { .. }
            | Self::Killed
            | Self::Crash(_)
            | Self::ForbiddenSystemCall => true,
            Self::Changed | Self::Output(_) | Self::Start(_) | Self::Cancelled => false,
        }
    }
}

/// A component to compile.
pub(crate) struct CompileRequest {
    /// The component.
    pub(crate) component: File,
    /// The expected digest of the component. A component with another digest is not compiled.
    pub(crate) digest: Digest,
    /// The key that authenticates the code.
    pub(crate) key: CodeKey,
    /// The functions of earlier compilations; none if all functions must be compiled.
    pub(crate) functions: Option<FunctionFiles>,
    /// The file that the code and its tag are written to.
    pub(crate) into: File,
    /// How the code is generated.
    pub(crate) codegen: Codegen,
    /// Whether an author waits for the code, so that a child process has the priority of other programs.
    pub(crate) is_urgent: bool,
    /// Whether a later host can use the code if this host ends first.
    pub(crate) can_outlive_host: bool,
    /// Cancels the compilation, even when its future is dropped.
    pub(crate) cancelled: CancellationToken,
}

/// Where components are compiled.
///
/// A compiler is a large program, and hostile input may make it compute for long, use much memory, or crash.
/// `server.compile` bounds a child process, but not this process. A child process may outlive the host, so that the
/// next host can use its code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compiler {
    /// In this process, on a thread for blocking work. No limit of `server.compile` applies: for components that you
    /// trust with the compiler. Their code still runs in its sandbox, under its limits. Statements of granted SQLite
    /// databases run in this process, too: they can exceed their `timeout`, and only the memory of the whole process is
    /// bounded.
    #[default]
    InProcess,
    /// In a child process that runs the current executable, under the limits of `server.compile`. Its `main` must begin
    /// with [`run_compiler`].
    CurrentExe,
    /// In a child process that runs another program whose `main` begins with [`run_compiler`], such as `mcp-host`,
    /// under the limits of `server.compile`.
    Program(PathBuf),
}

/// Compiles a component, or runs statements of SQLite, and exits, if a host started this process for that purpose. If
/// not, returns immediately.
///
/// Must be the first call in the `main` of a program that is used with [`Compiler::CurrentExe`] or
/// [`Compiler::Program`].
pub fn run_compiler() {
    mcp_host_sandbox::sql::run_sqlite_worker();
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == CHILD_ARGUMENT) {
        let _ = writeln!(io::stderr(), "{HANDSHAKE}");
        let code = match child_main(arguments.filter_map(|argument| argument.into_string().ok())) {
            Ok(()) => 0,
            Err(error) => {
                let (code, message) = match error {
                    CompileError::Changed => (EXIT_CHANGED, error.to_string()),
                    CompileError::Output(reason) => (EXIT_OUTPUT, reason),
                    error => (EXIT_INVALID, error.to_string()),
                };
                let _ = write!(io::stderr(), "{message}");
                code
            }
        };
        std::process::exit(code);
    }
}

/// Exits if a host started this process as its compiler, because then its `main` does not begin with [`run_compiler`].
pub(super) fn exit_if_started_as_compiler() {
    if std::env::var_os(CHILD_ENV_VAR).is_some() {
        let _ = writeln!(
            io::stderr(),
            "this process was started to compile a component or to run SQLite, as {CHILD_ENV_VAR} says: call \
             `mcp_resource_host::engine::run_compiler()` first thing in `main`"
        );
        std::process::exit(EXIT_NO_COMPILER);
    }
}

/// The main function of the child.
fn child_main(arguments: impl Iterator<Item = String>) -> Result<(), CompileError> {
    let invalid = |error: io::Error| CompileError::Invalid(error.to_string());
    let key = std::env::var(KEY_ENV_VAR).ok().and_then(|text| CodeKey::from_text(&text));
    let (job, key) = CompileJob::from_arguments(arguments).zip(key).ok_or_else(|| {
        CompileError::Start("it does not know the arguments; is the compiler of another version?".to_owned())
    })?;
    job.apply_rlimits().map_err(invalid)?;
    // Without these files, all functions are compiled.
    let functions = FunctionFiles::from_variables().and_then(|files| Functions::open(files).ok());
    // Called before there are other threads, which inherit both.
    if !job.is_urgent {
        lower_priority(NICENESS);
    }
    confine_compiler();
    job.exit_at_end();
    let (code, content) = compile(io::stdin().lock(), job.digest, job.codegen, functions.as_ref())?;
    let output = |error: io::Error| CompileError::Output(error.to_string());
    key.write_code(&code, &content, io::stdout().lock()).map_err(output)?;
    drop(code);
    functions.map_or(Ok(()), Functions::write).map_err(output)
}

/// Compiles a component, and measures the cost of an instance.
fn compile(
    component: impl Read,
    digest: Digest,
    codegen: Codegen,
    functions: Option<&Functions>,
) -> Result<(Vec<u8>, StaticContent), CompileError> {
    let mut bytes = Vec::new();
    component
        .take(MAX_COMPONENT_SIZE.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| CompileError::Invalid(error.to_string()))?;
    if Digest::compute(&bytes) != digest {
        return Err(CompileError::Changed);
    }
    let invalid = |error: wasmtime::Error| CompileError::Invalid(format!("{error:#}"));
    let mut config = engine_config(codegen);
    if let Some(functions) = functions {
        config.enable_incremental_compilation(functions.store()).map_err(invalid)?;
    }
    let engine = wasmtime::Engine::new(&config);
    let code = engine.and_then(|engine| engine.precompile_component(&bytes)).map_err(invalid)?;
    drop(bytes);
    let content = StaticContent::measure(&code).map_err(CompileError::Invalid)?;
    Ok((code, content))
}

impl Compiler {
    /// Compiles a component. Dropping the future kills a child process that cannot outlive the host, or was cancelled.
    pub(crate) async fn compile(
        &self,
        request: CompileRequest,
        limits: &config::limits::CompileLimits,
    ) -> Result<(), CompileError> {
        let start = |error: String| CompileError::Start(error);
        let program = match self {
            Self::InProcess => {
                let compiled = task::spawn_blocking(move || {
                    let (code, content) = compile(request.component, request.digest, request.codegen, None)?;
                    let written = request.key.write_code(&code, &content, request.into);
                    written.map_err(|error| CompileError::Output(error.to_string()))
                });
                return compiled.await.map_err(|error| start(error.to_string()))?;
            }
            Self::CurrentExe => current_exe().map_err(|error| start(error.to_string()))?,
            Self::Program(program) => program.clone(),
        };
        process::run(program, request, limits).await
    }

    /// Returns the program to start for work that must not run in this process, if there is one.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        match self {
            Self::InProcess => None,
            Self::CurrentExe => current_exe().ok(),
            Self::Program(program) => Some(program.clone()),
        }
    }
}

/// Returns the current executable, even if its file has been replaced.
fn current_exe() -> io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { Ok(own) } else { std::env::current_exe() }
}
