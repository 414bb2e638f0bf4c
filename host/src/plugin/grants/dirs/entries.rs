//! Listing a directory.
//!
//! It is read piece by piece as the guest asks, so a directory of any size costs the host little memory, which is reserved. Names that are not
//! Unicode cannot be told to a guest: they are skipped, and a line in the log says so, rather than that a listing ends
//! at the first one.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use cap_primitives::fs::{DirEntry, FileType, FileTypeExt, ReadDir, read_base_dir};
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry};

use super::disk::Disk;
use super::files::{FilePermit, Notices, Root};
use crate::plugin::limits::Reservation;

/// Entries that are read at once.
const PIECE: usize = 256;
/// What a listing costs beside its names: the buffer that the system fills.
pub(super) const READER: usize = 16 << 10;

/// A directory that is being listed.
pub(super) struct Entries {
    read: VecDeque<DirectoryEntry>,
    /// What is still to be read.
    rest: Option<ReadDir>,
    root: Arc<Root>,
    notices: Arc<Notices>,
    _permit: FilePermit,
    memory: Reservation,
    disk: Disk,
}

/// A piece of a listing, and whether there is more.
struct Piece {
    entries: VecDeque<DirectoryEntry>,
    rest: Option<ReadDir>,
    /// The last of the names that were skipped.
    skipped: Option<String>,
}

impl Entries {
    /// Begins to list that directory.
    pub(super) async fn of(
        dir: Arc<File>,
        root: Arc<Root>,
        notices: Arc<Notices>,
        permit: FilePermit,
        memory: Reservation,
        disk: Disk,
    ) -> io::Result<Self> {
        let mut entries = Self { read: VecDeque::new(), rest: None, root, notices, _permit: permit, memory, disk };
        let first = entries.disk.run(move || piece(read_base_dir(&dir)?)).await?;
        entries.take(first)?;
        Ok(entries)
    }

    /// The next entry; none at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<DirectoryEntry>> {
        while self.read.is_empty() {
            let Some(rest) = self.rest.take() else { return Ok(None) };
            let next = self.disk.run(move || piece(rest)).await?;
            self.take(next)?;
        }
        Ok(self.read.pop_front())
    }

    fn take(&mut self, piece: Piece) -> io::Result<()> {
        let names = piece.entries.iter().fold(READER, |sum, entry| {
            sum.saturating_add(entry.name.len()).saturating_add(size_of::<DirectoryEntry>())
        });
        if !self.memory.try_resize(names) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.read = piece.entries;
        self.rest = piece.rest;
        if let Some(name) = piece.skipped {
            self.notices.names.give(format_args!(
                "files below the directory `{}` are skipped whose names are not Unicode, such as `{name}`",
                self.root.guest
            ));
        }
        Ok(())
    }
}

fn piece(mut dir: ReadDir) -> io::Result<Piece> {
    let mut piece = Piece { entries: VecDeque::with_capacity(PIECE), rest: None, skipped: None };
    for _ in 0..PIECE {
        let Some(entry) = dir.next() else { return Ok(piece) };
        let entry = entry?;
        match entry.file_name().into_string() {
            Ok(name) => piece.entries.push_back(DirectoryEntry { type_: kind(&entry), name }),
            Err(name) => piece.skipped = Some(name.to_string_lossy().into_owned()),
        }
    }
    piece.rest = Some(dir);
    Ok(piece)
}

/// What an entry is. Most file systems say so with its name; others are asked.
fn kind(entry: &DirEntry) -> DescriptorType {
    match entry.file_type().map(descriptor_type) {
        Ok(DescriptorType::Unknown) => {
            entry.metadata().map_or(DescriptorType::Unknown, |found| descriptor_type(found.file_type()))
        }
        Ok(known) => known,
        Err(_) => DescriptorType::Unknown,
    }
}

fn descriptor_type(kind: FileType) -> DescriptorType {
    if kind.is_file() {
        DescriptorType::RegularFile
    } else if kind.is_dir() {
        DescriptorType::Directory
    } else if kind.is_symlink() {
        DescriptorType::SymbolicLink
    } else if kind.is_fifo() {
        DescriptorType::Fifo
    } else if kind.is_socket() {
        DescriptorType::Socket
    } else if kind.is_block_device() {
        DescriptorType::BlockDevice
    } else if kind.is_char_device() {
        DescriptorType::CharacterDevice
    } else {
        DescriptorType::Unknown
    }
}
