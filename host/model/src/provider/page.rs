//! One page of a listing.

use super::{Entry, Template};

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The resources of this page, in an order that is stable while the data are.
    pub entries: Vec<Entry>,
    /// The cursor of the next page; none on the last. At most 4096 bytes, and never the cursor of this page.
    pub next_cursor: Option<String>,
}

impl Page {
    /// The only page, or the last.
    pub fn last(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self { entries: entries.into_iter().collect(), next_cursor: None }
    }
}

/// One page of the templates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplatePage {
    /// The templates of this page.
    pub templates: Vec<Template>,
    /// The cursor of the next page; none on the last.
    pub next_cursor: Option<String>,
}
