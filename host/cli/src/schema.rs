//! `schema`: the JSON Schema of the config.

use mcp_host_config::Config;

use super::context::Context;
use super::error::CliError;

const EXAMPLES: &str = "\
Editors use the schema for completion, documentation and validation. Name it in the first line of the config:
  #:schema ./mcp-host.schema.json

Examples:
  mcp-host schema > mcp-host.schema.json";

/// Print the JSON Schema of the config, for editors
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let mut output = context.output();
        output.line(&format!("{:#}", Config::json_schema()))?;
        Ok(output.flush()?)
    }
}
