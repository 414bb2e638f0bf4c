//! The differences of two revisions: the changed files with their status, then the diff, as in `git diff --full-index
//! --no-renames A B`.
//!
//! With a path, only the changes of that file, or below that directory.

use crate::error::{Error, Result};
use crate::repo::Repository;
use crate::resource_entry;
use crate::rev::Rev;
use crate::tree::{self, Side};
use crate::view::changes::Changes;
use crate::view::text::single_line;
use bstr::{BStr, BString};
use mcp_provider::{Contents, Entry};

/// The MIME type of differences.
pub(crate) const MIME_TYPE: &str = "text/x-diff";

/// Reads the differences, of which at most `max_diff` bytes are shown.
pub(crate) fn read(
    repository: &Repository,
    max_diff: usize,
    before: &BStr,
    after: &BStr,
    path: Option<&BString>,
) -> Result<Contents> {
    let sides = [repository.rev(before)?, repository.rev(after)?];
    let [old, new] = &sides;
    let (old_tree, new_tree) = (repository.tree_of(old.id)?, repository.tree_of(new.id)?);
    let changes = match path {
        None => Changes::between(repository, Some(old_tree), Some(new_tree))?,
        Some(path) => {
            let found = [repository.entry(old_tree, path.as_ref())?, repository.entry(new_tree, path.as_ref())?];
            of_path(repository, path, found)?
        }
    };
    let help = || format!("Read them as blob/{}/PATH and blob/{}/PATH", old.id, new.id);
    let written = changes.write(repository, "", max_diff, help)?;
    let mut entry = entry(before, after, path, &sides);
    if written.is_truncated {
        entry = super::truncated(
            entry,
            format!("the differences are beyond {max_diff} bytes; its end names the files left out"),
        );
    }
    Ok(Contents::text(entry, written.text))
}

/// Returns the metadata of the differences.
pub(crate) fn stat(repository: &Repository, before: &BStr, after: &BStr, path: Option<&BString>) -> Result<Entry> {
    let sides = [repository.rev(before)?, repository.rev(after)?];
    for side in &sides {
        repository.tree_of(side.id)?;
    }
    Ok(entry(before, after, path, &sides))
}

/// Compares the entries at a path on both sides.
fn of_path(repository: &Repository, path: &BString, found: [Option<tree::Entry>; 2]) -> Result<Changes> {
    let is_tree = |entry: &Option<tree::Entry>| entry.as_ref().is_none_or(|entry| entry.mode.is_tree());
    let id = |entry: &Option<tree::Entry>| entry.as_ref().map(|entry| entry.id);
    let side = |entry: &Option<tree::Entry>| entry.as_ref().map(|entry| Side { mode: entry.mode, id: entry.id });
    match &found {
        [None, None] => Err(Error::NotFound),
        [old, new] if is_tree(old) && is_tree(new) => Changes::below(repository, path, id(old), id(new)),
        [Some(old), Some(new)] if old.mode.is_tree() != new.mode.is_tree() => Err(Error::Invalid(format!(
            "{:?} is a file in one revision and a directory in the other; leave out `path`",
            single_line(path)
        ))),
        [old, new] => Ok(Changes::of_file(path.clone(), side(old), side(new))),
    }
}

fn entry(before: &BStr, after: &BStr, path: Option<&BString>, [old, new]: &[Rev; 2]) -> Entry {
    let range = format!("{}..{}", single_line(before), single_line(after));
    let title = match path {
        Some(path) => format!("Differences of {} in {range}", single_line(path)),
        None => format!("Differences in {range}"),
    };
    let entry = Entry::new("", range).title(title).mime_type(MIME_TYPE);
    resource_entry::with_mutability(entry, if old.is_full_id { new } else { old })
}
