//! A cache of the results of history walks, kept in a bucket: a later walk continues where an earlier one ended.
//!
//! Without a commit-graph, a walk reads each commit and compares trees. All results follow from ids, which are hashes
//! of content, so they never become stale: the tree, the parents, the date and the changed paths of a commit; the entry
//! at a path of a tree; the differences of two files; the file that another one was renamed from. Commits have a
//! separate table, because a walk looks up each of them; every other result is an answer, keyed by the hash of its
//! question.
//!
//! The size of both tables is bounded ([`MAX_COMMITS_SIZE`], [`MAX_ANSWERS_SIZE`]). Beyond it, and where the bucket is
//! full, fails or is not granted, walks repeat their work, as without a bucket.

mod answers;
mod table;

use crate::error::Result;
use gix_hash::{Kind, ObjectId, oid};
use mcp_provider::keyvalue::Store;
use std::cell::RefCell;
use std::rc::Rc;
use table::Table;

/// The maximum size of the table of commits, in bytes: some 100,000 commits.
const MAX_COMMITS_SIZE: usize = 10 * 1024 * 1024;

/// The maximum size of the table of answers, in bytes.
const MAX_ANSWERS_SIZE: usize = 6 * 1024 * 1024;

/// The maximum size of one answer, in bytes. Larger answers are not kept.
const MAX_ANSWER: usize = 64 * 1024;

/// The data kept of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LearnedCommit {
    /// The root tree.
    pub(crate) tree: ObjectId,
    /// The parents.
    pub(crate) parents: Vec<ObjectId>,
    /// The committer's date, in seconds since the epoch.
    pub(crate) date: i64,
    /// The Bloom filter of the paths that the commit changed, compared with its first parent; empty if there are too
    /// many.
    pub(crate) filter: Vec<u8>,
}

