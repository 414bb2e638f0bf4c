//! The commits that a range `A..B` leaves out: those reachable from `A`, as far as the history of `B` meets them.
//!
//! Both histories are walked together, each commit after its descendants: in the order of generation numbers, and
//! where these are unknown, of dates. A mark travels from each commit to its parents. The walk ends when only commits
//! that are left out remain, since all of their ancestors are left out, too. Dates are not exact, so that as in git some
//! more commits are visited where they decide ([`SLOP`]).

use crate::commits::{CommitKey, Commits, Generation};
use crate::error::{Error, Result};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// The maximum number of commits that are visited.
const MAX_COMMITS: usize = 100_000;

/// The number of commits that are visited after the end, where the order is by date. Git's own number.
const SLOP: usize = 5;

/// The commits that a range leaves out.
#[derive(Default)]
pub(super) struct Excluded {
    /// `true` for those that are left out, `false` for the others that were visited.
    visited: HashMap<CommitKey, bool>,
    /// The commit with whose history the range is compared.
    bottom: Option<CommitKey>,
}

/// A walk over both histories.
struct Walk<'c, 'r> {
    commits: &'c mut Commits<'r>,
    visited: HashMap<CommitKey, bool>,
    queue: BinaryHeap<(Generation, i64, Reverse<usize>, CommitKey)>,
    /// The commits in the queue that are not left out.
    remaining: HashSet<CommitKey>,
}

impl Excluded {
    /// Computes what is reachable from `excluded`, as far as it matters for the history of `included`.
    pub(super) fn new(commits: &mut Commits<'_>, included: CommitKey, excluded: CommitKey) -> Result<Self> {
        let (visited, queue, remaining) = (HashMap::new(), BinaryHeap::new(), HashSet::new());
        let mut walk = Walk { commits, visited, queue, remaining };
        walk.mark(included, false)?;
        walk.mark(excluded, true)?;
        walk.run()?;
        Ok(Self { visited: walk.visited, bottom: Some(excluded) })
    }

    /// Returns whether nothing is left out.
    pub(super) fn is_empty(&self) -> bool {
        self.bottom.is_none()
    }

    /// Returns whether a commit is left out.
    pub(super) fn contains(&self, key: CommitKey) -> bool {
        self.visited.get(&key).copied().unwrap_or_default()
    }

    /// Returns whether a commit is the one with whose history the range is compared.
    pub(super) fn is_bottom(&self, key: CommitKey) -> bool {
        self.bottom == Some(key)
    }
}

impl Walk<'_, '_> {
    /// Marks a commit, and adds it to the queue if the mark is new to it.
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
                // Generation numbers are exact: no commit that follows is a descendant of one before it.
                Some((Generation::Known(_), ..)) | None => break,
                Some((_, date, ..)) if *date >= oldest => slop = SLOP,
                Some(_) if slop == 0 => break,
                Some(_) => slop = slop.saturating_sub(1),
            }
        }
        Ok(())
    }
}
