//! Looking up a query in the index.
//!
//! Matches are streamed from the index, each is filtered, and the best ones are kept: what the filter rejects is neither
//! ranked nor counted. A lookup that takes too long is interrupted, and returns what it has found so far.
//!
//! Documents are ranked by BM25, with a match in the name, the title, the description or the path counted twice. The
//! frequencies of terms are those of the whole index; they decide on the order, never on what matches.
//!
//! With the vector of a query, the documents that are nearest to it match as well, and the two rankings are merged
//! (`embeddings`).

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap, HashSet};
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, params};

use super::database::IndexError;
use super::document::{DocumentEntry, Passage};
use super::embeddings::fusion::fuse;
use super::embeddings::nearest::{MAX_NEAREST, Nearest, NearestQuery};
use super::passages::{self, FoundPassage};
use super::query::{Query, Term};
use super::snippet::{Snippet, SnippetFinder, WeightedTerm};
use super::store::SourceId;

/// The number of passages of a document that its snippet is searched for in.
const MAX_PASSAGES: usize = 1024;

/// A lookup.
pub(super) struct Lookup<F> {
    pub(super) query: Query,
    /// The vector of the query. None if it has a phrase, which a result has to have as it is written.
    pub(super) nearest: Option<NearestQuery>,
    pub(super) conditions: Conditions,
    /// The number of hits.
    pub(super) limit: usize,
    pub(super) deadline: Instant,
    /// Returns the URI of a path of a source, if it is to be found.
    pub(super) filter: F,
}

/// The conditions on documents.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// A MIME type, or its part before the slash.
    pub(super) kind: Option<String>,
    pub(super) language: Option<String>,
    /// An audience as bits, as documents have it; 0 for all.
    pub(super) audience: u8,
}

/// A match that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) source: SourceId,
    pub(super) path: String,
    pub(super) entry: DocumentEntry,
    pub(super) snippet: Option<Snippet>,
}

/// The result of a lookup.
#[derive(Debug, Default)]
pub(super) struct LookupResult {
    /// The best matches, best first.
    pub(super) found: Vec<Found>,
    /// The number of matches.
    pub(super) total: u64,
    /// Whether the lookup was interrupted.
    pub(super) is_partial: bool,
}

/// The passages that a lookup has found.
#[derive(Debug, Default)]
pub(super) struct PassagesResult {
    pub(super) found: Vec<FoundPassage>,
    /// Whether the lookup was interrupted.
    pub(super) is_partial: bool,
}

/// The best matches of a query.
#[derive(Default)]
struct Ranking {
    /// The best first.
    best: Vec<Candidate>,
    /// The weights of the terms.
    weights: Vec<f64>,
    total: u64,
    is_partial: bool,
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

impl<F: FnMut(SourceId, &str) -> Option<String>> Lookup<F> {
    /// Runs the lookup.
    pub(super) fn run(mut self, connection: &Connection) -> Result<LookupResult, IndexError> {
        let transaction = connection.unchecked_transaction()?;
        let terms: Vec<Term> = self.query.terms().cloned().collect();
        let Ranking { best, weights, total, is_partial } = self.rank(&transaction, &terms)?;
        let weighted = weighted(&terms, &weights);
        let mut found = Vec::new();
        for candidate in best {
            found.extend(self.load(&transaction, candidate, &weighted)?);
        }
        Ok(LookupResult { found, total, is_partial })
    }

    /// Runs the lookup, and returns the passages that match.
    pub(super) fn run_passages(mut self, connection: &Connection) -> Result<PassagesResult, IndexError> {
        let transaction = connection.unchecked_transaction()?;
        let terms: Vec<Term> = self.query.terms().cloned().collect();
        let Ranking { best, weights, mut is_partial, .. } = self.rank(&transaction, &terms)?;
        let weighted = weighted(&terms, &weights);
        let best_score = best.first().map_or(-1.0, |first| first.score);
        let mut found = Vec::new();
        for candidate in best {
            if Instant::now() >= self.deadline {
                is_partial = true;
                break;
            }
            let rank = candidate.score / best_score;
            match interruptible(passages::matching(&transaction, &candidate, rank, &weighted))? {
                Some(passages) => found.extend(passages),
                None => is_partial = true,
            }
        }
        Ok(PassagesResult { found, is_partial })
    }

