//! The chunk table of multi-pack indexes and commit-graphs (`gitformat-chunk`): names and file offsets of the chunks.

use crate::block_cache::BlockFile;
use crate::error::{Error, Result};
use std::ops::Range;

/// The size of an entry of the table in bytes: a 4-byte name and an 8-byte offset.
const ENTRY: u64 = 12;

/// The chunks of a file, by name.
pub(crate) struct Chunks(Vec<([u8; 4], Range<u64>)>);

impl Chunks {
    /// Reads a table of `count` chunks at a file offset.
    pub(crate) fn read(file: &BlockFile, offset: u64, count: u8) -> Result<Self> {
        let entry = |n: u8| {
            let at = offset.saturating_add(ENTRY.saturating_mul(n.into()));
            Ok::<_, Error>((file.u32(at)?.to_be_bytes(), file.u64(at.saturating_add(4))?))
        };
        let mut chunks = Vec::with_capacity(count.into());
        for n in 0..count {
            let (name, start) = entry(n)?;
            // The entry after the last has no name; its offset is the end of the last chunk.
            let (_, end) = entry(n.saturating_add(1))?;
            if start > end || end > file.size() {
                return Err(file.corrupt(format!("chunk {n} spans {start} to {end} of {} bytes", file.size())));
            }
            chunks.push((name, start..end));
        }
        Ok(Self(chunks))
    }

    /// Returns the file offsets of a chunk.
    pub(crate) fn find(&self, name: [u8; 4]) -> Option<Range<u64>> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, chunk)| chunk.clone())
    }

    /// Returns the file offsets of a chunk of at least `size` bytes.
    pub(crate) fn require(&self, file: &BlockFile, name: [u8; 4], size: u64) -> Result<Range<u64>> {
        match self.find(name) {
            Some(chunk) if chunk.end.saturating_sub(chunk.start) >= size => Ok(chunk),
            Some(_) => Err(file.corrupt(format!("chunk {} is too short", name.escape_ascii()))),
            None => Err(file.corrupt(format!("it has no chunk {}", name.escape_ascii()))),
        }
    }
}
