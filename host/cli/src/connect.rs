//! `connect` and `disconnect`: a server's entry in the config file of a client.
//!
//! Without `--write` the entry is printed exactly as it would be written into an empty file. The existing content of a
//! file stays: [`json_file`] and [`toml_file`] change the entry alone, and [`file`] replaces the file atomically.

mod client;
mod disconnect;
mod edit;
mod entry;
mod file;
mod json_file;
mod server;
mod toml_file;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum as _};

use self::client::{Client, ClientDirs, Syntax, TokenReference};
pub(super) use self::disconnect::Args as DisconnectArgs;
use self::edit::EditError;
use self::entry::{Entry, Server, Token};
use self::file::ClientFile;
use self::server::ServerArgs;
use super::context::Context;
use super::error::{CliError, CommandError, EXIT_FAILURE, EXIT_USAGE};

const EXAMPLES: &str = "\
Without PATH the entry is for the server of the config: the client starts it, or connects to the HTTP address that the \
config names. A token is never printed, and never part of a link: the entry refers to an input or a variable of the \
client instead.

Examples:
  mcp-host connect vscode                       print the entry for the server of ./mcp-host.toml
  mcp-host connect claude-desktop ~/notes --write
                                                write it: Claude Desktop starts a server for that folder
  mcp-host connect cursor . --project --write   in the project's own file
  mcp-host connect vscode --link                a link that adds the server when it is opened
  mcp-host connect codex --url https://mcp.example.com/mcp --token
  mcp-host connect --json ~/notes               the entry in the form that most other clients read

`npx add-mcp` knows the files of some twenty more clients. `mcp-host disconnect CLIENT` removes the entry.";

/// Connect a client to a server: print its entry, or write it into the client's file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The client; with `--json`, a further PATH
    #[arg(value_name = "CLIENT", value_parser = ClientParser)]
    client: Option<ClientOrPath>,

    /// The paths of a server that the client starts without a config, as `mcp-host serve PATH` does
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// The name of the server in the client; by default, the name of the config's server or of the path
    #[arg(long, value_name = "NAME", value_parser = server_name)]
    name: Option<String>,

    /// Write the entry into the client's file, with a backup beside it; the rest of the file stays as it is
    #[arg(long)]
    write: bool,

    /// Print a link that adds the server when it is opened (VS Code, Cursor)
    #[arg(long, conflicts_with = "write")]
    link: bool,

    /// Print the entry in the form that most clients read, for a client that is not listed
    #[arg(long, conflicts_with_all = ["write", "link"])]
    json: bool,

    #[command(flatten)]
    place: PlaceArgs,

    /// With `--write`: replace a different server that has this name
    #[arg(long, requires = "write")]
    force: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Which file of a client it is.
#[derive(Debug, clap::Args)]
struct PlaceArgs {
    /// Use the file of the project in the current directory, instead of the user's
    #[arg(long)]
    project: bool,

    /// Use another file in the client's format, such as the file of a profile
    #[arg(long, value_name = "FILE", conflicts_with = "project")]
    file: Option<PathBuf>,
}

impl PlaceArgs {
    fn file(&self, client: Client) -> Result<PathBuf, CliError> {
        let dir = std::env::current_dir().context("the current directory cannot be determined")?;
        if let Some(file) = &self.file {
            return Ok(dir.join(file));
        }
        if self.project {
            return Ok(client.project_file(&dir).ok_or(ConnectError::NoProject { client: client.title() })?);
        }
        let dirs = ClientDirs::of_user().ok_or(ConnectError::NoHome)?;
        Ok(client.user_file(&dirs))
    }

    /// Opens the file. A project may come from an untrusted author, so a link in it must not lead to a file outside.
    fn open(&self, client: Client) -> Result<ClientFile, CliError> {
        let file = self.file(client)?;
        if !self.project {
            return Ok(ClientFile::open(&file)?);
        }
        let dir = std::env::current_dir().context("the current directory cannot be determined")?;
        Ok(ClientFile::open_within(&file, &dir)?)
    }
}

