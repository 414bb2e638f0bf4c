//! The documents whose vectors are nearest to that of a query.
//!
//! The search is exact: it compares the query with every vector of its space, up to [`MAX_SCANNED`] bytes of them. An approximate
//! index would be faster beyond that, and would lose results for a principal that may find little, as it selects the nearest
//! before rules are applied. So beyond that only documents are compared that match by their words.
//!
//! Documents are filtered in the order of their similarity until enough are found: what the filter rejects takes no place.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, params};

use super::vector::Vector;
use super::vector_store::VectorSpace;
use crate::search::database::IndexError;
use crate::search::lookup::{Candidate, Conditions, interruptible};
use crate::search::store::SourceId;

/// The number of documents that are found.
pub(in crate::search) const MAX_NEAREST: usize = 100;
/// The bytes of vectors that are compared with a query.
const MAX_SCANNED: u64 = 64 << 20;
/// The number of vectors between two comparisons of the time.
const CHECK_INTERVAL: usize = 1024;

/// A query by its vector.
#[derive(Clone, Debug)]
pub(in crate::search) struct NearestQuery {
    pub(super) vector: Vector,
    pub(super) space: VectorSpace,
    /// The sources whose documents have vectors.
    pub(super) sources: Vec<SourceId>,
    /// The size of all vectors of the space, in bytes.
    pub(super) size: u64,
}

/// A document that is near, by its nearest passage.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::search) struct Nearest {
    pub(in crate::search) id: i64,
    pub(in crate::search) source: SourceId,
    pub(in crate::search) path: String,
    pub(in crate::search) uri: String,
    /// The number of its nearest passage.
    pub(in crate::search) passage: i64,
}

/// The nearest documents.
#[derive(Debug, Default)]
pub(in crate::search) struct NearestResult {
    /// The nearest first.
    pub(in crate::search) found: Vec<Nearest>,
    /// Whether the time was over before all were found.
    pub(in crate::search) is_partial: bool,
}

/// A passage with its similarity: the most similar is the largest, of equal ones the one with the smallest ids.
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
    /// Whether every vector is compared, not only those of documents that match by their words.
    pub(in crate::search) fn is_exact(&self) -> bool {
        self.size <= MAX_SCANNED
    }

    /// Finds the nearest of all documents.
    pub(in crate::search) fn find(
        &self,
        connection: &Connection,
        conditions: &Conditions,
        deadline: Instant,
        filter: &mut impl FnMut(SourceId, &str) -> Option<String>,
    ) -> Result<NearestResult, IndexError> {
        let (mut scored, mut is_partial) = (Vec::new(), false);
        let mut statement =
            connection.prepare_cached("SELECT document, passage, vector FROM vectors WHERE space = ?1")?;
        let mut rows = statement.query([self.space.id()])?;
        loop {
            let Some(next) = interruptible(rows.next().map_err(IndexError::from))? else {
                is_partial = true;
                break;
            };
            let Some(row) = next else { break };
            scored.push(self.score(row)?);
            if scored.len().is_multiple_of(CHECK_INTERVAL) && Instant::now() >= deadline {
                is_partial = true;
                break;
            }
        }
        let mut result = self.select(connection, scored, conditions, deadline, filter)?;
        result.is_partial |= is_partial;
        Ok(result)
    }

    /// Finds the nearest of documents that match by their words.
    pub(in crate::search) fn find_among(
        &self,
        connection: &Connection,
        candidates: &[Candidate],
        conditions: &Conditions,
        deadline: Instant,
        filter: &mut impl FnMut(SourceId, &str) -> Option<String>,
    ) -> Result<NearestResult, IndexError> {
        let mut statement = connection
            .prepare_cached("SELECT document, passage, vector FROM vectors WHERE document = ?1 AND space = ?2")?;
        let mut scored = Vec::new();
        for candidate in candidates {
            let mut rows = statement.query(params![candidate.id, self.space.id()])?;
            while let Some(Some(row)) = interruptible(rows.next().map_err(IndexError::from))? {
                scored.push(self.score(row)?);
            }
        }
        self.select(connection, scored, conditions, deadline, filter)
    }

    fn score(&self, row: &rusqlite::Row<'_>) -> Result<ScoredPassage, IndexError> {
        let (document, passage) = (row.get(0)?, row.get(1)?);
        let vector = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let similarity = self.vector.similarity(vector);
        let similarity = similarity.ok_or_else(|| IndexError::Damaged("a vector has other dimensions".to_owned()))?;
        Ok(ScoredPassage { similarity, document, passage })
    }

    /// The first documents that pass the conditions and the filter.
    fn select(
        &self,
        connection: &Connection,
        scored: Vec<ScoredPassage>,
        conditions: &Conditions,
        deadline: Instant,
        filter: &mut impl FnMut(SourceId, &str) -> Option<String>,
    ) -> Result<NearestResult, IndexError> {
        let mut statement = connection.prepare_cached(
            "SELECT d.source, d.path FROM documents d JOIN embedded e ON e.document = d.id AND e.space = ?2
             WHERE d.id = ?1
               AND (?3 IS NULL OR d.kind = ?3 OR substr(d.kind, 1, length(?3) + 1) = ?3 || '/')
               AND (?4 IS NULL OR d.language = ?4)
               AND (?5 = 0 OR d.audience = 0 OR d.audience & ?5 != 0)",
        )?;
        let (mut left, mut seen) = (BinaryHeap::from(scored), HashSet::new());
        let mut result = NearestResult::default();
        while let Some(ScoredPassage { document: id, passage, .. }) = left.pop() {
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
            let Conditions { kind, language, audience } = conditions;
            let row = statement.query_row(params![id, self.space.id(), kind, language, audience], |row| {
                Ok((SourceId(row.get(0)?), row.get::<_, String>(1)?))
            });
            let Some(row) = interruptible(row.optional().map_err(IndexError::from))? else {
                result.is_partial = true;
                break;
            };
            let Some((source, path)) = row.filter(|(source, _)| self.sources.contains(source)) else { continue };
            if let Some(uri) = filter(source, &path) {
                result.found.push(Nearest { id, source, path, uri, passage });
            }
        }
        Ok(result)
    }
}
