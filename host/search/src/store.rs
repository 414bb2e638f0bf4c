//! Writing to the index: sources and their documents.
//!
//! Each function is one transaction, or a sequence of bounded ones, so a killed process leaves a consistent index that
//! lacks its last changes.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::document::{Document, DocumentEntry, passages};
use super::embeddings::vector_store;
use super::error::IndexError;
use super::space::{self, Space};
use super::status::Report;
use super::status::{SourceId, SourceSize};

/// The number of documents that one transaction removes.
const REMOVAL_BATCH: usize = 256;

/// The state of a resource in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownDocument {
    pub(super) id: i64,
    pub(super) entry_hash: i64,
    /// The time when the content was last read, in milliseconds since 1970.
    pub(super) checked: i64,
}

/// A change of a source.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Put(Box<Document>),
    Remove(String),
    /// The resource has changed and could not be read. The next walk reads it, and until then it is found by its old
    /// content.
    Expire(String),
}

/// The bounds of the index and of the text of a source in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) index: Space,
    pub(super) source: u64,
}

/// The result of applying changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Applied {
    /// The ids of the stored documents, without the documents for which there was no space.
    pub(super) ids: Vec<i64>,
    /// The number of documents that were added, changed or removed.
    pub(super) changed: usize,
    /// The number of documents without room in the index.
    pub(super) omitted: usize,
}

/// Returns the source with this key, and creates it if it does not exist. Ids are random, so that after another process
/// has replaced the file, an id from the old file does not identify another source.
pub(super) fn open_source(connection: &Connection, key: &[u8], now: i64) -> Result<SourceId, IndexError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO sources (id, key, used) VALUES (random(), ?1, ?2) ON CONFLICT (key) DO UPDATE SET used = ?2 RETURNING id",
    )?;
    Ok(SourceId(statement.query_row(params![key, now], |row| row.get(0))?))
}

/// Removes the sources that were not opened since a time.
pub(super) fn remove_unused(connection: &mut Connection, since: i64) -> Result<(), IndexError> {
    let unused: Vec<i64> = {
        let mut statement = connection.prepare_cached("SELECT id FROM sources WHERE used < ?1")?;
        statement.query_map([since], |row| row.get(0))?.collect::<Result<_, _>>()?
    };
    for source in unused {
        remove_except(connection, SourceId(source), &[])?;
        connection.execute("DELETE FROM sources WHERE id = ?1 AND documents = 0", [source])?;
    }
    Ok(())
}

/// Returns the states of these paths in the index.
pub(super) fn find_documents(
    connection: &Connection,
    source: SourceId,
    paths: &[String],
) -> Result<Vec<Option<KnownDocument>>, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT d.id, e.entry_hash, e.checked FROM documents d JOIN details e ON e.document = d.id
         WHERE d.source = ?1 AND d.path = ?2",
    )?;
    let mut found = Vec::with_capacity(paths.len());
    for path in paths {
        let known = statement.query_row(params![source.0, path], |row| {
            Ok(KnownDocument { id: row.get(0)?, entry_hash: row.get(1)?, checked: row.get(2)? })
        });
        found.push(known.optional()?);
    }
    Ok(found)
}

/// Applies changes in one transaction.
pub(super) fn apply(
    connection: &mut Connection,
    source: SourceId,
    changes: &[Change],
    bounds: Bounds,
    now: i64,
) -> Result<Applied, IndexError> {
    let used = used_bytes(connection)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let size = source_size(&transaction, source)?;
    let mut writer =
        ChangeWriter { transaction, source, bounds, now, used, growth: 0, size, applied: Applied::default() };
    for change in changes {
        match change {
            Change::Remove(path) => writer.remove(path)?,
            Change::Expire(path) => writer.expire(path)?,
            Change::Put(document) => writer.put(document)?,
        }
    }
    writer.commit()
}

