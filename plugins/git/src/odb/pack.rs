//! A pack: compressed objects in sequence, many of them stored as deltas.
//!
//! Only the requested entry is read, so the pack's size does not matter. The pack and its index are opened on first
//! use.

use crate::block_cache::{BlockCache, BlockFile, Reader};
use crate::error::{Error, Result};
use crate::odb::index::Index;
use crate::odb::inflate::Inflate;
use gix_hash::Kind;
use gix_pack::data::Entry;
use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The size of a pack's header in bytes: magic number, version, number of objects.
const HEADER: u64 = 12;

/// The maximum size of an entry's header in bytes: one number of up to ten bytes, then another one or an id.
const MAX_ENTRY_HEADER: usize = 10 + 32;

/// A pack and its index.
pub(crate) struct Pack {
    /// The path of both files, without extensions.
    stem: PathBuf,
    hash: Kind,
    cache: Rc<BlockCache>,
    index: OnceCell<Option<Index>>,
    data: OnceCell<Option<BlockFile>>,
}

impl Pack {
    /// Creates a pack from the path of its files, without extensions. Nothing is opened yet.
    pub(crate) fn new(stem: PathBuf, cache: &Rc<BlockCache>, hash: Kind) -> Self {
        Self { stem, hash, cache: Rc::clone(cache), index: OnceCell::new(), data: OnceCell::new() }
    }

    /// Returns the path of the pack's files, without extensions.
    pub(crate) fn stem(&self) -> &Path {
        &self.stem
    }

    /// Returns the pack's index; `None` if the file does not exist.
    pub(crate) fn index(&self) -> Result<Option<&Index>> {
        get_or_open(&self.index, || Index::open(&self.stem.with_extension("idx"), &self.cache, self.hash))
    }

    /// Returns the pack's objects; `None` if the file does not exist, for example because it was repacked.
    pub(crate) fn data(&self) -> Result<Option<PackData<'_>>> {
        let file = get_or_open(&self.data, || {
            let Some(file) = BlockFile::open(&self.stem.with_extension("pack"), &self.cache)? else { return Ok(None) };
            let mut magic = [0; 4];
            file.read_exact(0, &mut magic)?;
            match (magic, file.u32(4)?) {
                ([b'P', b'A', b'C', b'K'], 2 | 3) => Ok(Some(file)),
                _ => Err(file.corrupt("it is not a pack of version 2 or 3")),
            }
        })?;
        Ok(file.map(|file| PackData { file, hash: self.hash }))
    }
}

/// Returns the value in the cell, after initializing it with `open` if needed.
fn get_or_open<T>(cell: &OnceCell<Option<T>>, open: impl FnOnce() -> Result<Option<T>>) -> Result<Option<&T>> {
    if cell.get().is_none() {
        let value = open()?;
        return Ok(cell.get_or_init(|| value).as_ref());
    }
    Ok(cell.get().and_then(Option::as_ref))
}

/// The objects of a pack.
#[derive(Clone, Copy)]
pub(crate) struct PackData<'p> {
    file: &'p BlockFile,
    hash: Kind,
}

impl<'p> PackData<'p> {
    /// Returns the key that identifies the pack.
    pub(crate) fn key(&self) -> u32 {
        self.file.key()
    }

    /// Reads the header of the entry at an offset.
    pub(crate) fn entry(&self, offset: u64) -> Result<Entry> {
        let end = self.file.size().saturating_sub(self.hash.len_in_bytes() as u64);
        if !(HEADER..end).contains(&offset) {
            return Err(self.corrupt(offset, "no entry can start there"));
        }
        let most = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(MAX_ENTRY_HEADER);
        let mut header = [0; MAX_ENTRY_HEADER];
        let header = header.get_mut(..most).unwrap_or_default();
        self.file.read_exact(offset, header)?;
        Entry::from_bytes(header, offset, self.hash).map_err(|error| self.corrupt(offset, error))
    }

    /// Returns a reader of an entry's stored content: an object, or a delta.
    pub(crate) fn content(&self, entry: &Entry) -> Inflate<Reader<'p>> {
        Inflate::new(self.file.reader(entry.data_offset), entry.decompressed_size)
    }

    /// Creates an error for damage in the entry at an offset.
    pub(crate) fn corrupt(&self, offset: u64, fault: impl ToString) -> Error {
        Error::corrupt(format!("{} at byte {offset}", self.file.path().display()), fault)
    }

    /// Converts an I/O error from the entry at an offset.
    pub(crate) fn io_error(&self, offset: u64, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::InvalidData => self.corrupt(offset, error),
            io::ErrorKind::UnexpectedEof => self.corrupt(offset, "unexpected end of file"),
            _ => Error::io(self.file.path(), error),
        }
    }
}
