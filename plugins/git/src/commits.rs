//! The commits of a repository as a graph: tree, parents, date and generation number of each.
//!
//! Commits are read from the commit-graph, then from the [learned](crate::learned) commits, then from the objects. In a
//! shallow clone, only objects are read, because the other sources contain parents that the clone lacks.

use crate::commit_graph::bloom::{self, PathKeys};
use crate::commit_graph::{CommitGraph, Position};
use crate::error::{Error, Result};
use crate::learned::{Learned, LearnedCommit, Question};
use crate::repo::Repository;
use bstr::BStr;
use gix_hash::{ObjectId, oid};
use gix_object::{CommitRef, Kind};
use std::collections::HashSet;

/// The maximum number of parents that are followed per commit. Octopus merges have a few; hundreds occur in
/// experiments only.
const MAX_PARENTS: usize = 1000;

/// The maximum number of changed files of a commit for which a Bloom filter is created, as in git.
const MAX_CHANGES: usize = 512;

/// The identity of a commit. A commit in the commit-graph is always identified by its position there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CommitKey {
    /// The position in the commit-graph.
    Graph(Position),
    /// The id of a commit outside of the commit-graph.
    Object(ObjectId),
}

/// The generation number of a commit, greater than the numbers of all its ancestors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Generation {
    /// In the commit-graph.
    Known(u64),
    /// Not known. Sorts above known numbers, because the commit-graph contains no descendants of commits outside of it.
    Unknown,
}

/// A commit.
#[derive(Debug, Clone)]
pub(crate) struct Commit {
    /// The root tree.
    pub(crate) tree: ObjectId,
    /// The parents.
    pub(crate) parents: Vec<CommitKey>,
    /// The committer's date, in seconds since the epoch.
    pub(crate) date: i64,
    /// The generation number.
    pub(crate) generation: Generation,
}

/// Reads commits, and counts the bytes read.
pub(crate) struct Commits<'r> {
    repository: &'r Repository,
    graph: Option<&'r CommitGraph>,
    learned: Option<&'r Learned>,
    /// The commit that was read last: walks request a parent twice in a row.
    last: Option<(ObjectId, Commit)>,
    shallow: HashSet<ObjectId>,
    bytes_read: usize,
    has_ignored_parents: bool,
}

impl<'r> Commits<'r> {
    /// Creates a reader of the repository's commits.
    pub(crate) fn new(repository: &'r Repository) -> Result<Self> {
        let shallow = repository.shallow()?;
        let graph = if shallow.is_empty() { repository.commit_graph() } else { None };
        let learned = Some(repository.learned()).filter(|learned| learned.is_kept() && shallow.is_empty());
        Ok(Self { repository, graph, learned, last: None, shallow, bytes_read: 0, has_ignored_parents: false })
    }

