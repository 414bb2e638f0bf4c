//! Candidates: the documents that a lookup ranks, and the conditions on them.

use std::cmp::Ordering;

use super::source::SourceId;

/// The conditions on documents.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// A MIME type, or its part before the slash.
    pub(super) kind: Option<String>,
    pub(super) language: Option<String>,
    /// An audience as bits, as documents have it; 0 for all.
    pub(super) audience: u8,
}

/// A match, ordered by rank: the best is the smallest.
#[derive(Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) score: f64,
    pub(super) uri: String,
    pub(super) id: i64,
    pub(super) source: SourceId,
    pub(super) path: String,
    /// The number of the passage that is nearest to the query, if it was found by its vector.
    pub(super) nearest_passage: Option<i64>,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        // FTS5's scores are negative: the better, the smaller.
        self.score.total_cmp(&other.score).then_with(|| self.uri.cmp(&other.uri))
    }
}
