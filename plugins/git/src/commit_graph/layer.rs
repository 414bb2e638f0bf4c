//! One file of a commit-graph.

use crate::block_cache::{BlockCache, BlockFile};
use crate::chunks::Chunks;
use crate::commit_graph::bloom::{self, PathKeys};
use crate::commit_graph::{GraphCommit, Position};
use crate::error::{Error, Result};
use crate::id_table::{FAN_OUT, IdTable};
use gix_hash::{Kind, ObjectId, oid};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// The size of the header before the chunk table, in bytes.
const HEADER: u64 = 8;

/// The position of a parent that does not exist.
const NO_PARENT: u32 = 0x7000_0000;

/// The flag bit of a second parent that is a position in the list of extra edges, of the last extra edge, and of a
/// corrected date that is a position in the overflow table.
const FLAG: u32 = 1 << 31;

/// The maximum number of parents per commit.
const MAX_PARENTS: usize = 1000;

/// One file of a commit-graph.
pub(super) struct Layer {
    file: BlockFile,
    table: IdTable,
    /// The number of commits in the files before this one.
    first: u32,
    /// The file offset of the commits' data.
    data: u64,
    /// The file offsets of the third and further parents.
    edges: Option<Range<u64>>,
    /// The file offset of the offsets from commit dates to corrected commit dates.
    corrected_dates: Option<u64>,
    /// The file offsets of the corrected dates that exceed 31 bits.
    overflow: Option<Range<u64>>,
    filters: Option<Filters>,
}

/// The changed-path Bloom filters of a file.
struct Filters {
    /// The file offset of the table of filter ends, which are relative to the first filter.
    index: u64,
    /// The file offsets of the filters.
    data: Range<u64>,
    settings: bloom::Settings,
}

impl Layer {
    /// Opens a file that extends the files before it; `None` if it does not exist.
    pub(super) fn open(path: &Path, cache: &Rc<BlockCache>, hash: Kind, before: &[Layer]) -> Result<Option<Self>> {
        let Some(file) = BlockFile::open(path, cache)? else { return Ok(None) };
        let mut header = [0; HEADER as usize];
        file.read_exact(0, &mut header)?;
        let id_version = if hash == Kind::Sha1 { 1 } else { 2 };
        let [b'C', b'G', b'P', b'H', 1, found, chunks, bases] = header else {
            return Err(file.corrupt("it is not a commit-graph of version 1"));
        };
        if found != id_version || usize::from(bases) != before.len() {
            return Err(file.corrupt(format!(
                "it has ids of version {found} and {bases} base files, expected version {id_version} and {}",
                before.len()
            )));
        }
        let chunks = Chunks::read(&file, HEADER, chunks)?;
        let fan_out = chunks.require(&file, *b"OIDF", FAN_OUT)?.start;
        let count = file.u32(fan_out.saturating_add(FAN_OUT).saturating_sub(4))?;
        let stride = hash.len_in_bytes() as u64;
        let all = |each: u64| each.saturating_mul(count.into());
        let ids = chunks.require(&file, *b"OIDL", all(stride))?.start;
        let data = chunks.require(&file, *b"CDAT", all(stride.saturating_add(16)))?.start;
        let corrected_dates = chunks.find(*b"GDA2").filter(|chunk| chunk.end.saturating_sub(chunk.start) >= all(4));
        let first = before.last().map_or(0, |last| last.first.saturating_add(last.table.count));
        let filters = Filters::open(&file, &chunks, all(4))?;
        Ok(Some(Self {
            table: IdTable { fan_out, ids, stride, count, hash },
            first,
            data,
            edges: chunks.find(*b"EDGE"),
            corrected_dates: corrected_dates.map(|chunk| chunk.start),
            overflow: chunks.find(*b"GDO2"),
            filters,
            file,
        }))
    }

    /// Returns the position of the first commit.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Returns whether the file has corrected commit dates.
    pub(super) fn has_corrected_dates(&self) -> bool {
        self.corrected_dates.is_some()
    }

    /// Returns the position of a commit.
    pub(super) fn find(&self, id: &oid) -> Result<Option<u32>> {
        Ok(self.table.position(&self.file, id)?.map(|position| position.saturating_add(self.first)))
    }

    /// Returns the id of the commit at a position.
    pub(super) fn id(&self, position: u32) -> Result<ObjectId> {
        self.table.id(&self.file, self.local(position)?)
    }

