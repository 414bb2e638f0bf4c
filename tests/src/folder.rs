//! A folder of files for one test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary folder, removed when dropped.
#[derive(Debug)]
pub struct Folder {
    dir: TempDir,
}

impl Folder {
    /// Creates a folder with those files, and the folders that they need.
    pub fn with_files<N: AsRef<Path>, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (N, B)>) -> Self {
        let folder = Self { dir: tempfile::tempdir().expect("a folder") };
        for (name, bytes) in files {
            folder.write(name, bytes);
        }
        folder
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file.
    pub fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let file = self.path().join(name);
        fs::create_dir_all(file.parent().expect("a file lies in a folder")).expect("folders can be made");
        fs::write(&file, bytes).expect("files can be written");
        file
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, name: &str, to: impl AsRef<Path>) {
        symlink(to, self.path().join(name)).expect("links can be made");
    }
}
