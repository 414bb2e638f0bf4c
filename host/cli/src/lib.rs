//! The command line: starts the server, and calls the façade directly for all other commands.
//!
//! Each command is a module with the same two items: `Args`, its arguments, and `Args::run`. The rest is shared:
//!
//! | module | subject |
//! |---|---|
//! | `options` | options of several commands |
//! | `context` | the config, a started host, and both standard streams |
//! | `output` | standard output: results or protocol only |
//! | `messages`, `stderr`, `journal` | standard error: errors, warnings, notes, the log, progress; its queue and its thread |
//! | `recording` | the calls of providers in a file, for `replay` |
//! | `diagnostics` | calls of providers, for their authors: times, host calls, places of failures |
//! | `observation` | `--profile` and `--record` |
//! | `escape` | escaping of provider text for terminals |
//! | `hint` | suggestions for a URI that cannot be read or listed |
//! | `registry` | the commands for components from registries |
//! | `served_paths` | the plugins for files and directories on the command line |
//! | `confinement` | the confinement of `serve`, and its report in `check` |
//! | `programs` | the process that starts the programs of upstreams |
//! | `browser` | the browser of `serve --open` |
//! | `error` | the errors of commands: message, help, and exit code |
//!
//! Exit codes: 0 success, 1 failure, 2 invalid command line or config, 3 a person has to agree (`update`). A reader
//! that closes standard output early is not a failure.
//!
//! Commands contain no logic of the host: they call the library and print the result.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

mod admin;
mod browser;
mod check;
mod completions;
mod componentize;
mod confinement;
mod connect;
mod context;
mod context_selection;
mod dev;
mod diagnostics;
mod doctor;
mod error;
mod escape;
mod explain;
mod hint;
mod init;
mod inspect;
mod journal;
mod keyvalue;
mod list;
mod log_rate;
mod logging;
mod man;
mod messages;
mod new;
mod observation;
mod options;
mod output;
mod profile;
mod programs;
mod provider;
mod read;
mod record;
mod recording;
mod registry;
mod replay;
mod requirements;
mod schema;
mod search;
mod search_index;
mod serve;
mod served_paths;
mod service_manager;
mod signals;
mod status;
mod stderr;
mod table;
mod test;
mod token;
mod watch;

use std::io;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use mcp_host_base::threads::set_short_time_slice;
use mcp_host_config::Config;
use mcp_host_engine::confinement::Confinement;
use tokio::runtime::{Builder, Runtime};

use self::context::Context;
use self::diagnostics::CallRecorder;
use self::error::CliError;
use self::journal::Journal;
use self::logging::LogSettings;
use self::options::GlobalArgs;
use self::programs::Programs;
use self::serve::ServedConfig;
use self::service_manager::ServiceManager;

const EXAMPLES: &str = "\
Examples:
  mcp-host serve .                        serve the repository or folder here
  mcp-host serve                          serve ./mcp-host.toml, stdio or HTTP
  mcp-host serve --http 127.0.0.1:8080    at http://127.0.0.1:8080/mcp
  mcp-host init                           write a config for what is here
  mcp-host connect vscode --write         add the server to a client
  mcp-host new notes --lang python        start a provider of your own
  mcp-host dev                            build and serve it on every change
  mcp-host check                          try the config and every plugin
  mcp-host list                           what would clients see?
  mcp-host read notes:///welcome.md       the content that a client gets
  mcp-host search circuit breaker         what a client finds
  mcp-host add web oci://HOST/NAME:1.4    a provider from a registry

Exit codes: 0 success, 1 failure, 2 invalid command line or config, 3 an agreement is missing (`update`).";

/// Serves MCP resources from sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "mcp-host", bin_name = "mcp-host", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Status(status::Args),
    Admin(admin::Args),
    Init(init::Args),
    Connect(Box<connect::Args>),
    Disconnect(connect::DisconnectArgs),
    New(new::Args),
    Doctor(doctor::Args),
    Check(check::Args),
    Inspect(inspect::Args),
    Componentize(componentize::Args),
    Test(Box<test::Args>),
    Dev(dev::Args),
    List(list::Args),
    Read(read::Args),
    Replay(replay::Args),
    Record(record::Args),
    Profile(profile::Args),
    Search(search::Args),
    Context(context_selection::Args),
    Index(search_index::Args),
    Watch(watch::Args),
    Explain(explain::Args),
    Keyvalue(keyvalue::Args),
    Add(registry::add::Args),
    Remove(registry::remove::Args),
    Lock(registry::lock::Args),
    Update(registry::update::Args),
    Diff(registry::update::DiffArgs),
    Outdated(registry::outdated::Args),
    Store(registry::store::Args),
    Push(registry::push::Args),
    Token(token::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// Whether the command loads the plugins of the config. `serve` and `dev` do so separately.
    fn loads_plugins(&self) -> bool {
        matches!(
            self,
            Self::Check(_)
                | Self::List(_)
                | Self::Read(_)
                | Self::Search(_)
                | Self::Context(_)
                | Self::Index(_)
                | Self::Watch(_)
        )
    }
}

