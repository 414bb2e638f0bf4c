//! The command line: the façade without a client, and the way to start the server.
//!
//! Each command is a module with the same two things: `Args`, what can be written behind its name, and `Args::run`,
//! what it does. The rest is shared:
//!
//! | module | what it decides |
//! |---|---|
//! | `context` | how a command gets at the config, a started host, and both standard streams |
//! | `output` | standard output: results or protocol, and nothing else |
//! | `messages`, `stderr` | standard error: errors, warnings, notes, the log, progress; the queue and the thread behind it |
//! | `escape` | what of a provider's text a terminal may see |
//! | `error` | why a command failed, what to do, and the exit code |
//!
//! Exit codes: 0 when all went well, 1 when something that was asked for could not be done, 2 when the command line or
//! the config is wrong. A reader of standard output that goes away early is no failure.
//!
//! Nothing here knows how anything is done: a command asks the library and shows the answer.

mod arguments;
mod check;
mod color;
mod completions;
mod context;
mod error;
mod escape;
mod inspect;
mod list;
mod log_rate;
mod logging;
mod messages;
mod output;
mod progress;
mod provider;
mod read;
mod requirements;
mod schema;
mod serve;
mod signals;
mod stderr;
mod table;
mod watch;

use std::io;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use tokio::runtime::{Builder, Runtime};

use self::arguments::{Cli, Command};
use self::context::Context;
use self::error::CliError;
use crate::thread_priority::set_short_time_slice;

/// Runs the command that this process was started with.
///
/// Wrong usage ends the process with exit code 2, `--help` and `--version` with 0. The `main` that calls this begins
/// with [`run_compiler`](crate::engine::run_compiler).
pub fn main() -> ExitCode {
    let Cli { global, command } = Cli::parse();
    let context = Context::new(&global);
    // The system's default is for programs that open a few files. Where it cannot be raised, plugins get fewer.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let code = match run(command, &context) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(&context.messages);
            failure.exit_code().into()
        }
    };
    context.messages.flush();
    code
}

/// After how many polls of tasks a thread of a transport looks whether sockets are ready. A poll may encode a piece of an answer,
/// so tokio's 61 are many.
const EVENT_INTERVAL: u32 = 11;

/// The threads of the transports, as many as there are processors.
fn transport_runtime() -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.event_interval(EVENT_INTERVAL).on_thread_start(set_short_time_slice).enable_all().build()
}

fn run(command: Command, context: &Context) -> Result<(), CliError> {
    let runtime = transport_runtime().context("cannot start threads")?;
    let result = runtime.block_on(async {
        match command {
            Command::Serve(args) => args.run(context).await,
            Command::Check(args) => args.run(context).await,
            Command::Inspect(args) => args.run(context).await,
            Command::List(args) => args.run(context).await,
            Command::Read(args) => args.run(context).await,
            Command::Watch(args) => args.run(context).await,
            Command::Schema(args) => args.run(context),
            Command::Completions(args) => args.run(context),
        }
    });
    // A thread may still wait for standard input, which nothing ends but the end of the process.
    runtime.shutdown_background();
    result
}
