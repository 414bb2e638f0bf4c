//! A block cache for random reads of files.
//!
//! Packs and their indexes may be larger than a provider's memory, and a component cannot memory-map a file: the whole
//! file would be read. Files are therefore read in blocks: [`SMALL_BLOCK_SIZE`] bytes for lookups of single table
//! entries, [`BLOCK_SIZE`] bytes elsewhere. A [`BlockCache`] (LRU) retains the most recently used blocks of all its
//! files, up to its capacity. The cost of a read depends on the bytes requested, not on the size of the file.

use crate::error::{Error, Result};
use crate::files;
use clru::{CLruCache, CLruCacheConfig, WeightScale};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The block size in bytes. Blocks start at multiples of it.
const BLOCK_SIZE: usize = 16 * 1024;

/// The block size in bytes for files from which single entries are read.
const SMALL_BLOCK_SIZE: usize = 4 * 1024;

/// The default capacity of a cache in bytes.
const CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(2 * 1024 * 1024).unwrap();

/// The cache key of a block: the file's key and the block number.
type Key = (u32, u64);

struct ByLength;

impl WeightScale<Key, Rc<[u8]>> for ByLength {
    fn weight(&self, _: &Key, block: &Rc<[u8]>) -> usize {
        block.len()
    }
}

type Blocks = CLruCache<Key, Rc<[u8]>, std::hash::RandomState, ByLength>;

/// An LRU cache of blocks, shared by all files that were opened with it.
pub(crate) struct BlockCache {
    blocks: RefCell<Blocks>,
    next_key: Cell<u32>,
    bytes_read: Cell<u64>,
}

impl BlockCache {
    /// Creates an empty cache of the default capacity.
    pub(crate) fn new() -> Rc<Self> {
        Self::with_capacity(CACHE_SIZE)
    }

    /// Creates an empty cache, with a capacity in bytes.
    pub(crate) fn with_capacity(capacity: NonZeroUsize) -> Rc<Self> {
        let blocks = CLruCache::with_config(CLruCacheConfig::new(capacity).with_scale(ByLength));
        Rc::new(Self { blocks: RefCell::new(blocks), next_key: Cell::new(0), bytes_read: Cell::new(0) })
    }

    /// Returns the total number of bytes read from files.
    #[cfg(test)]
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.get()
    }
}

/// A file that is read in blocks. It must not change while it is open; packs and indexes never do.
pub(crate) struct BlockFile {
    path: PathBuf,
    file: RefCell<File>,
    size: u64,
    block_size: usize,
    key: u32,
    cache: Rc<BlockCache>,
}

impl BlockFile {
    /// Opens a file; `None` if it does not exist.
    pub(crate) fn open(path: &Path, cache: &Rc<BlockCache>) -> Result<Option<Self>> {
        Self::open_with(path, cache, BLOCK_SIZE)
    }

    /// Opens a file with the smaller block size, for reads of single entries that are far apart; `None` if the file
    /// does not exist.
    pub(crate) fn open_table(path: &Path, cache: &Rc<BlockCache>) -> Result<Option<Self>> {
        Self::open_with(path, cache, SMALL_BLOCK_SIZE)
    }

    fn open_with(path: &Path, cache: &Rc<BlockCache>, block_size: usize) -> Result<Option<Self>> {
        let Some((file, size)) = files::open(path)? else { return Ok(None) };
        let key = cache.next_key.get();
        cache.next_key.set(key.wrapping_add(1));
        Ok(Some(Self {
            path: path.to_owned(),
            file: RefCell::new(file),
            size,
            block_size,
            key,
            cache: Rc::clone(cache),
        }))
    }

    /// Returns the file's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the key that identifies the file in the cache.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// Creates an error for damage in this file.
    pub(crate) fn corrupt(&self, fault: impl ToString) -> Error {
        Error::corrupt(self.path.display(), fault)
    }

    /// Returns the bytes from `offset` to the end of its block. Empty only at the end of the file.
    pub(crate) fn slice(&self, offset: u64) -> Result<BlockSlice> {
        if offset >= self.size {
            return Ok(BlockSlice { block: Rc::from([]), start: 0 });
        }
        let block = self.block_size as u64;
        // The block size is not zero, and the remainder is less than it.
        let number = offset.checked_div(block).unwrap_or_default();
        let start = offset.checked_rem(block).and_then(|rest| usize::try_from(rest).ok()).unwrap_or_default();
        Ok(BlockSlice { block: self.block(number)?, start })
    }

    /// Fills `buffer` with the bytes at `offset`.
    pub(crate) fn read_exact(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.reader(offset).read_exact(buffer).map_err(|error| Error::io(&self.path, error))
    }

