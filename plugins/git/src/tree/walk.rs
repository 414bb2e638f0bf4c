//! A walk over the files below a tree, sorted by path, starting after any path.
//!
//! A walk seeks directly to its start: it reads the tree of each directory on that path, and none of the siblings. Its
//! state consists of the trees from the root to the current position.
//!
//! An unreadable directory (damaged, too large, or missing in a partial clone) is returned in place of its files. A
//! walk pauses after opening [`MAX_TREES`] directories: another walk continues at [`FileWalk::resume_position`].

use crate::error::Result;
use crate::repo::Repository;
use crate::tree::{Entries, Entry, MAX_PATH};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::{ObjectId, oid};
use std::collections::HashSet;

/// The maximum number of trees opened in one walk. Git creates no trees without files, so a page that exceeds the limit
/// is most likely an attack.
const MAX_TREES: usize = 5000;

/// A file below a tree, or another entry that is not a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WalkEntry {
    /// The path from the root.
    pub(crate) path: BString,
    /// The entry.
    pub(crate) entry: Entry,
}

/// An iterator over all files below a tree: all entries except directories.
pub(crate) struct FileWalk<'r> {
    repository: &'r Repository,
    /// The trees from the root to the current position, each with the length of its directory's path.
    trees: Vec<(Entries, usize)>,
    /// The innermost directories without a file so far, with their depth, and the trees that are known to contain no
    /// file at any depth. The latter bound the cost of a directory bomb, in which a few trees occur repeatedly.
    maybe_empty: Vec<(usize, ObjectId)>,
    empty_trees: HashSet<ObjectId>,
    /// The path of the current directory: empty, or with a trailing slash.
    directory: BString,
    /// The rest of the start path below the current directory, while the walk seeks it.
    start_after: Option<BString>,
    /// The number of trees opened.
    opened: usize,
    /// The path of the last item.
    position: BString,
    is_paused: bool,
}

/// Sorts after all UTF-8 names in a directory.
const AFTER_ALL: [u8; 8] = [0xff; 8];

impl WalkEntry {
    /// Returns the position after which a walk must start to return the entries after this one.
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
    /// Creates a walk over the files below a tree whose paths sort after `behind`.
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

    /// Returns the position at which the walk paused; `None` if it did not.
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
                // The seek ends here; the remaining entries follow the start path.
                self.start_after = None;
                continue;
            };
            let on_the_way = self.start_after.is_some() && on_the_way(entry.name.as_bstr(), entry.mode.is_tree());
            self.start_after = match self.start_after.take() {
                Some(behind) if on_the_way => behind.get(entry.name.len().saturating_add(1)..).map(BString::from),
                _ => None,
            };
            if self.directory.len().saturating_add(entry.name.len()) >= MAX_PATH {
                log::warn!("path of more than {MAX_PATH} bytes skipped, in {:?}", self.directory);
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
            // The path to the start is short, and must be walked in any case.
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
                // The directory itself was returned before: the walk starts after it.
                Err(_) if on_the_way => self.start_after = None,
                Err(error) => {
                    log::warn!("directory {path:?} listed without its files: {error}");
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

/// Returns whether a path is inside the directory with this name.
fn is_ancestor(name: &BStr, path: &BStr) -> bool {
    path.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Returns whether an entry sorts after a path, in git's order.
pub(crate) fn is_after(name: &BStr, is_tree: bool, path: &BStr) -> bool {
    name.iter().chain(is_tree.then_some(&b'/')).gt(path.iter())
}
