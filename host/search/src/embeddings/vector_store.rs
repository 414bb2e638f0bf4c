//! The vectors in the index.
//!
//! A document is *embedded* in a space when the vectors of its first passages are stored, or it has no text. A changed
//! document is no longer embedded, and its vectors are not looked up. They stay until there are new ones, because
//! usually most passages are unchanged, and their vectors are found again by the digest of the text.

use mcp_host_config::search::Embeddings;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use sha2::{Digest as _, Sha256};

use super::vector::{Vector, stored_len};
use crate::error::IndexError;
use crate::status::SourceId;

/// The tables.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE spaces (
        id INTEGER PRIMARY KEY,
        used INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE embedded (
        document INTEGER NOT NULL,
        space INTEGER NOT NULL,
        PRIMARY KEY (document, space)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE vectors (
        document INTEGER NOT NULL,
        space INTEGER NOT NULL,
        passage INTEGER NOT NULL,
        digest BLOB NOT NULL,
        vector BLOB NOT NULL
    ) STRICT;
    CREATE INDEX vectors_by_document ON vectors (document, space);
    CREATE INDEX vectors_by_digest ON vectors (digest, space);
";

/// The length of a text's digest in bytes.
pub(crate) const DIGEST_LEN: usize = 16;
/// The maximum number of passages that are found by the same text.
const MAX_COPIES: usize = 1024;
/// The overhead of a stored vector in bytes.
const OVERHEAD: usize = 128;
/// The number of vectors that one transaction removes.
const REMOVAL_BATCH: usize = 1000;
/// The number of documents that are visited at a time.
const MAX_DOCUMENTS: usize = 64;

/// The digest of a sent text.
pub(super) type TextDigest = [u8; DIGEST_LEN];

/// Everything except the text that the vectors of a document depend on: the endpoint, the model, and the form of the
/// sent text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VectorSpace(i64);

impl VectorSpace {
    /// The space of a config.
    pub(crate) fn of(settings: &Embeddings) -> Self {
        let Embeddings { url, model, dimensions, shorten, passages, passage_prefix, passage_input_type, .. } = settings;
        let identity =
            (url.as_str(), model, dimensions.get(), shorten, passages.get(), passage_prefix, passage_input_type);
        let digest = Sha256::digest(format!("{identity:?}"));
        let id = digest.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes));
        Self(id)
    }

    pub(crate) fn id(self) -> i64 {
        self.0
    }
}

/// A document that is not embedded.
#[derive(Debug)]
pub(super) struct PendingDocument {
    pub(super) id: DocumentId,
    pub(super) passages: Vec<PendingPassage>,
}

/// A document in a specific state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DocumentId {
    document: i64,
    entry_hash: i64,
    text_hash: i64,
}

/// A passage with its vector, if it is known.
#[derive(Debug)]
pub(super) struct PendingPassage {
    number: i64,
    /// The digest of the text.
    pub(super) digest: Vec<u8>,
    /// The text to send.
    pub(super) text: String,
    pub(super) vector: Option<Vector>,
}

/// Documents that are not embedded, in the order of their ids.
#[derive(Debug, Default)]
pub(super) struct PendingPage {
    pub(super) documents: Vec<PendingDocument>,
    /// The id after which the next page begins. None for the last page.
    pub(super) next: Option<i64>,
}

/// The parts of a document that are sent.
#[derive(Clone, Debug)]
pub(super) struct PassageSelection {
    /// The prefix of each passage.
    pub(super) prefix: String,
    /// The maximum number of passages.
    pub(super) max_passages: usize,
}

impl PassageSelection {
    /// The text that is sent for a passage, including the title of its document.
    fn text(&self, title: Option<&str>, passage: &str) -> String {
        let title = title.map(|title| format!("{title}\n")).unwrap_or_default();
        [self.prefix.as_str(), &title, passage].concat()
    }
}