    /// Returns the repository.
    pub(crate) fn repository(&self) -> &'r Repository {
        self.repository
    }

    /// Returns the number of bytes of commits that were read, apart from the commit-graph.
    pub(crate) fn bytes_read(&self) -> usize {
        self.bytes_read
    }

    /// Returns whether a commit had more than [`MAX_PARENTS`] parents.
    pub(crate) fn has_ignored_parents(&self) -> bool {
        self.has_ignored_parents
    }

    /// Returns the identity of a commit, which need not exist.
    pub(crate) fn key(&self, id: &oid) -> Result<CommitKey> {
        let position = self.graph.map_or(Ok(None), |graph| graph.find(id))?;
        Ok(position.map_or_else(|| CommitKey::Object(id.to_owned()), CommitKey::Graph))
    }

    /// Returns the id of a commit.
    pub(crate) fn id(&self, key: CommitKey) -> Result<ObjectId> {
        match key {
            CommitKey::Object(id) => Ok(id),
            CommitKey::Graph(position) => self.the_graph()?.id(position),
        }
    }

    /// Reads a commit.
    pub(crate) fn get(&mut self, key: CommitKey) -> Result<Commit> {
        match key {
            CommitKey::Object(id) => match self.last.as_ref().filter(|(last, _)| *last == id) {
                Some((_, last)) => Ok(last.clone()),
                None => {
                    let commit = self.read(&id)?;
                    self.last = Some((id, commit.clone()));
                    Ok(commit)
                }
            },
            CommitKey::Graph(position) => {
                let commit = self.the_graph()?.commit(position)?;
                Ok(Commit {
                    tree: commit.tree,
                    parents: commit.parents.into_iter().map(CommitKey::Graph).collect(),
                    date: commit.date,
                    generation: commit.generation.map_or(Generation::Unknown, Generation::Known),
                })
            }
        }
    }

    /// Returns whether a commit certainly did not change a path, compared with its first parent; a root commit is
    /// compared with an empty tree. The Bloom filter of the commit-graph is used, or a learned one, which is created if
    /// missing. False if there is neither.
    pub(crate) fn leaves_unchanged(&mut self, key: CommitKey, commit: &Commit, keys: &PathKeys) -> bool {
        self.try_leaves_unchanged(key, commit, keys).unwrap_or_else(|error| {
            log::warn!("changed paths not known: {error}");
            false
        })
    }

    fn try_leaves_unchanged(&mut self, key: CommitKey, commit: &Commit, keys: &PathKeys) -> Result<bool> {
        if let (CommitKey::Graph(position), Some(graph)) = (key, self.graph)
            && let Some(is_unchanged) = graph.leaves_unchanged(position, keys)?
        {
            return Ok(is_unchanged);
        }
        let Some(learned) = self.learned else { return Ok(false) };
        let id = self.id(key)?;
        let filter = match learned.commit(&id) {
            Some(commit) => commit.filter,
            None => self.learn(learned, id, commit)?,
        };
        Ok(!keys.may_be_in(&filter, &bloom::Settings::OWN))
    }

    /// Returns the learned ancestor of a commit up to which (exclusively) no commit changed a path.
    pub(crate) fn known_unchanged(&self, commit: &oid, path: &BStr) -> Option<CommitKey> {
        let from_bytes = |bytes: &[u8], _| ObjectId::try_from(bytes).ok();
        let ancestor = self.learned?.known_answer(Question::Unchanged(commit, path), from_bytes)?;
        self.key(&ancestor).ok()
    }

    /// Records that no commit from `commit` up to `ancestor` (exclusively) changed a path.
    pub(crate) fn keep_unchanged(&self, commit: &oid, path: &BStr, ancestor: &oid) {
        if let Some(learned) = self.learned {
            learned.add_answer(Question::Unchanged(commit, path), ancestor.as_bytes().to_vec());
        }
    }

    /// Records a commit with the Bloom filter of its changed paths, and returns the filter.
    fn learn(&mut self, learned: &Learned, id: ObjectId, commit: &Commit) -> Result<Vec<u8>> {
        let before = commit.parents.first().map(|parent| self.get(*parent)).transpose()?.map(|parent| parent.tree);
        let mut paths = Vec::new();
        let omitted = self.repository.diff(before, Some(commit.tree), |change| {
            paths.push(change.path);
            paths.len() <= MAX_CHANGES
        })?;
        let filter = if omitted == 0 && paths.len() <= MAX_CHANGES { bloom::filter(&paths) } else { Vec::new() };
        let parents = commit.parents.iter().map(|parent| self.id(*parent)).collect::<Result<Vec<_>>>()?;
        if parents.len() < MAX_PARENTS {
            let commit = LearnedCommit { tree: commit.tree, parents, date: commit.date, filter: filter.clone() };
            learned.add_commit(id, &commit);
        }
        Ok(filter)
    }

    fn read(&mut self, id: &oid) -> Result<Commit> {
        if let Some(LearnedCommit { tree, parents, date, .. }) = self.learned.and_then(|learned| learned.commit(id)) {
            let parents = parents.iter().map(|parent| self.key(parent)).collect::<Result<_>>()?;
            return Ok(Commit { tree, parents, date, generation: Generation::Unknown });
        }
        let data = self.repository.odb.get(id, Kind::Commit)?;
        self.bytes_read = self.bytes_read.saturating_add(data.len());
        let commit = decode(&data, id, self.repository.hash())?;
        // A commit with an unreadable date sorts as the oldest, as in git.
        let date = commit.committer().map(|committer| committer.seconds()).unwrap_or_default();
        self.has_ignored_parents |= commit.parents.len() > MAX_PARENTS;
        let is_cut_off = self.shallow.contains(id);
        let parents = commit.parents().take(if is_cut_off { 0 } else { MAX_PARENTS });
        let parents = parents.map(|parent| self.key(&parent)).collect::<Result<_>>()?;
        Ok(Commit { tree: commit.tree(), parents, date, generation: Generation::Unknown })
    }

    fn the_graph(&self) -> Result<&'r CommitGraph> {
        self.graph.ok_or_else(|| Error::corrupt("the commit-graph", "it is not used"))
    }
}

/// Decodes a commit.
pub(crate) fn decode<'d>(data: &'d [u8], id: &oid, hash: gix_hash::Kind) -> Result<CommitRef<'d>> {
    CommitRef::from_bytes(data, hash).map_err(|error| Error::corrupt(format!("commit {id}"), error))
}
