//! Options that several commands share.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use tracing_subscriber::filter::Targets;

use super::color::ColorChoice;
use super::logging;
use crate::access::Principal;
use crate::config::{LOCAL, misspelled_principal};

/// The options of all commands.
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

/// The principal, for the commands that make requests.
#[derive(Args, Debug)]
pub(super) struct PrincipalArgs {
    /// Make the request as this principal, under its access rules
    #[arg(
        long = "as",
        value_name = "PRINCIPAL",
        default_value = LOCAL,
        value_parser = NonEmptyStringValueParser::new().try_map(principal)
    )]
    pub(super) principal: Principal,
}

/// Parses the name of a principal. A misspelled name of a built-in one is an error.
fn principal(name: String) -> Result<Principal, String> {
    match misspelled_principal(&name) {
        Some(built_in) => Err(format!("did you mean `{built_in}`?")),
        None => Ok(Principal::new(name)),
    }
}
