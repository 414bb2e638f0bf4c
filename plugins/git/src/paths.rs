//! The paths of resources, and their parsed form.
//!
//! | path | resource |
//! |---|---|
//! | `blob/{rev}/{+path}` | a file, link or submodule |
//! | `tree/{rev}` and `tree/{rev}/{+path}` | a directory |
//! | `commit/{rev}` | a commit with its diff |
//! | `log/{rev}{?path,limit,skip,follow}` | the history of a revision or a range, or the part that changed a path |
//! | `diff/{a}..{b}{?path}` | the differences of two revisions |
//! | `blame/{rev}/{+path}{?lines}` | the commits that the lines of a file come from |
//! | `refs{?after}` | all branches and tags, or those after one |
//!
//! A revision is one segment, so slashes in branch names are percent-encoded; slashes in file paths are not.

use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use mcp_provider::{Failure, Result, path};

/// The template of files. The other templates follow.
pub(crate) const BLOB: &str = "blob/{rev}/{+path}";
/// The template of directories.
pub(crate) const TREE: &str = "tree/{rev}/{+path}";
/// The template of commits.
pub(crate) const COMMIT: &str = "commit/{rev}";
/// The template of histories.
pub(crate) const LOG: &str = "log/{rev}{?path,limit,skip,follow}";
/// The template of differences.
pub(crate) const DIFF: &str = "diff/{a}..{b}{?path}";
/// The template of the origins of lines.
pub(crate) const BLAME: &str = "blame/{rev}/{+path}{?lines}";

/// The number of commits in a log, by default.
const DEFAULT_LOG_LIMIT: usize = 50;

/// The maximum number of commits in a log.
const MAX_LOG_LIMIT: usize = 1000;

/// The maximum number of commits that a log skips: the maximum that one response visits.
const MAX_LOG_SKIP: usize = 200_000;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A file at a revision.
    Blob {
        /// The revision.
        rev: BString,
        /// The file's path.
        path: BString,
    },
    /// A directory at a revision.
    Tree {
        /// The revision.
        rev: BString,
        /// The directory's path; empty for the root.
        path: BString,
    },
    /// A commit.
    Commit {
        /// The revision.
        rev: BString,
    },
    /// The history of a revision.
    Log {
        /// The revision whose history is excluded.
        since: Option<BString>,
        /// The revision.
        rev: BString,
        /// The path whose changes are shown; `None` shows all commits.
        path: Option<BString>,
        /// The range of commits that is shown.
        range: LogRange,
        /// Whether renames of the file at the path are followed.
        follow: bool,
    },
    /// The differences of two revisions.
    Diff {
        /// The revision before.
        before: BString,
        /// The revision after.
        after: BString,
        /// The file or directory; `None` shows all.
        path: Option<BString>,
    },
    /// The origins of the lines of a file.
    Blame {
        /// The revision.
        rev: BString,
        /// The file's path.
        path: BString,
        /// The lines.
        lines: LineRange,
    },
    /// All refs.
    Refs {
        /// The ref after which the list starts.
        after: Option<BString>,
    },
}

impl Address {
    /// Parses a path.
    pub(crate) fn parse(whole: &str) -> Result<Self> {
        let (location, query) = path::split_query(whole);
        let (family, rest) = location.split_once('/').unwrap_or((location, ""));
        let address = match family {
            "blob" | "tree" | "blame" => {
                let (rev, names) = rest.split_once('/').unwrap_or((rest, ""));
                let rev = revision(rev)?;
                match family {
                    "blob" | "blame" if names.is_empty() => {
                        return Err(Failure::invalid(format!(
                            "expected {{mount}}{family}/{{rev}}/{{+path}}, found no path"
                        )));
                    }
                    "blob" => Self::Blob { rev, path: path::decode_bytes(names)?.into() },
                    "blame" => {
                        let lines = query.map_or(Ok(LineRange::All), LineRange::parse)?;
                        return Ok(Self::Blame { rev, path: path::decode_bytes(names)?.into(), lines });
                    }
                    // Expanding the template with an empty path leaves a trailing slash, and a directory may have one.
                    _ => Self::Tree { rev, path: path::decode_bytes(names.strip_suffix('/').unwrap_or(names))?.into() },
                }
            }
            "commit" => Self::Commit { rev: revision(rest)? },
            "log" => {
                let (since, rev) = match range(rest)? {
                    Some((since, rev)) => (Some(since), rev),
                    None => (None, revision(rest)?),
                };
                let LogQuery { path, range, follow } = LogQuery::parse(query.unwrap_or_default())?;
                return Ok(Self::Log { since, rev, path, range, follow });
            }
            "diff" => {
                let Some((before, after)) = range(rest)? else {
                    return Err(Failure::invalid(format!("expected {{mount}}{DIFF}, found one revision")));
                };
                let path = query.map(diff_query).transpose()?.flatten();
                return Ok(Self::Diff { before, after, path });
            }
            "refs" if rest.is_empty() && location == family => {
                let after = query.map(refs_query).transpose()?;
                return Ok(Self::Refs { after });
            }
            _ => {
                return Err(Failure::invalid(format!(
                    "expected {BLOB}, {TREE}, {COMMIT}, {LOG}, {DIFF}, {BLAME} or refs, below {{mount}}"
                )));
            }
        };
        match query {
            None => Ok(address),
            Some(_) => Err(Failure::invalid("expected a query with `log`, `diff` and `blame` only")),
        }
    }

