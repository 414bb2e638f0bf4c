//! Lookup of a query in the index.
//!
//! Matches are streamed from the index and filtered, and the best are kept. A match that the filter rejects is neither
//! ranked nor counted.
//!
//! Documents are ranked by BM25; a match in the name, the title, the description or the path counts twice. The
//! frequency of a term is computed over the whole index. The frequency determines the order of results. For queries
//! with too many matches (`query`), it also determines which terms are looked up; the result is then partial.
//!
//! All steps share one deadline, and each step has a part of the remaining time. A step that runs out of time keeps its
//! findings, and the result is partial. Later steps still have their time.
//!
//! | step | part |
//! |---|---|
//! | ranking | [`RANKING_PART`] of the total; of this, a half for vectors, and then [`FREQUENCY_PART`] of the rest for frequencies |
//! | entries and snippets, or passages, of the best | the rest; each document [`DOCUMENT_PART`] of the time that is left then |
//!
//! With the vector of a query, the nearest documents match, too, and the two rankings are merged (`embeddings`).

use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, params};

use super::bm25;
use super::document::{DocumentEntry, Passage};
use super::embeddings::fusion::fuse;
use super::embeddings::nearest::{MAX_NEAREST, Nearest, NearestLookup, NearestQuery};
use super::error::{IndexError, interruptible};
use super::frequency::{IdRange, document_frequency};
use super::passages::{self, PassagesResult};
use super::query::{Candidate, Conditions};
use super::query::{Query, Term};
use super::snippet::{Snippet, SnippetFinder, SoughtTerms};
use super::status::SourceId;

/// The part of the total time for ranking.
const RANKING_PART: f64 = 0.75;
/// The part of the ranking time for finding the frequencies of words.
const FREQUENCY_PART: f64 = 0.4;
/// The part of the ranking time for comparing vectors.
const VECTORS_PART: f64 = 0.5;
/// The part of the remaining time for the passages of one document, so that a long document leaves time for the next
/// one.
const DOCUMENT_PART: f64 = 0.5;

/// A lookup.
pub(super) struct Lookup<F> {
    pub(super) query: Query,
    /// The vector of the query. None if the query has a phrase, which every result must contain literally.
    pub(super) nearest: Option<NearestQuery>,
    pub(super) conditions: Conditions,
    /// The maximum number of hits.
    pub(super) limit: usize,
    pub(super) deadline: Instant,
    /// Returns the URI of a source's path. None if it must not be found.
    pub(super) filter: F,
}

/// A found document.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) source: SourceId,
    pub(super) path: String,
    pub(super) entry: DocumentEntry,
    pub(super) snippet: Option<Snippet>,
    /// Whether there may be a better snippet, because the time ended before all passages were compared.
    pub(super) is_snippet_partial: bool,
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

/// The best matches of a query.
#[derive(Default)]
struct Ranking {
    /// The candidates, best first.
    best: Vec<Candidate>,
    total: u64,
    is_partial: bool,
}

impl<F: FnMut(SourceId, &str) -> Option<String>> Lookup<F> {
    /// Runs the lookup.
    pub(super) fn run(mut self, connection: &Connection) -> Result<LookupResult, IndexError> {
        let transaction = connection.unchecked_transaction()?;
        let terms: Vec<Term> = self.query.terms().cloned().collect();
        let Ranking { best, total, mut is_partial } = self.rank(&transaction, &terms)?;
        let sought = SoughtTerms::new(&terms);
        let mut found = Vec::new();
        for candidate in best {
            let loaded = match Instant::now() < self.deadline {
                true => interruptible(load(&transaction, candidate, &sought, part_of(self.deadline, DOCUMENT_PART)))?,
                false => None,
            };
            let Some(loaded) = loaded else {
                is_partial = true;
                break;
            };
            is_partial |= loaded.as_ref().is_some_and(|found| found.is_snippet_partial);
            found.extend(loaded);
        }
        Ok(LookupResult { found, total, is_partial })
    }

    /// Runs the lookup, and returns the passages that match.
    pub(super) fn run_passages(mut self, connection: &Connection) -> Result<PassagesResult, IndexError> {
        let transaction = connection.unchecked_transaction()?;
        let terms: Vec<Term> = self.query.terms().cloned().collect();
        let Ranking { best, mut is_partial, .. } = self.rank(&transaction, &terms)?;
        let sought = SoughtTerms::new(&terms);
        let best_score = best.first().map_or(-1.0, |first| first.score);
        let mut found = Vec::new();
        for candidate in best {
            if Instant::now() >= self.deadline {
                is_partial = true;
                break;
            }
            let rank = candidate.score / best_score;
            let end = part_of(self.deadline, DOCUMENT_PART);
            match interruptible(passages::matching(&transaction, &candidate, rank, &sought, end))? {
                Some(passages) => {
                    found.extend(passages.found);
                    is_partial |= passages.is_partial;
                }
                None => is_partial = true,
            }
        }
        Ok(PassagesResult { found, is_partial })
    }