/// Why a client cannot be connected, or disconnected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConnectError {
    /// No client is named.
    #[error("`mcp-host {0}` needs the name of a <CLIENT>")]
    MissingClient(&'static str),
    /// No client has this name.
    #[error("there is no client `{0}`")]
    NoClient(String),
    /// A client is given beside `--json`.
    #[error("`--json` is for a client that is not listed, and `{0}` is one")]
    JsonAndClient(String),
    /// The user has no home directory.
    #[error("the home directory of this user is not known")]
    NoHome,
    /// The client has no project files.
    #[error("{client} has no file of a project")]
    NoProject {
        /// The client.
        client: &'static str,
    },
    /// The client's file cannot have servers over HTTP.
    #[error("the file of {client} has only servers that it starts")]
    NoHttp {
        /// The client.
        client: &'static str,
    },
    /// The client has no links that add a server.
    #[error("{client} has no links that add a server")]
    NoLink {
        /// The client.
        client: &'static str,
    },
    /// The client has no variables, and the token is unknown.
    #[error("{client} has no variables, so its file needs the token itself, and `{variable}` is not set")]
    NoToken {
        /// The client.
        client: &'static str,
        /// The variable of this process.
        variable: String,
    },
    /// The config lets the system choose the port.
    #[error("the config has port 0, so the port is known only while the server runs")]
    AnyPort,
    /// Options that apply to paths are given without a path.
    #[error("`--plugins` and `--yes` need a PATH")]
    NoPath,
    /// The client would expand a part of a path as a variable.
    #[error("{client} expands `{mark}` in an entry as a variable, and `{text}` has it")]
    Expanded {
        /// The client.
        client: &'static str,
        /// The prefix of a variable.
        mark: &'static str,
        /// The command or argument.
        text: String,
    },
    /// Paths are given beside a URL.
    #[error("a server at a URL uses its own config: name either PATH or `--url`")]
    PathAndUrl,
    /// The client's file cannot be changed.
    #[error("{}: {error}", file.display())]
    Edit {
        /// The file.
        file: PathBuf,
        /// The reason.
        error: EditError,
        /// Whether the change was a removal.
        is_removal: bool,
    },
}

impl CommandError for ConnectError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Edit { .. } | Self::NoHome | Self::NoToken { .. } => EXIT_FAILURE,
            _ => EXIT_USAGE,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::MissingClient("disconnect") => Some(format!("name one of {}", client_names())),
            Self::NoClient(_) | Self::MissingClient(_) => Some(format!(
                "name one of {}; for another one, `--json` prints the entry in the form that most clients read, and `npx add-mcp` \
                 writes the files of some twenty more",
                client_names()
            )),
            Self::JsonAndClient(written) => Some(format!("leave out `--json`; a directory of that name is `./{written}`")),
            Self::NoHttp { .. } => Some(
                "`--stdio` lets it start the server of the config; one at a URL is added as a connector in its settings".to_owned(),
            ),
            Self::NoLink { .. } => Some("`--write` writes its file".to_owned()),
            Self::NoToken { variable, .. } => Some(format!("run it again with the token in `{variable}`")),
            Self::Expanded { .. } => Some("rename the directory or file".to_owned()),
            Self::NoProject { .. } => Some("leave out `--project`".to_owned()),
            Self::AnyPort => Some("name a port in `server.http`, or the URL with `--url`".to_owned()),
            Self::Edit { error, is_removal, .. } => edit_help(error, *is_removal),
            Self::NoHome | Self::NoPath | Self::PathAndUrl => None,
        }
    }
}

impl Client {
    /// Adds an entry to the text of a client's file, and returns the new text.
    pub(crate) fn add(self, text: &str, entry: &Entry, force: bool) -> Result<String, EditError> {
        match self.syntax() {
            Syntax::Json => json_file::add(text, self.servers_key(), entry, force),
            Syntax::Toml => toml_file::add(text, self.servers_key(), entry, force),
        }
    }

