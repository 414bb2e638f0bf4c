//! Helpers of the tests.

#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries, each of which uses a part of it")]

use mcp_provider::{Entry, Provider};
use notes_provider::Notes;
use serde_json::Value;

/// A temporary folder of notes.
pub(crate) type Fixture = folder::fixture::Fixture<Notes>;

/// Returns the faults in a note's metadata.
pub(crate) fn faults(fixture: &Fixture, path: &str) -> Vec<String> {
    strings(&fixture.provider.stat(path).unwrap(), "notes/faults")
}

/// Returns a list of strings in the metadata of an entry.
pub(crate) fn strings(entry: &Entry, name: &str) -> Vec<String> {
    let list = entry.meta.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}
