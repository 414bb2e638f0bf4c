//! Rankings of other engines.

use std::fs;
use std::process::Command;

use rusqlite::{Connection, params};

use super::judged::{DEPTH, JudgedSet, Ranking};
use super::target;

/// The number of documents of a ranking: one more than count, as the query may be one of them.
const LIMIT: usize = DEPTH + 1;

/// FTS5 with words as tokens.
pub(crate) fn unicode61(set: &JudgedSet) -> Vec<Ranking> {
    fts5(set, "unicode61", str::to_owned, |query| words(query).map(str::to_owned).collect())
}

/// FTS5 with the stems of English words as tokens.
pub(crate) fn porter(set: &JudgedSet) -> Vec<Ranking> {
    fts5(set, "porter unicode61", str::to_owned, |query| words(query).map(str::to_owned).collect())
}

/// FTS5 with three adjacent characters as tokens.
pub(crate) fn trigram(set: &JudgedSet) -> Vec<Ranking> {
    fts5(set, "trigram", str::to_owned, |query| windows(query, 3))
}

/// FTS5 with words in ASCII, and two adjacent characters of others, as tokens.
pub(crate) fn bigrams(set: &JudgedSet) -> Vec<Ranking> {
    fts5(set, "unicode61", |text| bigram_tokens(text).join(" "), bigram_tokens)
}

/// The documents that have any word of the query, by the number of matches.
pub(crate) fn ripgrep(set: &JudgedSet) -> Vec<Ranking> {
    let folder = tempfile::tempdir().expect("a folder for the documents");
    for (index, document) in set.documents.iter().enumerate() {
        fs::write(folder.path().join(index.to_string()), document).expect("the document is written");
    }
    let program = target("debian/usr/bin/rg");
    let rank = |query: &str| {
        let mut command = Command::new(&program);
        command.args(["--count-matches", "--ignore-case", "--fixed-strings", "--no-config"]).current_dir(folder.path());
        let output = command
            .args(words(query).flat_map(|word| ["--regexp", word]))
            .arg(".")
            .output()
            .expect("ripgrep starts: `cargo xtask debian` unpacks it");
        let text = String::from_utf8(output.stdout).expect("counts are text");
        let count = |line: &str| {
            let (path, count) = line.rsplit_once(':')?;
            Some((count.parse::<usize>().ok()?, path.trim_start_matches("./").parse::<usize>().ok()?))
        };
        let mut counts: Vec<_> = text.lines().filter_map(count).collect();
        counts.sort_by_key(|(count, index)| (std::cmp::Reverse(*count), *index));
        counts.into_iter().map(|(_, index)| index).take(LIMIT).collect()
    };
    set.queries.iter().map(|query| rank(&query.text)).collect()
}

/// The documents that have any token of the query, by BM25.
fn fts5(
    set: &JudgedSet,
    tokenizer: &str,
    index_text: impl Fn(&str) -> String,
    query_tokens: impl Fn(&str) -> Vec<String>,
) -> Vec<Ranking> {
    let connection = Connection::open_in_memory().expect("SQLite works");
    let table = format!("CREATE VIRTUAL TABLE documents USING fts5(text, tokenize = '{tokenizer}')");
    connection.execute_batch(&table).expect("FTS5 is there");
    for (index, document) in set.documents.iter().enumerate() {
        let insert = "INSERT INTO documents (rowid, text) VALUES (?1, ?2)";
        connection.execute(insert, params![index, index_text(document)]).expect("it is inserted");
    }
    let select = "SELECT rowid FROM documents WHERE documents MATCH ?1 ORDER BY rank LIMIT ?2";
    let mut statement = connection.prepare(select).expect("the statement is valid");
    let mut rank = |query: &str| {
        let tokens: Vec<_> = query_tokens(query).iter().map(|token| format!("\"{token}\"")).collect();
        if tokens.is_empty() {
            return Vec::new();
        }
        let found = statement.query_map(params![tokens.join(" OR "), LIMIT], |row| row.get(0)).expect("it is a query");
        found.map(|index| index.expect("an index")).collect()
    };
    set.queries.iter().map(|query| rank(&query.text)).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Each few adjacent characters of the words.
fn windows(text: &str, len: usize) -> Vec<String> {
    let of_word = |word: &str| {
        let characters: Vec<char> = word.chars().collect();
        characters.windows(len).map(String::from_iter).collect::<Vec<_>>()
    };
    words(text).flat_map(of_word).collect()
}

fn bigram_tokens(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut tokens = Vec::new();
    for word in words(&lower) {
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|character: char| character.is_ascii() != first.is_ascii()).unwrap_or(rest.len());
            let (run, behind) = rest.split_at(end);
            rest = behind;
            match run.is_ascii() || run.chars().count() == 1 {
                true => tokens.push(run.to_owned()),
                false => tokens.extend(windows(run, 2)),
            }
        }
    }
    tokens
}
