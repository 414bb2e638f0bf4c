//! The lists of sessions, subscriptions, cached responses and indexed resources.

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
        /// The parts of the plugins.
        pub plugins: Page<PluginCache>,
    }

    /// The part of a plugin of the response cache.
    struct PluginCache {
        /// The plugin.
        pub plugin: String,
        /// Its part.
        pub cache: CacheStatus,
    }

    /// The part of a plugin of the response cache.
    struct CacheStatus {
        /// The lookups that found a response, since the plugin was loaded.
        pub hits: u64,
        /// Those that did not.
        pub misses: u64,
        /// The number of responses that are cached now.
        pub responses: usize,
        /// Their approximate size.
        pub bytes: u64,
        /// The maximum size.
        pub capacity: u64,
    }

    /// A session.
    struct SessionView {
        /// The number of the session since the start of the server.
        pub number: u64,
        /// The principal that opened it.
        pub principal: String,
        /// The hash of its id, as in the audit log; null over stdio.
        pub session: Option<String>,
        /// The revision of the protocol.
        pub revision: String,
        /// When it was opened.
        #[schemars(extend("format" = "date-time"))]
        pub opened: String,
    }

    /// What clients watch.
    struct SubscriptionsView {
        /// The numbers.
        pub watched: WatchedCounts,
        /// The resources, by URI.
        pub resources: Page<WatchedResource>,
    }

    /// How much clients watch.
    struct WatchedCounts {
        /// The subscribers: one for each session and each stream.
        pub subscribers: usize,
        /// The resources.
        pub resources: usize,
        /// The plugins that are polled.
        pub plugins: usize,
        /// The updates of resources that were sent since the start of the server.
        pub updates: u64,
        /// The updates of the listing that were sent since then.
        pub listing_updates: u64,
    }

    /// A resource that clients watch.
    struct WatchedResource {
        /// Its URI.
        pub uri: String,
        /// The number of its subscribers, without views.
        pub subscribers: usize,
        /// Of these the sessions without an open event stream, which are told when they open one; of 64 subscribers at most.
        pub unheard: usize,
        /// The number of views that show its changes (`browse/watch`).
        pub views: usize,
        /// The principals of its subscribers, without views, by name; of 64 subscribers at most.
        pub principals: Vec<String>,
    }

    /// What the search index has of a plugin.
    struct SearchView {
        /// The plugin.
        pub plugin: String,
        /// The number of indexed resources.
        pub documents: u64,
        /// The size of their text.
        pub bytes: u64,
        /// The number of resources with embeddings.
        pub embedded: u64,
        /// Whether the index has everything.
        pub complete: bool,
        /// What it lacks.
        pub gaps: Vec<String>,
    }
}
