//! BM25 with given term weights: the SQL function `weighted_bm25`.
//!
//! FTS5's own `bm25()` counts the documents that have each phrase before the first result. That is a single step for
//! SQLite: its time is proportional to the number of these documents, and it cannot be interrupted. This function takes
//! the inverse document frequencies as an argument instead ([`frequency`](super::frequency) finds them within bounds).
//! Everything else is the same: `k1` is 1.2, `b` is 0.75, and scores are negative, so the smallest is the best. A match
//! in the first column, which has names, counts twice.

use std::ffi::{CStr, c_int};
use std::ptr;

use rusqlite::{Connection, ffi};

use super::error::IndexError;

/// The saturation of a term's frequency, and the influence of a document's length.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// The weight of a match in the first column. In other columns it is 1.
const NAME_WEIGHT: f64 = 2.0;
const TEXT_WEIGHT: f64 = 1.0;
/// The minimum inverse document frequency, so that terms in more than half of the documents decide only between
/// otherwise equal documents.
const MIN_WEIGHT: f64 = 1e-6;
/// All columns.
const ALL_COLUMNS: c_int = -1;

/// The weight of a phrase (inverse document frequency), by the number of documents with it and of all documents.
#[allow(clippy::cast_precision_loss, reason = "a weight")]
pub(super) fn weight(found: u64, documents: u64) -> f64 {
    let (found, documents) = (found as f64, documents as f64);
    ((documents - found + 0.5) / (found + 0.5)).ln().max(MIN_WEIGHT)
}

/// The second argument of `weighted_bm25`: the weight of each phrase of the expression, in order.
pub(super) fn encode(weights: &[f64]) -> Vec<u8> {
    weights.iter().flat_map(|weight| weight.to_ne_bytes()).collect()
}

/// Adds the function to a connection.
pub(super) fn register(connection: &Connection) -> Result<(), IndexError> {
    // SAFETY: the handle belongs to an open connection, which is borrowed until this returns.
    #[allow(unsafe_code, reason = "the library has no function for this")]
    let code = unsafe { create_function(connection.handle()) };
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()),
    }
}

/// # Safety
///
/// `database` is an open connection that no other thread uses during the call.
#[allow(unsafe_code, reason = "the interface of FTS5 is one of C")]
unsafe fn create_function(database: *mut ffi::sqlite3) -> c_int {
    const QUERY: &CStr = c"SELECT fts5(?1)";
    let mut api: *mut ffi::fts5_api = ptr::null_mut();
    let mut statement = ptr::null_mut();
    // SAFETY: the strings end with a zero byte, and `api` outlives the statement, which writes to it.
    unsafe {
        let prepared = ffi::sqlite3_prepare_v2(database, QUERY.as_ptr(), -1, &raw mut statement, ptr::null_mut());
        if prepared != ffi::SQLITE_OK {
            return prepared;
        }
        ffi::sqlite3_bind_pointer(statement, 1, (&raw mut api).cast(), c"fts5_api_ptr".as_ptr(), None);
        ffi::sqlite3_step(statement);
        let finished = ffi::sqlite3_finalize(statement);
        if finished != ffi::SQLITE_OK {
            return finished;
        }
    }
    // SAFETY: FTS5 has written null or a pointer to its interface, which is valid as long as the connection.
    let Some(create) = (unsafe { api.as_ref() }).and_then(|api| api.xCreateFunction) else {
        return ffi::SQLITE_ERROR;
    };
    // SAFETY: the name ends with a zero byte and is copied; there are no data to free.
    unsafe { create(api, c"weighted_bm25".as_ptr(), ptr::null_mut(), Some(weighted_bm25), None) }
}

/// The function, as FTS5 calls it for a row.
///
/// # Safety
///
/// The pointers are the arguments of an FTS5 auxiliary function.
#[allow(unsafe_code, reason = "the interface of FTS5 is one of C")]
unsafe extern "C" fn weighted_bm25(
    api: *const ffi::Fts5ExtensionApi,
    row: *mut ffi::Fts5Context,
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: FTS5 passes `count` values, and pointers that are valid during this call. The value's bytes are not
    // changed while they are read.
    unsafe {
        let mut weights: &[u8] = &[];
        if count == 1 && !values.is_null() {
            let (bytes, len) = (ffi::sqlite3_value_blob(*values), ffi::sqlite3_value_bytes(*values));
            if !bytes.is_null() {
                weights = std::slice::from_raw_parts(bytes.cast(), usize::try_from(len).unwrap_or_default());
            }
        }
        match api.as_ref().map(|api| score(api, row, weights)) {
            Some(Ok(score)) => ffi::sqlite3_result_double(context, -score),
            Some(Err(code)) => ffi::sqlite3_result_error_code(context, code),
            None => ffi::sqlite3_result_error_code(context, ffi::SQLITE_ERROR),
        }
    }
}

