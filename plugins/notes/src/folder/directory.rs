//! Reading a directory entry by entry.
//!
//! On native targets the standard library does it. In a component the standard library stops at the first unreadable
//! entry, such as a name that is not UTF-8; so there, WASI is called directly, which continues with the next.

#[cfg(not(target_family = "wasm"))]
pub(super) use native::for_each;
#[cfg(target_family = "wasm")]
pub(super) use wasi::for_each;

/// The type of a directory entry itself, without following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileKind {
    File,
    Folder,
    Link,
    Other,
}

/// An entry, or the fault of an unreadable one.
pub(super) type Entry = Result<(String, FileKind), String>;

#[cfg(not(target_family = "wasm"))]
mod native {
    use super::{Entry, FileKind};
    use mcp_provider::Result;
    use std::fs::{self, DirEntry};
    use std::io;
    use std::path::Path;

    /// Calls `show` for each entry of a directory, in no particular order.
    pub(in crate::folder) fn for_each(path: &Path, show: impl FnMut(Entry)) -> Result<()> {
        fs::read_dir(path)?.map(entry).for_each(show);
        Ok(())
    }

    fn entry(entry: io::Result<DirEntry>) -> Entry {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry.file_name().into_string().map_err(|name| format!("{name:?} is not UTF-8"))?;
        let kind = match entry.file_type().map_err(|error| format!("{name:?}: {error}"))? {
            kind if kind.is_file() => FileKind::File,
            kind if kind.is_dir() => FileKind::Folder,
            kind if kind.is_symlink() => FileKind::Link,
            _ => FileKind::Other,
        };
        Ok((name, kind))
    }
}

#[cfg(target_family = "wasm")]
mod wasi {
    use super::{Entry, FileKind};
    use mcp_provider::{Failure, Result};
    use std::path::Path;
    use wasip2::filesystem::preopens::get_directories;
    use wasip2::filesystem::types::{
        Descriptor, DescriptorFlags, DescriptorType, DirectoryEntry, ErrorCode, OpenFlags, PathFlags,
    };

    /// The maximum number of faulty entries per directory, so that a persistent fault ends the loop.
    const MAX_FAULTS: usize = 1000;

    /// Calls `show` for each entry of a directory, in no particular order.
    pub(in crate::folder) fn for_each(path: &Path, mut show: impl FnMut(Entry)) -> Result<()> {
        let stream = open(path)?.read_directory().map_err(failure)?;
        let mut faults: usize = 0;
        while faults < MAX_FAULTS {
            match stream.read_directory_entry() {
                Ok(Some(entry)) => show(Ok(named(entry))),
                Ok(None) => return Ok(()),
                Err(error) => {
                    faults = faults.saturating_add(1);
                    show(Err(match error {
                        ErrorCode::IllegalByteSequence => "its name is not UTF-8".to_owned(),
                        error => error.message().to_owned(),
                    }));
                }
            }
        }
        Err(Failure::internal(format!("{path:?} has too many unreadable entries")))
    }

    /// Opens a directory below the innermost preopened directory that contains it.
    fn open(path: &Path) -> Result<Descriptor> {
        let granted = get_directories().into_iter().filter_map(|(directory, granted)| {
            let rest = path.strip_prefix(&granted).ok()?.to_str()?.to_owned();
            Some((granted.len(), directory, rest))
        });
        let (_, directory, rest) = granted.max_by_key(|(length, ..)| *length).ok_or(Failure::NotFound)?;
        let rest = if rest.is_empty() { "." } else { &rest };
        directory.open_at(PathFlags::SYMLINK_FOLLOW, rest, OpenFlags::DIRECTORY, DescriptorFlags::READ).map_err(failure)
    }

    fn named(entry: DirectoryEntry) -> (String, FileKind) {
        let kind = match entry.type_ {
            DescriptorType::RegularFile => FileKind::File,
            DescriptorType::Directory => FileKind::Folder,
            DescriptorType::SymbolicLink => FileKind::Link,
            _ => FileKind::Other,
        };
        (entry.name, kind)
    }

    fn failure(error: ErrorCode) -> Failure {
        match error {
            ErrorCode::NoEntry | ErrorCode::NotDirectory => Failure::NotFound,
            ErrorCode::Access | ErrorCode::NotPermitted => Failure::denied("the file system denied access"),
            error => Failure::internal(format!("cannot read a directory: {}", error.message())),
        }
    }
}
