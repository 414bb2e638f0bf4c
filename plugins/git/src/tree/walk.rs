//! The files below a tree, in the order of their paths, from any path on.
//!
//! A walk goes straight to where it is to begin: of each directory on the way there it reads the one tree, and none of
//! those beside it. What it holds are the trees from the root to where it is.
//!
//! A directory that cannot be read (damaged, too large, or missing in a partial clone) comes as itself in the place of its
//! files. A walk that has opened [`MAX_TREES`] directories pauses: what comes then is another one's, from [`FileWalk::resume_position`] on.

use crate::error::Result;
use crate::repo::Repository;
use crate::tree::{Entries, Entry, MAX_PATH};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::{ObjectId, oid};
use std::collections::HashSet;

/// How many trees are opened in one walk. Git makes no trees without files, so most of so many are somebody's attempt to keep
/// us busy.
const MAX_TREES: usize = 5000;

/// A file below a tree, or another entry that is no directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WalkEntry {
    /// Its path from the root.
    pub(crate) path: BString,
    /// The entry.
    pub(crate) entry: Entry,
}

/// Goes through all files below a tree: whatever is no directory.
pub(crate) struct FileWalk<'r> {
    repository: &'r Repository,
    /// The trees from the root to where the walk is, each with the length of the path of its directory.
    trees: Vec<(Entries, usize)>,
    /// The innermost directories that have had no file so far, by the number of trees on the way to them, and the trees that
    /// turned out to have none at any depth: a bomb of directories is made of few trees that come again and again.
    maybe_empty: Vec<(usize, ObjectId)>,
    empty_trees: HashSet<ObjectId>,
    /// The path of the directory where the walk is: empty, or with a slash at the end.
    directory: BString,
    /// What of the path to begin behind lies below the directory where the walk is, as long as it is on the way there.
    start_after: Option<BString>,
    /// How many trees were opened.
    opened: usize,
    /// Behind what the walk is.
    position: BString,
    is_paused: bool,
}

/// Comes behind all names that stand in a directory, as far as there are names of text.
const AFTER_ALL: [u8; 8] = [0xff; 8];

impl WalkEntry {
    /// Where a walk begins that is to come to what is behind this one.
    pub(crate) fn position(&self) -> BString {
        if self.entry.mode.is_tree() {
            end_of_directory(&[self.path.as_slice(), b"/"].concat())
        } else {
            self.path.clone()
        }
    }
}

fn end_of_directory(directory: &[u8]) -> BString {
    [directory, AFTER_ALL.as_slice()].concat().into()
}

impl<'r> FileWalk<'r> {
    /// All files below a tree whose paths come after `behind`.
    pub(crate) fn new(repository: &'r Repository, tree: &oid, behind: Option<&BStr>) -> Result<Self> {
        let trees = vec![(repository.entries(tree)?, 0)];
        Ok(Self {
            repository,
            trees,
            maybe_empty: Vec::new(),
            empty_trees: HashSet::new(),
            directory: BString::default(),
            start_after: behind.map(ToOwned::to_owned),
            opened: 0,
            position: behind.unwrap_or_default().to_owned(),
            is_paused: false,
        })
    }

    /// Behind what the walk paused; none where it did not.
    pub(crate) fn resume_position(&self) -> Option<&BStr> {
        self.is_paused.then_some(self.position.as_bstr())
    }

    fn next_file(&mut self) -> Result<Option<WalkEntry>> {
        if self.is_paused {
            return Ok(None);
        }
        while let Some((entries, length)) = self.trees.last_mut() {
            self.directory.truncate(*length);
            let behind = self.start_after.as_ref().map(|behind| behind.as_bstr()).unwrap_or_default();
            let on_the_way = |name: &BStr, is_tree: bool| is_tree && is_ancestor(name, behind);
            let wanted = |name: &BStr, is_tree: bool| {
                self.start_after.is_none() || on_the_way(name, is_tree) || is_after(name, is_tree, behind)
            };
            let Some(entry) = entries.next_where(|name, mode| wanted(name, mode.is_tree()))? else {
                if let Some((depth, tree)) = self.maybe_empty.last().copied()
                    && depth == self.trees.len()
                {
                    self.maybe_empty.pop();
                    self.empty_trees.insert(tree);
                }
                self.trees.pop();
                if !self.directory.is_empty() {
                    self.position = end_of_directory(&self.directory);
                }
                // The way led here, and what is left comes after it.
                self.start_after = None;
                continue;
            };
            let on_the_way = self.start_after.is_some() && on_the_way(entry.name.as_bstr(), entry.mode.is_tree());
            self.start_after = match self.start_after.take() {
                Some(behind) if on_the_way => behind.get(entry.name.len().saturating_add(1)..).map(BString::from),
                _ => None,
            };
            if self.directory.len().saturating_add(entry.name.len()) >= MAX_PATH {
                log::warn!("a path of more than {MAX_PATH} bytes is left out, in {:?}", self.directory);
                continue;
            }
            if !entry.mode.is_tree() {
                let path: BString = [self.directory.as_slice(), entry.name.as_slice()].concat().into();
                self.position = path.clone();
                self.maybe_empty.clear();
                return Ok(Some(WalkEntry { path, entry }));
            }
            if self.empty_trees.contains(&entry.id) {
                continue;
            }
            let path: BString = [self.directory.as_slice(), entry.name.as_slice()].concat().into();
            // The way to where the walk began is short, and must be gone.
            if self.opened >= MAX_TREES && !on_the_way {
                self.is_paused = true;
                return Ok(None);
            }
            self.opened = self.opened.saturating_add(1);
            match self.repository.entries(&entry.id).and_then(Entries::validate) {
                Ok(entries) => {
                    self.directory = path;
                    self.directory.push(b'/');
                    self.trees.push((entries, self.directory.len()));
                    if !on_the_way {
                        self.maybe_empty.push((self.trees.len(), entry.id));
                    }
                }
                // It came as itself before: the walk is to begin behind it.
                Err(_) if on_the_way => self.start_after = None,
                Err(error) => {
                    log::warn!("the directory {path:?} is listed as such, its files cannot be: {error}");
                    let found = WalkEntry { path, entry };
                    self.position = found.position();
                    self.maybe_empty.clear();
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }
}

impl Iterator for FileWalk<'_> {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_file().transpose()
    }
}

/// Whether the path lies in the directory of this name.
fn is_ancestor(name: &BStr, path: &BStr) -> bool {
    path.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Whether an entry comes after a path, in git's order.
pub(crate) fn is_after(name: &BStr, is_tree: bool, path: &BStr) -> bool {
    name.iter().chain(is_tree.then_some(&b'/')).gt(path.iter())
}
