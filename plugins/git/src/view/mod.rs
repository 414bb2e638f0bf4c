//! What a resource holds, and what is told of it without reading it.

mod blob;
mod commit;
mod hunks;
mod log;
mod patch;
mod refs;
mod text;
mod tree;

use crate::error::Result;
use crate::paths::Address;
use crate::repo::Repository;
use crate::settings::Settings;
pub(crate) use commit::MIME_TYPE as COMMIT;
use mcp_provider::{Contents, Entry};
use text::BoundedText;

/// Said of text that was cut off, because it would have been too long.
const TRUNCATED: &str = "git/truncated";

/// Said of a log or of refs that go on behind what is shown.
const MORE: &str = "git/more";

/// How many bytes a directory, a log or the refs are told in.
const MAX_TEXT: usize = 4 * 1024 * 1024;

/// What a resource holds. The path in its entry is the caller's to set.
pub(crate) fn read(repository: &Repository, settings: &Settings, address: &Address) -> Result<Contents> {
    match address {
        Address::Blob { rev, path } => blob::read(repository, settings.max_blob, rev.as_ref(), path.as_ref()),
        Address::Tree { rev, path } => tree::read(repository, rev.as_ref(), path.as_ref()),
        Address::Commit { rev } => commit::read(repository, settings.max_diff, rev.as_ref()),
        Address::Log { rev, path, limit } => log::read(repository, rev.as_ref(), path.as_ref(), *limit),
        Address::Refs { after } => refs::read(repository, after.as_ref()),
    }
}

/// What is told of a resource. The path in the entry is the caller's to set.
pub(crate) fn stat(repository: &Repository, address: &Address) -> Result<Entry> {
    match address {
        Address::Blob { rev, path } => blob::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Tree { rev, path } => tree::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Commit { rev } => commit::stat(repository, rev.as_ref()),
        Address::Log { rev, path, .. } => log::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Refs { .. } => Ok(refs::stat()),
    }
}

/// Contents of text, which say so when it was cut off.
fn bounded_contents(entry: Entry, text: BoundedText) -> Contents {
    let entry = if text.omitted() > 0 { entry.meta(TRUNCATED, true) } else { entry };
    Contents::text(entry, text.into_string())
}
