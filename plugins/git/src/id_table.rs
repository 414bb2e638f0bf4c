//! A sorted table of object ids in a file, with a fan-out table (the number of ids up to each first byte).
//!
//! Used by pack indexes of both versions, multi-pack indexes and commit-graphs. A lookup reads two numbers of the
//! fan-out table, which delimit the ids with the same first byte, and one or two blocks of these ids: ids are uniformly
//! distributed, so the position is interpolated, and a galloping binary search starts there. In a table that is not
//! uniform, the search takes at most twice as many steps as a plain binary search.

use crate::block_cache::BlockFile;
use crate::error::Result;
use gix_hash::{Kind, ObjectId, Prefix, oid};
use std::cmp::Ordering;
use std::ops::Range;

/// The size of a fan-out table in bytes: 256 numbers of four bytes.
pub(crate) const FAN_OUT: u64 = 256 * 4;

/// The first step of the search from the interpolated position, in ids. The expected error is the square root of the
/// number of ids: this step covers it in tables of a million.
const FIRST_STEP: u32 = 64;

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
        let position = self.partition_point(file, range.clone(), id, |other| other < id)?;
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
        let before = |other: &oid| prefix.cmp_oid(other) == Ordering::Greater;
        let first = self.partition_point(file, range.clone(), prefix.as_oid(), before)?;
        for position in first..range.end {
            let id = self.id(file, position)?;
            if prefix.cmp_oid(&id) != Ordering::Equal || !take(id) {
                break;
            }
        }
        Ok(())
    }

    /// Reads the id at a position.
    pub(crate) fn id(&self, file: &BlockFile, position: u32) -> Result<ObjectId> {
        let mut id = self.hash.null();
        file.read_exact(self.ids.saturating_add(self.stride.saturating_mul(position.into())), id.as_mut_slice())?;
        Ok(id)
    }

    /// Returns the positions of the ids with the given first byte.
    fn range(&self, file: &BlockFile, first_byte: u8) -> Result<Range<u32>> {
        let entry = |n: u8| file.u32(self.fan_out.saturating_add(u64::from(n).saturating_mul(4)));
        let start = first_byte.checked_sub(1).map_or(Ok(0), entry)?;
        let end = entry(first_byte)?;
        if start > end || end > self.count {
            return Err(file.corrupt(format!("its fan-out table has the range {start} to {end} of {}", self.count)));
        }
        Ok(start..end)
    }

    /// Returns the first position in a range for whose id `before` is false. The search starts where `expected` is
    /// likely to be.
    fn partition_point(
        &self,
        file: &BlockFile,
        range: Range<u32>,
        expected: &oid,
        before: impl Fn(&oid) -> bool,
    ) -> Result<u32> {
        let Range { mut start, mut end } = range;
        let guess = interpolate(&(start..end), expected);
        let mut step = FIRST_STEP;
        // Galloping: the distance from the guess is doubled until the result is enclosed.
        if guess < end && before(&self.id(file, guess)?) {
            start = guess.saturating_add(1);
            while let Some(next) = start.checked_add(step).filter(|next| *next < end) {
                if !before(&self.id(file, next)?) {
                    end = next;
                    break;
                }
                start = next.saturating_add(1);
                step = step.saturating_mul(2);
            }
        } else {
            end = guess;
            while let Some(next) = end.checked_sub(step).filter(|next| *next >= start) {
                if before(&self.id(file, next)?) {
                    start = next.saturating_add(1);
                    break;
                }
                end = next;
                step = step.saturating_mul(2);
            }
        }
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

/// Returns the position in a range at which an id is expected, by the four bytes after the first one.
fn interpolate(range: &Range<u32>, id: &oid) -> u32 {
    let bytes = id.as_bytes().get(1..5).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).unwrap_or_default();
    let count = u64::from(range.end.saturating_sub(range.start));
    let offset = count.saturating_mul(u32::from_be_bytes(bytes).into()).wrapping_shr(u32::BITS);
    range.start.saturating_add(u32::try_from(offset).unwrap_or_default())
}
