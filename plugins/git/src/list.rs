//! Listings: all files of the default revision, and the entries of a directory.
//!
//! A cursor is the last path of the previous page, so the cost of a page does not depend on its position, and deleted
//! entries do not invalidate a cursor. A page ends early, and may be empty, after many directories without files.

use crate::error::{Error, Result};
use crate::repo::Repository;
use crate::resource_entry;
use crate::settings::Settings;
use crate::tree::{Entries, FileWalk, is_after};
use bstr::{BStr, BString, ByteSlice};
use mcp_provider::{Page, path};

/// The maximum number of entries per page, whatever limit the host passes.
const MAX_PAGE_SIZE: usize = 1000;

/// Lists the files of the default revision, sorted by path.
pub(crate) fn default_files(
    repository: &Repository,
    settings: &Settings,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page> {
    let behind = cursor.map(path::decode_bytes).transpose()?.map(BString::from);
    let rev = settings.default_rev();
    let Some(tree) = repository.default_tree(rev.as_ref())? else { return Ok(Page::default()) };
    let resolved = repository.rev(rev.as_ref())?;
    let mut files = FileWalk::new(repository, &tree, behind.as_ref().map(|path| path.as_bstr()))?;
    let mut page = page(files.by_ref(), limit, |file| {
        let size = resource_entry::size_in_listing(&repository.odb, &file.entry);
        let entry = resource_entry::entry(rev.as_ref(), &resolved, file.path.as_ref(), &file.entry, size);
        (entry, path::encode(file.position()))
    })?;
    if let Some(place) = files.resume_position() {
        page.next_cursor = Some(path::encode(place));
    }
    Ok(page)
}

/// Lists the entries of a directory, in git's order.
pub(crate) fn children(
    repository: &Repository,
    rev: &BStr,
    directory: &BStr,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page> {
    let behind = cursor.map(parse_cursor).transpose()?;
    let resolved = repository.rev(rev)?;
    let found = repository.entry(repository.tree_of(resolved.id)?, directory)?.ok_or(Error::NotFound)?;
    if !found.mode.is_tree() {
        return Err(Error::Invalid(format!("{directory:?} is no directory")));
    }
    let mut entries = repository.entries(&found.id)?;
    let children = std::iter::from_fn(|| {
        let wanted =
            |name: &BStr, is_tree| behind.as_ref().is_none_or(|behind| is_after(name, is_tree, behind.as_ref()));
        entries.next_where(|name, mode| wanted(name, mode.is_tree())).transpose()
    });
    page(children, limit, |child| {
        let mut path = directory.to_owned();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&child.name);
        let size = resource_entry::size_in_listing(&repository.odb, &child);
        (resource_entry::entry(rev, &resolved, path.as_ref(), &child, size), path::encode(Entries::key(&child)))
    })
}

/// Collects a page from items. `present` returns the entry of an item, and the cursor of the page after it.
fn page<T>(
    mut items: impl Iterator<Item = Result<T>>,
    limit: usize,
    mut present: impl FnMut(T) -> (mcp_provider::Entry, String),
) -> Result<Page> {
    let mut page = Page::default();
    let mut last = None;
    for item in items.by_ref().take(limit.clamp(1, MAX_PAGE_SIZE)) {
        let (entry, cursor) = present(item?);
        page.entries.push(entry);
        last = Some(cursor);
    }
    // A cursor is returned only if there is a next item.
    page.next_cursor = items.next().transpose()?.and(last);
    Ok(page)
}

/// Decodes a directory cursor to an entry name; a directory's name ends with a slash.
fn parse_cursor(cursor: &str) -> Result<BString> {
    let name = cursor.strip_suffix('/').unwrap_or(cursor);
    let mut key = path::decode_segment_bytes(name)?;
    if name.len() < cursor.len() {
        key.push(b'/');
    }
    Ok(key.into())
}
