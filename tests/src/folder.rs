//! A folder of files for one test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder that goes away with it.
#[derive(Debug)]
pub struct Folder {
    dir: TempDir,
}

impl Folder {
    /// A folder with those files, whose folders are made as needed.
    pub fn with_files<N: AsRef<Path>, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (N, B)>) -> Self {
        let folder = Self { dir: tempfile::tempdir().expect("a folder") };
        for (name, bytes) in files {
            folder.write(name, bytes);
        }
        folder
    }

    /// Where it is.
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
