//! `schema`: the JSON Schema of the config, and of the administration API.

use clap::ValueEnum;
use mcp_host_config::Config;
use mcp_host_server::admin_api;

use super::context::Context;
use super::error::CliError;

const EXAMPLES: &str = "\
Editors use the schema of the config for completion, documentation and validation. Name it in the first line of the config:
  #:schema ./mcp-host.schema.json

Examples:
  mcp-host schema > mcp-host.schema.json
  mcp-host schema admin                     the bodies of the administration API";

/// Print the JSON Schema of the config, for editors, or of the administration API
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The subject of the schema
    #[arg(value_name = "SUBJECT", default_value = "config")]
    subject: Subject,
}

/// What a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// The config
    Config,
    /// The requests and answers of `/api/v1` of the administration listener
    Admin,
}

impl Args {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let schema = match self.subject {
            Subject::Config => format!("{:#}", Config::json_schema()),
            Subject::Admin => admin_api::JSON_SCHEMA.trim_end().to_owned(),
        };
        let mut output = context.output();
        output.line(&schema)?;
        Ok(output.flush()?)
    }
}