/// A question whose answer follows from ids.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Question<'q> {
    /// The entry at a path of a tree.
    Entry(&'q oid, &'q [u8]),
    /// The lines of two files that differ.
    Hunks(&'q oid, &'q oid),
    /// The file of the first tree from which the file at a path of the second tree was renamed.
    Renamed(&'q oid, &'q oid, &'q [u8]),
    /// The file of the first tree from which the file at a path of the second tree was renamed or copied.
    Copied(&'q oid, &'q oid, &'q [u8]),
    /// The ancestor up to which each commit leaves a path as it is in its only followed parent.
    Unchanged(&'q oid, &'q [u8]),
}

/// The learned commits and answers.
pub(crate) struct Learned {
    hash: Kind,
    kept: Option<RefCell<Kept>>,
}

struct Kept {
    store: Rc<dyn Store>,
    commits: Table,
    answers: Table,
}

impl Kept {
    fn new(store: Rc<dyn Store>, hash: Kind) -> Self {
        Self {
            store,
            commits: Table::new("commits", hash, MAX_COMMITS_SIZE),
            answers: Table::new("answers", hash, MAX_ANSWERS_SIZE),
        }
    }
}

impl Learned {
    /// Creates an instance that keeps nothing.
    pub(crate) fn nothing(hash: Kind) -> Self {
        Self { hash, kept: None }
    }

    /// Creates an instance that keeps commits and answers in a store.
    pub(crate) fn in_store(store: Rc<dyn Store>, hash: Kind) -> Self {
        Self { hash, kept: Some(RefCell::new(Kept::new(store, hash))) }
    }

    /// Returns whether commits and answers are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Begins a call: discards the entries in memory, so that entries stored by other instances are read, too.
    pub(crate) fn begin_call(&self) {
        if let Some(kept) = &self.kept {
            let mut kept = kept.borrow_mut();
            *kept = Kept::new(Rc::clone(&kept.store), self.hash);
        }
    }

    /// Returns a commit.
    pub(crate) fn commit(&self, id: &oid) -> Option<LearnedCommit> {
        let mut kept = self.kept.as_ref()?.borrow_mut();
        let Kept { store, commits, .. } = &mut *kept;
        LearnedCommit::parse(commits.get(store.as_ref(), id)?, self.hash)
    }

    /// Adds a commit.
    pub(crate) fn add_commit(&self, id: ObjectId, commit: &LearnedCommit) {
        if let Some(kept) = &self.kept {
            kept.borrow_mut().commits.add(id, commit.to_bytes());
        }
    }

    /// Returns the kept answer to a question, or the result of `compute`, which includes whether it may be kept.
    pub(crate) fn answer<T>(
        &self,
        question: Question<'_>,
        from_bytes: impl FnOnce(&[u8], Kind) -> Option<T>,
        to_bytes: impl FnOnce(&T) -> Vec<u8>,
        compute: impl FnOnce() -> Result<(T, bool)>,
    ) -> Result<T> {
        if let Some(known) = self.known_answer(question, from_bytes) {
            return Ok(known);
        }
        let (answer, is_final) = compute()?;
        if is_final && self.is_kept() {
            self.add_answer(question, to_bytes(&answer));
        }
        Ok(answer)
    }

    /// Returns the kept answer to a question.
    pub(crate) fn known_answer<T>(
        &self,
        question: Question<'_>,
        from_bytes: impl FnOnce(&[u8], Kind) -> Option<T>,
    ) -> Option<T> {
        let mut kept = self.kept.as_ref()?.borrow_mut();
        let Kept { store, answers, .. } = &mut *kept;
        from_bytes(answers.get(store.as_ref(), &question.id(self.hash)?)?, self.hash)
    }

    /// Adds the answer to a question, unless it is too large.
    pub(crate) fn add_answer(&self, question: Question<'_>, answer: Vec<u8>) {
        if let Some((kept, id)) = self.kept.as_ref().zip(question.id(self.hash))
            && answer.len() <= MAX_ANSWER
        {
            kept.borrow_mut().answers.add(id, answer);
        }
    }

    /// Stores the added entries.
    pub(crate) fn save(&self) {
        let Some(kept) = &self.kept else { return };
        let mut kept = kept.borrow_mut();
        let Kept { store, commits, answers } = &mut *kept;
        for table in [commits, answers].into_iter().filter(|table| table.has_added()) {
            if let Err(failure) = table.save(store.as_ref()) {
                log::warn!("what was learned of histories is not kept: {failure}");
            }
        }
    }
}

impl LearnedCommit {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.date.to_le_bytes().to_vec();
        bytes.extend_from_slice(&u16::try_from(self.parents.len()).unwrap_or(u16::MAX).to_le_bytes());
        [&self.tree].into_iter().chain(&self.parents).for_each(|id| bytes.extend_from_slice(id.as_slice()));
        bytes.extend_from_slice(&self.filter);
        bytes
    }

    fn parse(bytes: &[u8], hash: Kind) -> Option<Self> {
        let (date, bytes) = bytes.split_first_chunk()?;
        let (count, mut bytes) = bytes.split_first_chunk()?;
        let mut ids = Vec::new();
        for _ in 0..=u16::from_le_bytes(*count) {
            let (id, rest) = bytes.split_at_checked(hash.len_in_bytes())?;
            ids.push(ObjectId::try_from(id).ok()?);
            bytes = rest;
        }
        let parents = ids.split_off(1);
        Some(Self { tree: ids.pop()?, parents, date: i64::from_le_bytes(*date), filter: bytes.to_vec() })
    }
}

impl Question<'_> {
    /// Returns the hash of the question; `None` if it cannot be computed.
    fn id(self, hash: Kind) -> Option<ObjectId> {
        let (kind, one, other, path): (&[u8], _, _, _) = match self {
            Self::Entry(tree, path) => (b"entry", tree, None, path),
            Self::Hunks(before, after) => (b"hunks", before, Some(after), &[][..]),
            Self::Renamed(before, after, path) => (b"renamed", before, Some(after), path),
            Self::Copied(before, after, path) => (b"copied", before, Some(after), path),
            Self::Unchanged(commit, path) => (b"unchanged", commit, None, path),
        };
        let mut hasher = gix_hash::hasher(hash);
        hasher.update(kind);
        hasher.update(one.as_bytes());
        other.into_iter().for_each(|id| hasher.update(id.as_bytes()));
        hasher.update(path);
        hasher.try_finalize().ok()
    }
}

#[cfg(test)]
mod tests;
