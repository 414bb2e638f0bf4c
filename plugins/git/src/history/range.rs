//! The commits that a range `A..B` excludes: the commits reachable from `A`, as far as the history of `B` contains
//! them.
//!
//! Both histories are walked together, each commit after its descendants: by generation number, or by date where
//! numbers are unknown. A commit passes its mark to its parents. The walk ends when only excluded commits remain,
//! because all of their ancestors are excluded, too. Dates are not exact, so where they decide, a few more commits are
//! visited, as in git ([`SLOP`]).

use crate::commits::{CommitKey, Commits, Generation};
use crate::error::{Error, Result};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// The maximum number of commits that are visited.
const MAX_COMMITS: usize = 100_000;

/// The number of further commits that are visited where the order is by date. Git uses the same number.
const SLOP: usize = 5;

/// The commits that a range excludes.
#[derive(Default)]
pub(super) struct Excluded {
    /// The visited commits: `true` if excluded.
    visited: HashMap<CommitKey, bool>,
    /// The start of the range: the commit `A` of `A..B`.
    bottom: Option<CommitKey>,
}

/// A walk over both histories.
struct Walk<'c, 'r> {
    commits: &'c mut Commits<'r>,
    visited: HashMap<CommitKey, bool>,
    queue: BinaryHeap<(Generation, i64, Reverse<usize>, CommitKey)>,
    /// The commits in the queue that are not excluded.
    remaining: HashSet<CommitKey>,
}

impl Excluded {
    /// Computes the commits reachable from `excluded`, as far as they matter for the history of `included`.
    pub(super) fn new(commits: &mut Commits<'_>, included: CommitKey, excluded: CommitKey) -> Result<Self> {
        let (visited, queue, remaining) = (HashMap::new(), BinaryHeap::new(), HashSet::new());
        let mut walk = Walk { commits, visited, queue, remaining };
        walk.mark(included, false)?;
        walk.mark(excluded, true)?;
        walk.run()?;
        Ok(Self { visited: walk.visited, bottom: Some(excluded) })
    }

    /// Returns whether no commit is excluded.
    pub(super) fn is_empty(&self) -> bool {
        self.bottom.is_none()
    }

    /// Returns whether a commit is excluded.
    pub(super) fn contains(&self, key: CommitKey) -> bool {
        self.visited.get(&key).copied().unwrap_or_default()
    }

    /// Returns whether a commit is the start of the range.
    pub(super) fn is_bottom(&self, key: CommitKey) -> bool {
        self.bottom == Some(key)
    }
}

impl Walk<'_, '_> {
    /// Marks a commit, and adds it to the queue if its mark changed.
    fn mark(&mut self, key: CommitKey, is_excluded: bool) -> Result<()> {
        match self.visited.get(&key) {
            Some(true) => return Ok(()),
            Some(false) if !is_excluded => return Ok(()),
            _ => {}
        }
        self.visited.insert(key, is_excluded);
        if is_excluded {
            self.remaining.remove(&key);
        } else {
            self.remaining.insert(key);
        }
        let commit = self.commits.get(key)?;
        self.queue.push((commit.generation, commit.date, Reverse(self.visited.len()), key));
        Ok(())
    }

    fn run(&mut self) -> Result<()> {
        let mut budget = self.commits.repository().budget(MAX_COMMITS);
        let (mut oldest, mut slop) = (i64::MAX, SLOP);
        while let Some((_, date, _, key)) = self.queue.pop() {
            if !budget.take() {
                return Err(Error::Unsupported(
                    "the histories of the range's two commits are too long to be compared; write a commit-graph with \
                     `git commit-graph write --reachable`, or choose commits that are closer to each other"
                        .to_owned(),
                ));
            }
            let is_excluded = self.visited.get(&key).copied().unwrap_or_default();
            self.remaining.remove(&key);
            for parent in self.commits.get(key)?.parents {
                self.mark(parent, is_excluded)?;
            }
            if !is_excluded {
                oldest = oldest.min(date);
            }
            if !self.remaining.is_empty() {
                slop = SLOP;
                continue;
            }
            match self.queue.peek() {
                // Generation numbers are exact: no later commit in the queue is a descendant of an earlier one.
                Some((Generation::Known(_), ..)) | None => break,
                Some((_, date, ..)) if *date >= oldest => slop = SLOP,
                Some(_) if slop == 0 => break,
                Some(_) => slop = slop.saturating_sub(1),
            }
        }
        Ok(())
    }
}
