//! One page of a listing.

use crate::Entry;

/// One page of a listing. For data with a sorted key, [`keyset`](crate::keyset) makes pages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The resources of this page, in an order that stays while the data stay.
    pub entries: Vec<Entry>,
    /// What to pass as cursor for the page after this one; none on the last. At most 4096 bytes. It must be enough by
    /// itself: another instance may be asked, much later.
    pub next_cursor: Option<String>,
}

impl Page {
    /// The only page, or the last.
    pub fn last(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self { entries: entries.into_iter().collect(), next_cursor: None }
    }
}