    /// Returns the commit at a position.
    pub(super) fn commit(&self, position: u32, has_corrected_dates: bool) -> Result<GraphCommit> {
        let position = self.local(position)?;
        let size = self.table.stride.saturating_add(16);
        let mut bytes = [0; 32 + 16];
        let bytes = bytes.get_mut(..usize::try_from(size).unwrap_or_default()).unwrap_or_default();
        self.file.read_exact(self.data.saturating_add(size.saturating_mul(position.into())), bytes)?;
        let (tree, rest) = bytes.split_at_checked(self.table.hash.len_in_bytes()).unwrap_or_default();
        let tree = ObjectId::try_from(tree).map_err(|error| self.file.corrupt(error))?;
        let mut numbers = rest.chunks_exact(4).map(|bytes| bytes.try_into().map_or(0, u32::from_be_bytes));
        let mut number = || numbers.next().unwrap_or_default();
        let (one, two, level_and_date, low) = (number(), number(), number(), number());
        let mut parents = Vec::new();
        if one != NO_PARENT {
            parents.push(Position(one));
        }
        match two {
            NO_PARENT => {}
            edge if edge & FLAG != 0 => self.extra_parents(edge & !FLAG, &mut parents)?,
            two => parents.push(Position(two)),
        }
        let date = u64::from(level_and_date & 3).wrapping_shl(u32::BITS) | u64::from(low);
        let level = level_and_date.wrapping_shr(2);
        let generation = match self.corrected_dates.filter(|_| has_corrected_dates) {
            Some(table) => Some(self.corrected_date(table, position, date)?),
            // Git before 2.19 wrote no levels.
            None => (level > 0).then_some(level.into()),
        };
        Ok(GraphCommit { tree, parents, date: i64::try_from(date).unwrap_or(i64::MAX), generation })
    }

    fn corrected_date(&self, table: u64, position: u32, date: u64) -> Result<u64> {
        let offset = self.file.u32(table.saturating_add(u64::from(position).saturating_mul(4)))?;
        if offset & FLAG == 0 {
            return Ok(date.saturating_add(offset.into()));
        }
        let at = u64::from(offset & !FLAG).saturating_mul(8);
        let offset = match &self.overflow {
            Some(overflow) if at < overflow.end.saturating_sub(overflow.start) => {
                self.file.u64(overflow.start.saturating_add(at))?
            }
            _ => return Err(self.file.corrupt("a corrected commit date is outside of its table")),
        };
        Ok(date.saturating_add(offset))
    }

    /// Reads the second and further parents of an octopus merge.
    fn extra_parents(&self, first: u32, parents: &mut Vec<Position>) -> Result<()> {
        let Some(edges) = &self.edges else { return Err(self.file.corrupt("it has no chunk EDGE")) };
        let mut at = edges.start.saturating_add(u64::from(first).saturating_mul(4));
        while at < edges.end && parents.len() < MAX_PARENTS {
            let edge = self.file.u32(at)?;
            parents.push(Position(edge & !FLAG));
            if edge & FLAG != 0 {
                return Ok(());
            }
            at = at.saturating_add(4);
        }
        Err(self.file.corrupt("a list of parents has no end"))
    }

    /// Returns whether a commit certainly did not change a path; `None` if there is no filter for it.
    pub(super) fn leaves_unchanged(&self, position: u32, keys: &PathKeys) -> Result<Option<bool>> {
        let Some(filters) = &self.filters else { return Ok(None) };
        let position = self.local(position)?;
        let entry = filters.index.saturating_add(u64::from(position).saturating_mul(4));
        let start = if position == 0 { 0 } else { self.file.u32(entry.saturating_sub(4))? };
        let end = self.file.u32(entry)?;
        let size = filters.data.end.saturating_sub(filters.data.start);
        if start > end || u64::from(end) > size {
            return Err(self.file.corrupt(format!("filter {position} spans {start} to {end} of {size} bytes")));
        }
        let length = end.saturating_sub(start);
        if length == 0 || length > bloom::MAX_SIZE {
            return Ok(None);
        }
        let mut filter = vec![0; length as usize];
        self.file.read_exact(filters.data.start.saturating_add(start.into()), &mut filter)?;
        Ok(Some(!keys.may_be_in(&filter, &filters.settings)))
    }

    fn local(&self, position: u32) -> Result<u32, Error> {
        let local = position.checked_sub(self.first).filter(|local| *local < self.table.count);
        local.ok_or_else(|| self.file.corrupt(format!("it has no commit {position}")))
    }
}

impl Filters {
    /// Opens the filters of a file; `None` if it has no filters of a known version.
    fn open(file: &BlockFile, chunks: &Chunks, index_size: u64) -> Result<Option<Self>> {
        let (Some(index), Some(data)) = (chunks.find(*b"BIDX"), chunks.find(*b"BDAT")) else { return Ok(None) };
        let at = |offset: u64| data.start.saturating_add(offset);
        if index.end.saturating_sub(index.start) < index_size || data.end < at(bloom::HEADER) {
            return Err(file.corrupt("its chunk of Bloom filters is too short"));
        }
        let settings = bloom::Settings::new(file.u32(at(0))?, file.u32(at(4))?);
        let data = at(bloom::HEADER)..data.end;
        Ok(settings.map(|settings| Self { index: index.start, data, settings }))
    }
}
