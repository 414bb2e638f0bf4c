//! The multi-pack index: the pack and offset of each object.
//!
//! Version 1 of `gitformat-pack`, "multi-pack-index (MIDX) files", read in place. It replaces lookups in the index of
//! every pack. The caller ignores a damaged or incremental (chained) one: the packs' own indexes contain the same
//! entries.

use crate::block_cache::{BlockCache, BlockFile};
use crate::chunks::Chunks;
use crate::error::{Error, Result};
use crate::id_table::{FAN_OUT, IdTable};
use crate::odb::index::resolve_offset;
use gix_hash::{Kind, ObjectId, Prefix, oid};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// The size of the header before the chunk table, in bytes.
const HEADER: u64 = 12;

/// The maximum size of the pack names, in bytes.
const MAX_NAMES_SIZE: u64 = 4 * 1024 * 1024;

/// A multi-pack index.
pub(crate) struct Midx {
    file: BlockFile,
    table: IdTable,
    /// The file offset of the objects' pack numbers and offsets, eight bytes each.
    offsets: u64,
    /// The file offset of the table of 64-bit offsets, if there is one.
    large: Option<u64>,
    packs: Vec<String>,
}

impl Midx {
    /// Opens a multi-pack index; `None` if the file does not exist.
    pub(crate) fn open(path: &Path, cache: &Rc<BlockCache>, hash: Kind) -> Result<Option<Self>> {
        let Some(file) = BlockFile::open_table(path, cache)? else { return Ok(None) };
        let mut header = [0; HEADER as usize];
        file.read_exact(0, &mut header)?;
        let [b'M', b'I', b'D', b'X', version, id_version, chunks, bases, packs @ ..] = header else {
            return Err(file.corrupt("it is not a multi-pack index"));
        };
        let expected = if hash == Kind::Sha1 { 1 } else { 2 };
        if (version, id_version, bases) != (1, expected, 0) {
            return Err(Error::Unsupported(format!(
                "{} has version {version} with ids of version {id_version} and {bases} bases; \
                 supported is version 1 with ids of version {expected} and no bases",
                path.display()
            )));
        }
        let chunks = Chunks::read(&file, HEADER, chunks)?;
        let fan_out = chunks.require(&file, *b"OIDF", FAN_OUT)?.start;
        let count = file.u32(fan_out.saturating_add(FAN_OUT).saturating_sub(4))?;
        let stride = hash.len_in_bytes() as u64;
        let all = |each: u64| each.saturating_mul(count.into());
        let ids = chunks.require(&file, *b"OIDL", all(stride))?.start;
        let places = chunks.require(&file, *b"OOFF", all(8))?.start;
        let large = chunks.find(*b"LOFF").map(|chunk| chunk.start);
        let packs = names(&file, chunks.require(&file, *b"PNAM", 0)?, u32::from_be_bytes(packs))?;
        Ok(Some(Self { table: IdTable { fan_out, ids, stride, count, hash }, file, offsets: places, large, packs }))
    }

    /// Returns the names of the packs, without file extensions.
    pub(crate) fn packs(&self) -> &[String] {
        &self.packs
    }

    /// Returns the number of an object's pack in [`packs`](Self::packs), and its offset in the pack.
    pub(crate) fn locate(&self, id: &oid) -> Result<Option<(usize, u64)>> {
        let Some(position) = self.table.position(&self.file, id)? else { return Ok(None) };
        let at = self.offsets.saturating_add(u64::from(position).saturating_mul(8));
        let pack = self.file.u32(at)?;
        let offset = self.file.u32(at.saturating_add(4))?;
        let offset = self.large.map_or(Ok(offset.into()), |large| resolve_offset(&self.file, offset, large))?;
        match usize::try_from(pack) {
            Ok(pack) if pack < self.packs.len() => Ok(Some((pack, offset))),
            _ => Err(self.file.corrupt(format!("object {id} is in pack {pack}, of {}", self.packs.len()))),
        }
    }

    /// Calls `take` for each object whose id starts with a prefix, until it returns false.
    pub(crate) fn for_each_with_prefix(&self, prefix: &Prefix, take: impl FnMut(ObjectId) -> bool) -> Result<()> {
        self.table.for_each_with_prefix(&self.file, prefix, take)
    }
}

/// Reads the NUL-terminated names of the packs.
fn names(file: &BlockFile, chunk: Range<u64>, count: u32) -> Result<Vec<String>> {
    let size = chunk.end.saturating_sub(chunk.start);
    if size > MAX_NAMES_SIZE {
        return Err(file.corrupt(format!("its names of packs have {size} bytes, expected at most {MAX_NAMES_SIZE}")));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    file.read_exact(chunk.start, &mut bytes)?;
    let names: Vec<String> =
        bytes.split(|byte| *byte == 0).take_while(|name| !name.is_empty()).filter_map(stem).collect();
    if u32::try_from(names.len()) != Ok(count) {
        return Err(file.corrupt(format!("it has {} names of packs, expected {count}", names.len())));
    }
    Ok(names)
}

/// Returns the stem of a file name; `None` unless it names an index or a pack in the same directory.
fn stem(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    let stem = name.strip_suffix(".idx").or_else(|| name.strip_suffix(".pack"))?;
    (!stem.is_empty() && !stem.contains(['/', '\\'])).then(|| stem.to_owned())
}
