//! The history of a revision, newest first, as `git log` goes through it.
//!
//! Of the commits that are known to belong to it, the one with the latest commit date comes next; of several with the
//! same date the one that was met first. With a path, history is simplified as `git log -- PATH` does by default: a
//! commit that has at the path what one of its parents has is not shown and only that parent is followed; a commit that
//! differs there from all its parents is shown, and all are followed. The path is one file or directory, taken as it
//! stands; renames are not followed.
//!
//! A commit that cannot be read (too large, damaged, missing) is met like any other and costs itself: it comes with what
//! is wrong ([`Commit::data`]), and what lies behind it is not followed. A tree that cannot be read differs from all others.
//! What one answer goes through is bounded by [`MAX_COMMITS`] and [`MAX_BYTES`].

use crate::error::{Error, Result};
use crate::repo::Repository;
use bstr::{BString, ByteSlice};
use gix_hash::{ObjectId, oid};
use gix_object::tree::EntryMode;
use gix_object::{CommitRef, Kind};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::rc::Rc;

/// How many commits are gone through for one answer: with a path, most of them may not be shown.
const MAX_COMMITS: usize = 50_000;

/// How many bytes of commits are gone through for one answer, but for the last of them.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How many parents of a commit are followed: a few there are, and some hundred where somebody wanted to see what happens.
const MAX_PARENTS: usize = 1000;

/// A commit of the history.
pub(crate) struct Commit {
    /// Its id.
    pub(crate) id: ObjectId,
    /// What it holds, or why that cannot be told.
    pub(crate) data: Result<Rc<Vec<u8>>>,
}

/// What stands at the path in one commit.
type PathEntry = Option<(EntryMode, ObjectId)>;

/// What a commit is taken apart to, to go on from it.
struct Node {
    /// None where the commit cannot be read.
    tree: Option<ObjectId>,
    parents: Vec<ObjectId>,
    date: i64,
}

/// Goes through the history of a commit.
pub(crate) struct History<'r> {
    repository: &'r Repository,
    path: Option<BString>,
    shallow: HashSet<ObjectId>,
    /// The commits to come: the latest date first, then the first met.
    queue: BinaryHeap<(i64, Reverse<usize>, ObjectId)>,
    /// Those that are or were in the queue.
    seen: HashSet<ObjectId>,
    /// What is known of commits in the queue.
    nodes: HashMap<ObjectId, Node>,
    path_entries: HashMap<ObjectId, Option<PathEntry>>,
    visited: usize,
    /// How many bytes of commits were read.
    bytes_read: usize,
    /// Whether some of what lies behind the commits that came is not followed.
    is_truncated: bool,
}

impl<'r> History<'r> {
    /// The history of a commit; with a path, what of it changed what stands there.
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
        // The one that was asked for must be there.
        history.repository.odb.get(&commit, Kind::Commit)?;
        history.enqueue(commit);
        Ok(history)
    }

    /// Whether there are commits behind those that came so far. With a path, none of them need have changed what stands
    /// there. It also ends before them when as much was gone through as is for one answer.
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

    /// Whether a commit is shown, and which of its parents are followed.
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
                    // Unless the parent was gone through before its child, which odd dates can bring about.
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

    /// What stands at the path; none where that cannot be told.
    fn look_up(&self, tree: ObjectId) -> Option<PathEntry> {
        let path = self.path.as_ref().map(|path| path.as_bstr()).unwrap_or_default();
        match self.repository.entry(tree, path) {
            Ok(entry) => Some(entry.map(|entry| (entry.mode, entry.id))),
            Err(error) => {
                log::warn!("what stands at {path:?} in the tree {tree} cannot be told: {error}");
                None
            }
        }
    }

    /// Puts a commit into the queue, the first time that it is met.
    fn enqueue(&mut self, id: ObjectId) {
        if self.seen.insert(id) {
            let node = self.node(&id).unwrap_or_else(|error| {
                log::warn!("a history is cut off: {error}");
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
        // A commit whose date cannot be told is as old as can be, as for git.
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

/// Takes a commit apart.
pub(crate) fn decode<'d>(data: &'d [u8], id: &oid, hash: gix_hash::Kind) -> Result<CommitRef<'d>> {
    CommitRef::from_bytes(data, hash).map_err(|error| Error::corrupt(format!("commit {id}"), error))
}