    /// Removes an entry from the text of a client's file, and returns its name and the new text.
    pub(crate) fn remove(
        self,
        text: &str,
        name: Option<&str>,
        url: Option<&str>,
        force: bool,
    ) -> Result<(String, String), EditError> {
        match self.syntax() {
            Syntax::Json => json_file::remove(text, self.servers_key(), name, url, force),
            Syntax::Toml => toml_file::remove(text, self.servers_key(), name, url, force),
        }
    }
}

/// The names of all clients.
fn client_names() -> String {
    let names: Vec<_> = Client::value_variants().iter().map(|client| client.argument()).collect();
    names.join(", ")
}

fn edit_help(error: &EditError, is_removal: bool) -> Option<String> {
    let help = match error {
        EditError::Syntax(_) | EditError::NotATable(_) | EditError::Twice { .. } => "correct it; nothing was written",
        EditError::Other(_) if is_removal => {
            "it starts another program, or is at another URL than the config's server: pass `--url URL`; `--force` removes it anyway"
        }
        EditError::Other(_) => "choose another name with `--name`, or replace it with `--force`",
        EditError::Several(_) => "select one with `--name`",
        EditError::NoEntry { known, .. } if known.is_empty() => return None,
        EditError::NoEntry { name: Some(_), .. } => "name one of them with `--name`",
        EditError::NoEntry { .. } => "`--name` with one of them, and `--force`, removes a server that is another one",
    };
    Some(help.to_owned())
}

impl Args {
    /// Whether the client starts a server for paths, without a config.
    pub(super) fn has_paths(&self) -> bool {
        !self.paths.is_empty() || self.json && self.client.is_some()
    }

    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let (client, paths) = self.client_and_paths()?;
        let (server, own_name) = self.server.server(&paths, context)?;
        let name = self.name.clone().unwrap_or(own_name);
        let Some(client) = client else {
            let entry = Entry::new(&name, &server, None);
            return print(context, &json_file::add("", "mcpServers", &entry, false).unwrap_or_default());
        };
        if matches!(server, Server::Http { .. }) && !client.has_http() {
            return Err(ConnectError::NoHttp { client: client.title() }.into());
        }
        if let Server::Stdio { command, args } = &server
            && let Some(mark) = client.variable_mark()
            && let Some(text) = std::iter::once(command).chain(args).find(|text| text.contains(mark))
        {
            return Err(ConnectError::Expanded { client: client.title(), mark, text: text.clone() }.into());
        }
        if self.link {
            let link = Entry::new(&name, &server, Some(client)).link(client);
            return print(context, &link.ok_or(ConnectError::NoLink { client: client.title() })?);
        }
        if self.write {
            write(client, &name, &server, || self.place.open(client), self.force, context)
        } else {
            show(client, &name, server, &self.place.file(client)?, context)
        }
    }

    /// The client, if the first argument names one, and the paths.
    fn client_and_paths(&self) -> Result<(Option<Client>, Vec<PathBuf>), ConnectError> {
        match (&self.client, self.json) {
            (Some(ClientOrPath::Client(client)), false) => Ok((Some(*client), self.paths.clone())),
            (Some(ClientOrPath::Client(client)), true) => Err(ConnectError::JsonAndClient(client.argument())),
            (Some(ClientOrPath::Path(written)), false) => {
                Err(ConnectError::NoClient(written.to_string_lossy().into_owned()))
            }
            (None, false) => Err(ConnectError::MissingClient("connect")),
            (first, true) => {
                let first = first.iter().filter_map(|first| match first {
                    ClientOrPath::Path(path) => Some(PathBuf::from(path)),
                    ClientOrPath::Client(_) => None,
                });
                Ok((None, first.chain(self.paths.iter().cloned()).collect()))
            }
        }
    }
}

