//! A block of a reftable: records sorted by key. Each key is stored relative to the previous one, by the length of the
//! common prefix.

use crate::block_cache::BlockFile;
use crate::error::{Error, Result};
use bstr::BString;

/// The size of a block's header in bytes: its kind and its length.
const HEADER: u64 = 4;

/// The maximum length of a key in bytes.
const MAX_KEY: u64 = 8 * 1024;

/// A block of a file.
pub(super) struct Block {
    /// The kind: `r` for refs, `i` for an index.
    pub(super) kind: u8,
    bytes: Vec<u8>,
    /// The position of the next record.
    at: usize,
    /// The end of the records.
    end: usize,
    /// The key of the last record.
    key: BString,
}

impl Block {
    /// Reads the block at a file offset. `header` is the size of the file's header, which is part of the first block.
    pub(super) fn read(file: &BlockFile, offset: u64, header: u64) -> Result<Self> {
        let skipped = if offset == 0 { header } else { 0 };
        let head = file.u32(offset.saturating_add(skipped))?;
        let [kind, length @ ..] = head.to_be_bytes();
        let [high, middle, low] = length;
        let length = u64::from(u32::from_be_bytes([0, high, middle, low]));
        let start = skipped.saturating_add(HEADER);
        // The block ends with the restart points, three bytes each, and their number.
        if length < start.saturating_add(2) || offset.saturating_add(length) > file.size() {
            return Err(file.corrupt(format!("the block at byte {offset} has {length} bytes")));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact(offset, &mut bytes)?;
        let restarts = bytes.last_chunk::<2>().map_or(0, |count| u16::from_be_bytes(*count));
        let tail = u64::from(restarts).saturating_mul(3).saturating_add(2);
        let end = length.checked_sub(tail).filter(|end| *end >= start);
        let end = end.ok_or_else(|| file.corrupt(format!("the block at byte {offset} has {restarts} restarts")))?;
        let (at, end) = (usize::try_from(start).unwrap_or_default(), usize::try_from(end).unwrap_or_default());
        Ok(Self { kind, bytes, at, end, key: BString::default() })
    }

    /// Returns the block's length in bytes, without padding.
    pub(super) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Reads the key of the next record and the number stored with its length; `None` at the end.
    pub(super) fn next_key(&mut self, file: &BlockFile) -> Result<Option<(BString, u8)>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let prefix = self.number(file)?;
        let suffix = self.number(file)?;
        let (length, kind) = (suffix.wrapping_shr(3), (suffix & 7) as u8);
        let common = usize::try_from(prefix).ok().and_then(|prefix| self.key.get(..prefix));
        let mut key = BString::from(common.ok_or_else(|| damaged(file, "a key is longer than the one before"))?);
        if length > MAX_KEY {
            return Err(damaged(file, "a key is too long"));
        }
        key.extend_from_slice(self.take(file, length)?);
        self.key.clone_from(&key);
        Ok(Some((key, kind)))
    }

    /// Reads a varint: seven bits per byte, most significant first; each further byte adds one.
    pub(super) fn number(&mut self, file: &BlockFile) -> Result<u64> {
        let mut number = 0u64;
        for position in 0..10 {
            let byte = self.take(file, 1)?.first().copied().unwrap_or_default();
            let high = if position == 0 { 0 } else { number.saturating_add(1) };
            if high.leading_zeros() < 7 {
                break;
            }
            number = high.wrapping_shl(7) | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(damaged(file, "a number exceeds 64 bits"))
    }

    /// Reads `length` bytes.
    pub(super) fn take(&mut self, file: &BlockFile, length: u64) -> Result<&[u8]> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let end = end.filter(|end| *end <= self.end).ok_or_else(|| damaged(file, "a record exceeds its block"))?;
        let taken = self.bytes.get(self.at..end).unwrap_or_default();
        self.at = end;
        Ok(taken)
    }
}

fn damaged(file: &BlockFile, fault: &str) -> Error {
    file.corrupt(fault)
}
