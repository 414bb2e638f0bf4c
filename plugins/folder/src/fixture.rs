//! The test fixture: a temporary folder and the provider that serves it.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "code of tests")]

use mcp_provider::{Changes, Config, Contents, Page, Provider, Result};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// The name of the folder in its temporary directory.
const NAME: &str = "served";

/// A temporary folder and the provider that serves it, whose config key `dir` is the folder.
#[derive(Debug)]
pub struct Fixture<P> {
    dir: TempDir,
    /// The provider.
    pub provider: P,
}

impl<P: Provider> Fixture<P> {
    /// Creates a folder with these files.
    pub fn new<N: AsRef<str>, C: AsRef<[u8]>>(files: impl IntoIterator<Item = (N, C)>) -> Self {
        Self::with_config(files, [])
    }

    /// Creates a folder with these files, and a config in addition to `dir`.
    pub fn with_config<N: AsRef<str>, C: AsRef<[u8]>>(
        files: impl IntoIterator<Item = (N, C)>,
        config: impl IntoIterator<Item = (&'static str, &'static str)>,
    ) -> Self {
        // The folder is a subfolder, so links can lead outside of it.
        let dir = TempDir::with_prefix("provider-").unwrap();
        let inside = dir.path().join(NAME);
        fs::create_dir(&inside).unwrap();
        let inside = inside.to_str().unwrap().to_owned();
        let pairs = config.into_iter().map(|(key, value)| (key, value.to_owned())).chain([("dir", inside)]);
        let provider = P::open(&Config::from_pairs(pairs)).unwrap();
        let fixture = Self { dir, provider };
        for (names, content) in files {
            fixture.write(names.as_ref(), content);
        }
        fixture
    }

    /// Returns the path of an item on disk.
    pub fn path(&self, names: &str) -> PathBuf {
        self.dir.path().join(NAME).join(names)
    }

    /// Writes a file, and creates its parent folders.
    pub fn write(&self, names: &str, content: impl AsRef<[u8]>) {
        let path = self.path(names);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Sets the modification time of a file, in seconds since 1970.
    pub fn touch(&self, names: &str, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap();
        fs::File::options().write(true).open(self.path(names)).unwrap().set_modified(time).unwrap();
    }

    /// Reads the only content of a resource.
    ///
    /// # Errors
    ///
    /// The failure of the provider.
    pub fn read(&self, path: &str) -> Result<Contents> {
        let mut contents = self.provider.read(path)?;
        assert_eq!(contents.len(), 1);
        Ok(contents.remove(0))
    }

    /// Returns all pages of a listing, as paths.
    ///
    /// # Errors
    ///
    /// The failure of the provider.
    pub fn list(&self, parent: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let Page { entries, next_cursor } = self.provider.list(parent, cursor.as_deref(), limit)?;
            assert!(entries.len() <= limit);
            paths.extend(entries.into_iter().map(|entry| entry.path));
            match next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(paths),
            }
        }
    }

    /// Returns what changed since a token.
    pub fn changes(&self, watched: &[String], since: Option<&str>) -> Changes {
        self.provider.changes(watched, since).unwrap()
    }
}
