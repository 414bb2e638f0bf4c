//! Changing the lock: one command at a time reads, changes and writes it.
//!
//! A command holds `flock` on the lock's directory from reading until writing. The file is replaced by an atomic rename
//! of a synced temporary file: if a process is killed, the lock is either the old or the new one.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use mcp_host_config::registry::{Lock, LockError};

/// A lock file that may be changed.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    directory: File,
    /// The content, which [`save`](Self::save) writes.
    pub lock: Lock,
}

/// The reason why a lock cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockFileError {
    /// The file cannot be read, or is invalid.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Another command is changing the file.
    #[error("another command is changing {}; run this again when it has ended", .0.display())]
    Busy(PathBuf),
    /// The file cannot be written. The old one is unchanged.
    #[error("the lock {} cannot be written: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl LockFile {
    /// Reads the lock, and prevents other commands from changing it.
    ///
    /// # Errors
    ///
    /// Another command is changing the lock, or it is invalid.
    pub fn open(path: &Path) -> Result<Self, LockFileError> {
        let failed = |source| LockFileError::Write { file: path.to_owned(), source };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = File::open(parent).map_err(failed)?;
        match directory.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), directory, lock: Lock::load(path)? }),
            Err(TryLockError::WouldBlock) => Err(LockFileError::Busy(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the lock. Without components, no new file is created.
    ///
    /// # Errors
    ///
    /// The disk fails. The old lock is then unchanged.
    pub fn save(&self) -> Result<(), LockFileError> {
        let failed = |source| LockFileError::Write { file: self.path.clone(), source };
        let text = self.lock.to_text().map_err(|error| failed(io::Error::other(error.to_string())))?;
        if self.lock.components().next().is_none() && !self.path.exists() {
            return Ok(());
        }
        let write = || {
            let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let mut builder = tempfile::Builder::new();
            builder.prefix(".mcp-host.lock.");
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
            let mut file = builder.tempfile_in(parent)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            self.directory.sync_all()
        };
        write().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_changes_a_lock_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp-host.lock");
        let first = LockFile::open(&path).unwrap();
        assert!(matches!(LockFile::open(&path), Err(LockFileError::Busy(_))));
        first.save().unwrap();
        assert!(!path.exists(), "nothing is locked");
        drop(first);
        LockFile::open(&path).unwrap();
    }

    #[test]
    fn a_lock_that_is_not_valid_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp-host.lock");
        std::fs::write(&path, "broken").unwrap();
        assert!(matches!(LockFile::open(&path), Err(LockFileError::Lock(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "broken");
    }

    #[test]
    fn a_lock_is_replaced_as_a_whole_and_others_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp-host.lock");
        std::fs::write(&path, Lock::default().to_text().unwrap()).unwrap();
        let file = LockFile::open(&path).unwrap();
        file.save().unwrap();
        assert_eq!(Lock::load(&path).unwrap(), Lock::default());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
