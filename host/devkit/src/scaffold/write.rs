//! Writes all files of a project, or none.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::File;

/// The reason why a project was not written. No part of it remains.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Files of the project exist. They are unchanged.
    #[error("{} has {} already; nothing was written", dir.display(), listed(files))]
    Exists {
        /// The directory.
        dir: PathBuf,
        /// The relative paths of the files.
        files: Vec<PathBuf>,
    },
    /// A file or a directory cannot be created.
    #[error("cannot write {}: {source}; nothing was left behind", path.display())]
    Write {
        /// The file's or directory's path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The maximum number of files in a message.
const MAX_LISTED: usize = 5;

pub(super) fn listed(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().take(MAX_LISTED).map(|file| format!("`{}`", file.display())).collect();
    match files.len().saturating_sub(MAX_LISTED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Writes the files into a directory, which is created if it is missing.
///
/// Existing files are detected before anything is written. If a write fails, all created files are removed.
pub fn write(files: &[File], dir: &Path) -> Result<(), WriteError> {
    let exists = |file: &&File| dir.join(&file.path).symlink_metadata().is_ok();
    let existing: Vec<_> = files.iter().filter(exists).map(|file| file.path.clone()).collect();
    if !existing.is_empty() {
        return Err(WriteError::Exists { dir: dir.to_owned(), files: existing });
    }
    let mut made = Made::default();
    for file in files {
        let path = dir.join(&file.path);
        made.write(&path, &file.bytes).map_err(|source| WriteError::Write { path, source })?;
    }
    made.keep();
    Ok(())
}

/// The created files and directories, in order. They are removed when this is dropped.
#[derive(Debug, Default)]
struct Made {
    files: Vec<PathBuf>,
    directories: Vec<PathBuf>,
}

impl Made {
    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            self.make_directory(parent)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        self.files.push(path.to_owned());
        file.write_all(bytes)
    }

    fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.make_directory(parent)?;
        }
        fs::create_dir(path)?;
        self.directories.push(path.to_owned());
        Ok(())
    }

    fn keep(mut self) {
        self.files.clear();
        self.directories.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // An error of a removal has no remedy here. A directory that another process has used meanwhile stays.
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
        for directory in self.directories.iter().rev() {
            let _ = fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Vec<File> {
        paths.iter().map(|path| File { path: path.into(), bytes: b"new".to_vec() }).collect()
    }

    #[test]
    fn an_existing_file_is_found_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("src")).unwrap();
        fs::write(dir.path().join("src/b"), "mine").unwrap();
        let error = write(&files(&["a", "src/b"]), dir.path()).unwrap_err();
        assert!(error.to_string().ends_with("has `src/b` already; nothing was written"), "{error}");
        assert_eq!(fs::read_to_string(dir.path().join("src/b")).unwrap(), "mine");
        assert!(!dir.path().join("a").exists());
    }

    #[test]
    fn a_dangling_link_is_an_existing_file() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.path().join("a")).unwrap();
        assert!(matches!(write(&files(&["a"]), dir.path()), Err(WriteError::Exists { .. })));
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_behind() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("new/project");
        // A file in the place where a later one needs a directory.
        let error = write(&files(&["src/a", "b", "b/c"]), &dir).unwrap_err();
        assert!(matches!(error, WriteError::Write { .. }), "{error}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_in_the_directory_already_stays() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mine"), "mine").unwrap();
        write(&files(&["src/a"]), dir.path()).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("src/a")).unwrap(), "new");
        assert_eq!(fs::read_to_string(dir.path().join("mine")).unwrap(), "mine");
    }
}
