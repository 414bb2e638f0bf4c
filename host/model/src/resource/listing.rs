//! Pages of merged listings.

use std::time::Duration;

/// One page of the merged listing of all plugins.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing<T> {
    /// The items of this page, in the catalog's order.
    pub items: Vec<T>,
    /// The cursor for the next page; `None` on the last page.
    pub next_cursor: Option<String>,
    /// The plugins whose items are missing because they failed.
    pub missing: Vec<MissingPlugin>,
}

impl<T> Listing<T> {
    /// The same page with other items.
    pub fn map<U>(self, item: impl FnMut(T) -> U) -> Listing<U> {
        let Self { items, next_cursor, missing } = self;
        Listing { items: items.into_iter().map(item).collect(), next_cursor, missing }
    }
}

/// A plugin that is missing from a merged listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPlugin {
    /// The plugin's name in the configuration.
    pub plugin: String,
    /// The reason, without internals.
    pub reason: String,
    /// The time after which to retry, if known.
    pub retry_after: Option<Duration>,
}