    /// Finds the best matches, and weighs the terms.
    fn rank(&mut self, connection: &Connection, terms: &[Term]) -> Result<Ranking, IndexError> {
        let mut ranking = Ranking::default();
        if self.limit == 0 {
            return Ok(ranking);
        }
        let mut nearest = self.scan_nearest(connection, &mut ranking)?;
        let matching = self.rank_by_words(connection, terms, &nearest, &mut ranking)?;
        let Self { nearest: query, conditions, filter, deadline, .. } = self;
        ranking.best = match query {
            None => matching,
            Some(query) => {
                if !query.is_exact() {
                    let among = query.find_among(connection, &matching, conditions, *deadline, filter)?;
                    ranking.is_partial |= among.is_partial;
                    nearest = among.found;
                }
                fuse(matching, nearest)
            }
        };
        ranking.best.truncate(self.limit);
        Ok(ranking)
    }

    /// The documents that are nearest to the query of all, in half of the time.
    fn scan_nearest(&mut self, connection: &Connection, ranking: &mut Ranking) -> Result<Vec<Nearest>, IndexError> {
        let Some(query) = self.nearest.as_ref().filter(|query| query.is_exact()) else { return Ok(Vec::new()) };
        let now = Instant::now();
        let half = now.checked_add(self.deadline.saturating_duration_since(now) / 2).unwrap_or(now);
        let nearest = query.find(connection, &self.conditions, half, &mut self.filter)?;
        ranking.is_partial |= nearest.is_partial;
        Ok(nearest.found)
    }

    /// The documents that match by their words, best first. Counts them, and the nearest ones that do not.
    fn rank_by_words(
        &mut self,
        connection: &Connection,
        terms: &[Term],
        nearest: &[Nearest],
        ranking: &mut Ranking,
    ) -> Result<Vec<Candidate>, IndexError> {
        let mut others: HashSet<i64> = nearest.iter().map(|nearest| nearest.id).collect();
        let mut best = Vec::new();
        if !self.query.is_empty() {
            // Document frequencies, matches and texts are of one state of the index: the caller has a transaction.
            let documents: u64 =
                connection.query_row("SELECT coalesce(sum(documents), 0) FROM sources", [], |row| row.get(0))?;
            match interruptible(self.frequencies(connection, terms))? {
                Some(frequencies) => {
                    let weight = |found: &Option<u64>| found.map_or(1.0, |found| inverse_frequency(found, documents));
                    ranking.weights = frequencies.iter().map(weight).collect();
                    best = self.candidates(connection, &mut others, ranking)?;
                }
                None => ranking.is_partial = true,
            }
        }
        ranking.total = ranking.total.saturating_add(u64::try_from(others.len()).unwrap_or(u64::MAX));
        Ok(best)
    }

    /// The number of documents that each term is in; none where that is not known.
    fn frequencies(&self, connection: &Connection, terms: &[Term]) -> Result<Vec<Option<u64>>, IndexError> {
        let mut statement = connection.prepare_cached("SELECT doc FROM vocabulary WHERE term = ?1")?;
        let mut frequencies = Vec::with_capacity(terms.len());
        for term in terms {
            frequencies.push(match term.is_prefix {
                true => None,
                false => Some(statement.query_row([&term.text], |row| row.get(0)).optional()?.unwrap_or_default()),
            });
        }
        Ok(frequencies)
    }

    /// The best matches, best first. Removes all matches from `others`.
    fn candidates(
        &mut self,
        connection: &Connection,
        others: &mut HashSet<i64>,
        result: &mut Ranking,
    ) -> Result<Vec<Candidate>, IndexError> {
        // The place in the other ranking may lift a match that is not among the first.
        let depth = if self.nearest.is_some() { self.limit.max(MAX_NEAREST) } else { self.limit };
        let mut statement = connection.prepare_cached(
            "SELECT t.rowid, bm25(terms, 2.0, 1.0), d.source, d.path FROM terms t CROSS JOIN documents d ON d.id = t.rowid
             WHERE terms MATCH ?1
               AND (?2 IS NULL OR d.kind = ?2 OR substr(d.kind, 1, length(?2) + 1) = ?2 || '/')
               AND (?3 IS NULL OR d.language = ?3)
               AND (?4 = 0 OR d.audience = 0 OR d.audience & ?4 != 0)",
        )?;
        let Conditions { kind, language, audience } = &self.conditions;
        let mut rows = statement.query(params![self.query.expression(), kind, language, audience])?;
        let mut best = BinaryHeap::new();
        loop {
            let Some(next) = interruptible(rows.next().map_err(IndexError::from))? else {
                result.is_partial = true;
                break;
            };
            let Some(row) = next else { break };
            let (source, path) = (SourceId(row.get(2)?), row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?);
            if let Some(uri) = (self.filter)(source, path) {
                result.total = result.total.saturating_add(1);
                let (id, score, path) = (row.get(0)?, row.get(1)?, path.to_owned());
                others.remove(&id);
                let candidate = Candidate { score, uri, id, source, path, nearest_passage: None };
                if best.len() < depth {
                    best.push(candidate);
                } else if best.peek().is_some_and(|worst| candidate < *worst) {
                    best.pop();
                    best.push(candidate);
                }
            }
            if Instant::now() >= self.deadline {
                result.is_partial = true;
                break;
            }
        }
        Ok(best.into_sorted_vec())
    }

