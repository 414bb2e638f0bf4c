//! Reciprocal rank fusion: merging of two rankings.
//!
//! The score of a document is the sum of 1 / ([`K`] + rank) over the rankings that contain it, with ranks from 1.
//! Scores of the two rankings cannot be compared, and are not used (Cormack, Clarke and Büttcher, SIGIR 2009).

use std::collections::HashMap;

use super::nearest::Nearest;
use crate::query::Candidate;

/// The constant of the formula. A larger value reduces the weight of the first ranks.
const K: f64 = 60.0;

/// Merges the documents that match by their words, best first, with the nearest documents. The new scores are negative
/// like FTS5's: the smaller, the better.
pub(crate) fn fuse(lexical: Vec<Candidate>, nearest: Vec<Nearest>) -> Vec<Candidate> {
    let mut fused: HashMap<i64, Candidate> = HashMap::new();
    for (rank, candidate) in (1_u32..).zip(lexical) {
        fused.insert(candidate.id, Candidate { score: -reciprocal(rank), ..candidate });
    }
    for (rank, Nearest { id, source, path, uri, passage, .. }) in (1_u32..).zip(nearest) {
        let new = || Candidate { score: 0.0, uri, id, source, path, nearest_passage: None };
        let candidate = fused.entry(id).or_insert_with(new);
        candidate.score -= reciprocal(rank);
        candidate.nearest_passage = Some(passage);
    }
    let mut fused: Vec<_> = fused.into_values().collect();
    fused.sort_unstable();
    fused
}

fn reciprocal(rank: u32) -> f64 {
    (K + f64::from(rank)).recip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::SourceId;

    fn lexical(ids: &[i64]) -> Vec<Candidate> {
        let candidate = |id: &i64| Candidate {
            score: -1.0,
            uri: format!("a:///{id}"),
            id: *id,
            source: SourceId(1),
            path: id.to_string(),
            nearest_passage: None,
        };
        ids.iter().map(candidate).collect()
    }

    fn nearest(ids: &[i64]) -> Vec<Nearest> {
        let one = |id: &i64| Nearest {
            id: *id,
            source: SourceId(1),
            path: id.to_string(),
            uri: format!("a:///{id}"),
            passage: 7,
            similarity: 0.5,
        };
        ids.iter().map(one).collect()
    }

    fn fused(by_words: &[i64], by_vectors: &[i64]) -> Vec<(i64, Option<i64>)> {
        let all = fuse(lexical(by_words), nearest(by_vectors));
        all.into_iter().map(|one| (one.id, one.nearest_passage)).collect()
    }

    #[test]
    fn what_both_rankings_have_is_above_what_one_has() {
        assert_eq!(fused(&[1, 2, 3], &[4, 3]), [(3, Some(7)), (1, None), (4, Some(7)), (2, None)]);
    }

    #[test]
    fn one_ranking_alone_keeps_its_order() {
        assert_eq!(fused(&[3, 1, 2], &[]), [(3, None), (1, None), (2, None)]);
        assert_eq!(fused(&[], &[3, 1, 2]), [(3, Some(7)), (1, Some(7)), (2, Some(7))]);
    }
}
