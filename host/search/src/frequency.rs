//! Document frequencies: the numbers of documents with a term.
//!
//! Up to [`MAX_COUNTED`] documents are counted. For a more frequent term, the number is estimated from the density of
//! the first [`MAX_IN_SAMPLE`] documents in each of [`SAMPLES`] ranges of ids. The ranges are evenly distributed over
//! all ids, because the documents of one plugin have adjacent ids. So the time for a term is bounded for any frequency,
//! and the same index yields the same estimate.

use rusqlite::{Connection, params};

use super::error::IndexError;

/// The maximum number of documents that are counted one by one.
const MAX_COUNTED: u32 = 4096;
/// The number of samples.
const SAMPLES: u32 = 8;
/// The maximum number of documents that are counted in a sample.
const MAX_IN_SAMPLE: u32 = 256;

/// A range of document ids: the first one and the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdRange {
    first: i64,
    last: i64,
}

impl IdRange {
    /// The ids of an index.
    pub(super) fn of(connection: &Connection) -> Result<Self, IndexError> {
        let mut statement = connection.prepare_cached(
            "SELECT coalesce((SELECT min(id) FROM documents), 0), coalesce((SELECT max(id) FROM documents), 0)",
        )?;
        Ok(statement.query_row([], |row| Ok(Self { first: row.get(0)?, last: row.get(1)? }))?)
    }

    /// The number of ids, including unused ones.
    #[allow(clippy::cast_precision_loss, reason = "a density")]
    fn len(self) -> f64 {
        self.last.saturating_sub(self.first).saturating_add(1) as f64
    }

    /// The sample with this number: a part of the ids.
    fn sample(self, number: u32) -> Self {
        let len = self.last.saturating_sub(self.first).saturating_add(1);
        let at = |number: u32| {
            let part = i128::from(len).saturating_mul(number.into()).checked_div(SAMPLES.into()).unwrap_or_default();
            self.first.saturating_add(i64::try_from(part).unwrap_or(i64::MAX))
        };
        Self { first: at(number), last: at(number.saturating_add(1)).saturating_sub(1) }
    }
}

/// The number of documents that match an FTS5 expression of one term. With `is_prefix` there are no samples, because
/// each lookup of a prefix is expensive.
pub(super) fn document_frequency(
    connection: &Connection,
    expression: &str,
    is_prefix: bool,
    ids: IdRange,
) -> Result<u64, IndexError> {
    let (count, last) = count(connection, expression, ids, MAX_COUNTED)?;
    if count < MAX_COUNTED {
        return Ok(count.into());
    }
    if is_prefix {
        return Ok(round(estimate(count, last, MAX_COUNTED, ids)));
    }
    let mut sum = 0.0;
    for number in 0..SAMPLES {
        let sample = ids.sample(number);
        let (count, last) = self::count(connection, expression, sample, MAX_IN_SAMPLE)?;
        sum += estimate(count, last, MAX_IN_SAMPLE, sample);
    }
    Ok(round(sum).max(MAX_COUNTED.into()))
}

/// Counts matches in order of their ids, up to a bound. Also returns the id of the last match.
fn count(connection: &Connection, expression: &str, ids: IdRange, max: u32) -> Result<(u32, i64), IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*), coalesce(max(id), 0) FROM (
             SELECT rowid AS id FROM terms WHERE terms MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid LIMIT ?4)",
    )?;
    let columns = params![expression, ids.first, ids.last, max];
    Ok(statement.query_row(columns, |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// The estimated number of matches in a range of ids, from the number of counted matches, which end at `last` if there
/// are more.
fn estimate(count: u32, last: i64, max: u32, ids: IdRange) -> f64 {
    if count < max { count.into() } else { f64::from(count) / IdRange { last, ..ids }.len() * ids.len() }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion saturates, and it is not negative"
)]
fn round(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index whose documents have these texts by id.
    fn index(texts: impl Iterator<Item = (i64, String)>) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        let tables = "CREATE TABLE documents (id INTEGER PRIMARY KEY); CREATE VIRTUAL TABLE terms USING fts5(text);";
        connection.execute_batch(tables).unwrap();
        let transaction = connection.transaction().unwrap();
        for (id, text) in texts {
            transaction.execute("INSERT INTO documents (id) VALUES (?1)", [id]).unwrap();
            transaction.execute("INSERT INTO terms (rowid, text) VALUES (?1, ?2)", params![id, text]).unwrap();
        }
        transaction.commit().unwrap();
        connection
    }

    fn frequency(connection: &Connection, term: &str) -> u64 {
        let ids = IdRange::of(connection).unwrap();
        document_frequency(connection, term, term.ends_with('*'), ids).unwrap()
    }

    #[test]
    fn what_few_documents_have_is_counted() {
        let connection = index((0..1500).map(|id| (id * 3 - 70, if id < 1000 { "fox" } else { "dog" }.to_owned())));
        assert_eq!(frequency(&connection, "fox"), 1000);
        assert_eq!(frequency(&connection, "dog"), 500);
        assert_eq!(frequency(&connection, "cat"), 0);
        assert_eq!(frequency(&index(std::iter::empty()), "cat"), 0);
    }

    #[test]
    fn what_many_documents_have_is_estimated_wherever_they_are() {
        let text = |id: i64| {
            let mut words = vec!["all"];
            words.extend((id % 3 == 0).then_some("third"));
            // Words at the beginning and at the end.
            words.extend((id < 5000).then_some("early"));
            words.extend((id >= 15_000).then_some("late"));
            words.join(" ")
        };
        let connection = index((0..20_000).map(|id| (id, text(id))));
        for (term, expected) in
            [("all", 20_000.0), ("third", 6667.0), ("early", 5000.0), ("late", 5000.0), ("thir*", 6667.0)]
        {
            #[allow(clippy::cast_precision_loss)]
            let found = frequency(&connection, term) as f64;
            assert!((found / expected - 1.0).abs() < 0.05, "{term}: {found} of {expected}");
        }
    }
}
