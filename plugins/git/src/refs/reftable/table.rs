//! One reftable: blocks of refs, and an index if there are several blocks.
//!
//! A lookup reads the blocks of the index from its root, then one block of refs. Without an index, it reads the blocks
//! of refs from the first one; git writes an index for more than three blocks. Everything is validated where it is
//! used; the footer's checksum is not verified.

use crate::block_cache::{BlockCache, BlockFile};
use crate::error::Result;
use crate::refs::reftable::Record;
use crate::refs::reftable::block::Block;
use crate::refs::{Reference, Target, is_valid};
use bstr::{BStr, BString};
use gix_hash::{Kind, ObjectId};
use std::path::Path;
use std::rc::Rc;

/// The sizes of the header in bytes, of version 1 and of version 2, which adds the hash kind.
const HEADERS: [u64; 2] = [24, 28];

/// The size of the footer in bytes, without its copy of the header: five positions and a checksum.
const FOOTER: u64 = 5 * 8 + 4;

/// The maximum number of levels of the index.
const MAX_LEVELS: usize = 16;

/// The maximum length of the name that a symbolic ref points to, in bytes.
const MAX_TARGET: u64 = 8 * 1024;

/// A table.
pub(super) struct Table {
    file: BlockFile,
    hash: Kind,
    /// The size of the header in bytes.
    header: u64,
    /// The distance between blocks in bytes; zero if blocks are not aligned.
    block_size: u64,
    /// The file offset of the root of the index, if there is one.
    index: Option<u64>,
    /// The file offset after the last block of refs.
    end: u64,
}

impl Table {
    /// Opens a table; `None` if the file does not exist.
    pub(super) fn open(path: &Path, cache: &Rc<BlockCache>, hash: Kind) -> Result<Option<Self>> {
        let Some(file) = BlockFile::open(path, cache)? else { return Ok(None) };
        let mut start = [0; 8];
        file.read_exact(0, &mut start)?;
        let [b'R', b'E', b'F', b'T', version, high, middle, low] = start else {
            return Err(file.corrupt("it is not a reftable"));
        };
        let header = match version.checked_sub(1).and_then(|index| HEADERS.get(usize::from(index))) {
            Some(header) => *header,
            None => return Err(file.corrupt(format!("it has version {version}, expected 1 or 2"))),
        };
        let expected = if hash == Kind::Sha1 { *b"sha1" } else { *b"s256" };
        let found = if version == 1 { *b"sha1" } else { file.u32(24)?.to_be_bytes() };
        if found != expected {
            return Err(file.corrupt(format!("it has ids of kind {}", found.escape_ascii())));
        }
        let footer = file.size().checked_sub(header.saturating_add(FOOTER)).filter(|footer| *footer >= header);
        let footer = footer.ok_or_else(|| file.corrupt("it is too short"))?;
        let position = |n: u64| file.u64(footer.saturating_add(header).saturating_add(n.saturating_mul(8)));
        // The field with the position of the object blocks also contains the length of their ids, in its lower bits.
        let (index, objects, logs) = (position(0)?, position(1)?.wrapping_shr(5), position(3)?);
        let end = [index, objects, logs].into_iter().find(|at| *at > 0).unwrap_or(footer).min(footer);
        let block_size = u64::from(u32::from_be_bytes([0, high, middle, low]));
        let index = Some(index).filter(|index| *index > 0);
        Ok(Some(Self { hash, header, block_size, index, end, file }))
    }

    /// Returns the file's path.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the offset of a block of refs; blocks before it do not contain this name.
    fn locate(&self, name: &BStr) -> Result<Option<u64>> {
        let Some(mut at) = self.index else { return Ok(Some(0)) };
        for _ in 0..MAX_LEVELS {
            let mut block = Block::read(&self.file, at, self.header)?;
            if block.kind == b'r' {
                return Ok(Some(at));
            }
            if block.kind != b'i' {
                return Err(self.file.corrupt(format!("the block at byte {at} is none of its index")));
            }
            // An entry is the last name of a block, and the block's position.
            at = loop {
                let Some((last, _)) = block.next_key(&self.file)? else { return Ok(None) };
                let position = block.number(&self.file)?;
                if *last >= *name {
                    break position;
                }
            };
        }
        Err(self.file.corrupt("its index has too many levels"))
    }

    /// Reads the block of refs at an offset, and returns it with the offset of the next block; `None` at the end.
    fn block(&self, at: u64) -> Result<Option<(Block, u64)>> {
        if at >= self.end || (at == 0 && self.end <= self.header) {
            return Ok(None);
        }
        let block = Block::read(&self.file, at, self.header)?;
        if block.kind != b'r' {
            return Ok(None);
        }
        let after = at.saturating_add(block.length());
        let is_padded = block.length() < self.block_size && (after >= self.end || self.byte(after)? == 0);
        let next = if is_padded { at.saturating_add(self.block_size) } else { after };
        Ok(Some((block, next)))
    }

    fn byte(&self, at: u64) -> Result<u8> {
        let mut byte = [0];
        self.file.read_exact(at, &mut byte)?;
        let [byte] = byte;
        Ok(byte)
    }

    /// Reads the value of a ref.
    fn value(&self, block: &mut Block, name: &BString, kind: u8) -> Result<Option<Reference>> {
        // The update index: when the ref was last changed.
        block.number(&self.file)?;
        let id = |block: &mut Block| {
            let bytes = block.take(&self.file, self.hash.len_in_bytes() as u64)?;
            ObjectId::try_from(bytes).map_err(|error| self.file.corrupt(error))
        };
        let reference = |target, peeled, is_non_tag| Reference { name: name.clone(), target, peeled, is_non_tag };
        Ok(match kind {
            0 => None,
            1 => Some(reference(Target::Object(id(block)?), None, true)),
            2 => Some(reference(Target::Object(id(block)?), Some(id(block)?), false)),
            3 => {
                let length = block.number(&self.file)?.min(MAX_TARGET);
                let target = BString::from(block.take(&self.file, length)?);
                if !is_valid(target.as_ref()) {
                    return Err(self.file.corrupt(format!("the target {target} of {name} is not a valid ref name")));
                }
                Some(reference(Target::Symbolic(target), None, false))
            }
            kind => return Err(self.file.corrupt(format!("the ref {name} has a value of the unknown kind {kind}"))),
        })
    }
}

/// An iterator over the records of a table, starting at a name.
pub(super) struct TableIter {
    table: Rc<Table>,
    block: Option<Block>,
    next_block: u64,
    /// The first record, until it is returned.
    first: Option<Record>,
}

impl TableIter {
    /// Creates an iterator over the records that do not sort before a name.
    pub(super) fn seek(table: &Rc<Table>, name: &BStr) -> Result<Self> {
        let start = table.locate(name)?;
        let next_block = start.unwrap_or(table.end);
        let mut records = Self { table: Rc::clone(table), block: None, next_block, first: None };
        while let Some(record) = records.advance()? {
            if *record.name >= *name {
                records.first = Some(record);
                break;
            }
        }
        Ok(records)
    }

    fn advance(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some(block) = &mut self.block
                && let Some((name, kind)) = block.next_key(&self.table.file)?
            {
                let value = self.table.value(block, &name, kind)?;
                return Ok(Some(Record { name, value }));
            }
            let Some((block, next)) = self.table.block(self.next_block)? else { return Ok(None) };
            (self.block, self.next_block) = (Some(block), next);
        }
    }
}

impl Iterator for TableIter {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        self.first.take().map(Ok).or_else(|| self.advance().transpose())
    }
}
