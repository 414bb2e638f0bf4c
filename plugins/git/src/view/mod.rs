//! Contents and metadata of resources.

mod blame;
mod blob;
mod changes;
mod commit;
mod diff;
mod hunks;
mod log;
mod patch;
mod refs;
mod text;
mod tree;

use crate::error::{Error, Result};
use crate::paths::Address;
use crate::repo::Repository;
use crate::resource_entry;
use crate::rev::Rev;
use crate::settings::Settings;
use crate::tree::Entry as TreeEntry;
use bstr::BStr;
pub(crate) use commit::MIME_TYPE as COMMIT;
pub(crate) use diff::MIME_TYPE as DIFF;
use gix_hash::ObjectId;
use mcp_provider::{Contents, Entry, Notice};
use text::{BoundedText, single_line};

/// The metadata key that marks truncated text.
const TRUNCATED: &str = "git/truncated";

/// The metadata key that marks a log, a blame or refs with further items.
const MORE: &str = "git/more";

/// The metadata key of the path at which a log or the refs continue.
const NEXT: &str = "git/next";

/// The maximum size of a directory, a log or the refs as text, in bytes.
const MAX_TEXT: usize = 4 * 1024 * 1024;

/// Reads a resource. The caller sets the path in its entry.
pub(crate) fn read(repository: &Repository, settings: &Settings, address: &Address) -> Result<Contents> {
    match address {
        Address::Blob { rev, path } => blob::read(repository, settings.max_blob, rev.as_ref(), path.as_ref()),
        Address::Tree { rev, path } => tree::read(repository, rev.as_ref(), path.as_ref()),
        Address::Commit { rev } => commit::read(repository, settings.max_diff, rev.as_ref()),
        Address::Log { since, rev, path, range, follow } => {
            let query = log::Query { since: since.as_ref(), rev, path: path.as_ref(), follow: *follow };
            log::read(repository, &query, *range)
        }
        Address::Diff { before, after, path } => {
            diff::read(repository, settings.max_diff, before.as_ref(), after.as_ref(), path.as_ref())
        }
        Address::Blame { rev, path, lines } => blame::read(repository, rev.as_ref(), path.as_ref(), *lines),
        Address::Refs { after } => refs::read(repository, after.as_ref()),
    }
}

/// Returns the metadata of a resource. The caller sets the path in the entry.
pub(crate) fn stat(repository: &Repository, address: &Address) -> Result<Entry> {
    match address {
        Address::Blob { rev, path } => blob::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Tree { rev, path } => tree::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Commit { rev } => commit::stat(repository, rev.as_ref()),
        Address::Log { since, rev, path, follow, .. } => {
            log::stat(repository, &log::Query { since: since.as_ref(), rev, path: path.as_ref(), follow: *follow })
        }
        Address::Diff { before, after, path } => diff::stat(repository, before.as_ref(), after.as_ref(), path.as_ref()),
        Address::Blame { rev, path, .. } => blame::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Refs { .. } => Ok(refs::stat()),
    }
}

/// Returns what is at a path of a tree.
fn entry_at(repository: &Repository, tree: ObjectId, path: &BStr) -> Result<TreeEntry> {
    repository.entry(tree, path)?.ok_or_else(|| {
        ::log::debug!("{:?} is not in the tree {tree}", single_line(path));
        Error::NotFound
    })
}

/// The error for a resource of another kind than the path asks for.
fn wrong_kind(path: &BStr, found: &str, help: &str) -> Error {
    Error::Invalid(format!("{:?} is {found}: {help}", single_line(path)))
}

/// The number of leading bytes without NUL that make a file count as text.
const BINARY_CHECK_BYTES: usize = 8000;

/// Returns whether a file is not text.
pub(crate) fn is_binary(data: &[u8]) -> bool {
    data.get(..BINARY_CHECK_BYTES).unwrap_or(data).contains(&0)
}

/// Marks an entry that depends on history as immutable or as subscribable. A shallow history may be deepened, so even
/// that of a full id may change.
fn with_history_mutability(repository: &Repository, entry: Entry, rev: &Rev) -> Result<Entry> {
    Ok(match repository.shallow()?.is_empty() {
        true => resource_entry::with_mutability(entry, rev),
        false => entry.subscribable(),
    })
}

/// Marks an entry whose text was truncated.
fn truncated(entry: Entry, why: impl Into<String>) -> Entry {
    entry.meta(TRUNCATED, true).notice(Notice::cut(why))
}

/// Creates text contents, marked if the text was truncated.
fn bounded_contents(entry: Entry, text: BoundedText) -> Contents {
    let entry = match text.omitted() {
        0 => entry,
        lines => truncated(entry, format!("{lines} further lines are beyond {MAX_TEXT} bytes")),
    };
    Contents::text(entry, text.into_string())
}
