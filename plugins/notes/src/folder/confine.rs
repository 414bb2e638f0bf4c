//! Path confinement: no opened file is outside of the folder.

use mcp_provider::{Failure, Result};
use std::path::{Path, PathBuf};

/// A folder that names are resolved in, without escaping it.
#[derive(Debug)]
pub(crate) struct Confined {
    root: PathBuf,
}

impl Confined {
    /// Confines to the folder at a path, which must exist. On native targets the path is canonicalized.
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        Ok(Self { root: real_path(dir)? })
    }

    /// Returns the path to open for these names. They contain no dot segments, so only links could escape.
    pub(crate) fn resolve(&self, names: &str) -> Result<PathBuf> {
        let path = if names.is_empty() { self.root.clone() } else { self.root.join(names) };
        let real = real_path(&path)?;
        if real.starts_with(&self.root) {
            Ok(real)
        } else {
            Err(Failure::denied("it is a link to a target outside of the folder of notes"))
        }
    }
}

/// Resolves all links in a path.
#[cfg(not(target_family = "wasm"))]
fn real_path(path: &Path) -> Result<PathBuf> {
    Ok(std::fs::canonicalize(path)?)
}

/// Returns the path unchanged: the sandbox resolves links, and rejects those that leave a granted directory.
#[cfg(target_family = "wasm")]
fn real_path(path: &Path) -> Result<PathBuf> {
    Ok(path.to_owned())
}