    /// Finds the best matches.
    fn rank(&mut self, connection: &Connection, terms: &[Term]) -> Result<Ranking, IndexError> {
        let mut ranking = Ranking::default();
        if self.limit == 0 {
            return Ok(ranking);
        }
        let end = part_of(self.deadline, RANKING_PART);
        let nearest = self.find_nearest(connection, end, &mut ranking)?;
        let matching = self.rank_by_words(connection, terms, &nearest, end, &mut ranking)?;
        let Self { nearest: query, conditions, filter, .. } = self;
        ranking.best = match query {
            None => matching,
            Some(query) => {
                let mut lookup = NearestLookup { connection, conditions, deadline: end, filter };
                let nearest = query.complete(nearest, &matching, &mut lookup)?;
                ranking.is_partial |= nearest.is_partial;
                fuse(matching, nearest.found)
            }
        };
        ranking.best.truncate(self.limit);
        Ok(ranking)
    }

    /// The nearest documents to the query.
    fn find_nearest(
        &mut self,
        connection: &Connection,
        end: Instant,
        ranking: &mut Ranking,
    ) -> Result<Vec<Nearest>, IndexError> {
        let Self { nearest: Some(query), conditions, filter, .. } = self else { return Ok(Vec::new()) };
        let deadline = part_of(end, VECTORS_PART);
        let nearest = query.find(&mut NearestLookup { connection, conditions, deadline, filter })?;
        ranking.is_partial |= nearest.is_partial;
        Ok(nearest.found)
    }

    /// The documents that match by their words, best first. Counts these documents, and the nearest ones that do not
    /// match by words.
    fn rank_by_words(
        &mut self,
        connection: &Connection,
        terms: &[Term],
        nearest: &[Nearest],
        end: Instant,
        ranking: &mut Ranking,
    ) -> Result<Vec<Candidate>, IndexError> {
        let mut others: HashSet<i64> = nearest.iter().map(|nearest| nearest.id).collect();
        let mut best = Vec::new();
        if !self.query.is_empty() {
            // The caller's transaction makes document frequencies, matches and texts consistent.
            let documents: u64 =
                connection.query_row("SELECT coalesce(sum(documents), 0) FROM sources", [], |row| row.get(0))?;
            match interruptible(frequencies(connection, terms, part_of(end, FREQUENCY_PART)))? {
                Some(frequencies) => {
                    ranking.is_partial |= frequencies.len() < terms.len();
                    let known: HashMap<_, _> = terms.iter().zip(frequencies).collect();
                    let selection = self.query.select(|term| known.get(term).copied());
                    ranking.is_partial |= selection.is_partial;
                    // A term whose frequency could not be found in time is probably frequent.
                    let frequency = |term: &Term| known.get(term).copied().unwrap_or(documents);
                    // A phrase has at most the frequency of its rarest term.
                    let phrase_frequency = |phrase: &[Term]| phrase.iter().map(frequency).min().unwrap_or_default();
                    let weights: Vec<_> = selection
                        .phrases
                        .iter()
                        .map(|phrase| bm25::weight(phrase_frequency(phrase), documents))
                        .collect();
                    best = self.candidates(connection, &selection.expression, &weights, end, &mut others, ranking)?;
                }
                None => ranking.is_partial = true,
            }
        }
        ranking.total = ranking.total.saturating_add(u64::try_from(others.len()).unwrap_or(u64::MAX));
        Ok(best)
    }

