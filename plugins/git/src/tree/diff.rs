//! What differs between two trees.
//!
//! Trees that are the same are not read, so the cost goes with what differs. Both trees are gone through side by side
//! in their order, directories included, and what differs comes out in the order of its paths.

use crate::error::{Error, Result};
use crate::repo::Repository;
use crate::tree::{Entries, Entry, MAX_PATH};
use bstr::BString;
use gix_hash::ObjectId;
use gix_object::tree::EntryMode;
use std::cmp::Ordering;

/// How many trees are read for one diff. Beyond it lies what no commit made by people has.
const MAX_TREES: usize = 100_000;

/// A file on one side of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    /// What it is.
    pub(crate) mode: EntryMode,
    /// The object.
    pub(crate) id: ObjectId,
}

/// A file that is not the same on both sides: added, removed, or another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// Its path.
    pub(crate) path: BString,
    /// What it was.
    pub(crate) before: Option<Side>,
    /// What it is.
    pub(crate) after: Option<Side>,
}

/// Two directories side by side, either of which may be missing.
struct Pair {
    /// Their path: empty, or with a slash at the end.
    directory: BString,
    before: Option<Entries>,
    after: Option<Entries>,
    /// The next entry of each that was looked at and not used yet.
    next_before: Option<Entry>,
    next_after: Option<Entry>,
}

impl Repository {
    /// The files that differ between two trees, in the order of their paths, until `take` has had enough and returns
    /// false. A tree that is none counts as empty.
    pub(crate) fn diff(
        &self,
        before: Option<ObjectId>,
        after: Option<ObjectId>,
        mut take: impl FnMut(Change) -> bool,
    ) -> Result<()> {
        if before == after {
            return Ok(());
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
                log::warn!("a path of more than {MAX_PATH} bytes is left out of a diff, in {:?}", pair.directory);
                continue;
            }
            if entry.mode.is_tree() {
                read = read.saturating_add(1);
                if read > MAX_TREES {
                    return Err(Error::corrupt(format!("tree {}", entry.id), "it differs in too many directories"));
                }
                path.push(b'/');
                let (before, after) = (before.map(|entry| entry.id), after.map(|entry| entry.id));
                // Trees that differ by mode only are the same: there is one kind of directory.
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
        Ok(())
    }

    fn pair(&self, directory: BString, before: Option<ObjectId>, after: Option<ObjectId>) -> Result<Pair> {
        let entries = |id: Option<ObjectId>| id.map(|id| self.entries(&id)).transpose();
        Ok(Pair { directory, before: entries(before)?, after: entries(after)?, next_before: None, next_after: None })
    }
}

impl Pair {
    /// The next entries with the same name and both or neither a directory, or the next of one side alone.
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
