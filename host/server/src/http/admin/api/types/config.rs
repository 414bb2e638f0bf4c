//! The served config, without secrets.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Page, api_types};

api_types! {
    /// The config of a plugin, without values of variables, credentials, and the table `config`.
    struct PluginConfig {
        /// Its name.
        pub name: String,
        /// Its title.
        pub title: Option<String>,
        /// Its component.
        pub component: String,
        /// The URI prefix that the plugin owns.
        pub mount: String,
        /// Whether the server is ready only if this plugin is loaded.
        pub required: bool,
        /// Whether its responses may be cached.
        pub response_cache: bool,
        /// The polling interval for changes.
        pub watch_interval_ms: u64,
        /// The keys of the table `config`.
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
        /// The names of environment variables.
        pub env: Vec<String>,
        /// The HTTP origins.
        pub http: Vec<String>,
        /// The names of key-value buckets.
        pub keyvalue: Vec<String>,
        /// The names of databases.
        pub sql: Vec<String>,
    }

    /// A granted directory.
    struct DirView {
        /// The path on the machine.
        pub host: String,
        /// The path in the guest.
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
        /// `rate`, in the format of the config.
        pub rate: String,
        /// `response-size`.
        pub response_size: u64,
        /// `response-items`.
        pub response_items: usize,
        /// `listing-items`.
        pub listing_items: usize,
        /// `log`, in the format of the config.
        pub log: String,
        /// `handles`.
        pub handles: usize,
        /// `files`.
        pub files: usize,
        /// `random-bytes`.
        pub random_bytes: u64,
        /// `http`.
        pub http: HttpLimitsView,
        /// `prepare`; null if the provider may not prepare data.
        pub prepare: Option<PrepareLimitsView>,
    }

    /// The limits of preparations.
    struct PrepareLimitsView {
        /// `cpu`.
        pub cpu_ms: u64,
        /// `memory`.
        pub memory: u64,
    }

    /// The limits of outbound HTTP.
    struct HttpLimitsView {
        /// `concurrency`.
        pub concurrency: usize,
        /// `rate`, in the format of the config.
        pub rate: String,
        /// `headers`.
        pub headers: u64,
        /// `body`.
        pub body: u64,
        /// `timeout`.
        pub timeout_ms: u64,
    }

    /// The served config, without secrets and values that may be secrets.
    struct ConfigView {
        /// The number of the config's generation.
        pub generation: u64,
        /// The config file.
        pub file: Option<String>,
        /// `server`.
        pub server: ServerView,
        /// The address of the administration listener.
        pub admin: Option<String>,
        /// The destination of the audit log: a file, or `stderr`.
        pub audit: Option<String>,
        /// The possible values of members of audit log lines.
        pub audit_values: AuditValues,
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

    /// The possible values of members of audit log lines.
    struct AuditValues {
        /// The values of `operation`.
        pub operations: Vec<String>,
        /// The values of `decision`.
        pub decisions: Vec<String>,
        /// The values of `outcome`.
        pub outcomes: Vec<String>,
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
        /// The groups from the tokens of issuers.
        pub groups: Vec<String>,
    }

    /// An access rule.
    struct RuleView {
        /// Its line in the file.
        pub line: Option<usize>,
        /// The principals that the rule concerns.
        pub principals: Vec<String>,
        /// The groups that the rule concerns.
        pub groups: Vec<String>,
        /// The operations that the rule concerns.
        pub operations: Vec<String>,
        /// The globs that it allows.
        pub allow: Vec<String>,
        /// The globs that it denies.
        pub deny: Vec<String>,
    }
}
