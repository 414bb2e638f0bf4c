//! Adding a server to the text of a client's file, and removing it, in either syntax.

use std::path::Path;

use serde_json::Value as Json;

use super::client::{Client, Syntax};
use super::entry::{Entry, Value};
use super::{json_file, toml_file};

/// Why a file cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    /// It has a mistake in its syntax.
    #[error("{0}")]
    Syntax(String),
    /// The file, or the value of that key, has another type.
    #[error("{} is not an object", .0.as_ref().map_or_else(|| "its content".to_owned(), |key| format!("`{key}`")))]
    NotATable(Option<String>),
    /// It has a key twice.
    #[error("it has `{0}` twice")]
    Twice(String),
    /// It has another server of that name.
    #[error(transparent)]
    Other(OtherEntry),
    /// It has no server of that name, or none that is ours.
    #[error("it has no {}", .0.as_ref().map_or_else(|| "server that `mcp-host connect` added".to_owned(), |name| format!("server `{name}`")))]
    NoEntry(Option<String>),
    /// It has several that are ours.
    #[error("it has several servers that start `mcp-host`: {}", .0.join(", "))]
    Several(Vec<String>),
}

/// A server of the same name that starts something else, or is elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has another server `{name}`{}", .at.as_ref().map_or_else(String::new, |at| format!(", {at}")))]
pub(crate) struct OtherEntry {
    name: String,
    /// Its command or its URL.
    at: Option<String>,
}

impl OtherEntry {
    pub(super) fn named(name: &str, entry: &Json) -> Self {
        let at = ["command", "url", "httpUrl"].iter().find_map(|key| entry.get(key)?.as_str()).map(str::to_owned);
        // The program is the same: what it serves is in its arguments.
        let args = entry.get("args").and_then(Json::as_array).filter(|_| starts_host(entry));
        let args = args.into_iter().flatten().filter_map(Json::as_str).map(|arg| format!(" {arg}"));
        let args: String = args.collect();
        Self { name: name.to_owned(), at: at.map(|at| at + &args) }
    }
}

/// Adds an entry to the text of a client's file, and returns the new text.
pub(crate) fn add(client: Client, text: &str, entry: &Entry, force: bool) -> Result<String, EditError> {
    match client.syntax() {
        Syntax::Json => json_file::add(text, client.servers_key(), entry, force),
        Syntax::Toml => toml_file::add(text, client.servers_key(), entry, force),
    }
}

/// Removes an entry from the text of a client's file, and returns its name and the new text.
pub(crate) fn remove(
    client: Client,
    text: &str,
    name: Option<&str>,
    force: bool,
) -> Result<(String, String), EditError> {
    match client.syntax() {
        Syntax::Json => json_file::remove(text, client.servers_key(), name, force),
        Syntax::Toml => toml_file::remove(text, client.servers_key(), name, force),
    }
}

/// Whether an entry is this server already, and may be changed: it starts `mcp-host`, wherever that is, with the same arguments, or has
/// the same URL. One that serves something else is another server.
pub(super) fn is_own(entry: &Json, new: &Value) -> bool {
    let new = new.to_json();
    let is_same_url = ["url", "httpUrl"].iter().any(|key| new.get(key).is_some() && new.get(key) == entry.get(key));
    is_same_url || starts_host(entry) && entry.get("args") == new.get("args")
}

/// Whether it starts this program, wherever that is.
fn starts_host(entry: &Json) -> bool {
    let command = entry.get("command").and_then(Json::as_str);
    command.and_then(|command| Path::new(command).file_name()).is_some_and(|name| name == "mcp-host")
}

/// The name of the entry to remove: the given one, or the only one that is ours.
pub(super) fn entry_to_remove(
    entries: &[(String, Json)],
    name: Option<&str>,
    force: bool,
) -> Result<String, EditError> {
    if let Some(name) = name {
        let Some((_, entry)) = entries.iter().find(|(known, _)| known == name) else {
            return Err(EditError::NoEntry(Some(name.to_owned())));
        };
        // What has no command is at a URL, which says nothing of the program: the name is enough.
        return match force || starts_host(entry) || entry.get("command").is_none() {
            true => Ok(name.to_owned()),
            false => Err(EditError::Other(OtherEntry::named(name, entry))),
        };
    }
    let own: Vec<_> = entries.iter().filter(|(_, entry)| starts_host(entry)).map(|(name, _)| name.clone()).collect();
    match own.as_slice() {
        [] => Err(EditError::NoEntry(None)),
        [name] => Ok(name.clone()),
        _ => Err(EditError::Several(own)),
    }
}
