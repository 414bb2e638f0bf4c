//! Directory listings.
//!
//! A directory is read in batches as the guest requests entries, so a listing takes little memory on the host for any
//! size of the directory, and this memory is reserved. Names that are not Unicode cannot be represented to a guest:
//! they are skipped with a warning in the log, and the listing continues.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use cap_primitives::fs::{DirEntry, FileType, FileTypeExt, ReadDir, read_base_dir};
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry};

use super::disk::DiskPool;
use super::files::{FilePermit, GrantRoot};
use crate::guest_log::ThrottledWarnings;
use crate::memory::Reservation;

/// The number of entries in a batch.
const BATCH_SIZE: usize = 256;
/// The memory of a listing besides its names: the buffer for the operating system.
pub(super) const READ_DIR_BUFFER: usize = 16 << 10;

/// An open directory listing.
pub(super) struct DirectoryListing {
    buffered: VecDeque<DirectoryEntry>,
    /// The rest of the directory, unless it has been read to the end.
    remaining: Option<ReadDir>,
    root: Arc<GrantRoot>,
    warnings: Arc<ThrottledWarnings>,
    _permit: FilePermit,
    memory: Reservation,
    disk: DiskPool,
}

/// A batch of entries, and the rest of the directory if there are more.
struct EntryBatch {
    entries: VecDeque<DirectoryEntry>,
    remaining: Option<ReadDir>,
    /// The most recently skipped name.
    skipped: Option<String>,
}

impl DirectoryListing {
    /// Starts a listing of `dir`.
    pub(super) async fn open(
        dir: Arc<File>,
        root: Arc<GrantRoot>,
        warnings: Arc<ThrottledWarnings>,
        permit: FilePermit,
        memory: Reservation,
        disk: DiskPool,
    ) -> io::Result<Self> {
        let mut entries =
            Self { buffered: VecDeque::new(), remaining: None, root, warnings, _permit: permit, memory, disk };
        let first = entries.disk.run(move || read_batch(read_base_dir(&dir)?)).await?;
        entries.store_batch(first)?;
        Ok(entries)
    }

    /// Returns the next entry, or `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<DirectoryEntry>> {
        while self.buffered.is_empty() {
            let Some(remaining) = self.remaining.take() else { return Ok(None) };
            let next = self.disk.run(move || read_batch(remaining)).await?;
            self.store_batch(next)?;
        }
        Ok(self.buffered.pop_front())
    }

    fn store_batch(&mut self, batch: EntryBatch) -> io::Result<()> {
        let bytes = batch.entries.iter().fold(READ_DIR_BUFFER, |sum, entry| {
            sum.saturating_add(entry.name.len()).saturating_add(size_of::<DirectoryEntry>())
        });
        if self.memory.try_resize(bytes).is_err() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.buffered = batch.entries;
        self.remaining = batch.remaining;
        if let Some(name) = batch.skipped {
            self.warnings.warn(
                "names",
                format_args!(
                    "files below the directory `{}` are skipped whose names are not Unicode, such as `{name}`",
                    self.root.guest_path
                ),
            );
        }
        Ok(())
    }
}

fn read_batch(mut dir: ReadDir) -> io::Result<EntryBatch> {
    let mut batch = EntryBatch { entries: VecDeque::with_capacity(BATCH_SIZE), remaining: None, skipped: None };
    for _ in 0..BATCH_SIZE {
        let Some(entry) = dir.next() else { return Ok(batch) };
        let entry = entry?;
        match entry.file_name().into_string() {
            Ok(name) => batch.entries.push_back(DirectoryEntry { type_: entry_type(&entry), name }),
            Err(name) => batch.skipped = Some(name.to_string_lossy().into_owned()),
        }
    }
    batch.remaining = Some(dir);
    Ok(batch)
}

/// Returns the type of an entry. Most file systems return it with the name; for others it is queried.
fn entry_type(entry: &DirEntry) -> DescriptorType {
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
