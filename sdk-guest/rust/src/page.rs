//! One page of a listing.

use crate::Entry;

/// One page of a listing. For data with a sorted key, [`keyset`](crate::keyset) creates pages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The resources of this page, in an order that is stable as long as the data do not change.
    pub entries: Vec<Entry>,
    /// The cursor of the next page; `None` on the last. At most 4096 bytes. It must be self-contained: another
    /// instance may receive it, much later.
    pub next_cursor: Option<String>,
}

impl Page {
    /// Creates a single page, or the last one.
    pub fn last(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self { entries: entries.into_iter().collect(), next_cursor: None }
    }
}