/// The score of a row.
///
/// # Safety
///
/// `row` is the row for which FTS5 calls the function with `api`.
#[allow(unsafe_code, reason = "the interface of FTS5 is one of C")]
unsafe fn score(
    api: &ffi::Fts5ExtensionApi,
    row: *mut ffi::Fts5Context,
    weights: &[u8],
) -> std::result::Result<f64, c_int> {
    let (Some(instances), Some(instance), Some(row_size), Some(total_size), Some(row_count)) =
        (api.xInstCount, api.xInst, api.xColumnSize, api.xColumnTotalSize, api.xRowCount)
    else {
        return Err(ffi::SQLITE_ERROR);
    };
    let weights = weights.as_chunks().0.iter().map(|bytes| f64::from_ne_bytes(*bytes));
    let mut terms: Vec<(f64, f64)> = weights.map(|weight| (weight, 0.0)).collect();
    let (mut count, mut size, mut total, mut rows) = (0, 0, 0, 0);
    // SAFETY: the pointers are arguments of the current call, and each result outlives its call.
    unsafe {
        check(instances(row, &raw mut count))?;
        check(row_size(row, ALL_COLUMNS, &raw mut size))?;
        check(total_size(row, ALL_COLUMNS, &raw mut total))?;
        check(row_count(row, &raw mut rows))?;
    }
    for index in 0..count {
        let (mut phrase, mut column, mut offset) = (0, 0, 0);
        // SAFETY: as above.
        check(unsafe { instance(row, index, &raw mut phrase, &raw mut column, &raw mut offset) })?;
        if let Some((_, frequency)) = usize::try_from(phrase).ok().and_then(|phrase| terms.get_mut(phrase)) {
            *frequency += if column == 0 { NAME_WEIGHT } else { TEXT_WEIGHT };
        }
    }
    #[allow(clippy::cast_precision_loss, reason = "an average")]
    let average = total as f64 / rows.max(1) as f64;
    let length = K1 * (1.0 - B + B * f64::from(size) / average.max(1.0));
    Ok(terms.iter().map(|(weight, frequency)| weight * frequency * (K1 + 1.0) / (frequency + length)).sum())
}

fn check(code: c_int) -> std::result::Result<(), c_int> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_the_same_frequencies_the_scores_are_those_of_fts5() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE VIRTUAL TABLE terms USING fts5(name, text, content='')").unwrap();
        register(&connection).unwrap();
        let texts = ["fox", "a lazy dog and a fox", "dog dog dog", "cat", "a bird", "the end of a tale of a fox"];
        for (id, text) in (1..).zip(texts) {
            let name = if id % 2 == 0 { "fox" } else { "none" };
            connection.execute("INSERT INTO terms (rowid, name, text) VALUES (?1, ?2, ?3)", (id, name, text)).unwrap();
        }
        let documents = u64::try_from(texts.len()).unwrap();
        let weights = encode(&[weight(2, documents), weight(4, documents)]);
        let query =
            "SELECT bm25(terms, 2.0, 1.0), weighted_bm25(terms, ?1) FROM terms WHERE terms MATCH 'dog OR \"fox\"'";
        let mut statement = connection.prepare(query).unwrap();
        let scores = statement.query_map([weights], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let scores: Vec<(f64, f64)> = scores.map(Result::unwrap).collect();
        assert_eq!(scores.len(), 5);
        assert!(scores.iter().all(|(theirs, ours)| *ours < 0.0 && (theirs - ours).abs() < 1e-9), "{scores:?}");
    }

    #[test]
    fn without_a_weight_a_phrase_counts_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE VIRTUAL TABLE terms USING fts5(name, text)").unwrap();
        register(&connection).unwrap();
        connection.execute("INSERT INTO terms (name, text) VALUES ('a', 'fox')", []).unwrap();
        let query = "SELECT weighted_bm25(terms, ?1) FROM terms WHERE terms MATCH 'fox'";
        let score: f64 = connection.query_row(query, [vec![1_u8; 7]], |row| row.get(0)).unwrap();
        assert!(score.abs() < f64::EPSILON);
    }
}