    /// Reads a big-endian 32-bit number at `offset`.
    pub(crate) fn u32(&self, offset: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        self.read_exact(offset, &mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// Reads a big-endian 64-bit number at `offset`.
    pub(crate) fn u64(&self, offset: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read_exact(offset, &mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Returns a reader from `offset` to the end.
    pub(crate) fn reader(&self, offset: u64) -> Reader<'_> {
        Reader { file: self, offset, slice: BlockSlice { block: Rc::from([]), start: 0 } }
    }

    fn block(&self, number: u64) -> Result<Rc<[u8]>> {
        let key = (self.key, number);
        if let Some(block) = self.cache.blocks.borrow_mut().get(&key) {
            return Ok(Rc::clone(block));
        }
        let block_size = self.block_size as u64;
        let offset = number.saturating_mul(block_size);
        let length = self.size.saturating_sub(offset).min(block_size);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(self.block_size)];
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|error| Error::io(&self.path, error))?;
        self.cache.bytes_read.set(self.cache.bytes_read.get().saturating_add(length));
        let block: Rc<[u8]> = Rc::from(bytes);
        // Never rejected: a block is far smaller than the cache's capacity.
        let _ = self.cache.blocks.borrow_mut().put_with_weight(key, Rc::clone(&block));
        Ok(block)
    }
}

/// A range of consecutive bytes of a file.
pub(crate) struct BlockSlice {
    block: Rc<[u8]>,
    start: usize,
}

impl std::ops::Deref for BlockSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.block.get(self.start..).unwrap_or_default()
    }
}

/// A sequential reader of a file.
pub(crate) struct Reader<'f> {
    file: &'f BlockFile,
    offset: u64,
    slice: BlockSlice,
}

impl BufRead for Reader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.slice.is_empty() {
            self.slice = self.file.slice(self.offset).map_err(|error| match error {
                Error::Io { source, .. } => source,
                error => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
            })?;
        }
        Ok(&self.slice)
    }

    fn consume(&mut self, amount: usize) {
        self.slice.start = self.slice.start.saturating_add(amount);
        self.offset = self.offset.saturating_add(amount as u64);
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let amount = self.fill_buf()?.read(buffer)?;
        self.consume(amount);
        Ok(amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> (tempfile::TempDir, BlockFile, Rc<BlockCache>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, content).unwrap();
        let cache = BlockCache::new();
        let file = BlockFile::open(&path, &cache).unwrap().unwrap();
        (dir, file, cache)
    }

    fn counting(length: usize) -> Vec<u8> {
        (0..length).map(|n| (n % 251) as u8).collect()
    }

    #[test]
    fn bytes_are_read_across_blocks() {
        let content = counting(3 * BLOCK_SIZE + 5);
        let (_dir, file, _) = file(&content);
        let mut bytes = vec![0; BLOCK_SIZE + 7];
        file.read_exact(BLOCK_SIZE as u64 - 3, &mut bytes).unwrap();
        assert_eq!(bytes, content[BLOCK_SIZE - 3..2 * BLOCK_SIZE + 4]);
        let mut rest = Vec::new();
        file.reader(2).read_to_end(&mut rest).unwrap();
        assert_eq!(rest, content[2..]);
    }

    #[test]
    fn a_file_costs_the_blocks_that_are_read_and_each_once() {
        let (_dir, file, cache) = file(&counting(64 * BLOCK_SIZE));
        for _ in 0..10 {
            file.u32(17 * BLOCK_SIZE as u64 + 100).unwrap();
            file.u64(40 * BLOCK_SIZE as u64).unwrap();
        }
        assert_eq!(cache.bytes_read(), 2 * BLOCK_SIZE as u64);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (_dir, file, cache) = file(&vec![0; 4 * CACHE_SIZE.get()]);
        io::copy(&mut file.reader(0), &mut io::sink()).unwrap();
        assert!(cache.blocks.borrow().weight() <= CACHE_SIZE.get());
    }

    #[test]
    fn reading_beyond_the_end_is_damage() {
        let (_dir, file, _) = file(b"12345");
        assert!(matches!(file.u32(2), Err(Error::Corrupt { .. })));
        assert!(matches!(file.u32(u64::MAX), Err(Error::Corrupt { .. })));
        assert!(file.slice(5).unwrap().is_empty());
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_open_is_damage() {
        let (dir, file, _) = file(&counting(100));
        std::fs::write(dir.path().join("file"), b"short").unwrap();
        assert!(matches!(file.u32(0), Err(Error::Corrupt { .. })));
    }
}
