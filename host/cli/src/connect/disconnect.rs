//! `disconnect`: removes what `connect --write` added.

use super::client::Client;
use super::file::ClientFile;
use super::{PlaceArgs, edit, edit_error, server_name};
use crate::context::Context;
use crate::error::CliError;

const EXAMPLES: &str = "\
All else in the file stays as it is, and a backup is written beside it.

Examples:
  mcp-host disconnect vscode                  the only server that starts mcp-host
  mcp-host disconnect cursor --name notes     another one of several, or one at a URL
  mcp-host disconnect claude-code --project   in the project's own file";

/// Remove a server from the file of a client
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The client
    #[arg(value_name = "CLIENT")]
    client: Client,

    /// The name of the server; without it, the only one that starts `mcp-host`
    #[arg(long, value_name = "NAME", value_parser = server_name)]
    name: Option<String>,

    #[command(flatten)]
    place: PlaceArgs,

    /// Remove the server of that name even if it starts another program
    #[arg(long, requires = "name")]
    force: bool,
}

impl Args {
    pub(crate) fn run(self, context: &Context) -> Result<(), CliError> {
        let file = ClientFile::open(&self.place.file(self.client)?)?;
        let removed = edit::remove(self.client, file.text(), self.name.as_deref(), self.force);
        let (name, text) = removed.map_err(|error| edit_error(&file, error))?;
        let backup = file.replace(&text)?;
        let was = backup.map(|backup| format!("; what it was is in {}", backup.display())).unwrap_or_default();
        context.messages.note(&format!("removed the server `{name}` from {}{was}", file.path().display()));
        Ok(())
    }
}
