//! The implementation on `wasi:filesystem`.

use super::{DirEntry, FileKind, Metadata};
use mcp_provider::{Failure, Result};
use std::path::Path;
use std::time::{Duration, SystemTime};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, OpenFlags, PathFlags,
};

/// The maximum number of unreadable entries per directory, so that a persistent fault does not cause an endless loop.
const MAX_FAULTS: usize = 1000;

/// The root folder.
#[derive(Debug)]
pub(crate) struct Root(Descriptor);

impl Root {
    /// Opens a directory below the innermost preopened directory that contains it.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let granted = get_directories().into_iter().filter_map(|(directory, granted)| {
            let rest = dir.strip_prefix(&granted).ok()?.to_str()?.to_owned();
            Some((granted.len(), directory, rest))
        });
        let (_, directory, rest) = granted.max_by_key(|(length, ..)| *length).ok_or(Failure::NotFound)?;
        open_at(&directory, PathFlags::SYMLINK_FOLLOW, &rest, OpenFlags::DIRECTORY).map(Self)
    }

    pub(crate) fn stat(&self, real: &str) -> Result<Metadata> {
        self.0.stat_at(PathFlags::empty(), dotted(real)).map(metadata).map_err(failure)
    }

    pub(crate) fn read_link(&self, real: &str) -> Result<String> {
        self.0.readlink_at(real).map_err(failure)
    }

    /// Calls `show` for each entry of a directory, in no particular order.
    pub(crate) fn for_each(&self, real: &str, mut show: impl FnMut(DirEntry)) -> Result<()> {
        let directory = open_at(&self.0, PathFlags::empty(), real, OpenFlags::DIRECTORY)?;
        let stream = directory.read_directory().map_err(failure)?;
        let mut faults: usize = 0;
        while faults < MAX_FAULTS {
            match stream.read_directory_entry() {
                Ok(Some(entry)) => show(Ok((entry.name, kind(entry.type_)))),
                Ok(None) => return Ok(()),
                Err(ErrorCode::IllegalByteSequence) => show(Err("its name is not UTF-8".to_owned())),
                Err(error) => {
                    faults = faults.saturating_add(1);
                    show(Err(error.message().to_owned()));
                }
            }
        }
        Err(Failure::internal(format!("{real:?} has too many unreadable entries")))
    }

    pub(crate) fn open_file(&self, real: &str) -> Result<OpenFile> {
        open_at(&self.0, PathFlags::empty(), real, OpenFlags::empty()).map(OpenFile)
    }
}

/// A file that is open for reading at any position.
#[derive(Debug)]
pub struct OpenFile(Descriptor);

impl OpenFile {
    pub(super) fn read_chunk(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        self.0.read(len, offset).map(|(bytes, _)| bytes).map_err(failure)
    }

    pub(crate) fn stat(&self) -> Result<Metadata> {
        self.0.stat().map(metadata).map_err(failure)
    }
}

fn open_at(directory: &Descriptor, follow: PathFlags, path: &str, flags: OpenFlags) -> Result<Descriptor> {
    directory.open_at(follow, dotted(path), flags, DescriptorFlags::READ).map_err(failure)
}

/// Returns a path relative to a directory; `.` for the directory itself.
fn dotted(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

fn metadata(stat: DescriptorStat) -> Metadata {
    let modified = stat.data_modification_timestamp.and_then(|time| {
        SystemTime::UNIX_EPOCH.checked_add(Duration::new(time.seconds, time.nanoseconds.min(999_999_999)))
    });
    let changed = stat.status_change_timestamp.map(|time| (time.seconds, time.nanoseconds)).unwrap_or_default();
    Metadata {
        kind: kind(stat.type_),
        size: stat.size,
        modified,
        changed: (i64::try_from(changed.0).unwrap_or(i64::MAX), changed.1.into()),
    }
}

fn kind(kind: DescriptorType) -> FileKind {
    match kind {
        DescriptorType::RegularFile => FileKind::File,
        DescriptorType::Directory => FileKind::Folder,
        DescriptorType::SymbolicLink => FileKind::Link,
        _ => FileKind::Other,
    }
}

fn failure(error: ErrorCode) -> Failure {
    match error {
        ErrorCode::NoEntry
        | ErrorCode::NotDirectory
        | ErrorCode::Loop
        | ErrorCode::NameTooLong
        | ErrorCode::IllegalByteSequence => Failure::NotFound,
        ErrorCode::Access | ErrorCode::NotPermitted => Failure::denied("the file system denied access"),
        ErrorCode::Busy | ErrorCode::WouldBlock | ErrorCode::InsufficientMemory | ErrorCode::Interrupted => {
            Failure::unavailable("the file system is temporarily unavailable; try again later")
        }
        error => Failure::internal(format!("file system: {}", error.message())),
    }
}
