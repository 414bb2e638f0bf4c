//! A sorted table of object ids in a file, with the fan-out table that tells where each first byte begins.
//!
//! Pack indexes of both versions and multi-pack indexes have one. A search reads two numbers of the fan-out table and
//! then as many blocks as the binary search within one 256th of the table needs: three or four for millions of objects.

use crate::block_cache::BlockFile;
use crate::error::Result;
use gix_hash::{Kind, ObjectId, Prefix, oid};
use std::cmp::Ordering;
use std::ops::Range;

/// How many bytes a fan-out table has: 256 numbers of four bytes.
pub(crate) const FAN_OUT: u64 = 256 * 4;

/// Where a table stands in its file.
pub(crate) struct IdTable {
    /// Where the fan-out table begins.
    pub(crate) fan_out: u64,
    /// Where the first id begins.
    pub(crate) ids: u64,
    /// How far it is from one id to the next.
    pub(crate) stride: u64,
    /// How many ids there are.
    pub(crate) count: u32,
    /// What kind of ids they are.
    pub(crate) hash: Kind,
}

impl IdTable {
    /// The number of an id in the table.
    pub(crate) fn position(&self, file: &BlockFile, id: &oid) -> Result<Option<u32>> {
        let range = self.range(file, id.first_byte())?;
        let position = self.partition_point(file, range.clone(), |other| other < id)?;
        Ok((position < range.end && self.id(file, position)? == id).then_some(position))
    }

    /// The ids that begin with a prefix, in order, until `take` has had enough and returns false.
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

    /// The id of this number.
    fn id(&self, file: &BlockFile, position: u32) -> Result<ObjectId> {
        let mut id = self.hash.null();
        file.read_exact(self.ids.saturating_add(self.stride.saturating_mul(position.into())), id.as_mut_slice())?;
        Ok(id)
    }

    /// The numbers of the ids with this first byte.
    fn range(&self, file: &BlockFile, first_byte: u8) -> Result<Range<u32>> {
        let entry = |n: u8| file.u32(self.fan_out.saturating_add(u64::from(n).saturating_mul(4)));
        let start = first_byte.checked_sub(1).map_or(Ok(0), entry)?;
        let end = entry(first_byte)?;
        if start > end || end > self.count {
            return Err(file.corrupt(format!("its fan-out table says {start} to {end} of {}", self.count)));
        }
        Ok(start..end)
    }

    /// The first number in a range whose id is not `before` what is looked for.
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
