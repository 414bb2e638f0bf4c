//! A source in the index: its id and its size.

use rusqlite::Row;

/// The id of a source in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SourceId(pub(super) i64);

/// The size of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceSize {
    pub(super) documents: u64,
    pub(super) bytes: u64,
    /// The number of documents without their text, as the source had no room for it.
    pub(super) without_text: u64,
}

impl SourceSize {
    /// Reads the columns `documents`, `bytes` and `without_text`.
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { documents: row.get(0)?, bytes: row.get(1)?, without_text: row.get(2)? })
    }

    /// Counts a document that is added.
    pub(super) fn add(&mut self, bytes: u64, is_without_text: bool) {
        self.documents = self.documents.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.without_text = self.without_text.saturating_add(u64::from(is_without_text));
    }

    /// Counts a document that is removed.
    pub(super) fn subtract(&mut self, bytes: u64, is_without_text: bool) {
        self.documents = self.documents.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.without_text = self.without_text.saturating_sub(u64::from(is_without_text));
    }
}
