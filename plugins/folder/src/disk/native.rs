//! The standard library's implementation.

use super::{DirEntry, FileKind, Metadata};
use mcp_provider::{Failure, Result};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The root folder.
#[derive(Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        if fs::metadata(dir)?.is_dir() { Ok(Self(dir.to_owned())) } else { Err(Failure::NotFound) }
    }

    fn path(&self, real: &str) -> PathBuf {
        // The dot makes the system follow the root if it is a link.
        self.0.join(if real.is_empty() { "." } else { real })
    }

    pub(crate) fn stat(&self, real: &str) -> Result<Metadata> {
        Ok(metadata(&fs::symlink_metadata(self.path(real))?))
    }

    pub(crate) fn read_link(&self, real: &str) -> Result<String> {
        fs::read_link(self.path(real))?.into_os_string().into_string().map_err(|_| Failure::NotFound)
    }

    /// Calls `show` for each entry of a directory, in no particular order.
    pub(crate) fn for_each(&self, real: &str, show: impl FnMut(DirEntry)) -> Result<()> {
        fs::read_dir(self.path(real))?.map(entry).for_each(show);
        Ok(())
    }

    pub(crate) fn open_file(&self, real: &str) -> Result<OpenFile> {
        Ok(OpenFile(File::open(self.path(real))?))
    }
}

/// A file that is open for reading at any position.
#[derive(Debug)]
pub struct OpenFile(File);

impl OpenFile {
    pub(super) fn read_chunk(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut file = &self.0;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(u64::try_from(len).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn stat(&self) -> Result<Metadata> {
        Ok(metadata(&self.0.metadata()?))
    }
}

fn metadata(metadata: &fs::Metadata) -> Metadata {
    Metadata {
        kind: kind(metadata.file_type()),
        size: metadata.len(),
        modified: metadata.modified().ok(),
        changed: changed(metadata),
    }
}

/// Returns the status change time.
#[cfg(unix)]
fn changed(metadata: &fs::Metadata) -> (i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Returns the status change time, which is not available here.
#[cfg(not(unix))]
fn changed(_: &fs::Metadata) -> (i64, i64) {
    (0, 0)
}

fn entry(entry: io::Result<fs::DirEntry>) -> DirEntry {
    let entry = entry.map_err(|error| error.to_string())?;
    let name = entry.file_name().into_string().map_err(|name| format!("{name:?} is not UTF-8"))?;
    let kind = kind(entry.file_type().map_err(|error| format!("{name:?}: {error}"))?);
    Ok((name, kind))
}

fn kind(kind: fs::FileType) -> FileKind {
    match kind {
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_dir() => FileKind::Folder,
        kind if kind.is_symlink() => FileKind::Link,
        _ => FileKind::Other,
    }
}
