//! The folder of notes on disk.
//!
//! Items are identified by their names below the folder, separated by `/`. Visible items are regular files and folders
//! whose names are UTF-8 and not hidden, and symbolic links to them that stay inside. A link to a target outside is
//! denied: in a component by the sandbox (which also rejects absolute links), on native targets by checking the
//! target. Devices, sockets and FIFOs are invisible; opening a FIFO could block forever.

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

/// The type of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ItemKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
}

impl ItemKind {
    /// Returns the visible type for metadata; `None` for other types.
    fn from_metadata(metadata: &fs::Metadata) -> Option<Self> {
        match metadata {
            file if file.is_file() => Some(Self::File),
            folder if folder.is_dir() => Some(Self::Folder),
            _ => None,
        }
    }
}

/// A file or folder with its current metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// The names below the folder of notes.
    pub(crate) names: String,
    /// The type.
    pub(crate) kind: ItemKind,
    /// The size in bytes.
    pub(crate) size: u64,
    /// The time of the last modification, if the file system provides it.
    pub(crate) modified: Option<SystemTime>,
}

impl Item {
    /// Returns the last of the item's names; empty for the folder of notes itself.
    pub(crate) fn name(&self) -> &str {
        last_name(&self.names)
    }
}

/// Returns the last of some names.
pub(crate) fn last_name(names: &str) -> &str {
    names.rsplit('/').next().unwrap_or_default()
}

/// The folder of notes.
#[derive(Debug)]
pub(crate) struct Folder(Confined);

impl Folder {
    /// Opens the folder at a path.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let fault = |reason: &str| {
            Failure::internal(format!(
                "no folder of notes at {dir:?}: {reason}; expected `grants.dirs = [{{ host = \"…\", guest = {dir:?} }}]`, \
                 or another granted directory in the config key `dir`"
            ))
        };
        match fs::metadata(dir) {
            Ok(metadata) if metadata.is_dir() => Ok(Self(Confined::new(dir)?)),
            Ok(_) => Err(fault("it is not a folder")),
            Err(error) => Err(fault(&error.to_string())),
        }
    }

    /// Returns the item with these names.
    pub(crate) fn stat(&self, names: &str) -> Result<Item> {
        let metadata = fs::metadata(self.0.resolve(names)?)?;
        let kind = ItemKind::from_metadata(&metadata).ok_or(Failure::NotFound)?;
        Ok(Item { names: names.to_owned(), kind, size: metadata.len(), modified: metadata.modified().ok() })
    }

    /// Returns the item with these names for a listing: errors are logged, and the item is omitted.
    pub(crate) fn stat_for_listing(&self, names: &str) -> Option<Item> {
        self.stat(names).inspect_err(|failure| log::warn!("{names:?} omitted: {failure}")).ok()
    }

    /// Opens a file.
    pub(crate) fn open_file(&self, names: &str) -> Result<File> {
        Ok(File::open(self.0.resolve(names)?)?)
    }

    /// Walks every file at any depth below a folder, sorted by name, after a [position](Walk::position).
    pub(crate) fn files(&self, folder: &str, behind: &str, reach: WalkBudget) -> Result<Walk<'_>> {
        Walk::files(&self.0, folder, behind, reach)
    }

    /// Walks the direct children of a folder, sorted, after a [position](Walk::position).
    pub(crate) fn children(&self, folder: &str, behind: &str, reach: WalkBudget) -> Result<Walk<'_>> {
        Walk::children(&self.0, folder, behind, reach)
    }
}

/// Returns the names of a child of a folder.
fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}
