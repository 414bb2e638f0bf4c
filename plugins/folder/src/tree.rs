//! The items of a folder.
//!
//! Items are identified by their names below the folder, separated by `/`. Three kinds are visible: regular files and
//! folders whose names are UTF-8 and allowed by the [rules](crate::Rules), and symbolic links to those. Links are
//! resolved here, name by name, which prevents path traversal: a link leads neither out of the folder nor to a hidden
//! item. An absolute target is outside. In a component, the sandbox also rejects paths that lead out of the folder.
//! Devices, sockets and FIFOs are invisible; opening a FIFO could block forever.
//!
//! A name that does not exist is looked up in the other normalization forms of Unicode, because file systems and input
//! methods differ in their form. The item has the names as they are on disk, so it has only one path.

use crate::disk::{FileKind, Metadata, OpenFile, Root};
use crate::rules::Rules;
use mcp_provider::{Failure, Result, log};
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;
use unicode_normalization::UnicodeNormalization;

/// The maximum number of links on the path to an item, as in Linux.
const MAX_LINKS: usize = 40;

/// The maximum number of attempts to read a file that changes during the read.
const MAX_READS: usize = 3;

/// The type of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
}

impl ItemKind {
    fn new(kind: FileKind) -> Option<Self> {
        match kind {
            FileKind::File => Some(Self::File),
            FileKind::Folder => Some(Self::Folder),
            FileKind::Link | FileKind::Other => None,
        }
    }
}

/// The location of a visible item.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Found {
    /// The names below the folder.
    pub names: String,
    /// The real names of the item: the target's names if `names` contains a link.
    pub(crate) real: String,
}

impl Found {
    /// Returns the last name of the item; empty for the folder itself.
    pub fn name(&self) -> &str {
        last_name(&self.names)
    }
}

/// A file or folder with its current metadata.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Item {
    /// The location.
    pub found: Found,
    /// The type.
    pub kind: ItemKind,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last modification, if the file system provides it.
    pub modified: Option<SystemTime>,
    /// The time of the last status change.
    pub(crate) changed: (i64, i64),
}

impl Item {
    fn new(found: Found, metadata: Metadata) -> Result<Self> {
        let Metadata { kind, size, modified, changed } = metadata;
        Ok(Self { found, kind: ItemKind::new(kind).ok_or(Failure::NotFound)?, size, modified, changed })
    }

    /// Returns the names below the folder.
    pub fn names(&self) -> &str {
        &self.found.names
    }

    /// Returns the last name of the item; empty for the folder itself.
    pub fn name(&self) -> &str {
        self.found.name()
    }
}

/// Returns the last name in a path of names.
pub fn last_name(names: &str) -> &str {
    names.rsplit('/').next().unwrap_or_default()
}

/// A served folder.
#[derive(Debug)]
pub struct Folder {
    root: Root,
    rules: Rc<dyn Rules>,
}

impl Folder {
    /// Opens the folder at a path.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`], with the grant to add, if there is no such folder.
    pub fn open(dir: &Path, rules: Rc<dyn Rules>) -> Result<Self> {
        let root = Root::open(dir).map_err(|failure| {
            Failure::internal(format!(
                "no folder at {dir:?}: {failure}; expected `grants.dirs = [{{ host = \"…\", guest = {dir:?} }}]`, or \
                 another granted directory in the config key `dir`"
            ))
        })?;
        Ok(Self { root, rules })
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the visible item with these names.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] if there is none, [`Failure::Denied`] if a link leads out of the folder.
    pub fn find(&self, names: &str) -> Result<Item> {
        let mut search = Search::new(self);
        let metadata = search.run(names)?;
        Item::new(search.found(), metadata)
    }

    /// Returns the visible item with exactly these names as they are on disk; another normalization form is not found.
    ///
    /// # Errors
    ///
    /// The errors of [`find`](Self::find).
    pub fn find_exact(&self, names: &str) -> Result<Item> {
        let item = self.find(names)?;
        if item.names() == names { Ok(item) } else { Err(Failure::NotFound) }
    }

