//! The commit-graph: tree, parents, date and generation number of commits, without reading the commits.
//!
//! Version 1 of `gitformat-commit-graph`, read in place: one file, or a chain of files in which each file extends the
//! ones before it. A commit is identified by its position in the whole chain, and refers to its parents by their
//! positions. The parents of a commit in the graph are in the graph, too. Commits newer than the graph are not in it.
//!
//! If the graph has changed-path Bloom filters ([`bloom`]), a filter may prove that a commit did not change a path,
//! compared with its first parent.
//!
//! The graph is an optimization: a graph that cannot be opened is ignored with a warning. Its data are not verified, as
//! in git; objects that are read are verified.

pub(crate) mod bloom;
mod layer;

use crate::block_cache::BlockCache;
use crate::error::{Error, Result};
use crate::files;
use bloom::PathKeys;
use gix_hash::{Kind, ObjectId, oid};
use layer::Layer;
use std::num::NonZeroUsize;
use std::path::Path;

/// The capacity of the cache of the graph's blocks, in bytes. A walk visits them in random order, so it is fast only if
/// all of them fit: 200,000 commits take 14 MiB with filters.
const CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(16 * 1024 * 1024).unwrap();

/// The maximum size of the list of the files of a chain, in bytes.
const MAX_CHAIN_SIZE: u64 = 64 * 1024;

/// The maximum number of files in a chain. Git merges files, so a chain has few.
const MAX_LAYERS: usize = 64;

/// The position of a commit in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Position(u32);

/// A commit of the graph.
pub(crate) struct GraphCommit {
    /// The root tree.
    pub(crate) tree: ObjectId,
    /// The parents.
    pub(crate) parents: Vec<Position>,
    /// The committer's date, in seconds since the epoch.
    pub(crate) date: i64,
    /// The generation number, greater than the number of every parent; `None` if the graph has none.
    pub(crate) generation: Option<u64>,
}

/// The commit-graph of a repository.
pub(crate) struct CommitGraph {
    /// The files, the base first.
    layers: Vec<Layer>,
    /// Whether generation numbers are corrected commit dates (version 2) or topological levels (version 1). A number
    /// can be compared only with numbers of the same kind.
    has_corrected_dates: bool,
}

impl CommitGraph {
    /// Opens the graph in an object directory; `None` if there is no readable graph.
    pub(crate) fn open(objects: &Path, hash: Kind) -> Option<Self> {
        Self::try_open(objects, hash).unwrap_or_else(|error| {
            log::warn!("commit-graph ignored: {error}");
            None
        })
    }

    fn try_open(objects: &Path, hash: Kind) -> Result<Option<Self>> {
        let cache = BlockCache::with_capacity(CACHE_SIZE);
        let info = objects.join("info");
        let mut layers = Vec::new();
        if let Some(layer) = Layer::open(&info.join("commit-graph"), &cache, hash, &[])? {
            layers.push(layer);
        } else {
            let directory = info.join("commit-graphs");
            let chain = files::read(&directory.join("commit-graph-chain"), MAX_CHAIN_SIZE)?.unwrap_or_default();
            for line in chain.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).take(MAX_LAYERS) {
                let name = ObjectId::from_hex(line).map_err(|error| Error::corrupt(directory.display(), error))?;
                let layer = Layer::open(&directory.join(format!("graph-{name}.graph")), &cache, hash, &layers)?;
                // If a file is missing, the chain ends before it.
                let Some(layer) = layer else { break };
                layers.push(layer);
            }
        }
        let has_corrected_dates = layers.iter().all(Layer::has_corrected_dates);
        Ok((!layers.is_empty()).then_some(Self { layers, has_corrected_dates }))
    }

    /// Returns the position of a commit; `None` if it is not in the graph.
    pub(crate) fn find(&self, id: &oid) -> Result<Option<Position>> {
        for layer in self.layers.iter().rev() {
            if let Some(position) = layer.find(id)? {
                return Ok(Some(Position(position)));
            }
        }
        Ok(None)
    }

    /// Returns the id of a commit.
    pub(crate) fn id(&self, position: Position) -> Result<ObjectId> {
        self.layer(position)?.id(position.0)
    }

    /// Returns a commit.
    pub(crate) fn commit(&self, position: Position) -> Result<GraphCommit> {
        self.layer(position)?.commit(position.0, self.has_corrected_dates)
    }

    /// Returns whether a commit certainly did not change a path, compared with its first parent; a root commit is
    /// compared with an empty tree. `None` if the graph has no filter for the commit.
    pub(crate) fn leaves_unchanged(&self, position: Position, keys: &PathKeys) -> Result<Option<bool>> {
        self.layer(position)?.leaves_unchanged(position.0, keys)
    }

    fn layer(&self, position: Position) -> Result<&Layer> {
        let layer = self.layers.iter().rev().find(|layer| position.0 >= layer.first());
        layer.ok_or_else(|| Error::corrupt("the commit-graph", format!("it has no commit {}", position.0)))
    }
}
