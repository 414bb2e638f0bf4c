//! Directories. The host creates a directory's index from its children.

use crate::error::Result;
use crate::paths;
use crate::repo::Repository;
use crate::resource_entry;
use crate::rev::Rev;
use crate::tree;
use bstr::BStr;
use mcp_provider::{Contents, Entry};

/// Reads a directory of a revision.
pub(crate) fn read(repository: &Repository, rev: &BStr, path: &BStr) -> Result<Contents> {
    stat(repository, rev, path).map(Contents::directory)
}

/// Returns the metadata of a directory.
pub(crate) fn stat(repository: &Repository, rev: &BStr, path: &BStr) -> Result<Entry> {
    let (resolved, found) = find(repository, rev, path)?;
    Ok(resource_entry::entry(rev, &resolved, path, &found, None))
}

fn find(repository: &Repository, rev: &BStr, path: &BStr) -> Result<(Rev, tree::Entry)> {
    let resolved = repository.rev(rev)?;
    let tree = repository.tree_of(resolved.id)?;
    match super::entry_at(repository, tree, path)? {
        found if found.mode.is_tree() => Ok((resolved, found)),
        _ => Err(super::wrong_kind(path, "no directory", &format!("read {}", paths::blob(rev, path)))),
    }
}
