//! The test fixture: a temporary folder of notes.

#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries, each of which uses a part of it")]

use mcp_provider::{Changes, Config, Contents, Entry, Page, Provider, Result};
use notes_provider::Notes;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A temporary folder and the provider that serves it.
pub(crate) struct Fixture {
    dir: TempDir,
    pub(crate) notes: Notes,
}

impl Fixture {
    /// Creates a folder with these files.
    pub(crate) fn new<C: AsRef<[u8]>>(files: impl IntoIterator<Item = (&'static str, C)>) -> Self {
        Self::with_config(files, [])
    }

    /// Creates a folder with these files, and a config in addition to `dir`.
    pub(crate) fn with_config<C: AsRef<[u8]>>(
        files: impl IntoIterator<Item = (&'static str, C)>,
        config: impl IntoIterator<Item = (&'static str, &'static str)>,
    ) -> Self {
        // The folder of notes is a subfolder, so that there is an outside for links.
        let dir = TempDir::with_prefix("notes-").unwrap();
        let inside = dir.path().join("notes");
        fs::create_dir(&inside).unwrap();
        let inside = inside.to_str().unwrap().to_owned();
        let pairs = config.into_iter().map(|(key, value)| (key, value.to_owned())).chain([("dir", inside)]);
        let notes = Notes::open(&Config::from_pairs(pairs)).unwrap();
        let fixture = Self { dir, notes };
        for (names, content) in files {
            fixture.write(names, content);
        }
        fixture
    }

    /// Returns the path of an item on disk.
    pub(crate) fn path(&self, names: &str) -> PathBuf {
        self.dir.path().join("notes").join(names)
    }

    /// Writes a file, and creates its parent folders.
    pub(crate) fn write(&self, names: &str, content: impl AsRef<[u8]>) {
        let path = self.path(names);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Sets the modification time of a file, in seconds since 1970.
    pub(crate) fn touch(&self, names: &str, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap();
        fs::File::options().write(true).open(self.path(names)).unwrap().set_modified(time).unwrap();
    }

    /// Reads the only content of a resource.
    pub(crate) fn read(&self, path: &str) -> Result<Contents> {
        let mut contents = self.notes.read(path)?;
        assert_eq!(contents.len(), 1);
        Ok(contents.remove(0))
    }

    /// Returns all pages of a listing, as paths.
    pub(crate) fn list(&self, parent: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let Page { entries, next_cursor } = self.notes.list(parent, cursor.as_deref(), limit)?;
            assert!(entries.len() <= limit);
            paths.extend(entries.into_iter().map(|entry| entry.path));
            match next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(paths),
            }
        }
    }

    /// Returns what changed since a token.
    pub(crate) fn changes(&self, watched: &[String], since: Option<&str>) -> Changes {
        self.notes.changes(watched, since).unwrap()
    }

    /// Returns the faults in a note's metadata.
    pub(crate) fn faults(&self, path: &str) -> Vec<String> {
        strings(&self.notes.stat(path).unwrap(), "notes/faults")
    }
}

/// Returns a list of strings in the metadata of an entry.
pub(crate) fn strings(entry: &Entry, name: &str) -> Vec<String> {
    let list = entry.meta.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}
