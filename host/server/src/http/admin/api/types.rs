//! The answers and the requests of the administration API, and their JSON Schema.
//!
//! A list is a [`Page`]: it has at most [`MAX_PAGE`] items, and says how many there are. Sizes are in bytes, times in UTC as RFC 3339
//! writes them, durations in the unit that the name ends with.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::browse_types as browse;

/// The maximum number of items on a page, and the default.
pub const MAX_PAGE: usize = 1000;
/// The maximum time after which the filter of the log goes back: a day.
pub const MAX_LOG_SECONDS: u64 = 24 * 60 * 60;
/// The time after which it goes back unless the request says so.
const DEFAULT_LOG_SECONDS: u64 = 10 * 60;

/// Returns the JSON Schema of the API: an object whose member is named by a request line, with the answer as its value, or with the
/// request and the answer.
pub fn json_schema() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Api>();
    schema.to_value()
}

/// The administration API. Each member is one request line; its value is the answer, or the body of the request and the answer.
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
    #[schemars(rename = "GET /api/v1/cache")]
    cache: Option<CacheView>,
    #[schemars(rename = "GET /api/v1/sessions")]
    sessions: Option<Page<SessionView>>,
    #[schemars(rename = "GET /api/v1/subscriptions")]
    subscriptions: Option<SubscriptionsView>,
    #[schemars(rename = "GET /api/v1/search")]
    search: Option<Page<SearchView>>,
    /// Server-sent events: the name of an event, and its data.
    #[schemars(rename = "GET /api/v1/audit?follow")]
    audit: Option<AuditEvents>,
    #[schemars(rename = "GET /api/v1/session")]
    session: Option<ConsoleSession>,
    #[schemars(rename = "POST /api/v1/reload")]
    reload: Option<Reload>,
    #[schemars(rename = "POST /api/v1/explain")]
    explain: Option<Exchange<ExplainRequest, Explanation>>,
    #[schemars(rename = "POST /api/v1/log")]
    log: Option<Exchange<LogRequest, LogView>>,
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
    #[schemars(rename = "POST /api/v1/browse/templates")]
    browse_templates: Option<Exchange<browse::BrowseTemplates, browse::TemplateList>>,
    #[schemars(rename = "POST /api/v1/browse/complete")]
    browse_complete: Option<Exchange<browse::BrowseComplete, browse::CompletionView>>,
    #[schemars(rename = "POST /api/v1/browse/search")]
    browse_search: Option<Exchange<browse::BrowseSearch, browse::Found>>,
    #[schemars(rename = "POST /api/v1/browse/context")]
    browse_context: Option<Exchange<browse::BrowseContext, browse::ContextView>>,
    /// The answer to a request that fails.
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

/// The body of a request, and its answer.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Exchange<Q, A> {
    request: Q,
    answer: A,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Page<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// The number of items of the whole list.
    pub total: usize,
    /// The value of the parameter `after` that continues the list; null at its end.
    pub next: Option<String>,
}

/// The state of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub enum PluginState {
    /// It is served.
    Ready {},
    /// It is being loaded.
    Loading {},
    /// It could not be loaded.
    Failed {
        /// Why.
        reason: String,
    },
    /// Its circuit breaker is open.
    Suspended {
        /// The time until the next probe.
        retry_in_ms: u64,
    },
    /// An administrator disabled it.
    Disabled {
        /// Since when.
        #[schemars(extend("format" = "date-time"))]
        since: String,
        /// Who.
        by: String,
    },
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

