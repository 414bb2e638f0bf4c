//! Directories, in the format of `git ls-tree`: mode, kind, id and name of each entry, one per line.

use crate::error::Result;
use crate::paths;
use crate::repo::Repository;
use crate::resource_entry;
use crate::rev::Rev;
use crate::tree;
use crate::view::text::{BoundedText, quote};
use bstr::BStr;
use mcp_provider::{Contents, Entry};

/// Reads a directory of a revision.
pub(crate) fn read(repository: &Repository, rev: &BStr, path: &BStr) -> Result<Contents> {
    let (resolved, found) = find(repository, rev, path)?;
    let mut text = BoundedText::new(super::MAX_TEXT);
    for entry in repository.entries(&found.id)? {
        let tree::Entry { name, mode, id } = entry?;
        let kind = if mode.is_tree() {
            "tree"
        } else if mode.is_commit() {
            "commit"
        } else {
            "blob"
        };
        text.push(&format!("{:06o} {kind} {id}\t{}\n", mode.value(), quote("", name.as_ref())));
    }
    let entry = resource_entry::entry(rev, &resolved, path, &found, None).mime_type("text/plain");
    Ok(super::bounded_contents(entry, text))
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
