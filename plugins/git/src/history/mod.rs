//! The history of a revision, newest first, in the order of `git log`.
//!
//! The next commit is always the pending one with the latest commit date; among equal dates, the first discovered. A
//! range omits the commits that are reachable from another commit ([`range`]). With a path, history is simplified as
//! `git log -- PATH` does by default: a commit with the same content at the path as one of its parents is skipped, and
//! only that parent is followed; a commit that differs there from all of its parents is shown, and all are followed.
//! The path is one file or directory, taken literally. Renames of a file are followed on request ([`follow`]).
//!
//! An unreadable commit (too large, damaged, missing) is returned with the error in [`Entry::data`], and its parents
//! are not followed. An unreadable tree differs from all others. The work for one response is bounded by
//! [`MAX_COMMITS`], [`MAX_BYTES`] and the time of a [`Budget`].

mod follow;
mod range;

use crate::budget::Budget;
use crate::commit_graph::bloom::PathKeys;
use crate::commits::{Commit, CommitKey, Commits};
use crate::error::Result;
use crate::repo::Repository;
use bstr::{BStr, BString, ByteSlice};
use follow::Follow;
use gix_hash::ObjectId;
use gix_object::Kind;
use gix_object::tree::EntryMode;
use range::Excluded;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::rc::Rc;

/// The maximum number of commits visited for one response. With a path, most of them may be skipped.
const MAX_COMMITS: usize = 200_000;

/// The minimum length of a stretch of commits that is recorded as leaving a path unchanged.
const MIN_STRETCH: usize = 16;

/// The maximum number of bytes of commits read for one response. The last commit may exceed it.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The parameters of a history.
pub(crate) struct Query {
    /// The commit where the history starts.
    pub(crate) commit: ObjectId,
    /// The commit whose history is excluded.
    pub(crate) excluded: Option<ObjectId>,
    /// The path; without it, all commits are shown.
    pub(crate) path: Option<BString>,
    /// Whether renames of the file at the path are followed.
    pub(crate) follow: bool,
}

/// A commit of the history.
pub(crate) struct Entry {
    /// The commit's id.
    pub(crate) id: ObjectId,
    /// The commit's data, or why it cannot be read.
    pub(crate) data: Result<Rc<Vec<u8>>>,
}

/// The entry at a path in one commit; `None` if there is none.
type PathEntry = Option<(EntryMode, ObjectId)>;

/// An iterator over the history of a commit.
pub(crate) struct History<'r> {
    repository: &'r Repository,
    commits: Commits<'r>,
    selection: Selection<'r>,
    excluded: Excluded,
    /// The pending commits: latest date first, then first discovered.
    queue: BinaryHeap<(i64, Reverse<usize>, CommitKey)>,
    /// The commits that are or were in the queue.
    seen: HashSet<CommitKey>,
    /// The commits in the queue; `None` for unreadable ones.
    pending: HashMap<CommitKey, Option<Commit>>,
    budget: Budget,
    /// Whether some parents of the returned commits are not followed.
    is_truncated: bool,
}

/// Which commits are shown.
enum Selection<'r> {
    All,
    Path(PathFilter),
    Follow(Follow<'r>),
}

/// The commits that changed a path.
struct PathFilter {
    path: BString,
    keys: PathKeys,
    /// The entries of commits that will be visited.
    entries: HashMap<CommitKey, Option<PathEntry>>,
    stretch: Option<Stretch>,
}

/// Consecutive commits that leave the path unchanged while no other commit is pending. A later walk skips the stretch,
/// and still returns the same commits in the same order, because no other commit comes between them.
struct Stretch {
    first: ObjectId,
    len: usize,
}

