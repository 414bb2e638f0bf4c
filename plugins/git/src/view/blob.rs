//! Files, links and submodules.
//!
//! A file is served as stored: no filters, no end-of-line conversion, and a Git LFS pointer as its text. A link is
//! served as its target path, and is never followed. A submodule is served as the line that git shows for it in diffs.

use crate::error::{Error, Result};
use crate::odb::check_memory_budget;
use crate::paths;
use crate::repo::Repository;
use crate::resource_entry;
use crate::rev::Rev;
use crate::tree;
use bstr::BStr;
use gix_object::Kind;
use mcp_provider::{Contents, Entry};
use std::rc::Rc;

/// The first line of a Git LFS pointer.
const LFS_PREFIX: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";

/// The maximum size of a Git LFS pointer in bytes, by its specification.
const MAX_LFS_POINTER: u64 = 1024;

/// Reads a file, link or submodule at a path of a revision.
pub(crate) fn read(repository: &Repository, max_size: u64, rev: &BStr, path: &BStr) -> Result<Contents> {
    let (resolved, found) = find(repository, rev, path)?;
    if found.mode.is_commit() {
        let entry = resource_entry::entry(rev, &resolved, path, &found, None);
        return Ok(Contents::text(entry, submodule(&found)));
    }
    let size = size(repository, &found)?;
    check_memory_budget(&found.id, size, max_size)?;
    let entry = resource_entry::entry(rev, &resolved, path, &found, Some(size));
    let data = repository.odb.get(&found.id, Kind::Blob)?;
    let data = Rc::try_unwrap(data).unwrap_or_else(|shared| shared.to_vec());
    let is_pointer = data.starts_with(LFS_PREFIX);
    let mut contents = Contents::bytes(entry, data);
    let is_text = contents.as_text().is_some();
    match contents.entry.mime_type {
        Some(_) if !is_pointer => {}
        _ if is_text => contents.entry.mime_type = Some("text/plain".to_owned()),
        Some(_) => {}
        None => contents.entry.mime_type = Some("application/octet-stream".to_owned()),
    }
    Ok(contents)
}

/// Returns the metadata of a file, link or submodule. Content is read only if its size fits a Git LFS pointer.
pub(crate) fn stat(repository: &Repository, rev: &BStr, path: &BStr) -> Result<Entry> {
    let (resolved, found) = find(repository, rev, path)?;
    if found.mode.is_commit() {
        return Ok(resource_entry::entry(rev, &resolved, path, &found, Some(submodule(&found).len() as u64)));
    }
    let size = size(repository, &found)?;
    let mut entry = resource_entry::entry(rev, &resolved, path, &found, Some(size));
    let may_be_pointer = found.mode.is_blob() && (LFS_PREFIX.len() as u64..=MAX_LFS_POINTER).contains(&size);
    if may_be_pointer && repository.odb.get(&found.id, Kind::Blob)?.starts_with(LFS_PREFIX) {
        entry.mime_type = Some("text/plain".to_owned());
    }
    Ok(entry)
}

/// Returns the content of a submodule, here and in diffs.
pub(crate) fn submodule(found: &tree::Entry) -> String {
    format!("Subproject commit {}\n", found.id)
}

fn find(repository: &Repository, rev: &BStr, path: &BStr) -> Result<(Rev, tree::Entry)> {
    let resolved = repository.rev(rev)?;
    let tree = repository.tree_of(resolved.id)?;
    match super::entry_at(repository, tree, path)? {
        found if found.mode.is_tree() => {
            let help = format!("read {}", paths::tree(rev, path));
            Err(super::wrong_kind(path, "a directory", &help))
        }
        found => Ok((resolved, found)),
    }
}

fn size(repository: &Repository, found: &tree::Entry) -> Result<u64> {
    resource_entry::size(&repository.odb, found)?.ok_or(Error::Missing(found.id))
}
