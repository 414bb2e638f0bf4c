//! The documents with the nearest vectors to a query.
//!
//! Up to [`MAX_SCANNED`] bytes of vectors, the query is compared with each vector. Above that, an approximate index
//! ([`VectorGraph`]) returns the nearest texts. Documents are filtered in the order of their similarity until enough
//! are found, so a document that the filter rejects takes no place. If too few texts of the approximate index pass the
//! filter, more are requested from it, and then the query is compared with all vectors in memory. So a principal that
//! may find only a few documents still finds the nearest of them. If the time ends first, the result is partial.
//!
//! [`MAX_SCANNED`]: super::graph_updater::MAX_SCANNED

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, params};

use super::vector::Vector;
use super::vector_graph::{ScoredText, VectorGraph};
use super::vector_store::{self, VectorSpace};
use crate::error::{IndexError, interruptible};
use crate::query::{Candidate, Conditions};
use crate::status::SourceId;

/// The maximum number of documents that are found.
pub(crate) const MAX_NEAREST: usize = 100;
/// The numbers of texts that are requested from the approximate index, one after the other, before the query is
/// compared with all vectors.
const WIDTHS: [usize; 2] = [800, 1600];
/// The number of vectors between two checks of the deadline.
const CHECK_INTERVAL: usize = 1024;

/// A query with its vector.
#[derive(Clone)]
pub(crate) struct NearestQuery {
    pub(super) vector: Vector,
    pub(super) space: VectorSpace,
    /// The sources whose documents have vectors.
    pub(super) sources: Vec<SourceId>,
    /// The approximate index. None while the query can be compared with every vector.
    pub(super) graph: Option<Arc<VectorGraph>>,
}

/// The conditions, the filter and the deadline of a lookup.
pub(crate) struct NearestLookup<'a, F> {
    pub(crate) connection: &'a Connection,
    pub(crate) conditions: &'a Conditions,
    pub(crate) deadline: Instant,
    /// Returns the URI of a document that may be found.
    pub(crate) filter: &'a mut F,
}

/// A near document, with its nearest passage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Nearest {
    pub(crate) id: i64,
    pub(crate) source: SourceId,
    pub(crate) path: String,
    pub(crate) uri: String,
    /// The number of the nearest passage.
    pub(crate) passage: i64,
    /// The similarity of this passage.
    pub(crate) similarity: f32,
}

/// The nearest documents.
#[derive(Debug, Default)]
pub(crate) struct NearestResult {
    /// The documents, nearest first.
    pub(crate) found: Vec<Nearest>,
    /// Whether the deadline passed before all documents were found.
    pub(crate) is_partial: bool,
}

impl NearestResult {
    /// Returns the result of a wider search, unless the deadline left it with fewer documents.
    fn improved(self, wider: Self) -> Self {
        match wider.is_partial && wider.found.len() < self.found.len() {
            true => Self { is_partial: true, ..self },
            false => wider,
        }
    }
}

/// A passage with its similarity. The most similar passage is the largest; among equal ones, the passage with the
/// smallest ids.
#[derive(Debug, PartialEq)]
struct ScoredPassage {
    similarity: f32,
    document: i64,
    passage: i64,
}

impl Eq for ScoredPassage {}

impl PartialOrd for ScoredPassage {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScoredPassage {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_place = || (other.document, other.passage).cmp(&(self.document, self.passage));
        self.similarity.total_cmp(&other.similarity).then_with(by_place)
    }
}

impl NearestQuery {
    /// Finds the nearest documents.
    pub(crate) fn find(
        &self,
        lookup: &mut NearestLookup<'_, impl FnMut(SourceId, &str) -> Option<String>>,
    ) -> Result<NearestResult, IndexError> {
        match &self.graph {
            None => self.find_exactly(lookup),
            Some(graph) => self.find_in_graph(graph, lookup),
        }
    }

    /// Compares the documents that match by their words, too, because the approximate index may have missed them.
    pub(crate) fn complete(
        &self,
        nearest: Vec<Nearest>,
        matching: &[Candidate],
        lookup: &mut NearestLookup<'_, impl FnMut(SourceId, &str) -> Option<String>>,
    ) -> Result<NearestResult, IndexError> {
        if self.graph.is_none() {
            return Ok(NearestResult { found: nearest, is_partial: false });
        }
        let NearestResult { mut found, is_partial } = self.find_among(matching, lookup)?;
        // All passages of these documents were compared.
        let compared: HashSet<i64> = found.iter().map(|nearest| nearest.id).collect();
        found.extend(nearest.into_iter().filter(|nearest| !compared.contains(&nearest.id)));
        found.sort_by(|one, other| other.similarity.total_cmp(&one.similarity).then(one.id.cmp(&other.id)));
        found.truncate(MAX_NEAREST);
        Ok(NearestResult { found, is_partial })
    }

    /// Compares the query with every vector in the database.
    fn find_exactly(
        &self,
        lookup: &mut NearestLookup<'_, impl FnMut(SourceId, &str) -> Option<String>>,
    ) -> Result<NearestResult, IndexError> {
        let (mut scored, mut is_partial) = (Vec::new(), false);
        let mut statement =
            lookup.connection.prepare_cached("SELECT document, passage, vector FROM vectors WHERE space = ?1")?;
        let mut rows = statement.query([self.space.id()])?;
        loop {
            let Some(next) = interruptible(rows.next().map_err(IndexError::from))? else {
                is_partial = true;
                break;
            };
            let Some(row) = next else { break };
            scored.push(self.score(row)?);
            if scored.len().is_multiple_of(CHECK_INTERVAL) && Instant::now() >= lookup.deadline {
                is_partial = true;
                break;
            }
        }
        let mut result = self.select(descending(scored), lookup)?;
        result.is_partial |= is_partial;
        Ok(result)
    }