impl<'r> History<'r> {
    /// Creates a history.
    pub(crate) fn new(repository: &'r Repository, query: Query) -> Result<Self> {
        let mut commits = Commits::new(repository)?;
        // The requested commit itself must exist.
        repository.odb.get(&query.commit, Kind::Commit)?;
        let first = commits.key(&query.commit)?;
        let excluded = match query.excluded {
            Some(excluded) => {
                let excluded = commits.key(&excluded)?;
                Excluded::new(&mut commits, first, excluded)?
            }
            None => Excluded::default(),
        };
        let selection = match query.path {
            None => Selection::All,
            Some(path) if query.follow => Selection::Follow(Follow::new(repository, path)),
            Some(path) => {
                let keys = PathKeys::new(path.as_ref());
                Selection::Path(PathFilter { path, keys, entries: HashMap::new(), stretch: None })
            }
        };
        let mut history = Self {
            repository,
            commits,
            selection,
            excluded,
            queue: BinaryHeap::new(),
            seen: HashSet::new(),
            pending: HashMap::new(),
            budget: repository.budget(MAX_COMMITS),
            is_truncated: false,
        };
        history.enqueue(first);
        Ok(history)
    }

    /// Returns whether there are more commits after the returned ones. With a path, possibly none of them changed it.
    /// Iteration also ends before them at the limits of one response.
    pub(crate) fn has_more(&self) -> bool {
        let is_followed = match &self.selection {
            Selection::Follow(follow) => !follow.is_truncated(),
            Selection::All | Selection::Path(_) => true,
        };
        !self.queue.is_empty() || self.is_truncated || !is_followed || self.commits.has_ignored_parents()
    }

    /// Returns whether iteration ended at a limit of one response, before the end of the requested commits.
    pub(crate) fn ended_at_limit(&self) -> bool {
        !self.queue.is_empty() || matches!(&self.selection, Selection::Follow(follow) if follow.is_truncated())
    }

    /// Skips up to `number` commits, and returns how many were skipped within the limits.
    pub(crate) fn skip_commits(&mut self, number: usize) -> usize {
        (0..number).take_while(|_| self.next_id().is_some()).count()
    }

    /// Returns the id of the next commit.
    fn next_id(&mut self) -> Option<ObjectId> {
        while self.commits.bytes_read() < MAX_BYTES
            && !self.queue.is_empty()
            && self.budget.take()
            && let Some((_, _, key)) = self.queue.pop()
        {
            let (shown, parents) = match self.pending.remove(&key).flatten() {
                Some(commit) => match self.known_unchanged(key) {
                    Some(ancestor) => {
                        self.end_stretch(key);
                        (false, vec![ancestor])
                    }
                    None => {
                        let (shown, parents) = self.select(key, commit);
                        self.extend_stretch(key, shown, &parents);
                        (shown, parents)
                    }
                },
                None => (true, Vec::new()),
            };
            for parent in parents {
                self.enqueue(parent);
            }
            if shown {
                match self.commits.id(key) {
                    Ok(id) => return Some(id),
                    Err(error) => self.truncate(&error),
                }
            }
        }
        if let Some((_, _, key)) = self.queue.peek() {
            self.end_stretch(*key);
        }
        None
    }

    /// Returns the ancestor where the walk continues, if it was learned that the commits from this one to the ancestor
    /// leave the path unchanged.
    fn known_unchanged(&self, key: CommitKey) -> Option<CommitKey> {
        match (&self.selection, key) {
            (Selection::Path(filter), CommitKey::Object(id)) if self.is_alone() => {
                self.commits.known_unchanged(&id, filter.path.as_ref())
            }
            _ => None,
        }
    }

    /// Returns whether the visited commit is the only pending one, and the history has no excluded commits.
    fn is_alone(&self) -> bool {
        self.queue.is_empty() && self.excluded.is_empty()
    }

    /// Extends the current stretch by a visited commit, or ends it.
    fn extend_stretch(&mut self, key: CommitKey, shown: bool, parents: &[CommitKey]) {
        if shown || parents.len() != 1 || !self.is_alone() {
            return self.end_stretch(key);
        }
        let Selection::Path(PathFilter { stretch, .. }) = &mut self.selection else { return };
        match (stretch, key) {
            (Some(stretch), _) => stretch.len = stretch.len.saturating_add(1),
            (none, CommitKey::Object(first)) => *none = Some(Stretch { first, len: 1 }),
            (None, CommitKey::Graph(_)) => {}
        }
    }

    /// Ends the stretch before a commit, and records a long one.
    fn end_stretch(&mut self, key: CommitKey) {
        let Selection::Path(filter) = &mut self.selection else { return };
        if let Some(Stretch { first, len }) = filter.stretch.take()
            && len >= MIN_STRETCH
            && let Ok(end) = self.commits.id(key)
        {
            self.commits.keep_unchanged(&first, filter.path.as_ref(), &end);
        }
    }

