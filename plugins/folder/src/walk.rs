//! A sorted walk over the names in a folder, starting at any position.
//!
//! A page of a listing starts after the cursor of the previous page, so a walk seeks directly to it: it reads the names
//! in each folder on the path to the cursor once, and the names in the folders after it as far as the page needs them.
//! Only links are inspected, and the rules are applied only to the names that the page needs. Names are sorted by their
//! bytes. A folder whose files are part of the walk compares as if its name ended with a slash, so the full paths of
//! files are sorted, too.
//!
//! A walk is bounded by a [`WalkBudget`]. It buffers a limited number of names per folder, and reads the folder again
//! for the names after them. After a number of names and folders it pauses: [`Walk::is_paused`] is true, and another
//! walk continues at [`Walk::position`]. Folders deeper than [`MAX_DEPTH`] and paths of more than [`MAX_PATH`] bytes
//! are skipped.

use crate::disk::FileKind;
use crate::rules::Rules;
use crate::tree::{Folder, Found, ItemKind, Place, join};
use mcp_provider::{Result, log};
use std::collections::BinaryHeap;
use std::rc::Rc;

/// The maximum nesting depth of folders.
pub(crate) const MAX_DEPTH: usize = 64;

/// The maximum length of a path in bytes. Percent-encoding may triple the length, and the result still fits into a URI.
pub(crate) const MAX_PATH: usize = 2000;

/// The cost of opening a folder or following a link, as a number of names.
const FOLDER_COST: usize = 50;

/// The budget of one walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkBudget {
    /// The maximum number of buffered names per folder.
    pub ahead: usize,
    /// The number of names after which the walk pauses.
    pub names: usize,
}

impl WalkBudget {
    /// No limits; each folder is read once.
    pub const UNLIMITED: Self = Self { ahead: usize::MAX, names: usize::MAX };

    /// Returns the budget for a page of about `items` items.
    pub fn for_page(items: usize) -> Self {
        Self { ahead: items.saturating_add(1).max(1000), names: 200_000 }
    }
}

/// An iterator over the names in a folder.
pub struct Walk<'f> {
    folder: &'f Folder,
    /// The root folder of the walk.
    place: Found,
    /// Whether the walk descends into folders and returns files only.
    is_deep: bool,
    budget: WalkBudget,
    /// The open folders from the root to the current position.
    levels: Vec<Level>,
    /// The current position: the last processed name, below the root. A trailing slash means that the whole folder was
    /// processed.
    position: String,
    /// The number of names processed.
    spent: usize,
    has_moved: bool,
    is_paused: bool,
}

/// An open folder.
struct Level {
    /// The folder's path below the root; empty, or with a trailing slash.
    path: String,
    /// The rules in the folder.
    rules: Rc<dyn Rules>,
    /// The next children, in reverse order.
    pending: Vec<Child>,
    /// Whether there are more after `pending`.
    has_more: bool,
    /// The rest of the start position in this folder; empty after it was passed.
    after: String,
}

/// A child of a folder: its sort key, with a trailing slash if it is a folder to enter.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Child {
    key: String,
    kind: FileKind,
}

impl Folder {
    /// Walks every file at any depth below a folder, sorted by name, after a [position](Walk::position).
    ///
    /// # Errors
    ///
    /// The errors of [`find`](Self::find) for the folder.
    pub fn files(&self, folder: &str, behind: &str, budget: WalkBudget) -> Result<Walk<'_>> {
        Walk::new(self, self.place(folder)?, true, behind, budget)
    }

    /// Walks the direct children of a folder, sorted, after a [position](Walk::position).
    ///
    /// # Errors
    ///
    /// The errors of [`find`](Self::find) for the folder.
    pub fn children(&self, folder: &str, behind: &str, budget: WalkBudget) -> Result<Walk<'_>> {
        Walk::new(self, self.place(folder)?, false, behind, budget)
    }
}

