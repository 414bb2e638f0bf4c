//! Trees: the directories of a revision.
//!
//! A tree is parsed lazily, entry by entry, because it may have tens of thousands of entries. Entries are in git's
//! order: by name, where a directory compares as if its name ended with `/`, so full paths are sorted by their bytes.
//! Entries that no path can name are skipped: an empty name, `.`, `..`, or a name with a slash (git refuses to create
//! these), and paths longer than [`MAX_PATH`].

mod diff;
mod walk;

use crate::error::{Error, Result};
use crate::repo::Repository;
use bstr::{BStr, BString, ByteSlice};
pub(crate) use diff::{Change, Side};
use gix_hash::{Kind, ObjectId, oid};
use gix_object::TreeRefIter;
use gix_object::tree::EntryMode;
use std::rc::Rc;
pub(crate) use walk::{FileWalk, is_after};

/// The maximum length of a path in bytes. Percent-encoding may triple the length, and the result still fits into a
/// cursor.
pub(crate) const MAX_PATH: usize = 1300;

/// A tree entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name.
    pub(crate) name: BString,
    /// The mode: a file, executable or not, a link, a directory, a submodule.
    pub(crate) mode: EntryMode,
    /// The object; for a submodule, a commit in another repository.
    pub(crate) id: ObjectId,
}

/// An iterator over the entries of one tree.
#[derive(Clone)]
pub(crate) struct Entries {
    id: ObjectId,
    data: Rc<Vec<u8>>,
    offset: usize,
    hash: Kind,
    /// The sort key of the last returned entry.
    last: Option<BString>,
}

impl Entries {
    /// Checks that all entries can be read and are sorted, and returns the iterator.
    pub(crate) fn validate(self) -> Result<Self> {
        let mut all = self.clone();
        while all.next_where(|_, _| true)?.is_some() {}
        Ok(self)
    }

    /// Returns the sort key of an entry: its name, with a trailing slash if it is a directory.
    pub(crate) fn key(entry: &Entry) -> BString {
        let mut key = entry.name.clone();
        if entry.mode.is_tree() {
            key.push(b'/');
        }
        key
    }

    /// Returns the next entry for which `wanted` holds; only its name is copied. Unsorted entries are an error, because
    /// listings and diffs rely on the order.
    pub(crate) fn next_where(&mut self, mut wanted: impl FnMut(&BStr, EntryMode) -> bool) -> Result<Option<Entry>> {
        loop {
            let mut entries = TreeRefIter::from_bytes(self.data.get(self.offset..).unwrap_or_default(), self.hash);
            let Some(entry) = entries.next() else { return Ok(None) };
            let entry = entry.map_err(|error| Error::corrupt(format!("tree {}", self.id), error))?;
            self.offset = entries.offset_to_next_entry(&self.data);
            if is_valid_name(entry.filename) && wanted(entry.filename, entry.mode) {
                let (name, mode, id) = (entry.filename.to_owned(), entry.mode, entry.oid.to_owned());
                let entry = Entry { name, mode, id };
                let key = Self::key(&entry);
                if self.last.as_ref().is_some_and(|last| *last >= key) {
                    return Err(Error::corrupt(format!("tree {}", self.id), format!("{key:?} is out of order")));
                }
                self.last = Some(key);
                return Ok(Some(entry));
            }
        }
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_where(|_, _| true).transpose()
    }
}

fn is_valid_name(name: &BStr) -> bool {
    !matches!(name.as_bytes(), b"" | b"." | b"..") && !name.contains(&b'/') && name.len() <= MAX_PATH
}

impl Repository {
    /// Returns the entries of a tree.
    pub(crate) fn entries(&self, tree: &oid) -> Result<Entries> {
        let data = self.odb.get(tree, gix_object::Kind::Tree)?;
        Ok(Entries { id: tree.to_owned(), data, offset: 0, hash: self.hash(), last: None })
    }

    /// Returns the entry at a path below a tree. The empty path is the tree itself.
    pub(crate) fn entry(&self, tree: ObjectId, path: &BStr) -> Result<Option<Entry>> {
        let mode = gix_object::tree::EntryKind::Tree.into();
        let mut entry = Entry { name: BString::default(), mode, id: tree };
        if path.is_empty() {
            return Ok(Some(entry));
        }
        for name in path.split_str("/") {
            if !entry.mode.is_tree() {
                return Ok(None);
            }
            match self.entries(&entry.id)?.next_where(|other, _| other == name)? {
                Some(found) => entry = found,
                None => return Ok(None),
            }
        }
        Ok(Some(entry))
    }
}
