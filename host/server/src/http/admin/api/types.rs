//! The responses and requests of the administration API, and their JSON Schema.
//!
//! Pagination: a list is a [`Page`] of at most [`MAX_PAGE`] items, with the total number of items. Sizes are in bytes,
//! times in UTC in the format of RFC 3339, and durations in the unit at the end of their names.

mod actions;
mod config;
mod lists;
#[cfg(test)]
mod schema;
mod status;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::actions::RequestBody;
pub(super) use self::actions::local as local_principal;
pub use self::actions::{
    ExplainRequest, ExplainedRule, Explanation, LogRequest, LogView, LoginCode, Reload, WhoMay, WhoRequest, WhoView,
};
pub use self::config::{
    AuditValues, ConfigView, DirView, GrantsView, GroupView, HttpLimitsView, IssuerView, LimitsView, PluginConfig,
    PrepareLimitsView, RuleView, ServerView,
};
pub use self::lists::{
    CacheStatus, CacheView, PluginCache, SearchView, SessionView, SubscriptionsView, WatchedCounts, WatchedResource,
};
pub use self::status::{
    AuditFailureView, AuditStatus, BucketView, ClusterView, FailedReload, Memory, PluginDetails, PluginLoads,
    PluginLogLine, PluginState, PluginStatus, PreparationView, ProgramEndView, ProgramView, ProgramsView, RecentCalls,
    ReplicaView, RequirementView, Status, UsageView,
};
pub use super::browse_types as browse;

/// The maximum number of items on a page, and the default.
pub const MAX_PAGE: usize = 1000;
/// The maximum time for which a filter of the log applies: a day.
pub const MAX_LOG_SECONDS: u64 = 24 * 60 * 60;
/// The default of this time.
pub(super) const DEFAULT_LOG_SECONDS: u64 = 10 * 60;

/// The JSON Schema of the API: an object with a member for each request line. Its value is the response, or the request
/// and the response. It is stored in a file, which a test compares with the types, so that the program contains no code
/// that generates it.
pub const JSON_SCHEMA: &str = include_str!("schema.json");

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Page<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// The number of items of the whole list.
    pub total: usize,
    /// The value of the parameter `after` for the next page; null at the end.
    pub next: Option<String>,
}

/// Declares a type of the API.
macro_rules! api_types {
    ($($(#[$attribute:meta])* struct $name:ident { $($body:tt)* })*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
            #[cfg_attr(test, derive(JsonSchema))]
            #[cfg_attr(test, schemars(deny_unknown_fields))]
            pub struct $name { $($body)* }
        )*
    };
}
use api_types;

api_types! {
    /// The response to a failed request.
    struct ErrorAnswer {
        /// The error.
        pub error: String,
        /// How to correct the error.
        pub help: Option<String>,
    }

    /// The authenticated principal of the session.
    struct ConsoleSession {
        /// The name of the principal in audit records.
        pub principal: String,
        /// Whether the principal is an administrator. If not, it is a client of `/mcp`, which may browse.
        pub administrator: bool,
        /// The value that a page sends in the header `mcp-host-console`; only in the response to a login.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key: Option<String>,
    }

    /// A resource that has changed, or may have changed.
    struct UpdatedResource {
        /// The URI of the resource, as requested.
        pub uri: String,
    }

    /// The catalog has changed.
    struct ListingChanged {}

    /// An update that was sent to a subscriber.
    struct SentUpdateView {
        /// When it was sent.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        pub time: String,
        /// The principal of the subscriber.
        pub principal: String,
        /// The URI of the changed resource, as written by the subscriber; null if the listing changed.
        pub uri: Option<String>,
    }

    /// Audit lines or updates that were dropped because the client reads too slowly.
    struct MissedLines {
        /// The number of dropped lines or updates.
        pub lines: u64,
    }
}

impl<T> Page<T> {
    /// Returns the first items of a list as a page without continuation.
    pub(super) fn cut(items: impl ExactSizeIterator<Item = T>) -> Self {
        Self { total: items.len(), items: items.take(MAX_PAGE).collect(), next: None }
    }
}
