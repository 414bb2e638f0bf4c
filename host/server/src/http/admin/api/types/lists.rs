//! The lists of sessions, subscriptions, cached responses and indexed resources.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Page, api_types};

api_types! {
    /// The response cache.
    struct CacheView {
        /// `server.response-cache`.
        pub capacity: u64,
        /// The approximate size of all responses.
        pub bytes: u64,
        /// The plugins with their parts of the cache.
        pub plugins: Page<PluginCache>,
    }

    /// A plugin's part of the response cache.
    struct PluginCache {
        /// The plugin.
        pub plugin: String,
        /// Its part of the cache.
        pub cache: CacheStatus,
    }

    /// A plugin's part of the response cache.
    struct CacheStatus {
        /// The number of lookups that found a response, since the plugin was loaded.
        pub hits: u64,
        /// The number of lookups that found no response.
        pub misses: u64,
        /// The number of cached responses.
        pub responses: usize,
        /// The approximate size of the cached responses.
        pub bytes: u64,
        /// The maximum size of the cached responses.
        pub capacity: u64,
    }

    /// A session.
    struct SessionView {
        /// The number of the session, counted from the start of the server.
        pub number: u64,
        /// The principal that opened it.
        pub principal: String,
        /// The hash of the session id, as in the audit log; null over stdio.
        pub session: Option<String>,
        /// The revision of the protocol.
        pub revision: String,
        /// When it was opened.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        pub opened: String,
    }

    /// The subscriptions of clients.
    struct SubscriptionsView {
        /// The counts.
        pub watched: WatchedCounts,
        /// The watched resources, by URI.
        pub resources: Page<WatchedResource>,
    }

    /// The counts of subscriptions.
    struct WatchedCounts {
        /// The number of subscribers: one for each session and each stream.
        pub subscribers: usize,
        /// The number of watched resources.
        pub resources: usize,
        /// The number of polled plugins.
        pub plugins: usize,
        /// The number of updates of resources that were sent since the start of the server.
        pub updates: u64,
        /// The number of updates of the listing that were sent since the start of the server.
        pub listing_updates: u64,
    }

    /// A resource that clients watch.
    struct WatchedResource {
        /// The URI of the resource.
        pub uri: String,
        /// The number of subscribers, except views.
        pub subscribers: usize,
        /// The number of these subscribers that are sessions without an open event stream. They are notified when they open one. At most 64
        /// subscribers are examined.
        pub unheard: usize,
        /// The number of console views that show changes of the resource (`browse/watch`).
        pub views: usize,
        /// The principals of the subscribers, except views, by name. At most 64 subscribers are examined.
        pub principals: Vec<String>,
    }

    /// The search index's content of a plugin.
    struct SearchView {
        /// The plugin.
        pub plugin: String,
        /// The number of indexed resources.
        pub documents: u64,
        /// The size of the indexed text.
        pub bytes: u64,
        /// The number of resources with embeddings.
        pub embedded: u64,
        /// Whether the index is complete.
        pub complete: bool,
        /// The reasons why the index is incomplete.
        pub gaps: Vec<String>,
        /// The part of this replica in a shared index: `building`, `following` or `alone`. `unshared` if the index is not shared.
        pub role: String,
    }
}