impl<'f> Walk<'f> {
    /// Walks every file at any depth, or the direct children of a folder. Linked folders are not entered, so no file
    /// occurs twice.
    pub(crate) fn new(
        folder: &'f Folder,
        place: Place,
        is_deep: bool,
        behind: &str,
        budget: WalkBudget,
    ) -> Result<Self> {
        let mut walk = Self {
            folder,
            place: place.found,
            is_deep,
            budget,
            levels: Vec::new(),
            position: behind.to_owned(),
            spent: 0,
            has_moved: false,
            is_paused: false,
        };
        walk.enter(String::new(), place.rules, behind.to_owned())?;
        Ok(walk)
    }

    /// Returns the current position, after which another walk continues.
    pub fn position(&self) -> &str {
        &self.position
    }

    /// Returns whether the walk paused before the end.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns the next file or, in a walk over direct children, the next file or folder.
    ///
    /// # Errors
    ///
    /// The failures of the file system, if a folder that was read before cannot be read again.
    pub fn next_found(&mut self) -> Result<Option<Found>> {
        loop {
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            let Some(child) = level.pending.last() else {
                if level.has_more {
                    if self.should_pause() {
                        return Ok(None);
                    }
                    self.refill()?;
                } else if let Some(done) = self.levels.pop()
                    && !done.path.is_empty()
                {
                    self.move_past(done.path);
                }
                continue;
            };
            let path = [level.path.as_str(), child.key.as_str()].concat();
            let kind = child.kind;
            if (kind == FileKind::Link || kind == FileKind::Folder && self.is_deep) && self.should_pause() {
                return Ok(None);
            }
            self.pop();
            match kind {
                FileKind::Folder if self.is_deep => self.descend(path),
                FileKind::File | FileKind::Folder => {
                    let real = join(&self.place.real, &path);
                    return Ok(Some(self.visit(path, real)));
                }
                FileKind::Link => {
                    self.spent = self.spent.saturating_add(FOLDER_COST);
                    match self.follow(&path) {
                        Some(real) => return Ok(Some(self.visit(path, real))),
                        None => self.move_past(path),
                    }
                }
                FileKind::Other => self.move_past(path),
            }
        }
    }

    /// Consumes the next child of the innermost folder.
    fn pop(&mut self) {
        if let Some(level) = self.levels.last_mut()
            && let Some(child) = level.pending.pop()
        {
            level.after = child.key;
        }
    }

    fn visit(&mut self, path: String, real: String) -> Found {
        let names = join(&self.place.names, &path);
        self.move_past(path);
        Found { names, real }
    }

    fn move_past(&mut self, path: String) {
        self.position = path;
        if !self.has_moved {
            // The seek to the start is not counted, because every walk must make progress.
            (self.has_moved, self.spent) = (true, 0);
        }
    }

    /// Returns whether the budget is used up.
    fn should_pause(&mut self) -> bool {
        self.is_paused = self.has_moved && self.spent >= self.budget.names;
        self.is_paused
    }

    /// Enters the folder at a path with a trailing slash. An unreadable folder is skipped.
    fn descend(&mut self, path: String) {
        let behind = self.position.strip_prefix(&path).unwrap_or_default().to_owned();
        if self.levels.len() > MAX_DEPTH {
            log::warn!("folder {path:?} skipped: nested more than {MAX_DEPTH} folders deep");
            return self.move_past(path);
        }
        let Some(Level { rules, .. }) = self.levels.last() else { return };
        let rules = rules.clone().enter(self.folder, &self.real(&path));
        if let Err(failure) = rules.and_then(|rules| self.enter(path.clone(), rules, behind)) {
            log::warn!("folder {path:?} skipped: {failure}");
            self.move_past(path);
        }
    }

    fn enter(&mut self, path: String, rules: Rc<dyn Rules>, behind: String) -> Result<()> {
        let (pending, has_more) = self.read(&path, rules.as_ref(), &behind)?;
        self.levels.push(Level { path, rules, pending, has_more, after: behind });
        Ok(())
    }

