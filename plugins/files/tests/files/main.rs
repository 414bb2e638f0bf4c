//! The provider on directories on disk.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    reason = "code of tests"
)]

mod changes;
mod documents;
mod hostile;
mod ignored;
mod listing;
mod names;
mod reading;

use files_provider::Files;
use mcp_provider::Entry;

/// A temporary directory and the provider that serves it.
type Fixture = folder::fixture::Fixture<Files>;

const EMPTY: [(&str, &str); 0] = [];

/// Returns a text in the metadata of an entry.
fn meta<'a>(entry: &'a Entry, name: &str) -> Option<&'a str> {
    entry.meta.get(name).and_then(|value| value.as_str())
}

/// Returns a number in the metadata of an entry.
fn number(entry: &Entry, name: &str) -> Option<u64> {
    entry.meta.get(name).and_then(serde_json::Value::as_u64)
}