    /// Returns whether a commit is shown, and which of its parents are followed.
    fn select(&mut self, key: CommitKey, commit: Commit) -> (bool, Vec<CommitKey>) {
        let Self { repository, commits, selection, excluded, .. } = self;
        match selection {
            Selection::All => (true, commit.parents),
            Selection::Follow(follow) => (follow.shows(repository, commits, key, &commit), commit.parents),
            Selection::Path(filter) => filter.simplify(repository, commits, excluded, key, commit, &self.pending),
        }
    }

    /// Adds a commit to the queue when it is first discovered.
    fn enqueue(&mut self, key: CommitKey) {
        if self.excluded.contains(key) || !self.seen.insert(key) {
            return;
        }
        let commit = self.commits.get(key).inspect_err(|error| self.truncate(error)).ok();
        let date = commit.as_ref().map_or(i64::MIN, |commit| commit.date);
        self.queue.push((date, Reverse(self.seen.len()), key));
        self.pending.insert(key, commit);
    }

    fn truncate(&mut self, error: &crate::error::Error) {
        log::warn!("history truncated: {error}");
        self.is_truncated = true;
    }
}

impl PathFilter {
    fn simplify(
        &mut self,
        repository: &Repository,
        commits: &mut Commits<'_>,
        excluded: &Excluded,
        key: CommitKey,
        commit: Commit,
        pending: &HashMap<CommitKey, Option<Commit>>,
    ) -> (bool, Vec<CommitKey>) {
        let mut here = self.entries.remove(&key);
        let is_unchanged = commits.leaves_unchanged(key, &commit, &self.keys);
        if commit.parents.is_empty() {
            let here = if is_unchanged { Some(None) } else { look_up(repository, commit.tree, self.path.as_ref()) };
            return (here.is_none_or(|here| here.is_some()), Vec::new());
        }
        let (mut has_relevant_parent, mut relevant_change, mut irrelevant_change) = (false, false, false);
        for (number, parent) in commit.parents.iter().enumerate() {
            // An excluded parent does not count in the simplification, unless the range begins at it.
            let is_relevant = !excluded.contains(*parent) || excluded.is_bottom(*parent);
            has_relevant_parent |= is_relevant;
            let is_same = (number == 0 && is_unchanged) || {
                let here = *here.get_or_insert_with(|| look_up(repository, commit.tree, self.path.as_ref()));
                here.is_some() && here == self.entry_of(repository, commits, *parent, pending)
            };
            match (is_same, is_relevant) {
                (true, true) => return (false, vec![*parent]),
                (true, false) => {}
                (false, true) => relevant_change = true,
                (false, false) => irrelevant_change = true,
            }
        }
        let is_changed = if has_relevant_parent { relevant_change } else { irrelevant_change };
        (is_changed, commit.parents)
    }

    /// Returns the entry at the path in a parent; `None` if its tree cannot be read.
    fn entry_of(
        &mut self,
        repository: &Repository,
        commits: &mut Commits<'_>,
        key: CommitKey,
        pending: &HashMap<CommitKey, Option<Commit>>,
    ) -> Option<PathEntry> {
        if let Some(known) = self.entries.get(&key) {
            return *known;
        }
        let tree = match pending.get(&key) {
            Some(commit) => commit.as_ref().map(|commit| commit.tree),
            None => commits.get(key).ok().map(|commit| commit.tree),
        };
        let entry = tree.and_then(|tree| look_up(repository, tree, self.path.as_ref()));
        self.entries.insert(key, entry);
        entry
    }
}

/// Looks up the entry at a path; `None` if the tree cannot be read.
fn look_up(repository: &Repository, tree: ObjectId, path: &BStr) -> Option<PathEntry> {
    match repository.side_at(tree, path) {
        Ok(side) => Some(side.map(|side| (side.mode, side.id))),
        Err(error) => {
            log::warn!("cannot look up {:?} in the tree {tree}: {error}", path.as_bstr());
            None
        }
    }
}

impl Iterator for History<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let id = self.next_id()?;
        Some(Entry { id, data: self.repository.odb.get(&id, Kind::Commit) })
    }
}
