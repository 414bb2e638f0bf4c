//! The commits that the lines of a file come from, as in `git blame`.
//!
//! Lines start at the requested commit and pass from a commit to its parents. If a parent has the same file, all lines
//! pass to it. If not, each line that the diff to a parent leaves unchanged passes to the first such parent. Lines that
//! pass to no parent come from the commit. If a parent lacks the path, renames are followed: the search continues at
//! the file's former name. Commits are visited by date, latest first.
//!
//! The work is bounded by [`MAX_COMMITS`] and the time of a [`Budget`](crate::budget::Budget). Lines whose search ends
//! at such a bound are marked as not final.

use crate::commit_graph::bloom::PathKeys;
use crate::commits::{Commit, CommitKey, Commits};
use crate::error::Result;
use crate::renames::{Added, Renames};
use crate::repo::Repository;
use crate::tree::Side;
use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;
use gix_object::tree::EntryKind;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

/// The maximum number of commits visited.
const MAX_COMMITS: usize = 100_000;

/// The maximum size of the versions of a file that are compared, in bytes. A larger former version counts as different
/// in every line.
pub(crate) const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The origins of lines.
pub(crate) struct Blame {
    /// The origins, in the order of the lines.
    pub(crate) origins: Vec<Origin>,
}

/// The commit that some lines come from.
pub(crate) struct Origin {
    /// The commit.
    pub(crate) id: ObjectId,
    /// The lines, counted from zero.
    pub(crate) lines: Range<u32>,
    /// Whether the lines come from this commit; if false, the search ended there.
    pub(crate) is_final: bool,
}

/// Lines that are still searched for: their position in the requested version, and in the current commit's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lines {
    target: u32,
    source: u32,
    count: u32,
}

/// A version of the file, with the lines that may come from it.
struct Suspect {
    path: BString,
    file: ObjectId,
    lines: Vec<Lines>,
}

/// A search for origins.
struct Search<'r> {
    repository: &'r Repository,
    commits: Commits<'r>,
    renames: Renames<'r>,
    /// The versions that lines may come from. A commit can have several versions, under different paths.
    suspects: HashMap<CommitKey, Vec<Suspect>>,
    queue: BinaryHeap<(i64, Reverse<usize>, CommitKey)>,
    pushed: usize,
    origins: Vec<Origin>,
}

impl Blame {
    /// Finds the origins of some lines of a file at a path of a commit.
    pub(crate) fn new(
        repository: &Repository,
        commit: ObjectId,
        path: BString,
        file: ObjectId,
        lines: Range<u32>,
    ) -> Result<Self> {
        let commits = Commits::new(repository)?;
        let mut search = Search {
            repository,
            commits,
            renames: Renames::new(repository),
            suspects: HashMap::new(),
            queue: BinaryHeap::new(),
            pushed: 0,
            origins: Vec::new(),
        };
        let lines = Lines { target: lines.start, source: lines.start, count: lines.end.saturating_sub(lines.start) };
        let key = search.commits.key(&commit)?;
        search.suspect(key, Suspect { path, file, lines: vec![lines] })?;
        search.run()?;
        let mut origins = search.origins;
        origins.sort_unstable_by_key(|origin| origin.lines.start);
        Ok(Self { origins })
    }
}