    fn load(
        &self,
        connection: &Connection,
        candidate: Candidate,
        terms: &[WeightedTerm<'_>],
    ) -> Result<Option<Found>, IndexError> {
        let Candidate { id, source, path, nearest_passage, .. } = candidate;
        let mut statement = connection.prepare_cached("SELECT entry FROM details WHERE document = ?1")?;
        let entry: Option<String> =
            retry_interrupted(|| Ok(statement.query_row([id], |row| row.get(0)).optional()?))?;
        let Some(entry) = entry else { return Ok(None) };
        let entry = serde_json::from_str(&entry).map_err(|error| IndexError::Damaged(error.to_string()))?;
        let snippet = match Instant::now() < self.deadline {
            true => interruptible(self.snippet(connection, id, nearest_passage, terms))?.flatten(),
            false => None,
        };
        Ok(Some(Found { source, path, entry, snippet }))
    }

    fn snippet(
        &self,
        connection: &Connection,
        id: i64,
        nearest_passage: Option<i64>,
        terms: &[WeightedTerm<'_>],
    ) -> Result<Option<Snippet>, IndexError> {
        // The first of passages with as many words is shown: the nearest one, if there is one.
        let mut statement = connection
            .prepare_cached("SELECT line, text FROM passages WHERE document = ?1 ORDER BY number IS NOT ?2, number")?;
        let mut rows = statement.query(params![id, nearest_passage])?;
        let mut finder = SnippetFinder::new(terms);
        for _ in 0..MAX_PASSAGES {
            let Some(row) = rows.next()? else { break };
            let text = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            if finder.add(Passage { line: row.get(0)?, text }) || Instant::now() >= self.deadline {
                break;
            }
        }
        Ok(finder.finish())
    }
}

/// The MIME types, or the languages, of the documents that pass the filter, as far as they are found until the deadline.
pub(super) fn values(
    connection: &Connection,
    are_kinds: bool,
    deadline: Instant,
    mut filter: impl FnMut(SourceId, &str) -> bool,
) -> Result<Vec<String>, IndexError> {
    let mut statement = connection.prepare_cached(match are_kinds {
        true => "SELECT source, path, kind FROM documents WHERE kind IS NOT NULL",
        false => "SELECT source, path, language FROM documents WHERE language IS NOT NULL",
    })?;
    let mut rows = statement.query([])?;
    let mut values = BTreeSet::new();
    while let Some(Some(row)) = interruptible(rows.next().map_err(IndexError::from))? {
        let text = |column: usize| Ok::<_, IndexError>(row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?);
        let value = text(2)?;
        // The filter takes longer.
        if !values.contains(value) && filter(SourceId(row.get(0)?), text(1)?) {
            values.insert(value.to_owned());
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    Ok(values.into_iter().collect())
}

/// Returns none if the operation was interrupted.
pub(super) fn interruptible<T>(result: Result<T, IndexError>) -> Result<Option<T>, IndexError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(IndexError::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Repeats a short operation if the interrupt of the one before it reached it.
fn retry_interrupted<T>(mut operation: impl FnMut() -> Result<T, IndexError>) -> Result<T, IndexError> {
    match operation() {
        Err(IndexError::Interrupted) => operation(),
        result => result,
    }
}

fn weighted<'a>(terms: &'a [Term], weights: &[f64]) -> Vec<WeightedTerm<'a>> {
    let weights = weights.iter().copied().chain(std::iter::repeat(1.0));
    terms.iter().zip(weights).map(|(term, weight)| WeightedTerm { term, weight }).collect()
}

/// The weight of a term: the logarithm of its inverse document frequency.
#[allow(clippy::cast_precision_loss, reason = "a weight")]
fn inverse_frequency(found: u64, documents: u64) -> f64 {
    (1.0 + documents as f64 / (found as f64 + 1.0)).ln()
}
