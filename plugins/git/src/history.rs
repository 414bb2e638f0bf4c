//! The history of a revision, newest first, in the order of `git log`.
//!
//! The next commit is always the pending one with the latest commit date, and of several with the same date the first
//! discovered. With a path, history is simplified as `git log -- PATH` does by default: a commit with the same content
//! at the path as one of its parents is skipped and only that parent is followed; a commit that differs there from all
//! of its parents is shown, and all are followed. The path is one file or directory, taken literally; renames are not
//! followed.
//!
//! An unreadable commit (too large, damaged, missing) is returned like any other, with the error in [`Commit::data`],
//! and its parents are not followed. An unreadable tree differs from all others. The work for one response is bounded
//! by [`MAX_COMMITS`] and [`MAX_BYTES`].

use crate::error::{Error, Result};
use crate::repo::Repository;
use bstr::{BString, ByteSlice};
use gix_hash::{ObjectId, oid};
use gix_object::tree::EntryMode;
use gix_object::{CommitRef, Kind};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::rc::Rc;

/// The maximum number of commits visited for one response; with a path, most of them may be skipped.
const MAX_COMMITS: usize = 50_000;

/// The maximum number of bytes of commits read for one response. The last commit may exceed it.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The maximum number of parents that are followed per commit. Octopus merges have a few; hundreds occur in
/// experiments only.
const MAX_PARENTS: usize = 1000;

/// A commit of the history.
pub(crate) struct Commit {
    /// The commit's id.
    pub(crate) id: ObjectId,
    /// The commit's data, or why it cannot be read.
    pub(crate) data: Result<Rc<Vec<u8>>>,
}

/// The entry at the path in one commit; `None` if there is none.
type PathEntry = Option<(EntryMode, ObjectId)>;

/// The parts of a decoded commit that are needed to continue.
struct Node {
    /// The root tree; `None` if the commit is unreadable.
    tree: Option<ObjectId>,
    parents: Vec<ObjectId>,
    date: i64,
}

/// An iterator over the history of a commit.
pub(crate) struct History<'r> {
    repository: &'r Repository,
    path: Option<BString>,
    shallow: HashSet<ObjectId>,
    /// The pending commits: latest date first, then first discovered.
    queue: BinaryHeap<(i64, Reverse<usize>, ObjectId)>,
    /// The commits that are or were in the queue.
    seen: HashSet<ObjectId>,
    /// The decoded commits in the queue.
    nodes: HashMap<ObjectId, Node>,
    path_entries: HashMap<ObjectId, Option<PathEntry>>,
    visited: usize,
    /// The number of bytes of commits read.
    bytes_read: usize,
    /// Whether some parents of the returned commits are not followed.
    is_truncated: bool,
}

impl<'r> History<'r> {
    /// Creates the history of a commit; with a path, limited to the commits that changed it.
    pub(crate) fn new(repository: &'r Repository, commit: ObjectId, path: Option<BString>) -> Result<Self> {
        let mut history = Self {
            repository,
            path,
            shallow: repository.shallow()?,
            queue: BinaryHeap::new(),
            seen: HashSet::new(),
            nodes: HashMap::new(),
            path_entries: HashMap::new(),
            visited: 0,
            bytes_read: 0,
            is_truncated: false,
        };
        // The requested commit itself must exist.
        history.repository.odb.get(&commit, Kind::Commit)?;
        history.enqueue(commit);
        Ok(history)
    }

    /// Returns whether there are more commits after those returned so far. With a path, none of them need have changed
    /// it. Iteration also ends before them when the limits for one response are reached.
    pub(crate) fn has_more(&self) -> bool {
        !self.queue.is_empty() || self.is_truncated
    }

    fn next_commit(&mut self) -> Option<Commit> {
        while self.visited < MAX_COMMITS
            && self.bytes_read < MAX_BYTES
            && let Some((_, _, id)) = self.queue.pop()
        {
            self.visited = self.visited.saturating_add(1);
            let Some(node) = self.nodes.remove(&id) else { continue };
            let (shown, parents) = self.simplify(id, &node);
            for parent in parents {
                self.enqueue(parent);
            }
            if shown {
                return Some(Commit { id, data: self.repository.odb.get(&id, Kind::Commit) });
            }
        }
        None
    }

    /// Returns whether a commit is shown, and which of its parents are followed.
    fn simplify(&mut self, id: ObjectId, node: &Node) -> (bool, Vec<ObjectId>) {
        let (Some(tree), true) = (node.tree, self.path.is_some()) else { return (true, node.parents.clone()) };
        let here = match self.path_entries.remove(&id) {
            Some(here) => here,
            None => self.look_up(tree),
        };
        for parent in &node.parents {
            let there = match self.path_entries.get(parent) {
                Some(there) => *there,
                None => {
                    let tree = match self.nodes.get(parent) {
                        Some(node) => node.tree,
                        None => self.node(parent).ok().and_then(|node| node.tree),
                    };
                    let there = tree.and_then(|tree| self.look_up(tree));
                    // Unless the parent was visited before its child, which skewed dates can cause.
                    if !self.seen.contains(parent) || self.nodes.contains_key(parent) {
                        self.path_entries.insert(*parent, there);
                    }
                    there
                }
            };
            if here.is_some() && here == there {
                return (false, vec![*parent]);
            }
        }
        (here.is_none_or(|here| here.is_some()) || !node.parents.is_empty(), node.parents.clone())
    }

    /// Looks up the entry at the path; `None` if the tree cannot be read.
    fn look_up(&self, tree: ObjectId) -> Option<PathEntry> {
        let path = self.path.as_ref().map(|path| path.as_bstr()).unwrap_or_default();
        match self.repository.entry(tree, path) {
            Ok(entry) => Some(entry.map(|entry| (entry.mode, entry.id))),
            Err(error) => {
                log::warn!("cannot look up {path:?} in the tree {tree}: {error}");
                None
            }
        }
    }

    /// Adds a commit to the queue when it is first discovered.
    fn enqueue(&mut self, id: ObjectId) {
        if self.seen.insert(id) {
            let node = self.node(&id).unwrap_or_else(|error| {
                log::warn!("history truncated: {error}");
                self.is_truncated = true;
                Node { tree: None, parents: Vec::new(), date: i64::MIN }
            });
            self.queue.push((node.date, Reverse(self.seen.len()), id));
            self.nodes.insert(id, node);
        }
    }

    fn node(&mut self, id: &oid) -> Result<Node> {
        let data = self.repository.odb.get(id, Kind::Commit)?;
        self.bytes_read = self.bytes_read.saturating_add(data.len());
        let commit = decode(&data, id, self.repository.hash())?;
        // A commit with an unreadable date sorts as the oldest, as in git.
        let date = commit.committer().map(|committer| committer.seconds()).unwrap_or_default();
        self.is_truncated |= commit.parents.len() > MAX_PARENTS;
        let parents = if self.shallow.contains(id) { Vec::new() } else { commit.parents().take(MAX_PARENTS).collect() };
        Ok(Node { tree: Some(commit.tree()), parents, date })
    }
}

impl Iterator for History<'_> {
    type Item = Commit;

    fn next(&mut self) -> Option<Commit> {
        self.next_commit()
    }
}

/// Decodes a commit.
pub(crate) fn decode<'d>(data: &'d [u8], id: &oid, hash: gix_hash::Kind) -> Result<CommitRef<'d>> {
    CommitRef::from_bytes(data, hash).map_err(|error| Error::corrupt(format!("commit {id}"), error))
}