    /// The best matches of an FTS5 expression, best first, with these weights of its phrases. Removes all matches from
    /// `others`.
    fn candidates(
        &mut self,
        connection: &Connection,
        expression: &str,
        weights: &[f64],
        end: Instant,
        others: &mut HashSet<i64>,
        result: &mut Ranking,
    ) -> Result<Vec<Candidate>, IndexError> {
        // The rank in the other ranking may lift a match that is not among the first ones.
        let depth = if self.nearest.is_some() { self.limit.max(MAX_NEAREST) } else { self.limit };
        // The conditions are part of the result columns, so that the deadline is also checked between rows that they
        // exclude.
        let mut statement = connection.prepare_cached(
            "SELECT t.rowid, CASE WHEN (?2 IS NULL OR d.kind = ?2 OR substr(d.kind, 1, length(?2) + 1) = ?2 || '/')
                                   AND (?3 IS NULL OR d.language = ?3)
                                   AND (?4 = 0 OR d.audience = 0 OR d.audience & ?4 != 0)
                              THEN weighted_bm25(terms, ?5) END, d.source, d.path
             FROM terms t CROSS JOIN documents d ON d.id = t.rowid WHERE terms MATCH ?1",
        )?;
        let Conditions { kind, language, audience } = &self.conditions;
        let mut rows = statement.query(params![expression, kind, language, audience, bm25::encode(weights)])?;
        let mut best = BinaryHeap::new();
        loop {
            let Some(next) = interruptible(rows.next().map_err(IndexError::from))? else {
                result.is_partial = true;
                break;
            };
            let Some(row) = next else { break };
            let (source, path) = (SourceId(row.get(2)?), row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?);
            if let Some(score) = row.get(1)?
                && let Some(uri) = (self.filter)(source, path)
            {
                result.total = result.total.saturating_add(1);
                let (id, path) = (row.get(0)?, path.to_owned());
                others.remove(&id);
                let candidate = Candidate { score, uri, id, source, path, nearest_passage: None };
                if best.len() < depth {
                    best.push(candidate);
                } else if best.peek().is_some_and(|worst| candidate < *worst) {
                    best.pop();
                    best.push(candidate);
                }
            }
            if Instant::now() >= end {
                result.is_partial = true;
                break;
            }
        }
        Ok(best.into_sorted_vec())
    }
}

/// Loads the displayed data of a match, until a deadline.
fn load(
    connection: &Connection,
    candidate: Candidate,
    terms: &SoughtTerms<'_>,
    end: Instant,
) -> Result<Option<Found>, IndexError> {
    let Candidate { id, source, path, nearest_passage, .. } = candidate;
    let mut statement = connection.prepare_cached("SELECT entry FROM details WHERE document = ?1")?;
    let entry: Option<String> = statement.query_row([id], |row| row.get(0)).optional()?;
    let Some(entry) = entry else { return Ok(None) };
    let entry = serde_json::from_str(&entry).map_err(|error| IndexError::Damaged(error.to_string()))?;
    let (snippet, is_snippet_partial) = find_snippet(connection, id, nearest_passage, terms, end)?;
    Ok(Some(Found { source, path, entry, snippet, is_snippet_partial }))
}

/// Returns the best snippet of a document that was found until the deadline, and whether there may be a better one.
pub(super) fn find_snippet(
    connection: &Connection,
    id: i64,
    nearest_passage: Option<i64>,
    terms: &SoughtTerms<'_>,
    end: Instant,
) -> Result<(Option<Snippet>, bool), IndexError> {
    // Among passages with the same number of words, the first one is shown: the nearest passage, if there is one.
    let mut statement = connection
        .prepare_cached("SELECT line, text FROM passages WHERE document = ?1 ORDER BY number IS NOT ?2, number")?;
    let mut rows = statement.query(params![id, nearest_passage])?;
    let mut finder = SnippetFinder::new(terms);
    let is_partial = loop {
        let Some(next) = interruptible(rows.next().map_err(IndexError::from))? else { break true };
        let Some(row) = next else { break false };
        if finder.has_snippet() && Instant::now() >= end {
            break true;
        }
        let text = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        if finder.add(Passage { line: row.get(0)?, text }) {
            break false;
        }
    };
    Ok((finder.finish(), is_partial))
}

/// The MIME types, or the languages, of the documents that pass the filter. Incomplete if the deadline passes.
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
        // Checked last, because the filter is slower.
        if !values.contains(value) && filter(SourceId(row.get(0)?), text(1)?) {
            values.insert(value.to_owned());
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    Ok(values.into_iter().collect())
}

/// The language of the document at a path of a source; none if there is no such document, or its language is
/// undetermined.
pub(super) fn language(connection: &Connection, source: SourceId, path: &str) -> Result<Option<String>, IndexError> {
    let mut statement = connection.prepare_cached("SELECT language FROM documents WHERE source = ?1 AND path = ?2")?;
    let language: Option<Option<String>> = statement.query_row(params![source.0, path], |row| row.get(0)).optional()?;
    Ok(language.flatten())
}

/// The number of documents with each term. Incomplete if the deadline passes.
fn frequencies(connection: &Connection, terms: &[Term], end: Instant) -> Result<Vec<u64>, IndexError> {
    let ids = IdRange::of(connection)?;
    let mut frequencies = Vec::with_capacity(terms.len());
    for term in terms {
        if Instant::now() >= end {
            break;
        }
        frequencies.push(document_frequency(connection, &term.expression(), term.is_prefix, ids)?);
    }
    Ok(frequencies)
}

/// The end of a step that may take this part of the time until a deadline.
pub(super) fn part_of(deadline: Instant, part: f64) -> Instant {
    let now = Instant::now();
    now.checked_add(deadline.saturating_duration_since(now).mul_f64(part)).unwrap_or(deadline)
}
