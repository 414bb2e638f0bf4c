//! Adding a server to a client's file, and removing one: the parts that JSON and TOML share.

use std::fmt;
use std::path::Path;

use serde_json::Value as Json;

use super::entry::Value;

/// Why a file cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    /// The file has a syntax error.
    #[error("{0}")]
    Syntax(String),
    /// The file, or the value of this key, has another type.
    #[error("{} is not an object", .0.as_ref().map_or_else(|| "its content".to_owned(), |key| format!("`{key}`")))]
    NotATable(Option<String>),
    /// The file has a key twice.
    #[error("it has `{key}` twice{}", .second.as_ref().map_or_else(String::new, |second| format!(", again on {second}")))]
    Twice {
        /// The key.
        key: String,
        /// The place of the second one.
        second: Option<Position>,
    },
    /// The file has another server with this name.
    #[error(transparent)]
    Other(OtherEntry),
    /// The file has no server with this name, or no entry that `connect` added.
    #[error(
        "it has no {}{}",
        .name.as_ref().map_or_else(|| "server that `mcp-host connect` added".to_owned(), |name| format!("server `{name}`")),
        if .known.is_empty() { String::new() } else { format!("; its servers: {}", .known.join(", ")) }
    )]
    NoEntry {
        /// The name that was given.
        name: Option<String>,
        /// The names of the servers in the file.
        known: Vec<String>,
    },
    /// The file has several entries that `connect` added.
    #[error("it has several servers of `mcp-host`: {}", .0.join(", "))]
    Several(Vec<String>),
}

/// A place in a text. Lines and columns are counted from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    line: usize,
    column: usize,
}

impl Position {
    /// The place behind this text.
    pub(super) fn after(text: &str) -> Self {
        let (before, line) = text.rsplit_once('\n').unwrap_or(("", text));
        let lines = if text.contains('\n') { before.matches('\n').count().saturating_add(2) } else { 1 };
        Self { line: lines, column: line.chars().count().saturating_add(1) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

/// A server with the same name that starts another program or has another URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has another server `{name}`{}", .at.as_ref().map_or_else(String::new, |at| format!(", {at}")))]
pub(crate) struct OtherEntry {
    name: String,
    /// The server's command or URL.
    at: Option<String>,
}

impl OtherEntry {
    pub(super) fn named(name: &str, entry: &Json) -> Self {
        let at = ["command", "url", "httpUrl"].iter().find_map(|key| entry.get(key)?.as_str()).map(str::to_owned);
        // The program is the same; the arguments show what it serves.
        let args = entry.get("args").and_then(Json::as_array).filter(|_| starts_host(entry));
        let args = args.into_iter().flatten().filter_map(Json::as_str).map(|arg| format!(" {arg}"));
        let args: String = args.collect();
        Self { name: name.to_owned(), at: at.map(|at| at + &args) }
    }

    /// The server before the change, for messages.
    pub(super) fn description(&self) -> String {
        self.at.clone().unwrap_or_else(|| format!("another server `{}`", self.name))
    }
}

/// Whether an entry is this server already, and may be replaced: it starts `mcp-host` at any path with the same
/// arguments, or has the same URL. An entry with other arguments is another server.
pub(super) fn is_own(entry: &Json, new: &Value) -> bool {
    let new = new.to_json();
    let is_same_url = ["url", "httpUrl"].iter().any(|key| new.get(key).is_some() && new.get(key) == entry.get(key));
    is_same_url || starts_host(entry) && entry.get("args") == new.get("args")
}

/// Whether an entry starts this program, at any path.
fn starts_host(entry: &Json) -> bool {
    let command = entry.get("command").and_then(Json::as_str);
    command.and_then(|command| Path::new(command).file_name()).is_some_and(|name| name == "mcp-host")
}

/// The name of the entry to remove: the given one, or the only entry of this program. Such an entry starts `mcp-host`,
/// or has the URL of the config's server; another URL does not show which program answers.
pub(super) fn entry_to_remove(
    entries: &[(String, Json)],
    name: Option<&str>,
    url: Option<&str>,
    force: bool,
) -> Result<String, EditError> {
    let is_at_url = |entry: &Json| {
        ["url", "httpUrl"].iter().any(|key| url.is_some() && entry.get(key).and_then(Json::as_str) == url)
    };
    let is_own = |entry: &Json| starts_host(entry) || is_at_url(entry);
    let none = |name: Option<&str>| EditError::NoEntry {
        name: name.map(str::to_owned),
        known: entries.iter().map(|(name, _)| name.clone()).collect(),
    };
    if let Some(name) = name {
        let Some((_, entry)) = entries.iter().find(|(known, _)| known == name) else {
            return Err(none(Some(name)));
        };
        return match force || is_own(entry) {
            true => Ok(name.to_owned()),
            false => Err(EditError::Other(OtherEntry::named(name, entry))),
        };
    }
    let own: Vec<_> = entries.iter().filter(|(_, entry)| is_own(entry)).map(|(name, _)| name.clone()).collect();
    match own.as_slice() {
        [] => Err(none(None)),
        [name] => Ok(name.clone()),
        _ => Err(EditError::Several(own)),
    }
}
