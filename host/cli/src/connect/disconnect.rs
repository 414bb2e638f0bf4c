//! `disconnect`: removes the entry that `connect --write` added.

use mcp_host_config::EndpointUrl;

use super::client::Client;
use super::server::{endpoint, endpoint_of};
use super::{ConnectError, PlaceArgs, server_name};
use crate::context::Context;
use crate::error::CliError;

const EXAMPLES: &str = "\
The rest of the file stays as it is. A backup is written beside it.

Examples:
  mcp-host disconnect vscode                  the only server of mcp-host
  mcp-host disconnect cursor --name notes     one of several
  mcp-host disconnect cursor --name other --force
                                              one that starts another program, or is at another URL
  mcp-host disconnect codex --url https://mcp.example.com/mcp
  mcp-host disconnect claude-code --project   in the project's own file";

/// Remove a server from the file of a client
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The client
    #[arg(value_name = "CLIENT")]
    client: Option<Client>,

    /// The name of the server; by default, the only server that starts `mcp-host`, or that is at the URL
    #[arg(long, value_name = "NAME", value_parser = server_name)]
    name: Option<String>,

    /// The URL of a server that `connect` added; by default, the URL of the config's server
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    url: Option<EndpointUrl>,

    #[command(flatten)]
    place: PlaceArgs,

    /// With `--name`: remove the server of that name even if it starts another program, or is at another URL
    #[arg(long, requires = "name")]
    force: bool,
}

impl Args {
    pub(crate) fn run(self, context: &Context) -> Result<(), CliError> {
        let client = self.client.ok_or(ConnectError::MissingClient("disconnect"))?;
        let url = match &self.url {
            Some(url) => Some(url.as_str().to_owned()),
            // The config is optional here.
            None => context.config_without_secrets().ok().and_then(|config| endpoint_of(&config).ok().flatten()),
        };
        let file = self.place.open(client)?;
        let removed = client.remove(file.text(), self.name.as_deref(), url.as_deref(), self.force);
        let (name, text) =
            removed.map_err(|error| ConnectError::Edit { file: file.path().to_owned(), error, is_removal: true })?;
        let backup = file.replace(&text)?;
        let was = backup.map(|backup| format!("; the previous content is in {}", backup.display())).unwrap_or_default();
        context.messages.note(&format!("removed the server `{name}` from {}{was}", file.path().display()));
        Ok(())
    }
}
