//! The folder of notes on disk.
//!
//! Everything is named by its names below the folder, separated by `/`. What the folder shows: regular files and folders
//! whose names are text and not hidden, and symbolic links to them that stay inside. A link that leads out is refused: in
//! a component by the sandbox (which refuses absolute links, too), natively by a look at where it leads. Devices, sockets
//! and pipes are not there; opening a pipe could wait forever.

mod confine;
mod directory;
mod walk;

use crate::route::is_hidden;
use confine::Confined;
use mcp_provider::{Failure, Result, log};
use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;
pub(crate) use walk::{Walk, WalkBudget};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ItemKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
}

impl ItemKind {
    /// What the folder shows it as; none of what is neither.
    fn from_metadata(metadata: &fs::Metadata) -> Option<Self> {
        match metadata {
            file if file.is_file() => Some(Self::File),
            folder if folder.is_dir() => Some(Self::Folder),
            _ => None,
        }
    }
}

/// A file or folder, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// Its names below the folder of notes.
    pub(crate) names: String,
    /// What it is.
    pub(crate) kind: ItemKind,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// When it last changed, where the file system tells.
    pub(crate) modified: Option<SystemTime>,
}

impl Item {
    /// The last of its names; empty for the folder of notes itself.
    pub(crate) fn name(&self) -> &str {
        last_name(&self.names)
    }
}

/// The last of some names.
pub(crate) fn last_name(names: &str) -> &str {
    names.rsplit('/').next().unwrap_or_default()
}

/// The folder of notes.
#[derive(Debug)]
pub(crate) struct Folder(Confined);

impl Folder {
    /// The folder at this path.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let fault = |reason: &str| {
            Failure::internal(format!(
                "no folder of notes at {dir:?}: {reason}; expected `grants.dirs = [{{ host = \"…\", guest = {dir:?} }}]`, or \
                 the config key `dir` to name another that is granted"
            ))
        };
        match fs::metadata(dir) {
            Ok(metadata) if metadata.is_dir() => Ok(Self(Confined::new(dir)?)),
            Ok(_) => Err(fault("it is no folder")),
            Err(error) => Err(fault(&error.to_string())),
        }
    }

    /// What these names stand for.
    pub(crate) fn stat(&self, names: &str) -> Result<Item> {
        let metadata = fs::metadata(self.0.resolve(names)?)?;
        let kind = ItemKind::from_metadata(&metadata).ok_or(Failure::NotFound)?;
        Ok(Item { names: names.to_owned(), kind, size: metadata.len(), modified: metadata.modified().ok() })
    }

    /// The same, for listings: what cannot be had is left out of them, and named in the log.
    pub(crate) fn stat_for_listing(&self, names: &str) -> Option<Item> {
        self.stat(names).inspect_err(|failure| log::warn!("{names:?} is left out: {failure}")).ok()
    }

    /// Opens a file.
    pub(crate) fn open_file(&self, names: &str) -> Result<File> {
        Ok(File::open(self.0.resolve(names)?)?)
    }

    /// Every file at any depth below a folder, in order of names, from behind a [place](Walk::place) on.
    pub(crate) fn files(&self, folder: &str, behind: &str, reach: WalkBudget) -> Result<Walk<'_>> {
        Walk::files(&self.0, folder, behind, reach)
    }

    /// What is directly in a folder, in order, from behind a [place](Walk::place) on.
    pub(crate) fn children(&self, folder: &str, behind: &str, reach: WalkBudget) -> Result<Walk<'_>> {
        Walk::children(&self.0, folder, behind, reach)
    }
}

/// The names of a child of a folder.
fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}
