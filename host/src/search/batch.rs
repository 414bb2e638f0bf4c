//! Changes that are written together.

use std::time::Duration;

use tokio::time::Instant;

use super::store::Change;

/// A batch is written when it has so many changes, or is so old.
const MAX_CHANGES: usize = 64;
const MAX_AGE: Duration = Duration::from_millis(300);

/// Changes that are written together, of a bounded number, size and age.
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    bytes: usize,
    max_bytes: usize,
    began: Option<Instant>,
}

impl Batch {
    /// A batch that is written when its text has so many bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { changes: Vec::new(), bytes: 0, max_bytes, began: None }
    }

    pub(super) fn push(&mut self, change: Change) {
        if let Change::Put(document) = &change {
            self.bytes = self.bytes.saturating_add(document.text.len());
        }
        self.began.get_or_insert_with(Instant::now);
        self.changes.push(change);
    }

    /// Whether it is to be written.
    pub(super) fn is_due(&self) -> bool {
        self.changes.len() >= MAX_CHANGES
            || self.bytes >= self.max_bytes
            || self.began.is_some_and(|began| began.elapsed() >= MAX_AGE)
    }

    /// Takes the changes, and begins again.
    pub(super) fn take(&mut self) -> Vec<Change> {
        (self.bytes, self.began) = (0, None);
        std::mem::take(&mut self.changes)
    }
}
