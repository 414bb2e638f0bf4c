//! The differences between two trees.
//!
//! Identical subtrees are not read, so the cost depends on the size of the difference. Both trees are merged in their
//! order, directories included, and changes are reported sorted by path.

use crate::error::{Error, Result};
use crate::repo::Repository;
use crate::tree::{Entries, Entry, MAX_PATH};
use bstr::BString;
use gix_hash::ObjectId;
use gix_object::tree::EntryMode;
use std::cmp::Ordering;

/// The maximum number of trees read for one diff. Commits made by people do not exceed it.
const MAX_TREES: usize = 100_000;

/// One side of a changed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    /// The file mode.
    pub(crate) mode: EntryMode,
    /// The object.
    pub(crate) id: ObjectId,
}

/// A changed file: added, removed, or modified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The path.
    pub(crate) path: BString,
    /// The side before the change.
    pub(crate) before: Option<Side>,
    /// The side after the change.
    pub(crate) after: Option<Side>,
}

/// A directory in both trees. One of them may lack it.
struct Pair {
    /// The directory's path: empty, or with a trailing slash.
    directory: BString,
    before: Option<Entries>,
    after: Option<Entries>,
    /// The next entries, read but not consumed.
    next_before: Option<Entry>,
    next_after: Option<Entry>,
}

impl Repository {
    /// Calls `take` for each file that differs between two trees, sorted by path, until it returns false. A missing
    /// tree counts as empty. Returns the number of changes omitted because their paths are too long.
    pub(crate) fn diff(
        &self,
        before: Option<ObjectId>,
        after: Option<ObjectId>,
        mut take: impl FnMut(Change) -> bool,
    ) -> Result<usize> {
        let mut omitted = 0_usize;
        if before == after {
            return Ok(omitted);
        }
        let mut pairs = vec![self.pair(BString::default(), before, after)?];
        let mut read = 0usize;
        while let Some(pair) = pairs.last_mut() {
            let Some((before, after)) = pair.step()? else {
                pairs.pop();
                continue;
            };
            let Some(entry) = after.as_ref().or(before.as_ref()) else { continue };
            let same = |a: &Entry, b: &Entry| a.id == b.id && a.mode == b.mode;
            if before.as_ref().zip(after.as_ref()).is_some_and(|(before, after)| same(before, after)) {
                continue;
            }
            let mut path = pair.directory.clone();
            path.extend_from_slice(&entry.name);
            if path.len() >= MAX_PATH {
                log::warn!("path of more than {MAX_PATH} bytes omitted from a diff, in {:?}", pair.directory);
                omitted = omitted.saturating_add(1);
                continue;
            }
            if entry.mode.is_tree() {
                read = read.saturating_add(1);
                if read > MAX_TREES {
                    return Err(Error::corrupt(format!("tree {}", entry.id), "too many of its directories differ"));
                }
                path.push(b'/');
                let (before, after) = (before.map(|entry| entry.id), after.map(|entry| entry.id));
                // Trees that differ only in mode are equal, because directories have one mode.
                if before != after {
                    pairs.push(self.pair(path, before, after)?);
                }
                continue;
            }
            let side = |entry: Option<Entry>| entry.map(|entry| Side { mode: entry.mode, id: entry.id });
            if !take(Change { path, before: side(before), after: side(after) }) {
                break;
            }
        }
        Ok(omitted)
    }

    fn pair(&self, directory: BString, before: Option<ObjectId>, after: Option<ObjectId>) -> Result<Pair> {
        let entries = |id: Option<ObjectId>| id.map(|id| self.entries(&id)).transpose();
        Ok(Pair { directory, before: entries(before)?, after: entries(after)?, next_before: None, next_after: None })
    }
}

impl Pair {
    /// Returns the next pair of entries with the same name that are both directories or both not, or the next entry of
    /// one side alone.
    fn step(&mut self) -> Result<Option<(Option<Entry>, Option<Entry>)>> {
        let fill = |next: &mut Option<Entry>, entries: &mut Option<Entries>| {
            if next.is_none() {
                *next = entries.as_mut().and_then(Iterator::next).transpose()?;
            }
            Ok::<_, Error>(next.as_ref().map(Entries::key))
        };
        let before = fill(&mut self.next_before, &mut self.before)?;
        let after = fill(&mut self.next_after, &mut self.after)?;
        let order = match (before, after) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) => before.cmp(&after),
        };
        Ok(Some(match order {
            Ordering::Less => (self.next_before.take(), None),
            Ordering::Equal => (self.next_before.take(), self.next_after.take()),
            Ordering::Greater => (None, self.next_after.take()),
        }))
    }
}