    /// Returns the revisions in the path.
    pub(crate) fn revs(&self) -> impl Iterator<Item = &BStr> {
        let (one, two) = match self {
            Self::Blob { rev, .. } | Self::Tree { rev, .. } | Self::Commit { rev } | Self::Blame { rev, .. } => {
                (Some(rev), None)
            }
            Self::Log { since, rev, .. } => (Some(rev), since.as_ref()),
            Self::Diff { before, after, .. } => (Some(after), Some(before)),
            Self::Refs { .. } => (None, None),
        };
        one.into_iter().chain(two).map(|rev| rev.as_bstr())
    }
}

/// Some of the commits of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogRange {
    /// The number of commits before the first one shown.
    pub(crate) skip: usize,
    /// The maximum number of commits shown.
    pub(crate) limit: usize,
}

impl Default for LogRange {
    fn default() -> Self {
        Self { skip: 0, limit: DEFAULT_LOG_LIMIT }
    }
}

impl LogRange {
    /// Returns the range after this one, of the same size.
    fn next(self) -> Self {
        Self { skip: self.skip.saturating_add(self.limit), ..self }
    }
}

/// A range of lines, from one, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineRange {
    /// All lines.
    All,
    /// `a-b`, or `a-` to the end.
    From(u32, u32),
    /// `-n`: the last `n` lines.
    Last(u32),
}

impl LineRange {
    fn parse(query: &str) -> Result<Self> {
        let expected = || {
            Failure::invalid(format!(
                "expected `lines=` and a range such as 1-20, 20- or -20 in the query, found {query:?}"
            ))
        };
        let (start, end) = match query.strip_prefix("lines=") {
            Some("") => return Ok(Self::All),
            Some(range) => range.split_once('-').ok_or_else(expected)?,
            None => return Err(expected()),
        };
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(expected);
        match (start, end) {
            ("", last) => Ok(Self::Last(number(last)?)),
            (start, "") => Ok(Self::From(number(start)?, u32::MAX)),
            (start, end) if number(start)? <= number(end)? => Ok(Self::From(number(start)?, number(end)?)),
            _ => Err(expected()),
        }
    }

    /// Resolves the range in a file of `count` lines, counted from zero.
    pub(crate) fn of(self, count: u32) -> std::ops::Range<u32> {
        match self {
            Self::All => 0..count,
            Self::From(start, end) => start.saturating_sub(1).min(count)..end.min(count),
            Self::Last(number) => count.saturating_sub(number)..count,
        }
    }
}

/// Builds the path of a file.
pub(crate) fn blob(rev: &BStr, path: &BStr) -> String {
    format!("blob/{}/{}", path::encode_segment(rev), path::encode(path))
}

/// Builds the path of a directory.
pub(crate) fn tree(rev: &BStr, path: &BStr) -> String {
    let rev = path::encode_segment(rev);
    if path.is_empty() { format!("tree/{rev}") } else { format!("tree/{rev}/{}", path::encode(path)) }
}

fn revision(segment: &str) -> Result<BString> {
    if segment.is_empty() {
        return Err(Failure::invalid("expected a revision: a branch, a tag or a commit"));
    }
    if segment.contains('/') {
        return Err(Failure::invalid(
            "expected one segment as the revision, its slashes percent-encoded: `feature%2Fx`; a log or a diff of a path has \
             it as a parameter, `?path=docs`",
        ));
    }
    Ok(path::decode_segment_bytes(segment)?.into())
}

