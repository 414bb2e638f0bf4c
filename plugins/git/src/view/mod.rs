//! Contents and metadata of resources.

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

/// The metadata key that marks truncated text.
const TRUNCATED: &str = "git/truncated";

/// The metadata key that marks a log or refs with further items.
const MORE: &str = "git/more";

/// The maximum size of a directory, a log or the refs as text, in bytes.
const MAX_TEXT: usize = 4 * 1024 * 1024;

/// Reads a resource. The caller sets the path in its entry.
pub(crate) fn read(repository: &Repository, settings: &Settings, address: &Address) -> Result<Contents> {
    match address {
        Address::Blob { rev, path } => blob::read(repository, settings.max_blob, rev.as_ref(), path.as_ref()),
        Address::Tree { rev, path } => tree::read(repository, rev.as_ref(), path.as_ref()),
        Address::Commit { rev } => commit::read(repository, settings.max_diff, rev.as_ref()),
        Address::Log { rev, path, limit } => log::read(repository, rev.as_ref(), path.as_ref(), *limit),
        Address::Refs { after } => refs::read(repository, after.as_ref()),
    }
}

/// Returns the metadata of a resource. The caller sets the path in the entry.
pub(crate) fn stat(repository: &Repository, address: &Address) -> Result<Entry> {
    match address {
        Address::Blob { rev, path } => blob::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Tree { rev, path } => tree::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Commit { rev } => commit::stat(repository, rev.as_ref()),
        Address::Log { rev, path, .. } => log::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Refs { .. } => Ok(refs::stat()),
    }
}

/// Creates text contents, marked if the text was truncated.
fn bounded_contents(entry: Entry, text: BoundedText) -> Contents {
    let entry = if text.omitted() > 0 { entry.meta(TRUNCATED, true) } else { entry };
    Contents::text(entry, text.into_string())
}