/// Removes the documents of a source, except these ids, which are sorted. Returns the number of removed documents.
pub(super) fn remove_except(connection: &mut Connection, source: SourceId, kept: &[i64]) -> Result<usize, IndexError> {
    let (mut removed, mut after) = (0_usize, i64::MIN);
    loop {
        let ids: Vec<i64> = {
            let mut statement = connection
                .prepare_cached("SELECT id FROM documents WHERE source = ?1 AND id > ?2 ORDER BY id LIMIT 4096")?;
            statement.query_map(params![source.0, after], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        let Some(last) = ids.last() else { return Ok(removed) };
        after = *last;
        let gone: Vec<_> = ids.into_iter().filter(|id| kept.binary_search(id).is_err()).collect();
        for batch in gone.chunks(REMOVAL_BATCH) {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut size = source_size(&transaction, source)?;
            for id in batch {
                remove(&transaction, *id, &mut size)?;
                vector_store::remove(&transaction, *id)?;
            }
            set_source_size(&transaction, source, size)?;
            transaction.commit()?;
        }
        removed = removed.saturating_add(gone.len());
    }
}

/// The number of used bytes of the file.
pub(super) fn used_bytes(connection: &Connection) -> Result<u64, IndexError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, u64>(0));
    let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
    Ok(pages.saturating_mul(number("page_size")?))
}

/// The size of a source.
pub(super) fn source_size(connection: &Connection, source: SourceId) -> Result<SourceSize, IndexError> {
    let mut statement =
        connection.prepare_cached("SELECT documents, bytes, without_text FROM sources WHERE id = ?1")?;
    Ok(statement.query_row([source.0], SourceSize::from_row)?)
}

/// The source with this key, its size, and the report of the host that last indexed it. None if there is no such
/// source.
pub(super) fn find_source(
    connection: &Connection,
    key: &[u8],
) -> Result<Option<(SourceId, SourceSize, Report)>, IndexError> {
    let mut statement =
        connection.prepare_cached("SELECT documents, bytes, without_text, report, id FROM sources WHERE key = ?1")?;
    let found = statement
        .query_row([key], |row| Ok((SourceId(row.get(4)?), SourceSize::from_row(row)?, row.get::<_, String>(3)?)));
    Ok(found.optional()?.map(|(id, size, report)| (id, size, serde_json::from_str(&report).unwrap_or_default())))
}

/// Stores the host's report on a source.
pub(super) fn set_report(connection: &Connection, key: &[u8], report: &Report) -> Result<(), IndexError> {
    let report = serde_json::to_string(report).map_err(|error| IndexError::Failed(error.to_string()))?;
    connection.prepare_cached("UPDATE sources SET report = ?2 WHERE key = ?1")?.execute(params![key, report])?;
    Ok(())
}

fn set_source_size(transaction: &Transaction<'_>, source: SourceId, size: SourceSize) -> Result<(), IndexError> {
    let mut statement =
        transaction.prepare_cached("UPDATE sources SET documents = ?2, bytes = ?3, without_text = ?4 WHERE id = ?1")?;
    statement.execute(params![source.0, size.documents, size.bytes, size.without_text])?;
    Ok(())
}

fn remove(transaction: &Transaction<'_>, id: i64, size: &mut SourceSize) -> Result<(), IndexError> {
    let mut statement =
        transaction.prepare_cached("DELETE FROM details WHERE document = ?1 RETURNING bytes, is_without_text")?;
    let details = statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    transaction.prepare_cached("DELETE FROM passages WHERE document = ?1")?.execute([id])?;
    transaction.prepare_cached("DELETE FROM terms WHERE rowid = ?1")?.execute([id])?;
    if transaction.prepare_cached("DELETE FROM documents WHERE id = ?1")?.execute([id])? > 0 {
        let (bytes, is_without_text) = details.unwrap_or_default();
        size.subtract(bytes, is_without_text);
    }
    Ok(())
}

/// Writes changes of a source in one transaction.
struct ChangeWriter<'a> {
    transaction: Transaction<'a>,
    source: SourceId,
    bounds: Bounds,
    now: i64,
    /// The number of used bytes of the file before the batch, and the estimated growth by the batch.
    used: u64,
    growth: u64,
    size: SourceSize,
    applied: Applied,
}