    fn find_in_graph(
        &self,
        graph: &VectorGraph,
        lookup: &mut NearestLookup<'_, impl FnMut(SourceId, &str) -> Option<String>>,
    ) -> Result<NearestResult, IndexError> {
        let is_incomplete = !graph.is_complete();
        let mut result = NearestResult::default();
        // If the graph finds fewer, there may still be others, because parts of the graph may be hard to reach.
        for width in WIDTHS {
            let Some(texts) = graph.nearest(&self.vector, width, lookup.deadline) else {
                result.is_partial = true;
                return Ok(result);
            };
            let passages = self.passages(lookup.connection, texts);
            result = result.improved(self.select(passages, lookup)?);
            if result.found.len() >= MAX_NEAREST || result.is_partial {
                result.is_partial |= is_incomplete;
                return Ok(result);
            }
        }
        let (texts, is_partial) = graph.all(&self.vector, lookup.deadline);
        let passages = self.passages(lookup.connection, texts);
        result = result.improved(self.select(passages, lookup)?);
        result.is_partial |= is_partial || is_incomplete;
        Ok(result)
    }

    /// The passages with these texts, in the order of their similarity.
    fn passages<'a>(
        &'a self,
        connection: &'a Connection,
        mut texts: BinaryHeap<ScoredText>,
    ) -> impl Iterator<Item = Result<ScoredPassage, IndexError>> + 'a {
        let next_text = std::iter::from_fn(move || texts.pop());
        next_text.flat_map(move |ScoredText { similarity, digest }| {
            let (passages, error) = match vector_store::passages_of_text(connection, self.space, &digest) {
                Ok(passages) => (passages, None),
                Err(error) => (Vec::new(), Some(error)),
            };
            let scored = move |(document, passage)| Ok(ScoredPassage { similarity, document, passage });
            passages.into_iter().map(scored).chain(error.map(Err))
        })
    }

    /// Finds the nearest of the documents that match by their words.
    fn find_among(
        &self,
        candidates: &[Candidate],
        lookup: &mut NearestLookup<'_, impl FnMut(SourceId, &str) -> Option<String>>,
    ) -> Result<NearestResult, IndexError> {
        let mut statement = lookup
            .connection
            .prepare_cached("SELECT document, passage, vector FROM vectors WHERE document = ?1 AND space = ?2")?;
        let mut scored = Vec::new();
        for candidate in candidates {
            let mut rows = statement.query(params![candidate.id, self.space.id()])?;
            while let Some(Some(row)) = interruptible(rows.next().map_err(IndexError::from))? {
                scored.push(self.score(row)?);
            }
        }
        self.select(descending(scored), lookup)
    }

    fn score(&self, row: &rusqlite::Row<'_>) -> Result<ScoredPassage, IndexError> {
        let (document, passage) = (row.get(0)?, row.get(1)?);
        let vector = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let similarity = self.vector.similarity(vector);
        let similarity = similarity.ok_or_else(|| IndexError::Damaged("a vector has other dimensions".to_owned()))?;
        Ok(ScoredPassage { similarity, document, passage })
    }

    /// The first documents that pass the conditions and the filter, from passages in the order of their similarity.
    fn select(
        &self,
        passages: impl Iterator<Item = Result<ScoredPassage, IndexError>>,
        lookup: &mut NearestLookup<'_, impl FnMut(SourceId, &str) -> Option<String>>,
    ) -> Result<NearestResult, IndexError> {
        let NearestLookup { connection, conditions: Conditions { kind, language, audience }, deadline, .. } = *lookup;
        let mut statement = connection.prepare_cached(
            "SELECT d.source, d.path FROM documents d JOIN embedded e ON e.document = d.id AND e.space = ?2
             WHERE d.id = ?1
               AND (?3 IS NULL OR d.kind = ?3 OR substr(d.kind, 1, length(?3) + 1) = ?3 || '/')
               AND (?4 IS NULL OR d.language = ?4)
               AND (?5 = 0 OR d.audience = 0 OR d.audience & ?5 != 0)",
        )?;
        let (mut result, mut seen) = (NearestResult::default(), HashSet::new());
        for scored in passages {
            let Some(ScoredPassage { document: id, passage, similarity }) = interruptible(scored)? else {
                result.is_partial = true;
                break;
            };
            if !seen.insert(id) {
                continue;
            }
            if result.found.len() >= MAX_NEAREST {
                break;
            }
            if Instant::now() >= deadline {
                result.is_partial = true;
                break;
            }
            let row = statement.query_row(params![id, self.space.id(), kind, language, audience], |row| {
                Ok((SourceId(row.get(0)?), row.get::<_, String>(1)?))
            });
            let Some(row) = interruptible(row.optional().map_err(IndexError::from))? else {
                result.is_partial = true;
                break;
            };
            let Some((source, path)) = row.filter(|(source, _)| self.sources.contains(source)) else { continue };
            if let Some(uri) = (lookup.filter)(source, &path) {
                result.found.push(Nearest { id, source, path, uri, passage, similarity });
            }
        }
        Ok(result)
    }
}

/// The passages in the order of their similarity, computed lazily.
fn descending(scored: Vec<ScoredPassage>) -> impl Iterator<Item = Result<ScoredPassage, IndexError>> {
    let mut left = BinaryHeap::from(scored);
    std::iter::from_fn(move || left.pop().map(Ok))
}