impl Search<'_> {
    fn run(&mut self) -> Result<()> {
        let mut budget = self.repository.budget(MAX_COMMITS);
        while let Some((_, _, key)) = self.queue.pop() {
            // A commit may be in the queue several times.
            let Some(suspects) = self.suspects.remove(&key) else { continue };
            let is_within_budget = budget.take();
            let commit = self.commits.get(key)?;
            for mut suspect in suspects {
                if is_within_budget {
                    self.pass(key, &commit, &mut suspect)?;
                }
                self.settle(key, &suspect.lines, is_within_budget && !self.renames.is_truncated())?;
            }
        }
        Ok(())
    }

    /// Adds a version of the file to the versions that lines may come from.
    fn suspect(&mut self, key: CommitKey, suspect: Suspect) -> Result<()> {
        if suspect.lines.iter().all(|lines| lines.count == 0) {
            return Ok(());
        }
        let versions = self.suspects.entry(key).or_default();
        match versions.iter_mut().find(|version| version.path == suspect.path) {
            Some(version) => version.lines.extend(suspect.lines),
            None => versions.push(suspect),
        }
        self.pushed = self.pushed.saturating_add(1);
        self.queue.push((self.commits.get(key)?.date, Reverse(self.pushed), key));
        Ok(())
    }

    /// Passes lines to the parents of a commit.
    fn pass(&mut self, key: CommitKey, commit: &Commit, suspect: &mut Suspect) -> Result<()> {
        if let Some(first) = commit.parents.first()
            && self.commits.leaves_unchanged(key, commit, &PathKeys::new(suspect.path.as_ref()))
        {
            let lines = std::mem::take(&mut suspect.lines);
            return self.suspect(*first, Suspect { path: suspect.path.clone(), file: suspect.file, lines });
        }
        let mut versions: Vec<Option<(BString, ObjectId)>> = vec![None; commit.parents.len()];
        for by_rename in [false, true] {
            for (number, parent) in commit.parents.iter().enumerate() {
                if versions.get(number).is_some_and(Option::is_some) {
                    continue;
                }
                let Some((path, file)) = self.version_in(*parent, commit, suspect, by_rename)? else { continue };
                if file == suspect.file {
                    let lines = std::mem::take(&mut suspect.lines);
                    return self.suspect(*parent, Suspect { path, file, lines });
                }
                let is_known = versions.iter().flatten().any(|(_, known)| *known == file);
                if let Some(version) = versions.get_mut(number).filter(|_| !is_known) {
                    *version = Some((path, file));
                }
            }
        }
        for (parent, version) in commit.parents.iter().zip(versions) {
            if let Some((path, file)) = version.filter(|_| !suspect.lines.is_empty()) {
                let (kept, passed) = self.divide(&suspect.lines, file, suspect.file)?;
                suspect.lines = kept;
                self.suspect(*parent, Suspect { path, file, lines: passed })?;
            }
        }
        Ok(())
    }

    /// Returns the path and the object of the file in a parent.
    fn version_in(
        &mut self,
        parent: CommitKey,
        commit: &Commit,
        suspect: &Suspect,
        by_rename: bool,
    ) -> Result<Option<(BString, ObjectId)>> {
        let tree = self.commits.get(parent)?.tree;
        let file_at = |path: &BString| {
            let found = self.repository.side_at(tree, path.as_bstr())?;
            Ok::<_, crate::error::Error>(found.filter(|found| found.mode.is_blob()).map(|found| found.id))
        };
        if !by_rename {
            return Ok(file_at(&suspect.path)?.map(|file| (suspect.path.clone(), file)));
        }
        if self.repository.side_at(tree, suspect.path.as_bstr())?.is_some() {
            return Ok(None);
        }
        let file = Side { mode: EntryKind::Blob.into(), id: suspect.file };
        let added = Added { before: tree, after: commit.tree, path: suspect.path.as_bstr(), file };
        let Some(path) = self.renames.renamed_from(&added)? else { return Ok(None) };
        Ok(file_at(&path)?.map(|file| (path, file)))
    }

    /// Divides lines of a version into lines that differ from a former version, and unchanged lines with their
    /// positions there.
    fn divide(&self, lines: &[Lines], before: ObjectId, after: ObjectId) -> Result<(Vec<Lines>, Vec<Lines>)> {
        if self.repository.odb.size(&before)?.is_none_or(|size| size > MAX_FILE) {
            return Ok((lines.to_vec(), Vec::new()));
        }
        let hunks = self.repository.hunks(&before, &after)?;
        let (mut kept, mut passed) = (Vec::new(), Vec::new());
        for lines in lines {
            let end = lines.source.saturating_add(lines.count);
            let mut at = lines.source;
            let piece = |from: u32, to: u32, source: u32| Lines {
                target: lines.target.saturating_add(from.saturating_sub(lines.source)),
                source,
                count: to.saturating_sub(from),
            };
            // The position in the former version that corresponds to the first line after the last hunk.
            let first = hunks.partition_point(|hunk| hunk.after.end <= at);
            let mut before_end = first
                .checked_sub(1)
                .and_then(|last| hunks.get(last))
                .map_or((0, 0), |hunk| (hunk.before.end, hunk.after.end));
            for hunk in hunks.get(first..).unwrap_or_default() {
                if at >= end {
                    break;
                }
                if hunk.after.start > at {
                    let to = hunk.after.start.min(end);
                    passed.push(piece(at, to, before_end.0.saturating_add(at.saturating_sub(before_end.1))));
                    at = to;
                }
                let to = hunk.after.end.min(end);
                if to > at {
                    kept.push(piece(at, to, at));
                    at = to;
                }
                before_end = (hunk.before.end, hunk.after.end);
            }
            if at < end {
                passed.push(piece(at, end, before_end.0.saturating_add(at.saturating_sub(before_end.1))));
            }
        }
        Ok((kept, passed))
    }

    /// Records the lines that come from a commit.
    fn settle(&mut self, key: CommitKey, lines: &[Lines], is_final: bool) -> Result<()> {
        if lines.iter().all(|lines| lines.count == 0) {
            return Ok(());
        }
        let id = self.commits.id(key)?;
        let lines = lines.iter().filter(|lines| lines.count > 0);
        let lines = lines.map(|lines| lines.target..lines.target.saturating_add(lines.count));
        self.origins.extend(lines.map(|lines| Origin { id, lines, is_final }));
        Ok(())
    }
}