/// Runs the command of this process.
///
/// Wrong usage ends the process with exit code 2, `--help` and `--version` with 0. The calling `main` begins with
/// [`run_compiler`](mcp_host_engine::run_compiler). `start_threads` is called after the confinement of the process,
/// when further threads are allowed.
pub fn main(start_threads: impl FnOnce()) -> ExitCode {
    let color = options::color(std::env::args_os().skip(1));
    let matches = Cli::command().color(color).try_get_matches().unwrap_or_else(|error| nearest_first(error).exit());
    let Cli { global, mut command } = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if has_paths(&command) && options::is_config_chosen(&matches) {
        let conflict = "the argument '--config <FILE>' cannot be used with '[PATH]...': no config is read then";
        let mut cli = Cli::command().color(color);
        cli.build();
        let name = matches.subcommand_name().unwrap_or_default();
        let command = cli.find_subcommand_mut(name).map(|command| command.error(ErrorKind::ArgumentConflict, conflict));
        command.unwrap_or_else(|| clap::Error::raw(ErrorKind::ArgumentConflict, conflict)).exit();
    }
    let manager = match &mut command {
        Command::Serve(args) => {
            args.prepare();
            args.service_manager()
        }
        _ => Ok(ServiceManager::default()),
    };
    // Only `serve` needs the config before the confinement, which depends on it.
    let config = match &command {
        Command::Serve(args) => Some(args.load_config(&global.config)),
        _ => None,
    };
    // Commands that load plugins need the config, too: an unconfined process starts the programs of upstreams.
    let loaded = command.loads_plugins().then(|| Config::load(&global.config));
    let served = config.as_ref().and_then(|served| served.as_ref().ok()).map(|served| &served.config);
    // The default limit suits programs that open few files. If it cannot be raised, plugins get fewer. It is raised
    // before the launcher starts, because the programs of upstreams have fewer files than the launcher.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let programs = served.or(loaded.as_ref().and_then(|loaded| loaded.as_ref().ok())).map(Programs::start);
    let programs = programs.unwrap_or_else(|| Ok(Programs::default()));
    let journal = match &command {
        Command::Serve(_) => Journal::connect(),
        _ => None,
    };
    let confinement = match &command {
        // A build may need privileges that no provider has: containers, another user, a debugger.
        Command::Dev(_) => Ok(Confinement::none()),
        _ => confinement::install(served, &global.config),
    };
    start_threads();
    let mut log = LogSettings::new(
        (&global.log, global.log_format),
        options::is_log_chosen(&matches),
        served.map(|config| &config.log),
        journal.is_some(),
    );
    if let Command::Dev(_) = command {
        dev::adjust_log(&mut log);
    }
    if command.loads_plugins() {
        log.quiet_guests();
    }
    let (programs, programs_error) = match programs {
        Ok(programs) => (programs, None),
        Err(error) => (Programs::default(), Some(error)),
    };
    let calls = (!matches!(command, Command::Serve(_))).then(CallRecorder::default);
    let context = Context::new(&global, log, journal, served, loaded, programs, calls);
    let result = confinement
        .map_err(CliError::from)
        .and_then(|confinement| programs_error.map_or(Ok(confinement), Err))
        .and_then(|confinement| run(command, config, confinement, manager?, &context));
    context.print_failed_calls();
    let profiled = context.finish_profile();
    let recorded = context.finish_recording();
    let result = result.and(profiled).and(recorded);
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(&context.messages);
            failure.exit_code().into()
        }
    };
    context.messages.flush();
    code
}

/// Whether the command line has paths to serve, so that no config is read.
fn has_paths(command: &Command) -> bool {
    match command {
        Command::Serve(args) => args.has_paths(),
        Command::Connect(args) => args.has_paths(),
        _ => false,
    }
}

/// Orders similar commands: clap names the most similar one last.
fn nearest_first(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) {
        let names = names.iter().rev().cloned().collect();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
    }
    error
}

/// The number of task polls after which a transport thread checks for ready sockets. One poll may encode a part of an
/// answer, so tokio's default of 61 is too high.
const EVENT_INTERVAL: u32 = 11;

/// The threads of the transports, one per processor.
fn transport_runtime() -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.event_interval(EVENT_INTERVAL).on_thread_start(set_short_time_slice).enable_all().build()
}