/// Returns the next documents of a source that are not embedded and whose paths are included. Together they have at
/// least `min_passages`, unless there are fewer.
pub(super) fn find_pending(
    connection: &Connection,
    source: SourceId,
    space: VectorSpace,
    after: i64,
    min_passages: usize,
    selection: &PassageSelection,
    is_included: impl Fn(&str) -> bool,
) -> Result<PendingPage, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT d.id, t.entry_hash, t.text_hash, t.entry ->> 'title', d.path FROM documents d JOIN details t ON t.document = d.id
         WHERE d.source = ?1 AND d.id > ?3
           AND NOT EXISTS (SELECT 1 FROM embedded e WHERE e.document = d.id AND e.space = ?2)
         ORDER BY d.id LIMIT ?4",
    )?;
    let mut rows = statement.query(params![source.0, space.0, after, MAX_DOCUMENTS])?;
    let (mut page, mut passages, mut count) = (PendingPage::default(), 0_usize, 0_usize);
    while let Some(row) = rows.next()? {
        let id = DocumentId { document: row.get(0)?, entry_hash: row.get(1)?, text_hash: row.get(2)? };
        if is_included(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?) {
            let title: Option<String> = row.get(3)?;
            let document = pending_document(connection, id, space, title.as_deref(), selection)?;
            passages = passages.saturating_add(document.passages.len());
            page.documents.push(document);
        }
        count = count.saturating_add(1);
        page.next = Some(id.document).filter(|_| passages >= min_passages || count >= MAX_DOCUMENTS);
        if page.next.is_some() {
            break;
        }
    }
    Ok(page)
}

fn pending_document(
    connection: &Connection,
    id: DocumentId,
    space: VectorSpace,
    title: Option<&str>,
    selection: &PassageSelection,
) -> Result<PendingDocument, IndexError> {
    let mut statement =
        connection.prepare_cached("SELECT number, text FROM passages WHERE document = ?1 ORDER BY number LIMIT ?2")?;
    let mut find = connection.prepare_cached("SELECT vector FROM vectors WHERE digest = ?1 AND space = ?2 LIMIT 1")?;
    let mut rows = statement.query(params![id.document, selection.max_passages])?;
    let mut passages = Vec::new();
    while let Some(row) = rows.next()? {
        let (number, passage) = (row.get(0)?, row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
        if passage.trim().is_empty() {
            continue;
        }
        let text = selection.text(title, passage);
        let digest = Sha256::digest(&text).get(..DIGEST_LEN).unwrap_or_default().to_vec();
        let vector = find.query_row(params![digest, space.0], |row| row.get(0)).optional()?;
        passages.push(PendingPassage { number, digest, text, vector: vector.map(Vector::from_bytes) });
    }
    Ok(PendingDocument { id, passages })
}

/// Stores the vectors of documents in one transaction. Skips documents that have changed meanwhile or lack vectors.
/// Returns the number of stored documents.
pub(super) fn put(
    connection: &mut Connection,
    space: VectorSpace,
    documents: &[PendingDocument],
) -> Result<usize, IndexError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut count = 0_usize;
    for document in documents {
        if put_document(&transaction, space, document)? {
            count = count.saturating_add(1);
        }
    }
    transaction.commit()?;
    Ok(count)
}

fn put_document(
    transaction: &Transaction<'_>,
    space: VectorSpace,
    PendingDocument { id, passages }: &PendingDocument,
) -> Result<bool, IndexError> {
    let mut statement = transaction
        .prepare_cached("SELECT 1 FROM details WHERE document = ?1 AND entry_hash = ?2 AND text_hash = ?3")?;
    let is_unchanged = statement.exists(params![id.document, id.entry_hash, id.text_hash])?;
    let vectors: Option<Vec<_>> = passages.iter().map(|passage| Some((passage, passage.vector.as_ref()?))).collect();
    let Some(vectors) = vectors.filter(|_| is_unchanged) else { return Ok(false) };
    let mut statement = transaction.prepare_cached("DELETE FROM vectors WHERE document = ?1 AND space = ?2")?;
    statement.execute(params![id.document, space.0])?;
    let mut statement = transaction
        .prepare_cached("INSERT INTO vectors (document, space, passage, digest, vector) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (passage, vector) in vectors {
        statement.execute(params![id.document, space.0, passage.number, passage.digest, vector.as_bytes()])?;
    }
    let mut statement =
        transaction.prepare_cached("INSERT OR REPLACE INTO embedded (document, space) VALUES (?1, ?2)")?;
    statement.execute(params![id.document, space.0])?;
    Ok(true)
}