impl ChangeWriter<'_> {
    fn find(&self, path: &str) -> Result<Option<i64>, IndexError> {
        let mut statement =
            self.transaction.prepare_cached("SELECT id FROM documents WHERE source = ?1 AND path = ?2")?;
        Ok(statement.query_row(params![self.source.0, path], |row| row.get(0)).optional()?)
    }

    fn remove(&mut self, path: &str) -> Result<(), IndexError> {
        if let Some(id) = self.find(path)? {
            remove(&self.transaction, id, &mut self.size)?;
            vector_store::remove(&self.transaction, id)?;
            self.applied.changed = self.applied.changed.saturating_add(1);
        }
        Ok(())
    }

    fn expire(&mut self, path: &str) -> Result<(), IndexError> {
        if let Some(id) = self.find(path)? {
            let mut statement = self
                .transaction
                .prepare_cached("UPDATE details SET entry_hash = 0, checked = 0 WHERE document = ?1")?;
            statement.execute([id])?;
        }
        Ok(())
    }

    fn put(&mut self, document: &Document) -> Result<(), IndexError> {
        let text_hash = document.text_hash();
        let id = self.find(&document.path)?;
        if let Some(id) = id {
            let mut statement = self.transaction.prepare_cached(
                "UPDATE details SET checked = ?4 WHERE document = ?1 AND entry_hash = ?2 AND text_hash = ?3",
            )?;
            if statement.execute(params![id, document.entry_hash, text_hash, self.now])? > 0 {
                self.applied.ids.push(id);
                return Ok(());
            }
            remove(&self.transaction, id, &mut self.size)?;
            vector_store::mark_changed(&self.transaction, id)?;
        }
        self.applied.changed = self.applied.changed.saturating_add(1);
        let bytes = u64::try_from(document.text.len()).unwrap_or(u64::MAX);
        let has_no_room = self.size.bytes.saturating_add(bytes) > self.bounds.source;
        let (text, bytes) = if has_no_room { ("", 0) } else { (document.text.as_str(), bytes) };
        let is_without_text = has_no_room || document.is_cut;
        let growth = self.growth.saturating_add(space::growth(bytes));
        if !self.bounds.index.fits(self.used, growth) {
            self.applied.omitted = self.applied.omitted.saturating_add(1);
            return id.map_or(Ok(()), |id| vector_store::remove(&self.transaction, id));
        }
        self.growth = growth;
        let id = self.insert(id, document, text, text_hash, is_without_text)?;
        self.applied.ids.push(id);
        self.size.add(bytes, is_without_text);
        Ok(())
    }

    /// Inserts a document with this text, under its previous id if it had one.
    fn insert(
        &self,
        id: Option<i64>,
        document: &Document,
        text: &str,
        text_hash: i64,
        is_without_text: bool,
    ) -> Result<i64, IndexError> {
        let mut statement = self.transaction.prepare_cached(
            "INSERT INTO documents (id, source, path, kind, language, priority, modified, audience)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING id",
        )?;
        let DocumentEntry { mime_type, priority, last_modified, .. } = &document.entry;
        let (kind, language, audience) =
            (mime_type.as_deref().map(essence), document.language(), document.entry.audience());
        let columns = params![id, self.source.0, document.path, kind, language, priority, last_modified, audience];
        let id: i64 = statement.query_row(columns, |row| row.get(0))?;
        let entry = serde_json::to_string(&document.entry).map_err(|error| IndexError::Failed(error.to_string()))?;
        let mut statement = self.transaction.prepare_cached(
            "INSERT INTO details (document, entry, entry_hash, text_hash, bytes, is_without_text, checked)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        let entry_hash = document.entry_hash;
        statement.execute(params![id, entry, entry_hash, text_hash, text.len(), is_without_text, self.now])?;
        let mut statement = self
            .transaction
            .prepare_cached("INSERT INTO passages (document, number, line, text) VALUES (?1, ?2, ?3, ?4)")?;
        for (number, passage) in passages(text).enumerate() {
            statement.execute(params![id, number, passage.line, passage.text])?;
        }
        let mut statement =
            self.transaction.prepare_cached("INSERT INTO terms (rowid, name, text) VALUES (?1, ?2, ?3)")?;
        statement.execute(params![id, document.name_tokens(), super::tokens::index_text(text)])?;
        Ok(id)
    }

    fn commit(self) -> Result<Applied, IndexError> {
        set_source_size(&self.transaction, self.source, self.size)?;
        self.transaction.commit()?;
        Ok(self.applied)
    }
}

/// A MIME type without its parameters, in lower case.
fn essence(mime_type: &str) -> String {
    mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
