//! How often responses were in the cache.

use std::sync::atomic::{AtomicU64, Ordering};

/// The lookups of one plugin's responses in the response cache, since it was loaded. Requests that come before the plugin has given
/// a time to live are not looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounts {
    /// Responses that were cached, or fetched by another request at the same moment.
    pub hits: u64,
    /// Responses that were not, and took a call.
    pub misses: u64,
}

/// The counters of a cache.
#[derive(Debug, Default)]
pub(super) struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Counters {
    /// Counts a lookup.
    pub(super) fn record(&self, is_hit: bool) {
        let counter = if is_hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub(super) fn counts(&self) -> CacheCounts {
        CacheCounts { hits: self.hits.load(Ordering::Relaxed), misses: self.misses.load(Ordering::Relaxed) }
    }
}
