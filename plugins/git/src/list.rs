//! Listings: all files of the default revision, and what is in a directory.
//!
//! A page begins behind the path that its cursor is, so it costs what it holds, wherever it begins. An entry that is
//! gone in the meantime changes nothing about that. It ends early, and may be empty, where directories without files go on
//! for long.

use crate::error::{Error, Result};
use crate::provider::default_tree;
use crate::repo::Repository;
use crate::resource_entry;
use crate::settings::Settings;
use crate::tree::{Entries, FileWalk, is_after};
use bstr::{BStr, BString, ByteSlice};
use mcp_provider::{Page, path};

/// How many entries a page has at most, whatever the host could use.
const MAX_PAGE_SIZE: usize = 1000;

/// The files of the default revision, in the order of their paths.
pub(crate) fn default_files(
    repository: &Repository,
    settings: &Settings,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page> {
    let behind = cursor.map(path::decode_bytes).transpose()?.map(BString::from);
    let Some(tree) = default_tree(repository, settings)? else { return Ok(Page::default()) };
    let rev = settings.default_rev();
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

/// What is in a directory, in git's order.
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
        return Err(Error::NotFound);
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

/// A page of what comes, each with the cursor that begins behind it.
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
    // A cursor is only given when something comes behind it.
    page.next_cursor = items.next().transpose()?.and(last);
    Ok(page)
}

/// The name that a cursor of a directory stands for, with a slash behind it where it was a directory.
fn parse_cursor(cursor: &str) -> Result<BString> {
    let name = cursor.strip_suffix('/').unwrap_or(cursor);
    let mut key = path::decode_segment_bytes(name)?;
    if name.len() < cursor.len() {
        key.push(b'/');
    }
    Ok(key.into())
}
