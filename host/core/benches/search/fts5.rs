//! The baseline: the same documents in an FTS5 table with the default tokenizer, in transactions of 64.

use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::corpus::Corpus;

const BATCH: usize = 64;

/// The cost of the baseline.
pub(crate) struct Cost {
    pub(crate) took: Duration,
    /// The size of the file.
    pub(crate) size: u64,
}

pub(crate) fn index(corpus: &Corpus) -> Cost {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("alone.sqlite3");
    let mut connection = Connection::open(&file).expect("a database");
    let setup = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
                 CREATE VIRTUAL TABLE texts USING fts5(name, text);";
    connection.execute_batch(setup).expect("a table");
    let began = Instant::now();
    let numbers: Vec<_> = (0..corpus.len()).collect();
    for batch in numbers.chunks(BATCH) {
        let transaction = connection.transaction().expect("a transaction");
        for number in batch {
            let mut insert =
                transaction.prepare_cached("INSERT INTO texts (name, text) VALUES (?1, ?2)").expect("a statement");
            insert.execute(params![format!("d{number}"), corpus.text(*number)]).expect("it is inserted");
        }
        transaction.commit().expect("it is committed");
    }
    let took = began.elapsed();
    connection.close().map_err(|(_, error)| error).expect("it is closed");
    Cost { took, size: std::fs::metadata(&file).expect("it exists").len() }
}
