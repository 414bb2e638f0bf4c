//! What can be written on the command line: the commands, and the options that all of them share.

use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use tracing_subscriber::filter::Targets;

use super::color::ColorChoice;
use super::{check, completions, inspect, list, logging, read, schema, serve, watch};
use crate::access::Principal;
use crate::config::{LOCAL, misspelled_principal};

const EXAMPLES: &str = "\
Examples:
  mcp-host serve                          serve ./mcp-host.toml over stdio, or over HTTP if it says so
  mcp-host serve --http 127.0.0.1:8080    serve it over HTTP, at http://127.0.0.1:8080/mcp
  mcp-host check                          can everything in it be loaded?
  mcp-host list                           what would clients see?
  mcp-host read notes:///welcome.md       and what would they get?

Exit codes: 0 all went well, 1 something could not be done, 2 wrong usage or a wrong config.";

/// Serves MCP resources from sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "mcp-host", bin_name = "mcp-host", version, after_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: GlobalArgs,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The options that all commands share.
#[derive(Args, Debug)]
#[command(next_help_heading = "Common options")]
pub(super) struct GlobalArgs {
    /// The config that says what is served, to whom, and within which bounds
    #[arg(long, global = true, value_name = "FILE", default_value = "mcp-host.toml", env = "MCP_HOST_CONFIG")]
    pub(super) config: PathBuf,

    /// What is logged, to standard error: off, error, warn, info, debug or trace, also for
    /// one part alone: `warn,mcp_host::guest=debug`
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        default_value = "info",
        env = "MCP_HOST_LOG",
        value_parser = logging::filter
    )]
    pub(super) log: Targets,

    /// How the log is written
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: logging::Format,

    /// When results, messages and the log are coloured
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(super) color: ColorChoice,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Serve(serve::Args),
    Check(check::Args),
    Inspect(inspect::Args),
    List(list::Args),
    Read(read::Args),
    Watch(watch::Args),
    Schema(schema::Args),
    Completions(completions::Args),
}

/// Who asks, for the commands that ask the façade.
#[derive(Args, Debug)]
pub(super) struct PrincipalArgs {
    /// Ask as this principal, to see what it sees
    #[arg(
        long = "as",
        value_name = "PRINCIPAL",
        default_value = LOCAL,
        value_parser = NonEmptyStringValueParser::new().try_map(principal)
    )]
    pub(super) principal: Principal,
}

/// The principal of that name, unless the name is a misspelled built-in one.
fn principal(name: String) -> Result<Principal, String> {
    match misspelled_principal(&name) {
        Some(built_in) => Err(format!("did you mean `{built_in}`?")),
        None => Ok(Principal::new(name)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

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
    fn common_options_may_stand_before_and_behind_the_command() {
        for line in ["mcp-host --config a.toml --color never check", "mcp-host check --config a.toml --color never"] {
            let global = parse(line).unwrap().global;
            assert_eq!(global.config, Path::new("a.toml"));
            assert_eq!(global.color, ColorChoice::Never);
        }
    }

    #[test]
    fn whoever_asks_is_local_unless_said() {
        let parsed_principal = |line| match parse(line).unwrap().command {
            Command::List(args) => args.principal_args.principal,
            other => panic!("{other:?}"),
        };
        assert_eq!(parsed_principal("mcp-host list"), Principal::LOCAL);
        assert_eq!(parsed_principal("mcp-host list --as anonymous"), Principal::ANONYMOUS);
    }

    #[test]
    fn a_misspelled_principal_is_refused_with_the_one_that_was_meant() {
        let error = parse("mcp-host read notes:/// --as anonimous").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let message = error.to_string();
        assert!(message.contains("'anonimous'") && message.contains("did you mean `anonymous`?"), "{message}");
        assert!(parse("mcp-host read notes:/// --as ada@example.com").is_ok());
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