    /// Returns a visible item with its current metadata.
    ///
    /// # Errors
    ///
    /// The failures of the file system.
    pub fn item(&self, found: &Found) -> Result<Item> {
        Item::new(found.clone(), self.root.stat(&found.real)?)
    }

    /// Returns a visible item for a listing: failures are logged, and the item is omitted.
    pub fn item_for_listing(&self, found: &Found) -> Option<Item> {
        let omitted = |failure: &_| log::warn!("{:?} omitted: {failure}", found.names);
        self.item(found).inspect_err(omitted).ok()
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// The failures of the file system; [`Failure::NotFound`] if it is no longer a regular file.
    pub fn open_file(&self, found: &Found) -> Result<OpenFile> {
        self.root.open_file(&found.real)
    }

    /// Opens a file, and returns it with its current metadata.
    ///
    /// # Errors
    ///
    /// As for [`open_file`](Self::open_file).
    pub fn open_item(&self, item: &Item) -> Result<(OpenFile, Item)> {
        let file = self.open_file(&item.found)?;
        let item = Item::new(item.found.clone(), file.stat()?)?;
        if item.kind == ItemKind::File { Ok((file, item)) } else { Err(Failure::NotFound) }
    }

    /// Reads a whole file of at most `max` bytes, and returns its bytes with its metadata at the time of the read.
    ///
    /// # Errors
    ///
    /// As for [`open_file`](Self::open_file); [`Failure::Denied`] if the file is larger; [`Failure::Unavailable`] if it
    /// changes during each attempt, so that the bytes may mix two versions.
    pub fn read_whole(&self, item: &Item, max: usize) -> Result<(Vec<u8>, Item)> {
        for _ in 0..MAX_READS {
            let (file, item) = self.open_item(item)?;
            if usize::try_from(item.size).map_or(true, |size| size > max) {
                let size = item.size;
                return Err(Failure::denied(format!("the file has {size} bytes, expected at most {max}")));
            }
            // A file that has grown counts as changed.
            let bytes = file.read_at(0, max)?;
            if file.is_unchanged(&item)? {
                return Ok((bytes, item));
            }
        }
        Err(Failure::unavailable("the file changes while it is read; try again later"))
    }

    /// Reads a small file of the folder, even if it is hidden, for [`Rules`]; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// The failures of the file system; a file of more than `max` bytes.
    pub fn read_rules(&self, names: &str, max: usize) -> Result<Option<Vec<u8>>> {
        let metadata = match self.root.stat(names) {
            Ok(metadata) if metadata.kind == FileKind::File => metadata,
            Ok(_) | Err(Failure::NotFound) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        if usize::try_from(metadata.size).map_or(true, |size| size > max) {
            return Err(Failure::denied(format!(
                "the rules in {names:?} have {} bytes, expected at most {max}: what they may hide is not served",
                metadata.size
            )));
        }
        self.root.open_file(names)?.read_at(0, max).map(Some)
    }

    /// Returns a visible folder, with the rules in it.
    pub(crate) fn place(&self, names: &str) -> Result<Place> {
        let mut search = Search::new(self);
        if search.run(names)?.kind != FileKind::Folder {
            return Err(Failure::NotFound);
        }
        let rules = search.enter()?;
        Ok(Place { found: search.found(), rules })
    }

    /// Returns the target of a visible link.
    pub(crate) fn follow(&self, real: &str) -> Result<Item> {
        self.find(real)
    }
}

impl OpenFile {
    /// Returns whether the metadata of the open file still equal the given ones.
    ///
    /// # Errors
    ///
    /// The failures of the file system.
    pub fn is_unchanged(&self, item: &Item) -> Result<bool> {
        let now = self.stat()?;
        Ok((now.size, now.modified, now.changed) == (item.size, item.modified, item.changed))
    }
}

/// A folder that is open for a walk.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) found: Found,
    /// The rules in the folder.
    pub(crate) rules: Rc<dyn Rules>,
}

/// Returns the names of a child of a folder.
pub(crate) fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}

/// The lookup of an item, name by name.
struct Search<'f> {
    folder: &'f Folder,
    /// The requested names, as they are on disk.
    names: Vec<String>,
    /// The names of the current folder or, at the end, of the item.
    real: Vec<String>,
    /// The rules in each folder of `real`, from the root, as far as they were needed.
    rules: Vec<Rc<dyn Rules>>,
    links: usize,
}

