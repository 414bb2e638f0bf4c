//! An approximate index of vectors: a hierarchical navigable small world graph (Malkov and Yashunin, 2018) in memory,
//! by the crate `hnsw_rs`.
//!
//! Its nodes are texts, each with the digest of the sent text and its vector. When a text is found, its passages are
//! looked up in the database. So a passage that is edited, removed, or no longer embedded is not found from that moment
//! on, and a node is never changed. Nodes without passages are skipped until the graph is rebuilt (`graph_updater`).
//!
//! An insertion takes about a millisecond, on a separate thread of low priority that holds the lock for one node at a
//! time. The graph is built with a fixed seed by one thread: the same vectors in the same order give the same graph,
//! and therefore the same results. After a restart the graph is built again.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use hnsw_rs::anndists::dist::Distance;
use hnsw_rs::hnsw::{Hnsw, Point};
use mcp_host_base::threads;
use parking_lot::RwLock;
use tokio::sync::mpsc;

use super::vector::{Vector, similarity, stored_len};
use super::vector_store::TextDigest;
use crate::error::IndexError;

/// The maximum number of neighbours of a node in each layer, and twice this number in the lowest layer.
const MAX_CONNECTIONS: usize = 16;
/// The maximum number of layers.
const MAX_LAYERS: usize = 16;
/// The number of nodes that are considered as neighbours of a new node.
const CONSTRUCTION_WIDTH: usize = 100;
/// The memory of a node besides its vector, in bytes, for its links and their lists. Measured.
const NODE_LEN: usize = 2900;
/// The number of nodes between two checks of the deadline.
const CHECK_INTERVAL: usize = 1024;
/// The maximum number of batches that wait for the thread.
const MAX_QUEUED: usize = 2;
/// The nice value of the thread, relative to other threads.
const NICE: i32 = 10;

/// The number of vectors that fit in `memory` bytes.
pub(super) fn capacity(memory: u64, dimensions: usize) -> usize {
    let node = stored_len(dimensions).saturating_add(NODE_LEN);
    usize::try_from(memory).unwrap_or(usize::MAX).checked_div(node).unwrap_or_default()
}

/// The distance of two stored vectors, from 0 to 2.
struct CosineDistance;

impl Distance<u8> for CosineDistance {
    fn eval(&self, one: &[u8], other: &[u8]) -> f32 {
        // Rounding may make the similarity exceed 1. Vectors of different dimensions have the maximum distance.
        similarity(one, other).map_or(2.0, |similarity| (1.0 - similarity).max(0.0))
    }
}

/// A text with the similarity of its vector. The most similar text is the largest; among equal ones, the text with the
/// smallest digest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScoredText {
    pub(super) similarity: f32,
    pub(super) digest: TextDigest,
}

impl Eq for ScoredText {}

impl PartialOrd for ScoredText {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScoredText {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.similarity.total_cmp(&other.similarity).then_with(|| other.digest.cmp(&self.digest))
    }
}

/// The nodes. The id of a node in the graph is the index of its digest.
struct Nodes {
    graph: Hnsw<'static, u8, CosineDistance>,
    digests: Vec<TextDigest>,
}

impl Nodes {
    fn new() -> Self {
        let graph = Hnsw::new(MAX_CONNECTIONS, 0, MAX_LAYERS, CONSTRUCTION_WIDTH, CosineDistance);
        Self { graph, digests: Vec::new() }
    }

    fn insert(&mut self, digest: TextDigest, vector: &Vector) {
        self.graph.insert((vector.as_bytes(), self.digests.len()));
        self.digests.push(digest);
    }

    fn scored(&self, id: usize, similarity: f32) -> Option<ScoredText> {
        Some(ScoredText { similarity, digest: *self.digests.get(id)? })
    }
}

enum Job {
    Insert(Vec<(TextDigest, Vector)>),
    /// All texts are inserted, or have no room.
    Complete,
    Clear,
}

