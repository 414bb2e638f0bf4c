//! One pack: objects, compressed, one behind the other, many of them as deltas against another.
//!
//! Only the entry that is asked for is read, wherever it stands, so that the size of the pack does not matter. The pack
//! and its index are opened when they are first needed.

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

/// How many bytes the header of a pack has: magic, version, number of objects.
const HEADER: u64 = 12;

/// How many bytes the header of an entry has at most: two numbers of ten bytes, or one and an id.
const MAX_ENTRY_HEADER: usize = 10 + 32;

/// One pack and its index.
pub(crate) struct Pack {
    /// The path of both, without their endings.
    stem: PathBuf,
    hash: Kind,
    cache: Rc<BlockCache>,
    index: OnceCell<Option<Index>>,
    data: OnceCell<Option<BlockFile>>,
}

impl Pack {
    /// A pack by the path of its files, without their endings. Nothing is opened yet.
    pub(crate) fn new(stem: PathBuf, cache: &Rc<BlockCache>, hash: Kind) -> Self {
        Self { stem, hash, cache: Rc::clone(cache), index: OnceCell::new(), data: OnceCell::new() }
    }

    /// The path of its files, without their endings.
    pub(crate) fn stem(&self) -> &Path {
        &self.stem
    }

    /// Its index; none where there is no such file.
    pub(crate) fn index(&self) -> Result<Option<&Index>> {
        get_or_open(&self.index, || Index::open(&self.stem.with_extension("idx"), &self.cache, self.hash))
    }

    /// Its objects; none where there is no such file (any more).
    pub(crate) fn data(&self) -> Result<Option<PackData<'_>>> {
        let file = get_or_open(&self.data, || {
            let Some(file) = BlockFile::open(&self.stem.with_extension("pack"), &self.cache)? else { return Ok(None) };
            let mut magic = [0; 4];
            file.read_exact(0, &mut magic)?;
            match (magic, file.u32(4)?) {
                ([b'P', b'A', b'C', b'K'], 2 | 3) => Ok(Some(file)),
                _ => Err(file.corrupt("it is no pack of version 2 or 3")),
            }
        })?;
        Ok(file.map(|file| PackData { file, hash: self.hash }))
    }
}

/// What is in the cell, after `open` has put it there.
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
    /// A number that tells packs apart.
    pub(crate) fn key(&self) -> u32 {
        self.file.key()
    }

    /// The header of the entry at an offset.
    pub(crate) fn entry(&self, offset: u64) -> Result<Entry> {
        let end = self.file.size().saturating_sub(self.hash.len_in_bytes() as u64);
        if !(HEADER..end).contains(&offset) {
            return Err(self.corrupt(offset, "no entry can stand there"));
        }
        let most = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(MAX_ENTRY_HEADER);
        let mut header = [0; MAX_ENTRY_HEADER];
        let header = header.get_mut(..most).unwrap_or_default();
        self.file.read_exact(offset, header)?;
        Entry::from_bytes(header, offset, self.hash).map_err(|error| self.corrupt(offset, error))
    }

    /// The content of an entry, as it is stored: an object, or a delta.
    pub(crate) fn content(&self, entry: &Entry) -> Inflate<Reader<'p>> {
        Inflate::new(self.file.reader(entry.data_offset), entry.decompressed_size)
    }

    /// Damage in the entry at an offset.
    pub(crate) fn corrupt(&self, offset: u64, fault: impl ToString) -> Error {
        Error::corrupt(format!("{} at byte {offset}", self.file.path().display()), fault)
    }

    /// What went wrong with reading the entry at an offset.
    pub(crate) fn io_error(&self, offset: u64, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::InvalidData => self.corrupt(offset, error),
            io::ErrorKind::UnexpectedEof => self.corrupt(offset, "it ends too early"),
            _ => Error::io(self.file.path(), error),
        }
    }
}
