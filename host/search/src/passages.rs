//! Candidate passages of documents for a context.

use std::time::Instant;

use rusqlite::{Connection, OptionalExtension};

use super::context::estimate_tokens;
use super::document::DocumentEntry;
use super::error::{IndexError, interruptible};
use super::query::Candidate;
use super::snippet::SoughtTerms;
use super::status::SourceId;

/// The maximum number of candidate passages of one document.
const MAX_OF_DOCUMENT: usize = 6;
/// The maximum number of documents whose beginnings are candidates, without a query.
const MAX_DOCUMENTS: usize = 200;
/// The maximum number of matching words in a reason.
const MAX_REASONS: usize = 8;
/// The minimum share of the query that the nearest passage is considered to contain.
const SHARE_OF_NEAREST: f64 = 0.5;
/// The divisor of the part of the budget for the beginning of one document.
const SHARE_OF_DOCUMENT: usize = 4;

/// A found passage.
#[derive(Debug)]
pub(super) struct FoundPassage {
    pub(super) source: SourceId,
    pub(super) path: String,
    pub(super) entry: DocumentEntry,
    pub(super) text: String,
    /// The first line.
    pub(super) line: usize,
    /// The relevance, from 0 to 1.
    pub(super) relevance: f64,
    /// The words of the query in the passage.
    pub(super) words: Vec<String>,
    /// Whether it was found by the vector of the query.
    pub(super) is_nearest: bool,
}

/// The found passages of a lookup.
#[derive(Debug, Default)]
pub(super) struct PassagesResult {
    pub(super) found: Vec<FoundPassage>,
    /// Whether the lookup was interrupted.
    pub(super) is_partial: bool,
}

/// Returns the passages of a document that match most of the query, among the passages that are compared before the
/// deadline. `rank` is the rank of the document, from 0 to 1. The nearest passage by its vector counts as containing at
/// least half of the query.
pub(super) fn matching(
    connection: &Connection,
    candidate: &Candidate,
    rank: f64,
    terms: &SoughtTerms<'_>,
    end: Instant,
) -> Result<PassagesResult, IndexError> {
    let mut result = PassagesResult::default();
    let Some(entry) = entry(connection, candidate.id)? else { return Ok(result) };
    let mut statement =
        connection.prepare_cached("SELECT line, text, number FROM passages WHERE document = ?1 ORDER BY number")?;
    let mut rows = statement.query([candidate.id])?;
    let mut is_first = true;
    loop {
        let Some(next) = interruptible(rows.next().map_err(IndexError::from))? else {
            result.is_partial = true;
            break;
        };
        let Some(row) = next else { break };
        if !is_first && Instant::now() >= end {
            result.is_partial = true;
            break;
        }
        is_first = false;
        let text = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        let matching = terms.of_passage(text);
        let is_nearest = candidate.nearest_passage == Some(row.get(2)?);
        #[allow(clippy::cast_precision_loss, reason = "a share")]
        let share = matching.len() as f64 / terms.count().max(1) as f64;
        let share = if is_nearest { share.max(SHARE_OF_NEAREST) } else { share };
        if share > 0.0 {
            let words = matching.iter().take(MAX_REASONS).map(|term| term.text.clone()).collect();
            let found = &mut result.found;
            found.push(FoundPassage {
                source: candidate.source,
                path: candidate.path.clone(),
                entry: entry.clone(),
                text: text.to_owned(),
                line: row.get(0)?,
                relevance: f64::midpoint(rank, share),
                is_nearest,
                words,
            });
            found.sort_by(|one, other| other.relevance.total_cmp(&one.relevance).then(one.line.cmp(&other.line)));
            found.truncate(MAX_OF_DOCUMENT);
        }
    }
    Ok(result)
}

/// Returns the beginnings of the documents with the highest priority; among equal priorities, the most recently changed
/// first.
pub(super) fn by_priority(
    connection: &Connection,
    audience: u8,
    budget: usize,
    deadline: Instant,
    mut filter: impl FnMut(SourceId, &str) -> Option<String>,
) -> Result<PassagesResult, IndexError> {
    let transaction = connection.unchecked_transaction()?;
    let mut statement = transaction.prepare_cached(
        "SELECT id, source, path, ?1 = 0 OR audience = 0 OR audience & ?1 != 0 FROM documents
         ORDER BY priority DESC, modified DESC, id",
    )?;
    let mut rows = statement.query([audience])?;
    let mut result = PassagesResult::default();
    while result.found.len() < MAX_DOCUMENTS {
        let Some(next) = interruptible(rows.next().map_err(IndexError::from))? else {
            result.is_partial = true;
            break;
        };
        let Some(row) = next else { break };
        let (id, source, path) = (row.get(0)?, SourceId(row.get(1)?), row.get::<_, String>(2)?);
        if row.get(3)? && filter(source, &path).is_some() {
            let Some(loaded) = interruptible(load_beginning(&transaction, id, budget / SHARE_OF_DOCUMENT))? else {
                result.is_partial = true;
                break;
            };
            if let Some((entry, text)) = loaded {
                let (line, relevance, words, is_nearest) = (1, 0.0, Vec::new(), false);
                result.found.push(FoundPassage { source, path, entry, text, line, relevance, words, is_nearest });
            }
        }
        if Instant::now() >= deadline {
            result.is_partial = true;
            break;
        }
    }
    Ok(result)
}

/// A document with the first passages that fit the budget, at least one. None if it has no text.
fn load_beginning(
    connection: &Connection,
    id: i64,
    budget: usize,
) -> Result<Option<(DocumentEntry, String)>, IndexError> {
    let Some(entry) = entry(connection, id)? else { return Ok(None) };
    let mut statement = connection.prepare_cached("SELECT text FROM passages WHERE document = ?1 ORDER BY number")?;
    let mut rows = statement.query([id])?;
    let (mut text, mut tokens) = (String::new(), 0_usize);
    while let Some(row) = rows.next()? {
        let passage = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        // At least the number of tokens of the whole text.
        tokens = tokens.saturating_add(estimate_tokens(passage));
        if !text.is_empty() && tokens > budget {
            break;
        }
        text.push_str(passage);
    }
    Ok((!text.is_empty()).then_some((entry, text)))
}

fn entry(connection: &Connection, id: i64) -> Result<Option<DocumentEntry>, IndexError> {
    let mut statement = connection.prepare_cached("SELECT entry FROM details WHERE document = ?1")?;
    let entry: Option<String> = statement.query_row([id], |row| row.get(0)).optional()?;
    let parse = |entry: String| serde_json::from_str(&entry).map_err(|error| IndexError::Damaged(error.to_string()));
    entry.map(parse).transpose()
}
