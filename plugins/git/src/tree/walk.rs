//! The files below a tree, in the order of their paths, from any path on.
//!
//! A walk goes straight to where it is to begin: of each directory on the way there it reads the one tree, and none of
//! those beside it. What it holds are the trees from the root to where it is.

use crate::error::{Error, Result};
use crate::repo::Repository;
use crate::tree::{Entries, Entry, LONGEST};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::oid;

/// How many trees are opened in search of the next file. Git makes no trees without files, so more than this is
/// somebody's attempt to keep us busy.
const MOST_BARREN: usize = 10_000;

/// A file below a tree, or another entry that is no directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its path from the root.
    pub(crate) path: BString,
    /// The entry.
    pub(crate) entry: Entry,
}

/// Goes through all files below a tree: whatever is no directory.
pub(crate) struct Files<'r> {
    repository: &'r Repository,
    /// The trees from the root to where the walk is, each with the length of the path of its directory.
    trees: Vec<(Entries, usize)>,
    /// The path of the directory where the walk is: empty, or with a slash at the end.
    directory: BString,
    /// What of the path to begin behind lies below the directory where the walk is, as long as it is on the way there.
    behind: Option<BString>,
}

impl<'r> Files<'r> {
    /// All files below a tree whose paths come after `behind`.
    pub(crate) fn new(repository: &'r Repository, tree: &oid, behind: Option<&BStr>) -> Result<Self> {
        let trees = vec![(repository.entries(tree)?, 0)];
        Ok(Self { repository, trees, directory: BString::default(), behind: behind.map(ToOwned::to_owned) })
    }

    fn next_file(&mut self) -> Result<Option<Found>> {
        let mut opened = 0usize;
        while let Some((entries, length)) = self.trees.last_mut() {
            self.directory.truncate(*length);
            let behind = self.behind.as_ref().map(|behind| behind.as_bstr()).unwrap_or_default();
            let on_the_way = |name: &BStr, is_tree: bool| is_tree && directory_leads_to(name, behind);
            let wanted = |name: &BStr, is_tree: bool| {
                self.behind.is_none() || on_the_way(name, is_tree) || comes_after(name, is_tree, behind)
            };
            let Some(entry) = entries.next_where(|name, mode| wanted(name, mode.is_tree()))? else {
                self.trees.pop();
                // The way led here, and what is left comes after it.
                self.behind = None;
                continue;
            };
            let on_the_way = self.behind.is_some() && on_the_way(entry.name.as_bstr(), entry.mode.is_tree());
            self.behind = match self.behind.take() {
                Some(behind) if on_the_way => behind.get(entry.name.len().saturating_add(1)..).map(BString::from),
                _ => None,
            };
            if self.directory.len().saturating_add(entry.name.len()) >= LONGEST {
                log::warn!("a path of more than {LONGEST} bytes is left out, in {:?}", self.directory);
                continue;
            }
            if !entry.mode.is_tree() {
                let path = [self.directory.as_slice(), entry.name.as_slice()].concat().into();
                return Ok(Some(Found { path, entry }));
            }
            opened = opened.saturating_add(1);
            if opened > MOST_BARREN {
                let fault = format!("more than {MOST_BARREN} directories without a file");
                return Err(Error::corrupt(format!("tree {}", entry.id), fault));
            }
            self.directory.extend_from_slice(&entry.name);
            self.directory.push(b'/');
            self.trees.push((self.repository.entries(&entry.id)?, self.directory.len()));
        }
        Ok(None)
    }
}

impl Iterator for Files<'_> {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_file().transpose()
    }
}

/// Whether the path lies in the directory of this name.
fn directory_leads_to(name: &BStr, path: &BStr) -> bool {
    path.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Whether an entry comes after a path, in git's order.
pub(crate) fn comes_after(name: &BStr, is_tree: bool, path: &BStr) -> bool {
    name.iter().chain(is_tree.then_some(&b'/')).gt(path.iter())
}