api_types! {
    /// The answer to a request that fails.
    struct ErrorAnswer {
        /// What is wrong.
        pub error: String,
        /// What to do about it.
        pub help: Option<String>,
    }

    /// Who makes the request.
    struct ConsoleSession {
        /// The name, by which actions are recorded.
        pub principal: String,
        /// Whether it is an administrator. Otherwise it is a client of `/mcp`, which may browse.
        pub administrator: bool,
        /// What a page sends as the header `mcp-host-console`; only in the answer to a login.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key: Option<String>,
    }

    /// Lines of the audit log that came faster than the client read.
    struct MissedLines {
        /// Their number.
        pub lines: u64,
    }

    /// What the server is, and how it is.
    struct Status {
        /// The version of the program.
        pub version: String,
        /// The id of the process.
        pub pid: u32,
        /// When the administration listener started.
        #[schemars(extend("format" = "date-time"))]
        pub started: String,
        /// The time since then.
        pub uptime_seconds: u64,
        /// The number of the generation of the config: 1 at first, and one more with each reload that changes something.
        pub generation: u64,
        /// The config file.
        pub config_file: Option<String>,
        /// Whether `/readyz` answers 200.
        pub ready: bool,
        /// Why it does not.
        pub not_ready: Vec<String>,
        /// Why the last reload failed, so that the config file is not served as it is; null if it did not fail.
        pub reload_failure: Option<FailedReload>,
        /// The plugins, by name.
        pub plugins: Page<PluginStatus>,
        /// The number of sessions.
        pub sessions: usize,
        /// What clients watch.
        pub watched: WatchedCounts,
        /// The filter of the log.
        pub log: LogView,
    }

    /// A reload that failed.
    struct FailedReload {
        /// When; for a reload that is tried again, when it failed last.
        #[schemars(extend("format" = "date-time"))]
        pub time: String,
        /// Why, and what is served instead.
        pub reason: String,
    }

    /// A plugin, as far as it is short.
    struct PluginStatus {
        /// Its name.
        pub name: String,
        /// The URI prefix that it owns.
        pub mount: String,
        /// Its state.
        pub state: PluginState,
        /// Whether it is a plugin of the config; otherwise the program brings it.
        pub configured: bool,
        /// The SHA-256 of its component.
        pub digest: Option<String>,
        /// The memory of its calls and idle instances; null if it is not loaded.
        pub memory: Option<Memory>,
        /// The number of faults since it was loaded, by kind.
        pub faults: BTreeMap<String, u64>,
        /// Its part of the response cache.
        pub cache: CacheStatus,
        /// Its calls of the last minute; null if it is not loaded.
        pub recent: Option<RecentCalls>,
        /// The number of its resources that clients watch.
        pub watched: usize,
    }

    /// Calls of the last minute, of all functions.
    struct RecentCalls {
        /// The time that they are of: about a minute, or since the start of the administration listener.
        pub window_ms: u64,
        /// Their number.
        pub calls: u64,
        /// The median of their durations, estimated from a histogram, in microseconds; null without calls.
        pub p50_us: Option<u64>,
        /// The duration that 99 of 100 do not exceed; null without calls.
        pub p99_us: Option<u64>,
    }

    /// Memory.
    struct Memory {
        /// What is held now.
        pub used: u64,
        /// `limits.memory`.
        pub limit: u64,
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

    /// A plugin.
    struct PluginDetails {
        /// Its status.
        pub status: PluginStatus,
        /// Its config; null if the program brings it.
        pub config: Option<PluginConfig>,
        /// What the search index has of it; null if it is not searched.
        pub search: Option<SearchView>,
    }

    /// The config of a plugin. Values of variables, credentials and the table `config` are not part of it.
    struct PluginConfig {
        /// Its name.
        pub name: String,
        /// Its title.
        pub title: Option<String>,
        /// Its component.
        pub component: String,
        /// The URI prefix that it owns.
        pub mount: String,
        /// Whether the server is not ready without it.
        pub required: bool,
        /// Whether its responses may be cached.
        pub response_cache: bool,
        /// The interval of polls for changes.
        pub watch_interval_ms: u64,
        /// The keys of its table `config`.
        pub config_keys: Vec<String>,
        /// Its grants.
        pub grants: GrantsView,
        /// Its limits.
        pub limits: LimitsView,
    }

    /// The grants of a plugin.
    struct GrantsView {
        /// The directories.
        pub dirs: Vec<DirView>,
        /// The names of variables.
        pub env: Vec<String>,
        /// The HTTP origins.
        pub http: Vec<String>,
        /// The names of key-value buckets.
        pub keyvalue: Vec<String>,
        /// The names of databases.
        pub sql: Vec<String>,
    }

    /// A directory.
    struct DirView {
        /// Its path on the machine.
        pub host: String,
        /// Its path in the guest.
        pub guest: String,
        /// Whether the plugin may write.
        pub writable: bool,
    }

    /// The limits of a plugin.
    struct LimitsView {
        /// `memory`.
        pub memory: u64,
        /// `cpu`.
        pub cpu_ms: u64,
        /// `deadline`.
        pub deadline_ms: u64,
        /// `concurrency`.
        pub concurrency: usize,
        /// `queue`.
        pub queue: usize,
        /// `queue-timeout`.
        pub queue_timeout_ms: u64,
        /// `rate`, as the config writes it.
        pub rate: String,
        /// `response-size`.
        pub response_size: u64,
        /// `response-items`.
        pub response_items: usize,
    }

    /// The config that is served. It has no secrets, and no values that may be some.
    struct ConfigView {
        /// The number of its generation.
        pub generation: u64,
        /// The file.
        pub file: Option<String>,
        /// `server`.
        pub server: ServerView,
        /// The address of the administration listener.
        pub admin: Option<String>,
        /// Where the audit log is written: a file, or `stderr`.
        pub audit: Option<String>,
        /// The plugins, by name.
        pub plugins: Page<PluginConfig>,
        /// The names of the principals with tokens.
        pub principals: Page<String>,
        /// The issuers of access tokens.
        pub issuers: Page<IssuerView>,
        /// The groups.
        pub groups: Page<GroupView>,
        /// The access rules, in order.
        pub rules: Page<RuleView>,
    }

    /// The settings of the server.
    struct ServerView {
        /// `name`.
        pub name: String,
        /// `http`: the address; null over stdio.
        pub http: Option<String>,
        /// Whether clients are served over TLS.
        pub tls: bool,
        /// `page-size`.
        pub page_size: usize,
        /// `response-cache`.
        pub response_cache: u64,
        /// `confine`.
        pub confine: bool,
        /// `drain-delay`.
        pub drain_delay_ms: u64,
    }

    /// An issuer of access tokens.
    struct IssuerView {
        /// Its name.
        pub name: String,
        /// Its URL.
        pub issuer: String,
    }

    /// A group of principals.
    struct GroupView {
        /// Its name.
        pub name: String,
        /// The principals.
        pub principals: Vec<String>,
        /// The groups of issuers.
        pub groups: Vec<String>,
    }

    /// An access rule.
    struct RuleView {
        /// Its line in the file.
        pub line: Option<usize>,
        /// The principals that it is about.
        pub principals: Vec<String>,
        /// The groups that it is about.
        pub groups: Vec<String>,
        /// The operations that it is about.
        pub operations: Vec<String>,
        /// The globs that it allows.
        pub allow: Vec<String>,
        /// The globs that it denies.
        pub deny: Vec<String>,
    }

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
    }

    /// A resource that clients watch.
    struct WatchedResource {
        /// Its URI.
        pub uri: String,
        /// The number of its subscribers.
        pub subscribers: usize,
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

    /// What a reload changed.
    struct Reload {
        /// The number of the generation that is served now.
        pub generation: u64,
        /// Whether anything has changed.
        pub changed: bool,
        /// The plugins that were added.
        pub plugins_added: Vec<String>,
        /// The plugins with another config or component.
        pub plugins_changed: Vec<String>,
        /// The plugins that were removed.
        pub plugins_removed: Vec<String>,
        /// The keys whose new values apply only after a restart.
        pub requires_restart: Vec<String>,
        /// The parts of the config that changed beside plugins: `rules`, `principals`, `server`, `http`, `admin` or `audit`.
        pub settings_changed: Vec<String>,
        /// The duration.
        pub elapsed_ms: u64,
    }

    /// The filter of the log.
    struct LogView {
        /// The filter that is used now; null if the program has another log.
        pub filter: Option<String>,
        /// When it goes back; null if it is the one that the server started with.
        #[schemars(extend("format" = "date-time"))]
        pub until: Option<String>,
        /// Who set it.
        pub by: Option<String>,
    }

    /// A decision of the access rules.
    struct Explanation {
        /// Whether the operation is allowed.
        pub allowed: bool,
        /// The principal.
        pub principal: String,
        /// Its groups.
        pub groups: Vec<String>,
        /// The operation.
        pub operation: String,
        /// The operation that the decision is about: reading, if that is why a subscription is denied.
        pub decided: String,
        /// The scopes that an access token needs beside.
        pub scopes: Vec<String>,
        /// The URI in normal form.
        pub uri: String,
        /// The plugin whose mount owns it.
        pub plugin: String,
        /// The provider's name of the resource.
        pub path: String,
        /// The rule that decided; null for a default.
        pub rule: Option<ExplainedRule>,
    }

    /// The rule that decided.
    struct ExplainedRule {
        /// Its number in the config, from 1.
        pub number: usize,
        /// Its line in the file.
        pub line: Option<usize>,
        /// `allow` or `deny`.
        pub key: String,
        /// The glob that matches.
        pub glob: String,
    }
}

/// A question about the access rules.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// The resource.
    pub uri: String,
    /// The operation.
    #[serde(default = "read")]
    pub operation: String,
    /// The name of the principal.
    #[serde(default = "local")]
    pub principal: String,
    /// The groups that its login says it is in.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// A filter of the log.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogRequest {
    /// The filter, as the option `--log` has it; null for the one that the server started with.
    pub filter: Option<String>,
    /// The time after which that one is back.
    #[serde(default = "log_seconds")]
    #[schemars(range(min = 1, max = MAX_LOG_SECONDS))]
    pub seconds: u64,
}

fn read() -> String {
    "read".to_owned()
}

pub(super) fn local() -> String {
    "local".to_owned()
}

fn log_seconds() -> u64 {
    DEFAULT_LOG_SECONDS
}

impl<T> Page<T> {
    /// The first items of a list, which the answer does not continue.
    pub(super) fn cut(items: impl ExactSizeIterator<Item = T>) -> Self {
        Self { total: items.len(), items: items.take(MAX_PAGE).collect(), next: None }
    }
}

impl PluginState {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ready {} => "ready",
            Self::Loading {} => "loading",
            Self::Failed { .. } => "failed",
            Self::Suspended { .. } => "suspended",
            Self::Disabled { .. } => "disabled",
        }
    }
}