/// Marks a changed document as not embedded.
pub(crate) fn mark_changed(transaction: &Transaction<'_>, document: i64) -> Result<(), IndexError> {
    transaction.prepare_cached("DELETE FROM embedded WHERE document = ?1")?.execute([document])?;
    Ok(())
}

/// Removes the vectors of a removed document.
pub(crate) fn remove(transaction: &Transaction<'_>, document: i64) -> Result<(), IndexError> {
    mark_changed(transaction, document)?;
    transaction.prepare_cached("DELETE FROM vectors WHERE document = ?1")?.execute([document])?;
    Ok(())
}

/// Records the use of a space, and removes spaces that were not used since a time.
pub(super) fn use_space(
    connection: &mut Connection,
    space: VectorSpace,
    now: i64,
    since: i64,
) -> Result<(), IndexError> {
    connection.execute(
        "INSERT INTO spaces (id, used) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET used = ?2",
        params![space.0, now],
    )?;
    let unused: Vec<i64> = {
        let mut statement = connection.prepare_cached("SELECT id FROM spaces WHERE used < ?1")?;
        statement.query_map([since], |row| row.get(0))?.collect::<Result<_, _>>()?
    };
    for space in unused {
        connection.execute("DELETE FROM embedded WHERE space = ?1", [space])?;
        let remove = "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors WHERE space = ?1 LIMIT ?2)";
        while connection.execute(remove, params![space, REMOVAL_BATCH])? > 0 {}
        connection.execute("DELETE FROM spaces WHERE id = ?1", [space])?;
    }
    Ok(())
}

/// The number of embedded documents of a source.
pub(crate) fn count(connection: &Connection, source: SourceId, space: VectorSpace) -> Result<u64, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM documents d JOIN embedded e ON e.document = d.id AND e.space = ?2 WHERE d.source = ?1",
    )?;
    Ok(statement.query_row(params![source.0, space.0], |row| row.get(0))?)
}

/// The number of vectors of a source's embedded documents.
pub(crate) fn count_vectors_of_source(
    connection: &Connection,
    source: SourceId,
    space: VectorSpace,
) -> Result<u64, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM documents d JOIN embedded e ON e.document = d.id AND e.space = ?2
         JOIN vectors v ON v.document = d.id AND v.space = ?2 WHERE d.source = ?1",
    )?;
    Ok(statement.query_row(params![source.0, space.0], |row| row.get(0))?)
}

/// The number of a source's passages that are sent, with a maximum per document. This reads all passages, so it is too
/// slow for searches.
pub(crate) fn count_passages(
    connection: &Connection,
    source: SourceId,
    max_passages: usize,
) -> Result<u64, IndexError> {
    let white_space: String = ('\0'..='\u{3000}').filter(|character| character.is_whitespace()).collect();
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM documents d JOIN passages p ON p.document = d.id AND p.number < ?2
         WHERE d.source = ?1 AND trim(p.text, ?3) <> ''",
    )?;
    Ok(statement.query_row(params![source.0, max_passages, white_space], |row| row.get(0))?)
}

/// The length of a stored vector in bytes.
pub(crate) fn vector_len(dimensions: usize) -> usize {
    stored_len(dimensions)
}

/// The stored vector of a passage, and the digest of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredVector {
    pub(crate) passage: i64,
    pub(crate) digest: Vec<u8>,
    pub(crate) vector: Vec<u8>,
}

