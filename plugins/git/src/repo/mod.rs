//! A repository, opened for reading.

mod format;
mod reachability;

use crate::block_cache::BlockCache;
use crate::budget::{self, Budget};
use crate::commit_graph::CommitGraph;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::learned::Learned;
use crate::odb::Odb;
use crate::refs::{RefFilter, Refs};
use format::Format;
use gix_hash::ObjectId;
use mcp_provider::Limits;
use mcp_provider::keyvalue::Store;
use std::cell::{Cell, OnceCell};
use std::collections::HashSet;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The divisor of the walks' time: a call that takes longer than the quotient stores what it learned. A shorter walk is
/// fast without it.
const LEARNING_SHARE: u32 = 10;

/// The size of pack indexes from which a repository counts as large: some 35,000 objects, as several thousand commits
/// have.
const LARGE_INDEXES: u64 = 1 << 20;

/// A repository, opened for reading.
///
/// A repository stays open between calls if the host reuses the instance. Objects are immutable, so their data are
/// cached; refs and everything else are read in each call.
pub(crate) struct Repository {
    layout: Layout,
    format: Format,
    ref_filter: RefFilter,
    blocks: Rc<BlockCache>,
    commit_graph: OnceCell<Option<CommitGraph>>,
    learned: Learned,
    /// When the current call began.
    call_start: Cell<Instant>,
    /// The time that the walks of one call may take.
    max_time: Duration,
    #[cfg(test)]
    max_reads: Option<usize>,
    #[cfg(test)]
    max_steps: usize,
    /// The object database.
    pub(crate) odb: Odb,
}

impl Repository {
    /// Opens the repository in a directory. `max_object_size` limits the size of objects, in bytes; `ref_filter`
    /// selects the served refs.
    pub(crate) fn open(dir: &Path, max_object_size: u64, ref_filter: RefFilter) -> Result<Self> {
        let layout = Layout::locate(dir)?;
        let format = match format::read(&layout.common_dir)? {
            Some(format) => format,
            // Git writes a config into every repository, but does not require it.
            None => layout.check(dir).map(|()| Format::default())?,
        };
        let blocks = BlockCache::new();
        let odb = Odb::new(layout.objects(), &blocks, format.hash, max_object_size);
        Ok(Self {
            layout,
            format,
            ref_filter,
            blocks,
            commit_graph: OnceCell::new(),
            learned: Learned::nothing(odb.hash()),
            call_start: Cell::new(Instant::now()),
            max_time: budget::max_time(Limits::current()),
            #[cfg(test)]
            max_reads: None,
            #[cfg(test)]
            max_steps: usize::MAX,
            odb,
        })
    }

    /// Sets the cache for the results of history walks.
    pub(crate) fn keep_learned_in(&mut self, store: Rc<dyn Store>) {
        self.learned = Learned::in_store(store, self.hash());
    }

    /// Returns the cache of the results of history walks.
    pub(crate) fn learned(&self) -> &Learned {
        &self.learned
    }

    /// Begins a call of the provider: its time starts now.
    pub(crate) fn begin_call(&self) {
        self.call_start.set(Instant::now());
        self.learned.begin_call();
    }

    /// Ends a call of the provider. What its walks learned is stored if the call took more than 1/[`LEARNING_SHARE`] of
    /// their time.
    pub(crate) fn end_call(&self) {
        if self.call_start.get().elapsed() > self.max_time.checked_div(LEARNING_SHARE).unwrap_or_default() {
            self.learned.save();
        }
    }

    /// Returns a budget of a number of steps, and of the remaining time of the call.
    pub(crate) fn budget(&self, steps: usize) -> Budget {
        #[cfg(test)]
        let steps = steps.min(self.max_steps);
        let budget = Budget::new(steps, self.call_start.get(), self.max_time);
        #[cfg(test)]
        let budget = budget.ended_by_reads(self.max_reads.map(|max| (Rc::clone(&self.odb.reads), max)));
        budget
    }

    /// Returns the hash kind of the object ids.
    pub(crate) fn hash(&self) -> gix_hash::Kind {
        self.odb.hash()
    }

