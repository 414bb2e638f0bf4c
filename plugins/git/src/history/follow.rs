//! The commits that changed a file across renames, as in `git log --follow -- FILE`.
//!
//! As in git, the path of the whole walk changes at a commit that added the file as a rename or a copy of another file,
//! and merges are not shown.

use crate::commit_graph::bloom::PathKeys;
use crate::commits::{Commit, CommitKey, Commits};
use crate::error::Result;
use crate::history::look_up;
use crate::renames::{Added, Renames};
use crate::repo::Repository;
use crate::tree::Side;
use bstr::{BString, ByteSlice};

/// A file that is followed.
pub(super) struct Follow<'r> {
    /// The path at the current commit.
    path: BString,
    keys: PathKeys,
    renames: Renames<'r>,
}

impl<'r> Follow<'r> {
    /// Follows the file at a path.
    pub(super) fn new(repository: &'r Repository, path: BString) -> Self {
        Self { keys: PathKeys::new(path.as_ref()), path, renames: Renames::new(repository) }
    }

    /// Returns whether a limit may have prevented the detection of a former name.
    pub(super) fn is_truncated(&self) -> bool {
        self.renames.is_truncated()
    }

    /// Returns whether a commit changed the file. If the commit added the file, the walk continues with the file's
    /// former path.
    pub(super) fn shows(
        &mut self,
        repository: &Repository,
        commits: &mut Commits<'_>,
        key: CommitKey,
        commit: &Commit,
    ) -> bool {
        if commits.leaves_unchanged(key, commit, &self.keys) || commit.parents.len() > 1 {
            return false;
        }
        let before = match commit.parents.first() {
            Some(parent) => commits.get(*parent).map(|parent| Some(parent.tree)),
            None => Ok(None),
        };
        let Ok(before) = before.inspect_err(|error| log::warn!("cannot compare a commit with its parent: {error}"))
        else {
            return true;
        };
        let here = look_up(repository, commit.tree, self.path.as_ref());
        let there = before.map_or(Some(None), |before| look_up(repository, before, self.path.as_ref()));
        if here.is_some() && here == there {
            return false;
        }
        if let (Some(before), Some(Some((mode, id))), Some(None)) = (before, here, there)
            && !mode.is_tree()
        {
            let added = Added { before, after: commit.tree, path: self.path.as_bstr(), file: Side { mode, id } };
            let source: Result<_> = self.renames.copied_from(&added);
            match source {
                Ok(Some(path)) => {
                    self.keys = PathKeys::new(path.as_ref());
                    self.path = path;
                }
                Ok(None) => {}
                Err(error) => log::warn!("renames of {:?} not followed: {error}", self.path),
            }
        }
        true
    }
}