/// The graph. Dropping it stops the thread.
pub(super) struct VectorGraph {
    nodes: Arc<RwLock<Nodes>>,
    is_complete: Arc<AtomicBool>,
    jobs: mpsc::Sender<Job>,
}

impl VectorGraph {
    /// Creates an empty graph, and starts its thread.
    pub(super) fn start() -> Result<Self, IndexError> {
        let (jobs, waiting) = mpsc::channel(MAX_QUEUED);
        let (nodes, is_complete) = (Arc::new(RwLock::new(Nodes::new())), Arc::new(AtomicBool::new(false)));
        let (inserted, completed) = (nodes.clone(), is_complete.clone());
        let thread = thread::Builder::new().name("mcp-vectors".to_owned());
        let started = thread.spawn(move || {
            threads::lower_priority(NICE);
            run(waiting, &inserted, &completed);
        });
        started.map_err(|error| IndexError::Failed(format!("the thread of vectors cannot be started: {error}")))?;
        Ok(Self { nodes, is_complete, jobs })
    }

    /// Enqueues texts for insertion.
    pub(super) async fn insert(&self, texts: Vec<(TextDigest, Vector)>) -> Result<(), IndexError> {
        self.is_complete.store(false, Ordering::SeqCst);
        self.send(Job::Insert(texts)).await
    }

    /// Reports that all texts have been inserted.
    pub(super) async fn complete(&self) -> Result<(), IndexError> {
        self.send(Job::Complete).await
    }

    /// Removes all texts.
    pub(super) async fn clear(&self) -> Result<(), IndexError> {
        self.is_complete.store(false, Ordering::SeqCst);
        self.send(Job::Clear).await
    }

    async fn send(&self, job: Job) -> Result<(), IndexError> {
        self.jobs.send(job).await.map_err(|_| IndexError::Closed)
    }

    /// Whether all texts that have room are inserted.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::SeqCst)
    }

    /// About `count` of the nearest texts to a vector. None if the lock is not free before the deadline.
    pub(super) fn nearest(&self, query: &Vector, count: usize, deadline: Instant) -> Option<BinaryHeap<ScoredText>> {
        let nodes = self.nodes.try_read_until(deadline)?;
        let found = nodes.graph.search(query.as_bytes(), count, count);
        Some(found.into_iter().filter_map(|found| nodes.scored(found.d_id, 1.0 - found.distance)).collect())
    }

    /// The texts that were compared before the deadline, and whether the deadline ended the comparison.
    pub(super) fn all(&self, query: &Vector, deadline: Instant) -> (BinaryHeap<ScoredText>, bool) {
        let Some(nodes) = self.nodes.try_read_until(deadline) else { return (BinaryHeap::new(), true) };
        let (mut scored, points) = (Vec::with_capacity(nodes.digests.len()), nodes.graph.get_point_indexation());
        for layer in 0..=usize::from(points.get_max_level_observed()) {
            for point in points.get_layer_iterator(layer) {
                scored.extend(score(&nodes, query, &point));
                if scored.len().is_multiple_of(CHECK_INTERVAL) && Instant::now() >= deadline {
                    return (scored.into(), true);
                }
            }
        }
        (scored.into(), false)
    }
}

fn score(nodes: &Nodes, query: &Vector, point: &Point<'static, u8>) -> Option<ScoredText> {
    nodes.scored(point.get_origin_id(), query.similarity(point.get_v())?)
}

/// Runs jobs until the graph is dropped.
fn run(mut jobs: mpsc::Receiver<Job>, nodes: &RwLock<Nodes>, is_complete: &AtomicBool) {
    while let Some(job) = jobs.blocking_recv() {
        match job {
            Job::Insert(texts) => {
                for (digest, vector) in texts {
                    if jobs.is_closed() {
                        return;
                    }
                    nodes.write().insert(digest, &vector);
                }
            }
            Job::Complete => is_complete.store(true, Ordering::SeqCst),
            Job::Clear => {
                // The old nodes are dropped after the lock is released.
                let old = std::mem::replace(&mut *nodes.write(), Nodes::new());
                drop(old);
            }
        }
    }
}