/// Prints the entry, and where the user puts it.
fn show(client: Client, name: &str, server: Server, file: &Path, context: &Context) -> Result<(), CliError> {
    // A placeholder is printed instead of the token.
    let server = match server {
        Server::Http { url, token: Some(token) } => {
            Server::Http { url, token: Some(Token { literal: "TOKEN".to_owned(), ..token }) }
        }
        other => other,
    };
    let entry = Entry::new(name, &server, Some(client));
    let text = client.add("", &entry, false).map_err(|error| ConnectError::Edit {
        file: file.to_owned(),
        error,
        is_removal: false,
    })?;
    print(context, &text)?;
    context.messages.note(&format!("add it to {}, or let `--write` do that", file.display()));
    tell_token(client, &server, context);
    Ok(())
}

/// Writes the entry into the client's file.
fn write(
    client: Client,
    name: &str,
    server: &Server,
    open: impl FnOnce() -> Result<ClientFile, CliError>,
    force: bool,
    context: &Context,
) -> Result<(), CliError> {
    if let Server::Http { token: Some(token), .. } = server
        && client.token_reference() == TokenReference::Literal
        && token.literal.is_empty()
    {
        let variable = token.variable.clone();
        return Err(ConnectError::NoToken { client: client.title(), variable }.into());
    }
    let entry = Entry::new(name, server, Some(client));
    let file = open()?;
    let error = |error| ConnectError::Edit { file: file.path().to_owned(), error, is_removal: false };
    let (text, replaced) = match client.add(file.text(), &entry, false) {
        Err(EditError::Other(other)) if force => {
            (client.add(file.text(), &entry, true).map_err(error)?, format!(" instead of {}", other.description()))
        }
        added => (added.map_err(error)?, String::new()),
    };
    if text == file.text() {
        context.messages.note(&format!("{} has the server `{name}` already", file.path().display()));
        return Ok(());
    }
    let backup = file.replace(&text)?;
    let was = backup.map(|backup| format!("; the previous content is in {}", backup.display())).unwrap_or_default();
    let shown = file.path().display();
    context.messages.note(&format!(
        "wrote the server `{name}` to {shown}{replaced}{was}; restart {}, or reload its servers",
        client.title()
    ));
    tell_token(client, server, context);
    Ok(())
}

/// Prints from where the client takes the token.
fn tell_token(client: Client, server: &Server, context: &Context) {
    let Server::Http { token: Some(token), .. } = server else { return };
    let (title, variable) = (client.title(), &token.variable);
    context.messages.note(&match client.token_reference() {
        TokenReference::Input => format!("{title} prompts for the token when it connects"),
        TokenReference::Variable(..) | TokenReference::VariableKey(_) => {
            format!("set `{variable}` to the token in the environment that {title} is started in")
        }
        TokenReference::Literal => {
            format!("{title} has no variables: its file has the token itself, and only you can read it")
        }
    });
}

fn print(context: &Context, text: &str) -> Result<(), CliError> {
    let mut output = context.output();
    for line in text.lines() {
        output.line(line)?;
    }
    Ok(output.flush()?)
}

/// The first argument: a client, or with `--json` a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClientOrPath {
    Client(Client),
    Path(OsString),
}

/// Parses the first argument, and lists the clients in the help.
#[derive(Clone)]
struct ClientParser;

impl TypedValueParser for ClientParser {
    type Value = ClientOrPath;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, value: &OsStr) -> Result<ClientOrPath, clap::Error> {
        let client = value.to_str().and_then(|name| Client::from_str(name, false).ok());
        Ok(client.map_or_else(|| ClientOrPath::Path(value.to_owned()), ClientOrPath::Client))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Client::value_variants().iter().filter_map(Client::to_possible_value)))
    }
}

/// Parses the name of a server. Every client accepts the allowed names.
fn server_name(text: &str) -> Result<String, String> {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let error = || "write letters, digits, `-` and `_`, beginning with a letter, as each client accepts".to_owned();
    is_name.then(|| text.to_owned()).ok_or_else(error)
}
