//! The responses and requests of the administration API, and their JSON Schema.
//!
//! Pagination: a list is a [`Page`] of at most [`MAX_PAGE`] items, with the total number of items. Sizes are in bytes, times in UTC in the
//! format of RFC 3339, and durations in the unit at the end of their names.

mod actions;
mod config;
mod lists;
mod status;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

/// Returns the JSON Schema of the API: an object with a member for each request line. Its value is the response, or the request and the
/// response.
pub fn json_schema() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Api>();
    schema.to_value()
}

/// The administration API. Each member is one request line; its value is the response, or the body of the request and the response.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "The administration API of mcp-host")]
#[expect(dead_code, reason = "only its schema is used")]
struct Api {
    #[schemars(rename = "GET /api/v1/status")]
    status: Option<Status>,
    #[schemars(rename = "GET /api/v1/plugins")]
    plugins: Option<Page<PluginStatus>>,
    #[schemars(rename = "GET /api/v1/plugins/NAME")]
    plugin: Option<PluginDetails>,
    #[schemars(rename = "GET /api/v1/config")]
    config: Option<ConfigView>,
    #[schemars(rename = "GET /api/v1/config/changes")]
    changes: Option<Reload>,
    #[schemars(rename = "GET /api/v1/config/warnings")]
    warnings: Option<Page<String>>,
    #[schemars(rename = "GET /api/v1/cache")]
    cache: Option<CacheView>,
    #[schemars(rename = "GET /api/v1/cluster")]
    cluster: Option<ClusterView>,
    #[schemars(rename = "GET /api/v1/sessions")]
    sessions: Option<Page<SessionView>>,
    #[schemars(rename = "GET /api/v1/subscriptions")]
    subscriptions: Option<SubscriptionsView>,
    #[schemars(rename = "GET /api/v1/search")]
    search: Option<Page<SearchView>>,
    /// Server-sent events: each member is the name of an event, with its data.
    #[schemars(rename = "GET /api/v1/audit?follow")]
    audit: Option<AuditEvents>,
    /// Server-sent events: each member is the name of an event, with its data.
    #[schemars(rename = "GET /api/v1/updates?follow")]
    updates: Option<UpdateEvents>,
    #[schemars(rename = "GET /api/v1/session")]
    session: Option<ConsoleSession>,
    #[schemars(rename = "POST /api/v1/reload")]
    reload: Option<Reload>,
    #[schemars(rename = "POST /api/v1/reload?dry-run")]
    dry_run: Option<Reload>,
    #[schemars(rename = "POST /api/v1/explain")]
    explain: Option<Exchange<ExplainRequest, Explanation>>,
    #[schemars(rename = "POST /api/v1/explain/who")]
    explain_who: Option<Exchange<WhoRequest, WhoView>>,
    #[schemars(rename = "POST /api/v1/log")]
    log: Option<Exchange<LogRequest, LogView>>,
    #[schemars(rename = "POST /api/v1/login-code")]
    login_code: Option<LoginCode>,
    #[schemars(rename = "POST /api/v1/plugins/NAME/disable")]
    disable: Option<PluginDetails>,
    #[schemars(rename = "POST /api/v1/plugins/NAME/enable")]
    enable: Option<PluginDetails>,
    #[schemars(rename = "POST /api/v1/plugins/NAME/reset")]
    reset: Option<PluginDetails>,
    #[schemars(rename = "POST /api/v1/browse/list")]
    browse_list: Option<Exchange<browse::BrowseList, browse::ResourceList>>,
    #[schemars(rename = "POST /api/v1/browse/read")]
    browse_read: Option<Exchange<browse::BrowseRead, browse::Contents>>,
    /// The response is server-sent events: each member is the name of an event, with its data.
    #[schemars(rename = "POST /api/v1/browse/watch")]
    browse_watch: Option<Exchange<browse::BrowseWatch, WatchEvents>>,
    #[schemars(rename = "POST /api/v1/browse/templates")]
    browse_templates: Option<Exchange<browse::BrowseTemplates, browse::TemplateList>>,
    #[schemars(rename = "POST /api/v1/browse/complete")]
    browse_complete: Option<Exchange<browse::BrowseComplete, browse::CompletionView>>,
    #[schemars(rename = "POST /api/v1/browse/search")]
    browse_search: Option<Exchange<browse::BrowseSearch, browse::Found>>,
    #[schemars(rename = "POST /api/v1/browse/context")]
    browse_context: Option<Exchange<browse::BrowseContext, browse::ContextView>>,
    /// The response to a failed request.
    error: Option<ErrorAnswer>,
}

/// The events of the audit log.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct AuditEvents {
    /// A line of the audit log.
    audit: serde_json::Map<String, Value>,
    missed: MissedLines,
}

/// The events of sent updates.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct UpdateEvents {
    update: SentUpdateView,
    missed: MissedLines,
}

/// The events of a view. Each event has one of these members.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct WatchEvents {
    updated: Option<UpdatedResource>,
    listing: Option<ListingChanged>,
}

/// The body of a request, and its response.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Exchange<Q, A> {
    request: Q,
    answer: A,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
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
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
            #[schemars(deny_unknown_fields)]
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
        #[schemars(extend("format" = "date-time"))]
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
