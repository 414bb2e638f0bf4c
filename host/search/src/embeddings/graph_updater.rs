//! The task that keeps the approximate index consistent with the vectors in the database.
//!
//! There is no graph while a query can be compared with every vector. Beyond [`MAX_SCANNED`] bytes of vectors, the task
//! inserts the texts that the graph lacks, and rebuilds the graph when most of its texts no longer exist. When the
//! index has changed, the task compares the database with the graph, page by page, after a pause of [`PAUSE_FACTOR`]
//! times the last comparison.
//!
//! `memory` bounds the graph. Texts beyond the bound are not inserted: the most recently added ones, or any texts after
//! a restart. Their resources are found by their words, and lexical matches are still compared by their vectors.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::throttle::Throttle;
use mcp_host_config::search::Embeddings;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::vector::stored_len;
use super::vector_graph::{VectorGraph, capacity};
use super::vector_store::{self, TextDigest, VectorSpace};
use crate::error::IndexError;
use crate::index::Index;

/// The maximum size of vectors, in bytes, up to which a query is compared with each vector.
pub(super) const MAX_SCANNED: u64 = 64 << 20;
/// The number of digests that are compared, and of vectors that are inserted, at a time.
const PAGE: usize = 4096;
const BATCH: usize = 256;
/// The interval at which the index is checked for changes.
const INTERVAL: Duration = Duration::from_millis(500);
/// The pause after a comparison, as a multiple of its duration, and the minimum and maximum pause.
const PAUSE_FACTOR: u32 = 4;
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// The interval of warnings.
const WARN_INTERVAL: Duration = Duration::from_hours(1);

/// The task that updates the graph.
pub(super) struct GraphUpdater {
    index: Arc<Index>,
    space: VectorSpace,
    dimensions: usize,
    /// The size of vectors, in bytes, above which there is a graph.
    max_scanned: u64,
    /// The number of texts that the graph has room for.
    capacity: usize,
    /// The graph. None while a query can be compared with every vector.
    graph: watch::Sender<Option<Arc<VectorGraph>>>,
    /// The texts in the graph.
    known: HashSet<TextDigest>,
    failure_log: Throttle,
    bound_log: Throttle,
}

impl GraphUpdater {
    pub(super) fn new(
        settings: &Embeddings,
        index: Arc<Index>,
        space: VectorSpace,
        max_scanned: u64,
        graph: watch::Sender<Option<Arc<VectorGraph>>>,
    ) -> Self {
        let dimensions = settings.dimensions.get();
        Self {
            index,
            space,
            dimensions,
            max_scanned,
            capacity: capacity(settings.memory.bytes(), dimensions),
            graph,
            known: HashSet::new(),
            failure_log: Throttle::new(WARN_INTERVAL),
            bound_log: Throttle::new(WARN_INTERVAL),
        }
    }

    /// Keeps the graph consistent until the future is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let (changes, began) = (self.index.change_count(), Instant::now());
            match self.update().await {
                Ok(()) => {}
                Err(IndexError::Closed) => return,
                Err(error) => {
                    if let Some(suppressed) = self.failure_log.record() {
                        let error = error.to_string();
                        tracing::warn!(
                            target: log_target::SEARCH, error, suppressed,
                            "the approximate index of vectors cannot be updated; that is retried"
                        );
                    }
                }
            }
            sleep(began.elapsed().saturating_mul(PAUSE_FACTOR).clamp(MIN_PAUSE, MAX_PAUSE)).await;
            while self.index.change_count() == changes && began.elapsed() < MAX_PAUSE {
                sleep(INTERVAL).await;
            }
        }
    }

    /// Counts the vectors, and updates the graph.
    pub(super) async fn update(&mut self) -> Result<(), IndexError> {
        let space = self.space;
        let count = self.index.write(move |connection| vector_store::count_vectors(connection, space)).await?;
        let len = u64::try_from(stored_len(self.dimensions)).unwrap_or(u64::MAX);
        let size = count.saturating_mul(len);
        let graph = match self.graph.borrow().clone() {
            _ if size <= self.max_scanned => None,
            Some(graph) => Some(graph),
            None => Some(Arc::new(VectorGraph::start()?)),
        };
        self.graph.send_replace(graph.clone());
        let Some(graph) = graph else {
            self.known = HashSet::new();
            return Ok(());
        };
        let (live, left_out) = self.insert_missing(&graph).await?;
        if self.known.len().saturating_sub(live) > live {
            self.known = HashSet::new();
            graph.clear().await?;
            self.insert_missing(&graph).await?;
        }
        if left_out > 0
            && let Some(suppressed) = self.bound_log.record()
        {
            tracing::warn!(
                target: log_target::SEARCH, left_out, suppressed,
                "there are more vectors than `search.embeddings.memory` has room for: those that are left out are found by their words"
            );
        }
        graph.complete().await
    }

    /// Inserts the texts that the graph lacks, until it is full. Returns the number of texts in both, and the
    /// number of omitted texts.
    async fn insert_missing(&mut self, graph: &VectorGraph) -> Result<(usize, usize), IndexError> {
        let (space, mut live, mut left_out) = (self.space, 0_usize, 0_usize);
        let mut after = Some(None);
        while let Some(last) = after {
            let reading = move |connection: &mut _| vector_store::digests(connection, space, last, PAGE);
            let page = self.index.write(reading).await?;
            after = page.last().filter(|_| page.len() >= PAGE).map(|last| Some(*last));
            let mut missing: Vec<_> = page.iter().filter(|digest| !self.known.contains(*digest)).copied().collect();
            let room = self.capacity.saturating_sub(self.known.len());
            left_out = left_out.saturating_add(missing.len().saturating_sub(room));
            missing.truncate(room);
            live = live.saturating_add(page.iter().filter(|digest| self.known.contains(*digest)).count());
            for batch in missing.chunks(BATCH).map(<[_]>::to_vec) {
                let found =
                    self.index.write(move |connection| vector_store::find_vectors(connection, space, &batch)).await?;
                live = live.saturating_add(found.len());
                self.known.extend(found.iter().map(|(digest, _)| *digest));
                graph.insert(found).await?;
            }
        }
        Ok((live, left_out))
    }
}