fn run(
    command: Command,
    config: Option<Result<ServedConfig, CliError>>,
    confinement: Confinement,
    manager: ServiceManager,
    context: &Context,
) -> Result<(), CliError> {
    let runtime = transport_runtime().context("cannot start threads")?;
    let result = runtime.block_on(async {
        match command {
            Command::Serve(args) => {
                let config = config.unwrap_or_else(|| args.load_config(context.config_file()));
                args.run(config, confinement, manager, context).await
            }
            Command::Status(args) => args.run(context).await,
            Command::Admin(args) => args.run(context).await,
            Command::Init(args) => args.run(context),
            Command::Connect(args) => args.run(context),
            Command::Disconnect(args) => args.run(context),
            Command::New(args) => args.run(context).await,
            Command::Doctor(args) => args.run(context).await,
            Command::Check(args) => args.run(&confinement, context).await,
            Command::Inspect(args) => args.run(context).await,
            Command::Componentize(args) => args.run(context),
            Command::Test(args) => args.run(context).await,
            Command::Dev(args) => args.run(context).await,
            Command::List(args) => args.run(context).await,
            Command::Read(args) => args.run(context).await,
            Command::Replay(args) => args.run(context).await,
            Command::Record(args) => args.run(context).await,
            Command::Profile(args) => args.run(context).await,
            Command::Search(args) => args.run(context).await,
            Command::Context(args) => args.run(context).await,
            Command::Index(args) => args.run(context).await,
            Command::Watch(args) => args.run(context).await,
            Command::Explain(args) => args.run(context),
            Command::Keyvalue(args) => args.run(context).await,
            Command::Add(args) => args.run(context).await,
            Command::Remove(args) => args.run(context),
            Command::Lock(args) => args.run(context).await,
            Command::Update(args) => args.run(context).await,
            Command::Diff(args) => args.run(context).await,
            Command::Outdated(args) => args.run(context).await,
            Command::Store(args) => args.run(context).await,
            Command::Push(args) => args.run(context).await,
            Command::Token(args) => args.run(context),
            Command::Schema(args) => args.run(context),
            Command::Completions(args) => args.run(Cli::command(), context),
            Command::Man(args) => args.run(Cli::command(), context),
        }
    });
    // A thread may still wait for standard input; only the end of the process ends such a read.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::ColorChoice;

    use super::*;
    use mcp_host_config::{Config, TokenDigests, TokenPrincipal};
    use mcp_resource_host::access::Principal;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_explains_itself() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} does not say what it is for");
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains(&format!("mcp-host {name}")), "{name} has no example");
        }
    }

    #[test]
    fn the_usage_of_every_command_fits_a_terminal_of_80_columns() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands_mut() {
            let usage = command.render_usage().to_string();
            assert!(usage.lines().all(|line| line.len() <= 80), "{usage}");
        }
    }

    #[test]
    fn the_examples_of_the_program_fit_a_terminal_of_80_columns() {
        assert!(EXAMPLES.lines().filter(|line| line.starts_with("  ")).all(|line| line.len() <= 80), "{EXAMPLES}");
    }

    #[test]
    fn common_options_may_stand_before_and_behind_the_command() {
        for line in ["mcp-host --config a.toml --color never check", "mcp-host check --config a.toml --color never"] {
            let global = parse(line).unwrap().global;
            assert_eq!(global.config, Path::new("a.toml"));
            assert_eq!(global.color, ColorChoice::Never);
        }
    }

    /// The principal for a command line, with a config that declares `ci`.
    fn principal(line: &str) -> Result<Principal, CliError> {
        let mut config = Config::new();
        config.principals.push(TokenPrincipal { name: "ci".parse().unwrap(), token_sha256: TokenDigests::default() });
        match parse(line).unwrap().command {
            Command::List(args) => args.principal_args.principal_in(&config),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn whoever_asks_is_local_unless_said() {
        assert_eq!(principal("mcp-host list").unwrap(), Principal::LOCAL);
        assert_eq!(principal("mcp-host list --as anonymous").unwrap(), Principal::ANONYMOUS);
        assert_eq!(principal("mcp-host list --as ci").unwrap(), Principal::new("ci"));
        let ada = Principal::new("corp/lucas").with_groups(["corp/eng", "corp/ops"]);
        assert_eq!(principal("mcp-host list --as corp/lucas --group corp/ops --group corp/eng").unwrap(), ada);
    }

    #[test]
    fn a_principal_that_no_rule_can_name_is_refused() {
        for name in ["anonimous", "lucas", "*", "/x", "x/"] {
            let error = principal(&format!("mcp-host list --as {name}")).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert_eq!(error.to_string(), format!("the config has no principal `{name}`"));
        }
    }

    #[test]
    fn of_several_similar_commands_the_most_similar_one_is_named_first() {
        for (written, meant, other) in [("serv", "'serve'", "'search'"), ("searh", "'search'", "'serve'")] {
            let said = nearest_first(parse(&format!("mcp-host {written}")).unwrap_err()).to_string();
            let (meant, other) = (said.find(meant).unwrap(), said.find(other).unwrap());
            assert!(meant < other, "{said}");
        }
    }

    #[test]
    fn a_cursor_may_begin_with_a_hyphen() {
        assert!(parse("mcp-host list --cursor -N_w").is_ok());
        assert!(parse("mcp-host list --cursor --N").is_ok());
    }

    #[test]
    fn options_that_exclude_each_other_are_refused() {
        for line in [
            "mcp-host serve --stdio --http 127.0.0.1:1",
            "mcp-host list --all --cursor x",
            "mcp-host list notes:/// --templates",
            "mcp-host read notes:///a --output f --json",
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ArgumentConflict, "{line}");
        }
    }
}