    /// Returns the current refs.
    pub(crate) fn refs(&self) -> Refs<'_> {
        Refs::new(&self.layout, &self.blocks, self.format.hash, self.format.ref_storage, &self.ref_filter)
    }

    /// Returns the commit-graph, which is opened on first use.
    pub(crate) fn commit_graph(&self) -> Option<&CommitGraph> {
        let open = || CommitGraph::open(&self.layout.objects(), self.format.hash);
        self.commit_graph.get_or_init(|| if self.format.has_commit_graph { open() } else { None }).as_ref()
    }

    /// Returns whether the repository lacks a commit-graph and is so large that histories need one.
    pub(crate) fn lacks_commit_graph(&self) -> bool {
        let len = || -> std::io::Result<u64> {
            let indexes = std::fs::read_dir(self.layout.objects().join("pack"))?.filter_map(Result::ok);
            let indexes = indexes.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "idx"));
            Ok(indexes
                .filter_map(|entry| entry.metadata().ok())
                .map(|metadata| metadata.len())
                .fold(0, u64::saturating_add))
        };
        self.commit_graph().is_none() && len().is_ok_and(|len| len > LARGE_INDEXES)
    }

    /// Returns the current shallow commits, whose parents are not in the repository.
    pub(crate) fn shallow(&self) -> Result<HashSet<ObjectId>> {
        let list = self.layout.shallow()?;
        let lines = list.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let damaged = |error| Error::corrupt(self.layout.shallow_path().display(), error);
        lines.map(|line| ObjectId::from_hex(line).map_err(damaged)).collect()
    }

    /// Sets the time that the walks of one call may take.
    #[cfg(test)]
    pub(crate) fn set_max_time(&mut self, max_time: Duration) {
        self.max_time = max_time;
    }

    /// For tests: ends the walks of a call after `max` objects were read, in place of a time.
    #[cfg(test)]
    pub(crate) fn set_max_reads(&mut self, max: usize) {
        self.max_reads = Some(max);
        self.max_time = Duration::ZERO;
    }

    /// For tests: ends each walk after `max` steps.
    #[cfg(test)]
    pub(crate) fn set_max_steps(&mut self, max: usize) {
        self.max_steps = max;
    }

    /// Returns the number of bytes of packs, indexes and packed refs read so far.
    #[cfg(test)]
    pub(crate) fn bytes_read(&self) -> u64 {
        self.blocks.bytes_read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gix_object::Kind;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Creates a repository with one pack of incompressible blobs, and returns their ids.
    fn large(dir: &Path, blobs: usize, each: usize) -> Vec<ObjectId> {
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(dir).args(["-c", "core.compression=0"]).args(args);
            git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            git
        };
        assert!(git(&["init", "--quiet", "--bare"]).status().unwrap().success());
        let mut import = git(&["fast-import", "--quiet", "--force", "--export-marks=marks"]);
        let mut import = import.stdin(Stdio::piped()).current_dir(dir).spawn().unwrap();
        let mut stdin = std::io::BufWriter::new(import.stdin.take().unwrap());
        let mut state = 1u64;
        for blob in 1..=blobs {
            write!(stdin, "blob\nmark :{blob}\ndata {each}\n").unwrap();
            for _ in 0..each / 8 {
                // An xorshift generator: fast, and random enough to be incompressible.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                stdin.write_all(&state.to_le_bytes()).unwrap();
            }
            writeln!(stdin).unwrap();
        }
        drop(stdin);
        assert!(import.wait().unwrap().success());
        let marks = std::fs::read_to_string(dir.join("marks")).unwrap();
        let mut ids: Vec<_> = marks.lines().map(|line| line.split_once(' ').unwrap()).collect();
        ids.sort_unstable_by_key(|(mark, _)| mark.trim_start_matches(':').parse::<usize>().unwrap());
        ids.into_iter().map(|(_, id)| ObjectId::from_hex(id.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn reading_an_object_costs_what_it_holds_and_not_what_the_pack_does() {
        let dir = tempfile::tempdir().unwrap();
        let ids = large(dir.path(), 2000, 16 * 1024);
        for id in [ids[0], ids[1234], ids[1999]] {
            let repository = Repository::open(dir.path(), 1 << 20, RefFilter::default()).unwrap();
            assert_eq!(repository.odb.size(&id).unwrap(), Some(16 * 1024));
            assert_eq!(repository.odb.get(&id, Kind::Blob).unwrap().len(), 16 * 1024);
            let read = repository.bytes_read();
            assert!(read <= 128 * 1024, "{read} bytes were read");
        }
    }
}
