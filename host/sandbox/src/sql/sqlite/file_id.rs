//! Which file stands at a path.

use std::io;
use std::path::Path;

/// A file: its device and inode. On systems without them the time when it was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(#[cfg(unix)] (u64, u64), #[cfg(not(unix))] Option<std::time::SystemTime>);

impl FileId {
    /// The file at that path.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        #[cfg(unix)]
        let id = (std::os::unix::fs::MetadataExt::dev(&metadata), std::os::unix::fs::MetadataExt::ino(&metadata));
        #[cfg(not(unix))]
        let id = metadata.created().ok();
        Ok(Self(id))
    }
}
