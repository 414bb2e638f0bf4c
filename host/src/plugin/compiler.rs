//! Compiling a component, in a child process under limits.
//!
//! What a compiler does with hostile input is bounded by the operating system, not by trust: the child is this very program,
//! started with an argument of ours, no environment, and limits on CPU time and address space that it sets before it reads a
//! byte; it gets the component on its standard input, and its standard output is the file that the code goes to. It is killed
//! when it takes too long. A crash of the compiler is an error message here.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::engine::code_settings;

/// The argument that makes a program the compiler; see [`run_compiler`].
const ARGUMENT: &str = "--mcp-host-compile-component";
/// Set in the child, so that a program that forgot [`run_compiler`] is told so and does not start children for ever.
const CHILD_VARIABLE: &str = "MCP_HOST_COMPILER";
const MAX_CPU_SECONDS: u64 = 600;
const MAX_ADDRESS_SPACE: u64 = 8 << 30;
const MAX_TIME: Duration = Duration::from_secs(300);
/// How much of what the child says is worth keeping.
const MAX_MESSAGE: u64 = 4096;

/// Why a component did not compile.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler says that the component is not valid.
    #[error("{0}")]
    Invalid(String),
    /// The compiler used up what it may.
    #[error(
        "the compiler was ended ({0}) after using up what one component may: {cpu} s of CPU, {time} s in all, {memory} GiB",
        cpu = MAX_CPU_SECONDS, time = MAX_TIME.as_secs(), memory = MAX_ADDRESS_SPACE >> 30
    )]
    Limit(String),
    /// The compiler could not be started.
    #[error("cannot start the compiler: {0}")]
    Start(String),
}

/// Which program compiles components.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Compiler {
    /// This very program, started anew. Its `main` must begin with [`run_compiler`].
    #[default]
    ThisProgram,
    /// Another program whose `main` begins with [`run_compiler`], such as `mcp-host`.
    Program(PathBuf),
    /// No other process: the component is compiled in this one, with nothing to bound it. For components that you built
    /// yourself.
    InProcess,
}

/// Compiles a component and ends the program, if a host has started this program for that.
///
/// Call it first thing in the `main` of every program that embeds a [`Host`](crate::Host) with [`Compiler::ThisProgram`].
/// It returns at once when the program was started for anything else.
pub fn run_compiler() {
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|argument| argument == ARGUMENT) {
        let code = match compile_stdin() {
            Ok(()) => 0,
            Err(message) => {
                let _ = write!(std::io::stderr(), "{message}");
                1
            }
        };
        std::process::exit(code);
    }
}

fn compile_stdin() -> Result<(), String> {
    rlimit::Resource::CPU.set(MAX_CPU_SECONDS, MAX_CPU_SECONDS).map_err(|error| error.to_string())?;
    rlimit::Resource::AS.set(MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE).map_err(|error| error.to_string())?;
    rlimit::Resource::CORE.set(0, 0).map_err(|error| error.to_string())?;
    let mut component = Vec::new();
    std::io::stdin().lock().read_to_end(&mut component).map_err(|error| error.to_string())?;
    let code = compile(&component)?;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&code).and_then(|()| stdout.flush()).map_err(|error| error.to_string())
}

fn compile(component: &[u8]) -> Result<Vec<u8>, String> {
    let engine = wasmtime::Engine::new(&code_settings()).map_err(|error| format!("{error:#}"))?;
    engine.precompile_component(component).map_err(|error| format!("{error:#}"))
}

impl Compiler {
    /// Compiles a component into a file.
    pub(super) async fn compile(&self, component: &[u8], mut into: File) -> Result<(), CompileError> {
        let program = match self {
            Self::InProcess => {
                let component = component.to_vec();
                let code = tokio::task::spawn_blocking(move || compile(&component)).await;
                let code = code.map_err(|error| CompileError::Start(error.to_string()))?;
                return code
                    .and_then(|code| into.write_all(&code).map_err(|error| error.to_string()))
                    .map_err(CompileError::Invalid);
            }
            Self::ThisProgram => std::env::current_exe().map_err(|error| CompileError::Start(error.to_string()))?,
            Self::Program(program) => program.clone(),
        };
        if std::env::var_os(CHILD_VARIABLE).is_some() {
            return Err(CompileError::Start(
                "this program was itself started as the compiler: call `mcp_resource_host::run_compiler()` first thing \
                 in its `main`"
                    .to_owned(),
            ));
        }
        run_child(program, component, into).await
    }
}

async fn run_child(program: PathBuf, component: &[u8], into: File) -> Result<(), CompileError> {
    let start = |error: std::io::Error| CompileError::Start(format!("{}: {error}", program.display()));
    let mut child = Command::new(&program)
        .arg(ARGUMENT)
        .env_clear()
        .env(CHILD_VARIABLE, "1")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(into)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    let stdin = child.stdin.take();
    let stderr = child.stderr.take();
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // A child that ends early closes the pipe: what it then says matters, not that it could not be fed.
            let _ = stdin.write_all(component).await;
        }
    };
    let listen = async move {
        let mut message = Vec::new();
        if let Some(stderr) = stderr {
            let _ = stderr.take(MAX_MESSAGE).read_to_end(&mut message).await;
        }
        String::from_utf8_lossy(&message).trim().to_owned()
    };
    let run = async { tokio::join!(feed, listen, child.wait()) };
    let Ok(((), message, status)) = tokio::time::timeout(MAX_TIME, run).await else {
        return Err(CompileError::Limit("out of time".to_owned()));
    };
    let status = status.map_err(start)?;
    match status.code() {
        Some(0) => Ok(()),
        Some(_) => Err(CompileError::Invalid(message)),
        None => Err(CompileError::Limit(status.to_string())),
    }
}
