//! The file that the code of one compilation is written to.
//!
//! In a cache that lasts, it has a name of its own for each component and engine, and a lock (`flock`) that the compiler
//! process inherits with its standard output. So the lock lasts as long as anybody may write to the file: a compilation that
//! outlives its host still has it, no other host compiles the same component meanwhile, and the kernel releases it when
//! the last of these processes ends, however that happens. Whoever has the lock next finds the code complete, which its tag
//! proves, and puts it in its place, or begins anew in the same file. The file of a compilation that failed or was cancelled is
//! removed, so there is at most one unfinished file of a component. An abandoned file is removed after a day (module
//! `cache`).
//!
//! Without a cache that lasts, or where files cannot be locked, it is a temporary file without a name to find it by.

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
    /// A file that is locked, and is left for the next host if it is neither stored nor discarded.
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

    /// Returns whether a host that starts later finds the code, although this one has ended.
    pub(crate) fn can_outlive_host(&self) -> bool {
        matches!(self.place, Place::Locked(_))
    }

    /// Returns the path of a file that is left for the next host.
    pub(crate) fn locked_path(&self) -> Option<&Path> {
        match &self.place {
            Place::Locked(path) => Some(path),
            Place::Temporary(_) => None,
        }
    }

    /// Returns the file for a compiler to write to. It is the same open file, with the same lock and position.
    pub(crate) fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Removes what the file has.
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
            // The next compilation uses it otherwise.
            Place::Locked(path) => drop(std::fs::remove_file(path)),
            Place::Temporary(path) => drop(path.close()),
        }
    }
}
