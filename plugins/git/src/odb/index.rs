//! Pack indexes: the offsets of a pack's objects.
//!
//! Versions 1 and 2 of `gitformat-pack`, read in place. Each value is validated where it is used. The index's checksum
//! is not verified, because verification requires reading the whole file.

use crate::block_cache::{BlockCache, BlockFile};
use crate::error::{Error, Result};
use crate::id_table::{FAN_OUT, IdTable};
use gix_hash::{Kind, ObjectId, Prefix, oid};
use std::path::Path;
use std::rc::Rc;

/// The magic number of a version 2 index. A version 1 index starts with its fan-out table.
const MAGIC: u32 = 0xff74_4f63;

/// The flag of a 32-bit offset whose remaining bits are an index into the table of 64-bit offsets.
const LARGE_OFFSET_FLAG: u32 = 1 << 31;

/// The index of one pack.
pub(crate) struct Index {
    file: BlockFile,
    table: IdTable,
    offsets: Offsets,
}

/// The location of the offsets in an index.
enum Offsets {
    /// Before each id (version 1).
    Inline,
    /// In separate tables at these file offsets (version 2).
    Tables { small: u64, large: u64 },
}

impl Index {
    /// Opens an index; `None` if the file does not exist.
    pub(crate) fn open(path: &Path, cache: &Rc<BlockCache>, hash: Kind) -> Result<Option<Self>> {
        let Some(file) = BlockFile::open_table(path, cache)? else { return Ok(None) };
        let ids = hash.len_in_bytes() as u64;
        let index = if file.u32(0)? == MAGIC {
            match file.u32(4)? {
                2 => Self::version_2(file, hash, ids)?,
                version => return Err(file.corrupt(format!("it has version {version}, expected 1 or 2"))),
            }
        } else {
            Self::version_1(file, hash, ids)?
        };
        Ok(Some(index))
    }

    fn version_1(file: BlockFile, hash: Kind, id: u64) -> Result<Self> {
        let count = file.u32(FAN_OUT.saturating_sub(4))?;
        let stride = id.saturating_add(4);
        let table = IdTable { fan_out: 0, ids: FAN_OUT.saturating_add(4), stride, count, hash };
        let size = FAN_OUT.saturating_add(stride.saturating_mul(count.into())).saturating_add(id.saturating_mul(2));
        Self { file, table, offsets: Offsets::Inline }.check_min_size(size)
    }

    fn version_2(file: BlockFile, hash: Kind, id: u64) -> Result<Self> {
        let fan_out = 8u64;
        let ids = fan_out.saturating_add(FAN_OUT);
        let count = file.u32(ids.saturating_sub(4))?;
        let all = |each: u64| each.saturating_mul(count.into());
        // The objects' checksums are stored between ids and offsets.
        let small = ids.saturating_add(all(id)).saturating_add(all(4));
        let large = small.saturating_add(all(4));
        let table = IdTable { fan_out, ids, stride: id, count, hash };
        let size = large.saturating_add(id.saturating_mul(2));
        Self { file, table, offsets: Offsets::Tables { small, large } }.check_min_size(size)
    }

    fn check_min_size(self, size: u64) -> Result<Self> {
        match self.file.size() < size {
            true => {
                let (found, count) = (self.file.size(), self.table.count);
                Err(self.file.corrupt(format!("it has {found} bytes, expected {size} or more for {count} objects")))
            }
            false => Ok(self),
        }
    }

    /// Returns the offset of an object in the pack.
    pub(crate) fn offset(&self, id: &oid) -> Result<Option<u64>> {
        let Some(position) = self.table.position(&self.file, id)? else { return Ok(None) };
        let at = |table: u64, each: u64| table.saturating_add(each.saturating_mul(position.into()));
        let offset = match self.offsets {
            Offsets::Inline => self.file.u32(at(FAN_OUT, self.table.stride))?.into(),
            Offsets::Tables { small, large } => resolve_offset(&self.file, self.file.u32(at(small, 4))?, large)?,
        };
        Ok(Some(offset))
    }

    /// Calls `take` for each object whose id starts with a prefix, until it returns false.
    pub(crate) fn for_each_with_prefix(&self, prefix: &Prefix, take: impl FnMut(ObjectId) -> bool) -> Result<()> {
        self.table.for_each_with_prefix(&self.file, prefix, take)
    }
}

/// Resolves a 32-bit offset: the value itself, or an entry of the table of 64-bit offsets at `large`.
pub(crate) fn resolve_offset(file: &BlockFile, offset: u32, large: u64) -> Result<u64, Error> {
    match offset & LARGE_OFFSET_FLAG {
        0 => Ok(offset.into()),
        _ => file.u64(large.saturating_add(u64::from(offset & !LARGE_OFFSET_FLAG).saturating_mul(8))),
    }
}