    /// Returns the names, from the root, of a folder below the walk's root.
    fn real(&self, path: &str) -> String {
        join(&self.place.real, path).trim_end_matches('/').to_owned()
    }

    /// Reads the next names of the innermost folder.
    fn refill(&mut self) -> Result<()> {
        let Some(level) = self.levels.last() else { return Ok(()) };
        let (path, rules, behind) = (level.path.clone(), level.rules.clone(), level.after.clone());
        // Names that start with the key of a processed folder were processed, too.
        let (pending, has_more) = self.read(&path, rules.as_ref(), &behind)?;
        if let Some(level) = self.levels.last_mut() {
            (level.pending, level.has_more) = (pending, has_more);
        }
        Ok(())
    }

    /// Reads the first visible children of a folder after a position, in reverse order, and returns whether there are
    /// more.
    fn read(&mut self, path: &str, rules: &dyn Rules, behind: &str) -> Result<(Vec<Child>, bool)> {
        let real = self.real(path);
        let room = MAX_PATH.saturating_sub(self.place.names.len()).saturating_sub(path.len()).saturating_sub(1);
        let (is_deep, most) = (self.is_deep, self.budget.ahead);
        let mut first: BinaryHeap<Child> = BinaryHeap::new();
        let (mut gone_through, mut has_more, mut too_long) = (FOLDER_COST, false, 0_usize);
        self.folder.root().for_each(&real, |entry| {
            gone_through = gone_through.saturating_add(1);
            let (mut key, kind) = match entry {
                Ok(entry) => entry,
                Err(fault) => return log::warn!("entry of the folder {real:?} skipped: {fault}"),
            };
            let name_len = key.len();
            if kind == FileKind::Folder && is_deep {
                key.push('/');
            }
            let is_on_the_way = key.ends_with('/') && behind.len() > key.len() && behind.starts_with(&key);
            if key.as_str() <= behind && !is_on_the_way {
                return;
            }
            let is_full = first.len() >= most;
            if is_full && first.peek().is_none_or(|last| key >= last.key) {
                // The name may turn out to be invisible later.
                has_more = true;
                return;
            }
            if !rules.shows(&join(&real, key.trim_end_matches('/')), kind == FileKind::Folder) {
                return;
            }
            if name_len > room {
                too_long = too_long.saturating_add(1);
                return;
            }
            if is_full {
                has_more = true;
                first.pop();
            }
            first.push(Child { key, kind });
        })?;
        if too_long > 0 {
            log::warn!("{too_long} names in the folder {real:?} skipped: their paths exceed {MAX_PATH} bytes");
        }
        self.spent = self.spent.saturating_add(gone_through);
        let mut first = first.into_sorted_vec();
        first.reverse();
        Ok((first, has_more))
    }