/// The vectors of a document. None if it is not embedded.
pub(crate) fn stored_vectors(
    connection: &Connection,
    document: i64,
    space: VectorSpace,
) -> Result<Option<Vec<StoredVector>>, IndexError> {
    if !is_embedded(connection, document, space)? {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(
        "SELECT passage, digest, vector FROM vectors WHERE document = ?1 AND space = ?2 ORDER BY passage",
    )?;
    let vectors = statement.query_map(params![document, space.0], |row| {
        Ok(StoredVector { passage: row.get(0)?, digest: row.get(1)?, vector: row.get(2)? })
    })?;
    Ok(Some(vectors.collect::<Result<_, _>>()?))
}

/// Stores the vectors of a document that another index has, unless the document is embedded, or one of them is not
/// valid. Returns whether they were stored.
pub(crate) fn put_stored(
    transaction: &Transaction<'_>,
    space: VectorSpace,
    document: i64,
    dimensions: usize,
    vectors: &[StoredVector],
) -> Result<bool, IndexError> {
    let valid: Option<Vec<_>> =
        vectors.iter().map(|one| Some((one, Vector::restored(&one.vector, dimensions)?))).collect();
    let valid = valid.filter(|_| vectors.iter().all(|one| one.digest.len() == DIGEST_LEN));
    let Some(valid) = valid else { return Ok(false) };
    if is_embedded(transaction, document, space)? {
        return Ok(false);
    }
    let mut statement = transaction.prepare_cached("DELETE FROM vectors WHERE document = ?1 AND space = ?2")?;
    statement.execute(params![document, space.0])?;
    let mut statement = transaction
        .prepare_cached("INSERT INTO vectors (document, space, passage, digest, vector) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (one, vector) in valid {
        statement.execute(params![document, space.0, one.passage, one.digest, vector.as_bytes()])?;
    }
    let mut statement =
        transaction.prepare_cached("INSERT OR REPLACE INTO embedded (document, space) VALUES (?1, ?2)")?;
    statement.execute(params![document, space.0])?;
    Ok(true)
}

fn is_embedded(connection: &Connection, document: i64, space: VectorSpace) -> Result<bool, IndexError> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM embedded WHERE document = ?1 AND space = ?2")?;
    Ok(statement.exists(params![document, space.0])?)
}

/// The estimated growth of the index by a number of vectors, in bytes.
pub(crate) fn growth(vectors: usize, dimensions: usize) -> u64 {
    u64::try_from(stored_len(dimensions).saturating_add(OVERHEAD).saturating_mul(vectors)).unwrap_or(u64::MAX)
}

/// The number of vectors of a space.
pub(super) fn count_vectors(connection: &Connection, space: VectorSpace) -> Result<u64, IndexError> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM vectors WHERE space = ?1")?;
    Ok(statement.query_row([space.0], |row| row.get(0))?)
}

/// The next digests of texts with a vector, in order.
pub(super) fn digests(
    connection: &Connection,
    space: VectorSpace,
    after: Option<TextDigest>,
    limit: usize,
) -> Result<Vec<TextDigest>, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT digest FROM vectors WHERE digest > ?1 AND space = ?2 ORDER BY digest LIMIT ?3",
    )?;
    let after = after.as_ref().map_or(&[][..], |digest| digest);
    let digests = statement.query_map(params![after, space.0, limit], |row| row.get(0))?;
    Ok(digests.collect::<Result<_, _>>()?)
}

/// The vectors of these texts, as far as they still exist.
pub(super) fn find_vectors(
    connection: &Connection,
    space: VectorSpace,
    digests: &[TextDigest],
) -> Result<Vec<(TextDigest, Vector)>, IndexError> {
    let mut find = connection.prepare_cached("SELECT vector FROM vectors WHERE digest = ?1 AND space = ?2 LIMIT 1")?;
    let mut found = Vec::with_capacity(digests.len());
    for digest in digests {
        let vector = find.query_row(params![digest, space.0], |row| row.get(0)).optional()?;
        found.extend(vector.map(|vector| (*digest, Vector::from_bytes(vector))));
    }
    Ok(found)
}

/// The passages with a text, each as the id of its document and the number of the passage.
pub(super) fn passages_of_text(
    connection: &Connection,
    space: VectorSpace,
    digest: &TextDigest,
) -> Result<Vec<(i64, i64)>, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT document, passage FROM vectors WHERE digest = ?1 AND space = ?2 ORDER BY document, passage LIMIT ?3",
    )?;
    let passages = statement.query_map(params![digest, space.0, MAX_COPIES], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(passages.collect::<Result<_, _>>()?)
}
