//! Access to the files of a folder, one system call at a time, without following links.
//!
//! On native targets, the standard library is used. In a component, WASI is called directly, because the standard
//! library stops reading a directory at the first entry whose name is not UTF-8, hides the status change time, and
//! needs a stream for each file.

#[cfg(not(target_family = "wasm"))]
mod native;
#[cfg(target_family = "wasm")]
mod wasi;

#[cfg(not(target_family = "wasm"))]
pub use native::OpenFile;
#[cfg(not(target_family = "wasm"))]
pub(crate) use native::Root;
#[cfg(target_family = "wasm")]
pub use wasi::OpenFile;
#[cfg(target_family = "wasm")]
pub(crate) use wasi::Root;

use mcp_provider::Result;
use std::time::SystemTime;

/// The number of bytes per read.
const CHUNK: usize = 256 * 1024;

/// The type of a directory entry, without following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    File,
    Folder,
    Link,
    Other,
}

/// The metadata of a file, without following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) kind: FileKind,
    pub(crate) size: u64,
    pub(crate) modified: Option<SystemTime>,
    /// The status change time, in seconds and nanoseconds since 1970. In contrast to the modification time, it cannot
    /// be set back.
    pub(crate) changed: (i64, i64),
}

/// A directory entry, or the fault of an unreadable one.
pub(crate) type DirEntry = std::result::Result<(String, FileKind), String>;

impl OpenFile {
    /// Reads `len` bytes from an offset, or fewer at the end of the file.
    ///
    /// # Errors
    ///
    /// The failures of the file system.
    pub fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let wanted = len.saturating_sub(bytes.len()).min(CHUNK);
            let position = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            let chunk = self.read_chunk(position, wanted)?;
            if chunk.is_empty() {
                break;
            }
            if bytes.is_empty() { bytes = chunk } else { bytes.extend_from_slice(&chunk) }
        }
        Ok(bytes)
    }
}