/// Parses a range `a..b` in a segment. A missing end is `HEAD`. `None` if the segment is not a range.
fn range(segment: &str) -> Result<Option<(BString, BString)>> {
    let Some((start, end)) = segment.split_once("..") else { return Ok(None) };
    if end.starts_with('.') {
        return Err(Failure::invalid("expected a range of two dots, `a..b`: merge bases are not computed"));
    }
    let end_of_range = |segment: &str| if segment.is_empty() { Ok("HEAD".into()) } else { revision(segment) };
    Ok(Some((end_of_range(start)?, end_of_range(end)?)))
}

/// The query of a history.
struct LogQuery {
    path: Option<BString>,
    range: LogRange,
    follow: bool,
}

impl LogQuery {
    fn parse(query: &str) -> Result<Self> {
        let mut parsed = Self { path: None, range: LogRange::default(), follow: false };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("path" | "limit" | "skip" | "follow", "")) => {}
                Some(("path", value)) => parsed.path = Some(decode_query_path(value)?),
                Some(("limit", value)) => match value.parse() {
                    Ok(number @ 1..=MAX_LOG_LIMIT) => parsed.range.limit = number,
                    _ => {
                        return Err(Failure::invalid(format!(
                            "expected a limit from 1 to {MAX_LOG_LIMIT}, found {value:?}"
                        )));
                    }
                },
                Some(("skip", value)) => match value.parse() {
                    Ok(number @ 0..=MAX_LOG_SKIP) => parsed.range.skip = number,
                    _ => {
                        return Err(Failure::invalid(format!(
                            "expected a number of skipped commits from 0 to {MAX_LOG_SKIP}, found {value:?}"
                        )));
                    }
                },
                Some(("follow", "true")) => parsed.follow = true,
                Some(("follow", "false")) => parsed.follow = false,
                _ => {
                    return Err(Failure::invalid(format!(
                        "expected `path=`, `limit=`, `skip=` or `follow=true` in the query, found {part:?}"
                    )));
                }
            }
        }
        if parsed.follow && parsed.path.is_none() {
            return Err(Failure::invalid("expected `path=` and a file beside `follow=true`"));
        }
        Ok(parsed)
    }
}

fn diff_query(query: &str) -> Result<Option<BString>> {
    match query.strip_prefix("path=").filter(|value| !value.contains(['&', '='])) {
        Some("") => Ok(None),
        Some(value) => decode_query_path(value).map(Some),
        None => Err(Failure::invalid(format!("expected `path=` and a path in the query, found {query:?}"))),
    }
}

/// Builds the path of the commits after the ones shown; `None` if they are out of reach. `history` contains the ids of
/// the commit and of the excluded commit: an id is stable, a branch moves.
pub(crate) fn log_after(
    history: (&ObjectId, Option<&ObjectId>),
    path: Option<&BStr>,
    shown: LogRange,
    follow: bool,
) -> Option<String> {
    let LogRange { skip, limit } = shown.next();
    let (commit, since) = history;
    let rev = since.map_or_else(|| commit.to_string(), |since| format!("{since}..{commit}"));
    let path = path.map(|path| format!("path={}&", encode_query_value(path))).unwrap_or_default();
    let follow = if follow { "&follow=true" } else { "" };
    (skip <= MAX_LOG_SKIP).then(|| format!("log/{rev}?{path}limit={limit}&skip={skip}{follow}"))
}

/// Builds the path of the refs after the given one.
pub(crate) fn refs_after(name: &BStr) -> String {
    format!("refs?after={}", encode_query_value(name))
}

fn encode_query_value(value: &BStr) -> String {
    path::encode_segment(value).replace('&', "%26").replace('=', "%3D")
}

fn refs_query(query: &str) -> Result<BString> {
    let after = query.strip_prefix("after=").filter(|after| !after.contains(['&', '=']));
    let after = after.ok_or_else(|| Failure::invalid("expected `after=` and the full name of a ref in the query"))?;
    Ok(path::decode_segment_bytes(&after.replace('/', "%2F"))?.into())
}

/// Decodes a path in a query, where slashes may be percent-encoded.
fn decode_query_path(value: &str) -> Result<BString> {
    let names = value.split('/').map(path::decode_segment_bytes).collect::<Result<Vec<_>>>()?.join(&b'/');
    let names = names.strip_suffix(b"/").unwrap_or(&names);
    if names.split_str("/").any(|name| matches!(name, b"" | b"." | b"..")) {
        return Err(Failure::invalid("expected a path without empty, `.` and `..` segments"));
    }
    Ok(names.into())
}

#[cfg(test)]
mod tests;