/// A name to look up, and whether it was requested; other names come from a link's target.
struct Step {
    name: String,
    is_asked: bool,
}

impl<'f> Search<'f> {
    fn new(folder: &'f Folder) -> Self {
        Self { folder, names: Vec::new(), real: Vec::new(), rules: Vec::new(), links: 0 }
    }

    fn found(self) -> Found {
        Found { names: self.names.join("/"), real: self.real.join("/") }
    }

    /// Looks up names. The result is never a link.
    fn run(&mut self, names: &str) -> Result<Metadata> {
        let mut steps: Vec<Step> = Vec::new();
        let push = |steps: &mut Vec<Step>, names: &str, is_asked| {
            let names = names.rsplit('/').filter(|name| !name.is_empty() && *name != ".");
            steps.extend(names.map(|name| Step { name: name.to_owned(), is_asked }));
        };
        push(&mut steps, names, true);
        let mut current = self.folder.root.stat("")?;
        while let Some(Step { name, is_asked }) = steps.pop() {
            if current.kind != FileKind::Folder {
                return Err(Failure::NotFound);
            }
            if name == ".." {
                self.leave()?;
                current = self.folder.root.stat(&self.real.join("/"))?;
                continue;
            }
            let rules = self.enter()?;
            let (name, metadata) = self.look_up(name)?;
            let mut real = self.real.clone();
            real.push(name.clone());
            let real_names = real.join("/");
            if !rules.shows(&real_names, metadata.kind == FileKind::Folder) {
                return Err(Failure::NotFound);
            }
            if is_asked {
                self.names.push(name);
            }
            if metadata.kind == FileKind::Link {
                self.links = self.links.saturating_add(1);
                let target = self.folder.root.read_link(&real_names)?;
                if self.links > MAX_LINKS {
                    return Err(Failure::NotFound);
                }
                if target.starts_with('/') {
                    return Err(outside());
                }
                push(&mut steps, &target, false);
            } else {
                (self.real, current) = (real, metadata);
            }
        }
        Ok(current)
    }

    /// Goes back to the parent folder.
    fn leave(&mut self) -> Result<()> {
        self.rules.truncate(self.real.len());
        self.real.pop().map(drop).ok_or_else(outside)
    }

    /// Returns the rules in the current folder.
    fn enter(&mut self) -> Result<Rc<dyn Rules>> {
        while self.rules.len() <= self.real.len() {
            let parent = self.rules.last().unwrap_or(&self.folder.rules).clone();
            let names = self.real.get(..self.rules.len()).unwrap_or_default().join("/");
            self.rules.push(parent.enter(self.folder, &names)?);
        }
        self.rules.get(self.real.len()).cloned().ok_or(Failure::NotFound)
    }

    /// Finds a name in the current folder, in the given or another normalization form. Returns the name as it is on
    /// disk.
    fn look_up(&self, name: String) -> Result<(String, Metadata)> {
        let folder = self.real.join("/");
        let stat = |name: String| self.folder.root.stat(&join(&folder, &name)).map(|metadata| (name, metadata));
        let result = stat(name.clone());
        if name.is_ascii() || !matches!(result, Err(Failure::NotFound)) {
            return result;
        }
        let composed: String = name.nfc().collect();
        for form in [composed.clone(), name.nfd().collect()] {
            if form != name
                && let Ok(found) = stat(form)
            {
                return Ok(found);
            }
        }
        // Names on disk in neither form, such as names of HFS+.
        let mut equivalent: Option<String> = None;
        self.folder.root.for_each(&folder, |entry| {
            if let Ok((other, _)) = entry
                && !other.is_ascii()
                && equivalent.as_ref().is_none_or(|least| other < *least)
                && other.nfc().eq(composed.chars())
            {
                equivalent = Some(other);
            }
        })?;
        stat(equivalent.ok_or(Failure::NotFound)?)
    }
}

fn outside() -> Failure {
    Failure::denied("it is a link to a target outside of the granted folder")
}
