//! Embeddings: vectors of passages, by which a search finds texts that use other words than the query.
//!
//! An endpoint of the config computes them (`[search.embeddings]`). They are stored in the database of the index,
//! quantised to a byte for each dimension, and belong to a *space*: a digest of everything except the text that a
//! vector depends on. Vectors of two spaces are never compared.
//!
//! | module | subject |
//! |---|---|
//! | `endpoint` | a request to the endpoint |
//! | `vector` | a quantised vector, and the similarity of two |
//! | `vector_store` | the vectors in the index |
//! | `embedder` | the task that computes vectors of indexed documents |
//! | `query_vectors` | vectors of queries |
//! | `vector_graph`, `graph_updater` | an approximate index of vectors in memory; the task that updates it |
//! | `nearest` | the documents with the nearest vectors to a query |
//! | `fusion` | merging of two rankings |
//!
//! # Guarantees
//!
//! - The text of a plugin is sent only if its config enables it, and queries only with `queries = true`. Documents that
//!   the current config of this host excludes are not sent, even if the index contains them. After a reload that
//!   disables a plugin, a request with its text is cancelled.
//! - The log does not quote responses of the endpoint, because they may repeat the request.
//! - Unchanged text is not sent again: a vector is found by the digest of its text.
//! - Without an answer of the endpoint, searches have the lexical results, after `query-timeout` at most.

mod embedder;
mod endpoint;
pub(super) mod fusion;
mod graph_updater;
pub(super) mod nearest;
mod query_vectors;
#[cfg(test)]
mod tests;
mod vector;
mod vector_graph;
pub(super) mod vector_store;

use std::sync::Arc;

use mcp_host_base::task;
use mcp_host_config::search::{Embeddings, Search};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use self::embedder::Embedder;
use self::endpoint::Endpoint;
use self::graph_updater::{GraphUpdater, MAX_SCANNED};
use self::nearest::NearestQuery;
use self::query_vectors::QueryVectors;
use self::vector_graph::VectorGraph;
use self::vector_store::VectorSpace;
use super::index::Index;
use super::status::SourceId;

pub(super) use self::embedder::EmbeddedSource;

/// The embeddings of a host. Dropping it stops the tasks.
pub(super) struct EmbeddingService {
    settings: Embeddings,
    queries: QueryVectors,
    space: VectorSpace,
    /// The plugins whose text is sent.
    sources: watch::Sender<Vec<EmbeddedSource>>,
    graph: watch::Receiver<Option<Arc<VectorGraph>>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl EmbeddingService {
    /// Starts the tasks, if the config has an endpoint. Must be called on a tokio runtime.
    pub(super) fn start(index: &Arc<Index>, search: &Search) -> Option<Self> {
        let settings = search.embeddings.clone()?;
        let endpoint = Arc::new(Endpoint::new(&settings));
        let space = VectorSpace::of(&settings);
        let (sources, graph) = (watch::Sender::default(), watch::Sender::default());
        let embedder = Embedder::new(&settings, endpoint.clone(), index.clone(), space);
        let updater = GraphUpdater::new(&settings, index.clone(), space, MAX_SCANNED, graph.clone());
        let tasks = [task::spawn(embedder.run(sources.subscribe())), task::spawn(updater.run())];
        Some(Self {
            queries: QueryVectors::new(&settings, endpoint, search.saved.iter().map(|saved| saved.query.as_str())),
            settings,
            space,
            sources,
            graph: graph.subscribe(),
            _tasks: tasks.map(AbortOnDropHandle::new),
        })
    }

    /// Whether the service was started with this config.
    pub(super) fn is_of(&self, search: &Search) -> bool {
        search.embeddings.as_ref() == Some(&self.settings)
            && self.queries.are_kept(search.saved.iter().map(|saved| saved.query.as_str()))
    }

    /// Sets the plugins whose text is sent. If the set has changed, a request with text is cancelled.
    pub(super) fn set_sources(&self, sources: Vec<EmbeddedSource>) {
        self.sources.send_if_modified(|old| {
            // A changed plugin has a new state.
            let is_kept = |(old, new): (&EmbeddedSource, &EmbeddedSource)| Arc::ptr_eq(&old.state, &new.state);
            let is_same = old.len() == sources.len() && old.iter().zip(&sources).all(is_kept);
            *old = sources;
            !is_same
        });
    }

    /// The vector of a query, and where it is looked up. None if the query is not sent, or has no answer in time.
    pub(super) async fn query(&self, query: &str) -> Option<NearestQuery> {
        let sources: Vec<SourceId> =
            self.sources.borrow().iter().filter_map(|source| *source.state.id.lock()).collect();
        if sources.is_empty() {
            return None;
        }
        let vector = self.queries.get(query).await?;
        Some(NearestQuery { vector, space: self.space, sources, graph: self.graph.borrow().clone() })
    }
}
