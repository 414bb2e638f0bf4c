//! The files of the folder.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::PathBuf;

use mcp_provider::{Entry, Failure, Result, path};

use crate::csv;

/// The number of bytes of a file that are searched for its header.
const HEADER_BYTES: u64 = 65_536;

/// A folder of CSV files.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(folder: &str) -> Self {
        Self(folder.into())
    }

    /// Returns the names of the files, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let fault = |error| {
            let folder = self.0.display();
            Failure::internal(format!("cannot read the folder {folder}: {error}; does `grants.dirs` grant it?"))
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(fault)? {
            let Ok(name) = entry.map_err(fault)?.file_name().into_string() else { continue };
            if self.has(&name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether there is a file of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        is_csv(name) && fs::metadata(self.0.join(name)).is_ok_and(|file| file.is_file())
    }

    /// Returns the entry of a file.
    pub(crate) fn entry(&self, name: &str) -> Result<Entry> {
        self.require(name)?;
        let file = File::open(self.0.join(name))?;
        let size = file.metadata()?.len();
        let mut beginning = Vec::new();
        file.take(HEADER_BYTES).read_to_end(&mut beginning)?;
        let entry = Entry::new(path::encode_segment(name), name).mime_type("text/csv").size(size).subscribable();
        Ok(match header(&beginning) {
            Some(columns) => entry.description(format!("Columns: {}.", columns.join(", "))),
            None => entry,
        })
    }

    /// Reads a file.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        self.require(name)?;
        Ok(fs::read(self.0.join(name))?)
    }

    /// Returns a hash of a file's size and modification time. All missing files have the same hash.
    pub(crate) fn fingerprint(&self, name: &str) -> u64 {
        let found = fs::metadata(self.0.join(name)).ok().filter(|_| is_csv(name));
        hash(&found.map(|file| (file.len(), file.modified().ok())))
    }

    fn require(&self, name: &str) -> Result<()> {
        if self.has(name) { Ok(()) } else { Err(Failure::NotFound) }
    }
}

fn is_csv(name: &str) -> bool {
    name.ends_with(".csv") && !name.starts_with('.') && !name.contains('/')
}

/// Returns the first record, if the bytes are UTF-8 except for an incomplete character at the end.
fn header(beginning: &[u8]) -> Option<Vec<String>> {
    let text = match std::str::from_utf8(beginning) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => std::str::from_utf8(beginning.get(..error.valid_up_to())?).ok()?,
        Err(_) => return None,
    };
    csv::records(text).next()
}

/// Returns a hash that is the same in every instance.
pub(crate) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
