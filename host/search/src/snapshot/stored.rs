//! Documents from an index, for a snapshot, and from a snapshot into another index.

use rusqlite::{Connection, TransactionBehavior, params};

use super::VectorForm;
use super::frames::SnapshotDocument;
use crate::document::Document;
use crate::embeddings::vector_store::{self, VectorSpace};
use crate::error::IndexError;
use crate::status::SourceId;
use crate::store::{self, Applied, Bounds, Change};

/// The maximum number of documents of a page.
const MAX_DOCUMENTS: usize = 64;
/// The size of the texts and vectors of a page in bytes, beyond which it ends.
const MAX_BYTES: usize = 1024 * 1024;

/// Documents of a source, in the order of their ids.
#[derive(Default)]
pub(super) struct Page {
    pub(super) documents: Vec<SnapshotDocument>,
    /// The id after which the next page begins. None if there are no more documents.
    pub(super) next: Option<i64>,
}

/// Returns the next documents of a source.
pub(super) fn page_after(
    connection: &Connection,
    source: SourceId,
    after: i64,
    space: Option<VectorSpace>,
) -> Result<Page, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT d.id, d.path, t.entry, t.entry_hash, t.checked, t.is_without_text
         FROM documents d JOIN details t ON t.document = d.id WHERE d.source = ?1 AND d.id > ?2 ORDER BY d.id LIMIT ?3",
    )?;
    let mut texts = connection.prepare_cached("SELECT text FROM passages WHERE document = ?1 ORDER BY number")?;
    let mut rows = statement.query(params![source.0, after, MAX_DOCUMENTS])?;
    let (mut page, mut bytes) = (Page::default(), 0_usize);
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let entry: String = row.get(2)?;
        let entry = serde_json::from_str(&entry).map_err(|error| IndexError::Damaged(error.to_string()))?;
        // The passages of a document are its whole text.
        let mut text = String::new();
        let mut passages = texts.query([id])?;
        while let Some(passage) = passages.next()? {
            text.push_str(passage.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
        }
        let vectors = match space {
            Some(space) => vector_store::stored_vectors(connection, id, space)?,
            None => None,
        };
        let document = Document { path: row.get(1)?, entry, entry_hash: row.get(3)?, text, is_cut: row.get(5)? };
        let document = SnapshotDocument { document, checked: row.get(4)?, vectors };
        bytes = bytes.saturating_add(document.size());
        page.documents.push(document);
        page.next = Some(id);
        if bytes >= MAX_BYTES {
            break;
        }
    }
    Ok(page)
}

/// Puts documents of a snapshot into a source. Unchanged ones are not written again. New vectors of a document are a
/// change.
pub(super) fn import(
    connection: &mut Connection,
    source: SourceId,
    documents: Vec<SnapshotDocument>,
    bounds: Bounds,
    form: Option<VectorForm>,
    now: i64,
) -> Result<Applied, IndexError> {
    let (mut paths, mut changes, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for SnapshotDocument { document, checked, vectors } in documents {
        paths.push(document.path.clone());
        changes.push(Change::Put(Box::new(document)));
        others.push((checked, vectors));
    }
    let mut applied = store::apply(connection, source, &changes, bounds, now)?;
    let known = store::find_documents(connection, source, &paths)?;
    let used = store::used_bytes(connection)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut growth = 0_u64;
    for (known, (checked, vectors)) in known.into_iter().zip(others) {
        let Some(known) = known else { continue };
        let mut statement = transaction.prepare_cached("UPDATE details SET checked = ?2 WHERE document = ?1")?;
        // The clock of another machine may be ahead.
        statement.execute(params![known.id, checked.min(now)])?;
        if let (Some(form), Some(vectors)) = (form, vectors) {
            let more = growth.saturating_add(vector_store::growth(vectors.len(), form.dimensions));
            if bounds.index.fits(used, more) {
                growth = more;
                if vector_store::put_stored(&transaction, form.space, known.id, form.dimensions, &vectors)? {
                    applied.changed = applied.changed.saturating_add(1);
                }
            }
        }
    }
    transaction.commit()?;
    Ok(applied)
}
