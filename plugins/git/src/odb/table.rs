//! A sorted table of object ids in a file, with the fan-out table of the position of each first byte.
//!
//! Used by pack indexes of both versions and by multi-pack indexes. A lookup reads two numbers of the fan-out table
//! and then the blocks of a binary search within one 256th of the table: three or four for millions of objects.

use crate::block_cache::BlockFile;
use crate::error::Result;
use gix_hash::{Kind, ObjectId, Prefix, oid};
use std::cmp::Ordering;
use std::ops::Range;

/// The size of a fan-out table in bytes: 256 numbers of four bytes.
pub(crate) const FAN_OUT: u64 = 256 * 4;

/// The location of a table in its file.
pub(crate) struct IdTable {
    /// The file offset of the fan-out table.
    pub(crate) fan_out: u64,
    /// The file offset of the first id.
    pub(crate) ids: u64,
    /// The distance between two ids in bytes.
    pub(crate) stride: u64,
    /// The number of ids.
    pub(crate) count: u32,
    /// The hash kind of the ids.
    pub(crate) hash: Kind,
}

impl IdTable {
    /// Returns the position of an id in the table.
    pub(crate) fn position(&self, file: &BlockFile, id: &oid) -> Result<Option<u32>> {
        let range = self.range(file, id.first_byte())?;
        let position = self.partition_point(file, range.clone(), |other| other < id)?;
        Ok((position < range.end && self.id(file, position)? == id).then_some(position))
    }

    /// Calls `take` for each id that starts with a prefix, in order, until it returns false.
    pub(crate) fn for_each_with_prefix(
        &self,
        file: &BlockFile,
        prefix: &Prefix,
        mut take: impl FnMut(ObjectId) -> bool,
    ) -> Result<()> {
        let range = self.range(file, prefix.as_oid().first_byte())?;
        let first = self.partition_point(file, range.clone(), |other| prefix.cmp_oid(other) == Ordering::Greater)?;
        for position in first..range.end {
            let id = self.id(file, position)?;
            if prefix.cmp_oid(&id) != Ordering::Equal || !take(id) {
                break;
            }
        }
        Ok(())
    }

    /// Reads the id at a position.
    fn id(&self, file: &BlockFile, position: u32) -> Result<ObjectId> {
        let mut id = self.hash.null();
        file.read_exact(self.ids.saturating_add(self.stride.saturating_mul(position.into())), id.as_mut_slice())?;
        Ok(id)
    }

    /// Returns the positions of the ids with this first byte.
    fn range(&self, file: &BlockFile, first_byte: u8) -> Result<Range<u32>> {
        let entry = |n: u8| file.u32(self.fan_out.saturating_add(u64::from(n).saturating_mul(4)));
        let start = first_byte.checked_sub(1).map_or(Ok(0), entry)?;
        let end = entry(first_byte)?;
        if start > end || end > self.count {
            return Err(file.corrupt(format!("its fan-out table has the range {start} to {end} of {}", self.count)));
        }
        Ok(start..end)
    }

    /// Returns the first position in a range for whose id `before` is false.
    fn partition_point(&self, file: &BlockFile, range: Range<u32>, before: impl Fn(&oid) -> bool) -> Result<u32> {
        let Range { mut start, mut end } = range;
        while start < end {
            let middle = start.midpoint(end);
            if before(&self.id(file, middle)?) {
                start = middle.saturating_add(1);
            } else {
                end = middle;
            }
        }
        Ok(start)
    }
}
