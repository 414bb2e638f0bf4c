//! The diff of one file, as in `git diff --full-index --no-renames`.

use crate::error::Result;
use crate::repo::Repository;
use crate::similarity;
use crate::tree::{Change, Entry, Side};
use crate::view::blob;
use crate::view::hunks::hunks;
use crate::view::text::quote;
use bstr::{BStr, ByteSlice};
use gix_hash::ObjectId;
use std::fmt::Write;
use std::rc::Rc;

/// The maximum size of a file that is compared line by line, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// The content of one side of a change.
enum Content {
    Text(Rc<Vec<u8>>),
    Binary,
    /// Exceeds [`MAX_FILE`]. The value is the size.
    TooLarge(u64),
    Missing,
}

/// Returns the number of bytes compared for one file.
pub(crate) fn cost(repository: &Repository, change: &Change) -> Result<u64> {
    let mut cost = 0_u64;
    for side in change.before.iter().chain(&change.after).filter(|side| !side.mode.is_commit()) {
        // Larger files are not compared.
        cost = cost.saturating_add(repository.odb.size(&side.id)?.filter(|size| *size <= MAX_FILE).unwrap_or_default());
    }
    Ok(cost)
}

/// Returns the diff of one file.
pub(crate) fn patch(repository: &Repository, change: &Change) -> Result<String> {
    let file_type = |side: &Side| side.mode.value() & 0o170_000;
    match (&change.before, &change.after) {
        // A change of type is shown as a deletion and an addition, as in git.
        (Some(before), Some(after)) if file_type(before) != file_type(after) => {
            let path = change.path.as_bstr();
            Ok(file_patch(repository, path, Some(before), None)? + &file_patch(repository, path, None, Some(after))?)
        }
        (before, after) => file_patch(repository, change.path.as_ref(), before.as_ref(), after.as_ref()),
    }
}

fn file_patch(repository: &Repository, path: &BStr, before: Option<&Side>, after: Option<&Side>) -> Result<String> {
    let (old, new) = (quote("a/", path), quote("b/", path));
    let mut text = format!("diff --git {old} {new}\n");
    let mode = |side: &Side| format!("{:06o}", side.mode.value());
    let same_mode = match (before, after) {
        (None, Some(after)) => heading(&mut text, "new file mode", &mode(after)),
        (Some(before), None) => heading(&mut text, "deleted file mode", &mode(before)),
        (Some(before), Some(after)) if before.mode != after.mode => {
            heading(&mut text, "old mode", &mode(before));
            heading(&mut text, "new mode", &mode(after))
        }
        (before, _) => before.map(mode),
    };
    let id = |side: Option<&Side>| side.map_or_else(|| repository.hash().null(), |side| side.id);
    if id(before) == id(after) {
        return Ok(text);
    }
    let behind = same_mode.map_or_else(String::new, |mode| format!(" {mode}"));
    // Writing to a string does not fail.
    let _ = writeln!(text, "index {}..{}{behind}", id(before), id(after));
    let old = if before.is_some() { old } else { "/dev/null".to_owned() };
    let new = if after.is_some() { new } else { "/dev/null".to_owned() };
    let differ = |why: &str| format!("Binary files {old} and {new} differ{why}\n");
    match (content(repository, before)?, content(repository, after)?) {
        (Content::Text(before), Content::Text(after)) => {
            let hunks = hunks(&before, &after);
            if !hunks.is_empty() {
                // A tab terminates a name with spaces, so that tools can parse it.
                let tab = if path.contains(&b' ') { "\t" } else { "" };
                let end = |name: &str| if name == "/dev/null" { String::new() } else { tab.to_owned() };
                let _ = write!(text, "--- {old}{}\n+++ {new}{}\n{hunks}", end(&old), end(&new));
            }
        }
        (Content::TooLarge(size), _) | (_, Content::TooLarge(size)) => {
            text += &differ(&format!(" (not compared line by line: {size} bytes, limit {MAX_FILE})"));
        }
        (Content::Missing, _) | (_, Content::Missing) => {
            text += &differ(" (not compared line by line: the content is missing from the repository)");
        }
        (Content::Binary, _) | (_, Content::Binary) => text += &differ(""),
    }
    Ok(text)
}

/// Writes an extended header line with a mode. In that case, the index line has no mode.
fn heading(text: &mut String, what: &str, mode: &str) -> Option<String> {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{what} {mode}");
    None
}

fn content(repository: &Repository, side: Option<&Side>) -> Result<Content> {
    let Some(side) = side else { return Ok(Content::Text(Rc::default())) };
    if side.mode.is_commit() {
        let entry = Entry { name: Default::default(), mode: side.mode, id: side.id };
        return Ok(Content::Text(Rc::new(blob::submodule(&entry).into_bytes())));
    }
    let id: ObjectId = side.id;
    match repository.odb.size(&id)? {
        None => return Ok(Content::Missing),
        Some(size) if size > MAX_FILE => return Ok(Content::TooLarge(size)),
        Some(_) => {}
    }
    let data = repository.odb.get(&id, gix_object::Kind::Blob)?;
    Ok(if similarity::is_binary(&data) { Content::Binary } else { Content::Text(data) })
}
