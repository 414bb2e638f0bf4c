//! Reading one directory, entry by entry.
//!
//! The standard library does it natively. In a component it gives up at the first entry that it cannot be told, which a name
//! that is no UTF-8 is enough for; so there, WASI is asked directly, which goes on with the next.

#[cfg(not(target_family = "wasm"))]
pub(super) use native::for_each;
#[cfg(target_family = "wasm")]
pub(super) use wasi::for_each;

/// What a directory says of an entry itself, before any link is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    File,
    Folder,
    Link,
    Other,
}

/// An entry, or what is wrong with one that cannot be told.
pub(super) type Entry = Result<(String, Sort), String>;

#[cfg(not(target_family = "wasm"))]
mod native {
    use super::{Entry, Sort};
    use mcp_provider::Result;
    use std::fs::{self, DirEntry};
    use std::io;
    use std::path::Path;

    /// Shows the entries of a directory, in no particular order.
    pub(in crate::folder) fn for_each(path: &Path, show: impl FnMut(Entry)) -> Result<()> {
        fs::read_dir(path)?.map(entry).for_each(show);
        Ok(())
    }

    fn entry(entry: io::Result<DirEntry>) -> Entry {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry.file_name().into_string().map_err(|name| format!("{name:?} is no UTF-8"))?;
        let sort = match entry.file_type().map_err(|error| format!("{name:?}: {error}"))? {
            sort if sort.is_file() => Sort::File,
            sort if sort.is_dir() => Sort::Folder,
            sort if sort.is_symlink() => Sort::Link,
            _ => Sort::Other,
        };
        Ok((name, sort))
    }
}

#[cfg(target_family = "wasm")]
mod wasi {
    use super::{Entry, Sort};
    use mcp_provider::{Failure, Result};
    use std::path::Path;
    use wasip2::filesystem::preopens::get_directories;
    use wasip2::filesystem::types::{
        Descriptor, DescriptorFlags, DescriptorType, DirectoryEntry, ErrorCode, OpenFlags, PathFlags,
    };

    /// How many entries of one directory may fail before the rest is given up, so that a fault that does not go away
    /// ends.
    const MOST_FAULTS: usize = 1000;

    /// Shows the entries of a directory, in no particular order.
    pub(in crate::folder) fn for_each(path: &Path, mut show: impl FnMut(Entry)) -> Result<()> {
        let stream = open(path)?.read_directory().map_err(failure)?;
        let mut faults: usize = 0;
        while faults < MOST_FAULTS {
            match stream.read_directory_entry() {
                Ok(Some(entry)) => show(Ok(named(entry))),
                Ok(None) => return Ok(()),
                Err(error) => {
                    faults = faults.saturating_add(1);
                    show(Err(match error {
                        ErrorCode::IllegalByteSequence => "its name is no UTF-8".to_owned(),
                        error => error.message().to_owned(),
                    }));
                }
            }
        }
        Err(Failure::internal(format!("{path:?} has too many entries that cannot be read")))
    }

    /// Opens a directory below the granted one that is nearest to it.
    fn open(path: &Path) -> Result<Descriptor> {
        let granted = get_directories().into_iter().filter_map(|(directory, granted)| {
            let rest = path.strip_prefix(&granted).ok()?.to_str()?.to_owned();
            Some((granted.len(), directory, rest))
        });
        let (_, directory, rest) = granted.max_by_key(|(length, ..)| *length).ok_or(Failure::NotFound)?;
        let rest = if rest.is_empty() { "." } else { &rest };
        directory.open_at(PathFlags::SYMLINK_FOLLOW, rest, OpenFlags::DIRECTORY, DescriptorFlags::READ).map_err(failure)
    }

    fn named(entry: DirectoryEntry) -> (String, Sort) {
        let sort = match entry.type_ {
            DescriptorType::RegularFile => Sort::File,
            DescriptorType::Directory => Sort::Folder,
            DescriptorType::SymbolicLink => Sort::Link,
            _ => Sort::Other,
        };
        (entry.name, sort)
    }

    fn failure(error: ErrorCode) -> Failure {
        match error {
            ErrorCode::NoEntry | ErrorCode::NotDirectory => Failure::NotFound,
            ErrorCode::Access | ErrorCode::NotPermitted => Failure::denied("the file system refuses access to it"),
            error => Failure::internal(format!("reading a directory failed: {}", error.message())),
        }
    }
}
