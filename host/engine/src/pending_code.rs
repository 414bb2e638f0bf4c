//! The file for the code of one compilation.
//!
//! In a persistent cache, the file has a name that is unique to the component and the engine, and a lock (`flock`) that
//! the compiler process inherits with its standard output. So the lock is held as long as any process may write to the
//! file: a compilation that outlives its host still holds it, no other host compiles the same component meanwhile, and
//! the kernel releases it when the last of these processes ends, for whatever reason. The next owner of the lock finds
//! complete code, which the tag proves, and moves it to its place; or it begins again in the same file. The file of a
//! compilation that failed or was cancelled is removed, so there is at most one unfinished file per component. An
//! abandoned file is removed after a day (module `cache`).
//!
//! Without a persistent cache, or if files cannot be locked, this is a temporary file that no other host can find.

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

/// A file for compiled code.
#[derive(Debug)]
pub(crate) struct PendingCode {
    file: File,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A locked file, which is left for the next host unless it is stored or discarded.
    Locked(PathBuf),
    /// A file that is removed when it is dropped.
    Temporary(TempPath),
}

impl PendingCode {
    /// A locked file at that path.
    pub(super) fn locked(file: File, path: PathBuf) -> Self {
        Self { file, place: Place::Locked(path) }
    }

    /// A temporary file.
    pub(super) fn temporary(file: NamedTempFile) -> Self {
        let (file, path) = file.into_parts();
        Self { file, place: Place::Temporary(path) }
    }

    /// Returns whether a later host can find the code after this host has ended.
    pub(crate) fn can_outlive_host(&self) -> bool {
        matches!(self.place, Place::Locked(_))
    }

    /// Returns the path of a file that is left for the next host; none for a temporary file.
    pub(crate) fn locked_path(&self) -> Option<&Path> {
        match &self.place {
            Place::Locked(path) => Some(path),
            Place::Temporary(_) => None,
        }
    }

    /// Returns the file for a compiler to write to: the same open file, with the same lock and position.
    pub(crate) fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Removes the contents of the file.
    pub(super) fn truncate(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()
    }

    /// Renames the file, replacing another one.
    pub(super) fn persist(self, path: &Path) -> io::Result<()> {
        match self.place {
            Place::Locked(own) => std::fs::rename(own, path),
            Place::Temporary(own) => own.persist(path).map_err(|error| error.error),
        }
    }

    /// Removes the file.
    pub(crate) fn discard(self) {
        match self.place {
            // Removed, because the next compilation would use the file.
            Place::Locked(path) => drop(std::fs::remove_file(path)),
            Place::Temporary(path) => drop(path.close()),
        }
    }
}
