//! The multi-pack index: which object stands in which pack, and where.
//!
//! Version 1 of `gitformat-pack`, "multi-pack-index (MIDX) files", read in place. It spares looking into the index of
//! every pack. One that is damaged, or a chain of them, is left out of use by the caller: the indexes of the packs say
//! the same.

use crate::block_cache::{BlockCache, BlockFile};
use crate::error::{Error, Result};
use crate::odb::index::resolve_offset;
use crate::odb::table::{FAN_OUT, IdTable};
use gix_hash::{Kind, ObjectId, Prefix, oid};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// How many bytes the header has, before the table of chunks.
const HEADER: u64 = 12;

/// How many bytes an entry of the table of chunks has: a name of four and an offset of eight.
const CHUNK: u64 = 12;

/// How many bytes of names of packs are read.
const MAX_NAMES_SIZE: u64 = 4 * 1024 * 1024;

/// A multi-pack index.
pub(crate) struct Midx {
    file: BlockFile,
    table: IdTable,
    /// Where the packs and offsets of the objects begin, eight bytes each.
    offsets: u64,
    /// Where the table of 64-bit offsets begins, where there is one.
    large: Option<u64>,
    packs: Vec<String>,
}

impl Midx {
    /// Opens a multi-pack index; none where there is no such file.
    pub(crate) fn open(path: &Path, cache: &Rc<BlockCache>, hash: Kind) -> Result<Option<Self>> {
        let Some(file) = BlockFile::open(path, cache)? else { return Ok(None) };
        let mut header = [0; HEADER as usize];
        file.read_exact(0, &mut header)?;
        let [b'M', b'I', b'D', b'X', version, id_version, chunks, bases, packs @ ..] = header else {
            return Err(file.corrupt("it is no multi-pack index"));
        };
        let expected = if hash == Kind::Sha1 { 1 } else { 2 };
        if (version, id_version, bases) != (1, expected, 0) {
            return Err(Error::Unsupported(format!(
                "{} has version {version} with ids of version {id_version} and {bases} bases; \
                 supported is version 1 with ids of version {expected} and no bases",
                path.display()
            )));
        }
        let chunks = Chunks::read(&file, chunks)?;
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

    /// The names of the packs, without their endings.
    pub(crate) fn packs(&self) -> &[String] {
        &self.packs
    }

    /// The number of an object's pack among [`packs`](Self::packs), and its offset in it.
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

    /// The objects whose ids begin with a prefix, until `take` has had enough and returns false.
    pub(crate) fn for_each_with_prefix(&self, prefix: &Prefix, take: impl FnMut(ObjectId) -> bool) -> Result<()> {
        self.table.for_each_with_prefix(&self.file, prefix, take)
    }
}

/// The chunks of the file, by name.
struct Chunks(Vec<([u8; 4], Range<u64>)>);

impl Chunks {
    fn read(file: &BlockFile, count: u8) -> Result<Self> {
        let entry = |n: u8| {
            let at = HEADER.saturating_add(CHUNK.saturating_mul(n.into()));
            Ok::<_, Error>((file.u32(at)?.to_be_bytes(), file.u64(at.saturating_add(4))?))
        };
        let mut chunks = Vec::with_capacity(count.into());
        for n in 0..count {
            let (name, start) = entry(n)?;
            // The entry after the last has no name, and tells where the last chunk ends.
            let (_, end) = entry(n.saturating_add(1))?;
            if start > end || end > file.size() {
                return Err(file.corrupt(format!("chunk {n} goes from {start} to {end} of {} bytes", file.size())));
            }
            chunks.push((name, start..end));
        }
        Ok(Self(chunks))
    }

    fn find(&self, name: [u8; 4]) -> Option<Range<u64>> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, chunk)| chunk.clone())
    }

    fn require(&self, file: &BlockFile, name: [u8; 4], size: u64) -> Result<Range<u64>> {
        match self.find(name) {
            Some(chunk) if chunk.end.saturating_sub(chunk.start) >= size => Ok(chunk),
            Some(_) => Err(file.corrupt(format!("chunk {} is too short", name.escape_ascii()))),
            None => Err(file.corrupt(format!("it has no chunk {}", name.escape_ascii()))),
        }
    }
}

/// The names of the packs, each ended by NUL.
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

/// A name without its ending, when it is that of an index or a pack beside the file, and nowhere else.
fn stem(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    let stem = name.strip_suffix(".idx").or_else(|| name.strip_suffix(".pack"))?;
    (!stem.is_empty() && !stem.contains(['/', '\\'])).then(|| stem.to_owned())
}
