//! What adding a server to the text of a client's file, and removing it, have in common in either syntax.

use std::fmt;
use std::path::Path;

use serde_json::Value as Json;

use super::entry::Value;

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
    #[error("it has `{key}` twice{}", .second.as_ref().map_or_else(String::new, |second| format!(", again on {second}")))]
    Twice {
        /// The key.
        key: String,
        /// Where it is the second time.
        second: Option<Position>,
    },
    /// It has another server of that name.
    #[error(transparent)]
    Other(OtherEntry),
    /// It has no server of that name, or none that is ours.
    #[error(
        "it has no {}{}",
        .name.as_ref().map_or_else(|| "server that `mcp-host connect` added".to_owned(), |name| format!("server `{name}`")),
        if .known.is_empty() { String::new() } else { format!("; its servers: {}", .known.join(", ")) }
    )]
    NoEntry {
        /// The name that was given.
        name: Option<String>,
        /// The names of the servers that it has.
        known: Vec<String>,
    },
    /// It has several that are ours.
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
    /// The place behind that much text.
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

    /// What it was.
    pub(super) fn description(&self) -> String {
        self.at.clone().unwrap_or_else(|| format!("another server `{}`", self.name))
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

/// The name of the entry to remove: the given one, or the only one that is ours. Ours starts `mcp-host`, or is at the URL of the config's
/// server; what is at another URL says nothing of the program.
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
