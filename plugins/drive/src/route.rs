//! The routes: the mapping from paths to resources.
//!
//! | path | resource |
//! |---|---|
//! | `folder/{id}` | a folder: an index |
//! | `file/{id}{?bytes}` | a file, or a part of it |
//! | `file/{id}/chunk/{n}` | a chunk of its text |
//! | `file/{id}/sheet/{n}` | a sheet of a spreadsheet |
//! | `search{?q}` | the files that contain a text |

use crate::id::Id;
use mcp_provider::{Failure, PathTemplate, Result, path};

pub(crate) const FILE: &str = "file/{id}{?bytes}";
pub(crate) const CHUNK: &str = "file/{id}/chunk/{n}";
pub(crate) const SHEET: &str = "file/{id}/sheet/{n}";
pub(crate) const FOLDER: &str = "folder/{id}";
pub(crate) const SEARCH: &str = "search{?q}";

/// The maximum length of a search text, in bytes.
const MAX_SEARCH: usize = 1000;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Folder(Id),
    File(Id, Option<Bytes>),
    /// A chunk, numbered from 1.
    Chunk(Id, usize),
    /// A sheet, numbered from 1.
    Sheet(Id, usize),
    Search(String),
}

/// A range of bytes, numbered from 0, including the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) first: u64,
    /// The last byte; `None` for the end of the file.
    pub(crate) last: Option<u64>,
}

impl Bytes {
    /// Parses `0-4095` or `4096-`.
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let number =
            |text: &str| Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok();
        let first = number(first)?;
        let last = if last.is_empty() { None } else { Some(number(last)?) };
        last.is_none_or(|last| last >= first).then_some(Self { first, last })
    }
}

impl Route {
    /// Parses a path, whether or not the resource exists.
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let (before, query) = path::split_query(path);
        let segments: Vec<&str> = before.split('/').collect();
        match (segments.as_slice(), query) {
            (["search"], _) => search(path),
            (["file", id], None) => Ok(Self::File(Id::of_path(id)?, None)),
            (["file", id], Some(_)) => Ok(Self::File(Id::of_path(id)?, Some(bytes(path)?))),
            (["folder", id], None) => Ok(Self::Folder(Id::of_path(id)?)),
            (["file", id, "chunk", n], None) => Ok(Self::Chunk(Id::of_path(id)?, number(n)?)),
            (["file", id, "sheet", n], None) => Ok(Self::Sheet(Id::of_path(id)?, number(n)?)),
            _ => Err(Failure::NotFound),
        }
    }

    /// Returns the path of a file.
    pub(crate) fn file(id: &Id) -> String {
        format!("file/{id}")
    }

    /// Returns the path of a folder.
    pub(crate) fn folder(id: &Id) -> String {
        format!("folder/{id}")
    }

    /// Returns the path of a chunk.
    pub(crate) fn chunk(id: &Id, n: usize) -> String {
        format!("file/{id}/chunk/{n}")
    }

    /// Returns the path of a sheet.
    pub(crate) fn sheet(id: &Id, n: usize) -> String {
        format!("file/{id}/sheet/{n}")
    }
}

/// Parses a number from 1. Only the canonical spelling is accepted, so an access rule for a path covers the resource.
fn number(text: &str) -> Result<usize> {
    let number = text.parse::<usize>().ok().filter(|number| *number > 0 && number.to_string() == text);
    number.ok_or(Failure::NotFound)
}

fn search(path: &str) -> Result<Route> {
    let template = PathTemplate::parse(SEARCH)?;
    let captures = template.matches(path);
    let text = captures.as_ref().and_then(|captures| captures.get("q")).map(str::trim).unwrap_or_default();
    if text.is_empty() || text.len() > MAX_SEARCH || text.contains(char::is_control) {
        return Err(Failure::invalid(format!(
            "expected a text of 1 to {MAX_SEARCH} bytes in `q`, such as `{{mount}}search?q=travel%20expenses`"
        )));
    }
    Ok(Route::Search(text.to_owned()))
}

fn bytes(path: &str) -> Result<Bytes> {
    let captures = PathTemplate::parse(FILE)?.matches(path);
    let bytes = captures.as_ref().and_then(|captures| captures.get("bytes")).and_then(Bytes::parse);
    bytes.ok_or_else(|| Failure::invalid("expected a range of bytes from 0, such as `?bytes=0-4095` or `?bytes=4096-`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_of_the_templates() {
        let id = Id::parse("1a-B_").unwrap();
        for (path, route) in [
            ("file/1a-B_", Route::File(id.clone(), None)),
            ("file/1a-B_?bytes=5-", Route::File(id.clone(), Some(Bytes { first: 5, last: None }))),
            ("file/1a-B_?bytes=0-9", Route::File(id.clone(), Some(Bytes { first: 0, last: Some(9) }))),
            ("file/1a-B_/chunk/12", Route::Chunk(id.clone(), 12)),
            ("file/1a-B_/sheet/1", Route::Sheet(id.clone(), 1)),
            ("folder/1a-B_", Route::Folder(id)),
            ("search?q=%20it%27s%20", Route::Search("it's".to_owned())),
        ] {
            assert_eq!(Route::parse(path), Ok(route), "{path}");
        }
    }

    #[test]
    fn an_unknown_path_is_not_found_and_a_malformed_one_says_what_is_expected() {
        for path in [
            "",
            "x",
            "file",
            "file/",
            "file/a%27",
            "file/a/",
            "file/a/chunk/0",
            "file/a/chunk/01",
            "file/a/chunk/+1",
            "file/a/chunk/1?x",
            "folder/a?bytes=0-",
            "searches",
        ] {
            assert_eq!(Route::parse(path), Err(Failure::NotFound), "{path}");
        }
        for path in [
            "search",
            "search?q=",
            "search?q=%20",
            "search?x=1",
            "file/a?",
            "file/a?bytes=9-1",
            "file/a?bytes=-5",
            "file/a?b=1",
        ] {
            assert!(matches!(Route::parse(path), Err(Failure::InvalidRequest(_))), "{path}");
        }
    }
}