    /// Returns the names of a link's target, if the walk includes it.
    fn follow(&self, path: &str) -> Option<String> {
        let real = join(&self.place.real, path);
        match self.folder.follow(&real) {
            Ok(item) => (item.kind == ItemKind::File || !self.is_deep).then_some(item.found.real),
            Err(failure) => {
                log::debug!("link {real:?} skipped: {failure}");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DotNames;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::fs;

    fn folder(files: &BTreeSet<String>) -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let root = Folder::open(dir.path(), Rc::new(DotNames)).unwrap();
        (dir, root)
    }

    /// Returns all names, by walks of at most `each` names, and the number of walks.
    fn walk_all(root: &Folder, reach: WalkBudget, each: usize) -> (Vec<String>, usize) {
        let (mut all, mut place, mut walks) = (Vec::new(), String::new(), 0);
        loop {
            walks = usize::saturating_add(walks, 1);
            let began = place.clone();
            let mut walk = root.files("", &began, reach).unwrap();
            let mut on_this: usize = 0;
            loop {
                match walk.next_found().unwrap() {
                    Some(_) if on_this == each => break,
                    Some(found) => all.push(found.names),
                    None if walk.is_paused() => {
                        place = walk.position().to_owned();
                        break;
                    }
                    None => return (all, walks),
                }
                on_this = on_this.saturating_add(1);
                place = walk.position().to_owned();
            }
            assert_ne!(place, began);
        }
    }

    /// Rules that allow everything, and count the entered folders.
    #[derive(Debug, Default)]
    struct CountedRules(Cell<usize>);

    impl Rules for CountedRules {
        fn enter(self: Rc<Self>, _: &Folder, _: &str) -> Result<Rc<dyn Rules>> {
            self.0.set(self.0.get() + 1);
            Ok(self)
        }

        fn shows(&self, _: &str, _: bool) -> bool {
            true
        }
    }

    #[test]
    fn a_walk_enters_the_folders_from_its_start_on_and_no_others() {
        let files = (0..829).flat_map(|n| (0..5).map(move |m| format!("d{:02}/e{n:03}/n{m}.md", n % 29))).collect();
        let (dir, _) = folder(&files);
        let rules = Rc::new(CountedRules::default());
        let root = Folder::open(dir.path(), rules.clone()).unwrap();
        let mut walk = root.files("", "d14/e400/n2.md", WalkBudget::for_page(100)).unwrap();
        for _ in 0..100 {
            walk.next_found().unwrap().unwrap();
        }
        // The root, its parent folder, and the folders of twenty pages of five files.
        assert!(rules.0.get() <= 25, "{} folders were entered", rules.0.get());
    }

    #[test]
    fn a_walk_of_little_reach_pauses_and_another_goes_on() {
        let files = (0..300).map(|n| format!("{}/{n}.md", n % 20)).chain((0..50).map(|n| format!("x{n}.md"))).collect();
        let (_dir, root) = folder(&files);
        fs::create_dir_all(_dir.path().join("empty/of/all")).unwrap();
        let (all, walks) = walk_all(&root, WalkBudget { ahead: 3, names: 1 }, usize::MAX);
        assert_eq!(all, files.iter().cloned().collect::<Vec<_>>());
        assert!(walks > 20, "{walks}");
    }

    #[test]
    fn folders_beyond_the_depth_and_paths_beyond_the_length_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("d/".repeat(100))).unwrap();
        fs::write(dir.path().join("d/".repeat(70) + "deep.md"), "").unwrap();
        fs::write(dir.path().join("d/".repeat(50) + "less.md"), "").unwrap();
        let long = format!("{0}/{0}/{0}/{0}/{0}/{0}/{0}", "n".repeat(250));
        fs::create_dir_all(dir.path().join(&long)).unwrap();
        fs::write(dir.path().join(&long).join("m".repeat(240)), "").unwrap();
        let root = Folder::open(dir.path(), Rc::new(DotNames)).unwrap();
        fs::write(dir.path().join(&long).join("short.md"), "").unwrap();
        let (all, _) = walk_all(&root, WalkBudget::for_page(9), 2);
        assert_eq!(
            all,
            ["d/".repeat(50) + "less.md", format!("{long}/{}", "m".repeat(240)), format!("{long}/short.md")]
        );
        fs::create_dir_all(dir.path().join(&long).join("o".repeat(240))).unwrap();
        fs::write(dir.path().join(&long).join("o".repeat(240)).join("too-long.md"), "").unwrap();
        assert_eq!(walk_all(&root, WalkBudget::for_page(9), 2).0.len(), 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn the_pages_of_a_walk_are_all_files_in_order(
            files in proptest::collection::btree_set("([ab.!0]{1,2}/){0,3}f[ab.!0]{0,2}", 0..25),
            ahead in 1usize..6, names in 1usize..300, each in 1usize..5,
        ) {
            let files = files.into_iter().filter(|file| !file.split('/').any(|name| name.starts_with('.'))).collect();
            let (_dir, root) = folder(&files);
            let (all, _) = walk_all(&root, WalkBudget { ahead, names }, each);
            prop_assert_eq!(all, files.into_iter().collect::<Vec<_>>());
        }
    }
}
