//! Pages of merged listings.

use std::time::Duration;

/// One page of what all plugins list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing<T> {
    /// The items of this page, in the catalog's order.
    pub items: Vec<T>,
    /// What to ask for the next page with; none on the last.
    pub next_cursor: Option<String>,
    /// The plugins whose items are not in it because they failed.
    pub missing: Vec<MissingPlugin>,
}

/// A plugin that could not contribute to a merged answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPlugin {
    /// Its name in the configuration.
    pub plugin: String,
    /// Why, without a word from inside.
    pub reason: String,
    /// When another try makes sense, where that is known.
    pub retry_after: Option<Duration>,
}
