//! Keeping what is opened inside the folder.

use mcp_provider::{Failure, Result};
use std::path::{Path, PathBuf};

/// A folder that names are resolved in, and not out of.
#[derive(Debug)]
pub(crate) struct Confined {
    root: PathBuf,
}

impl Confined {
    /// The folder at this path, which exists. Natively it is the one that links lead to.
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        Ok(Self { root: real_path(dir)? })
    }

    /// Where to open these names. The names hold no dot segments, so only links could lead out.
    pub(crate) fn resolve(&self, names: &str) -> Result<PathBuf> {
        let path = if names.is_empty() { self.root.clone() } else { self.root.join(names) };
        let real = real_path(&path)?;
        if real.starts_with(&self.root) {
            Ok(real)
        } else {
            Err(Failure::denied("it is a link that leads out of the folder of notes"))
        }
    }
}

/// Where a path leads through all its links.
#[cfg(not(target_family = "wasm"))]
fn real_path(path: &Path) -> Result<PathBuf> {
    Ok(std::fs::canonicalize(path)?)
}

/// The path itself: the sandbox resolves links, and refuses those that lead out of a granted directory.
#[cfg(target_family = "wasm")]
fn real_path(path: &Path) -> Result<PathBuf> {
    Ok(path.to_owned())
}
