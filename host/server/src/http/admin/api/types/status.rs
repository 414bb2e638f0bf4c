//! What the server is, how it is, and how its plugins are.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LogView, Page, PluginConfig, SearchView, WatchedCounts, api_types};

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

api_types! {
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
        /// The cluster that the host is a replica of; null without one.
        pub cluster: Option<ClusterView>,
    }

    /// A cluster, as this replica knows it.
    struct ClusterView {
        /// Its name.
        pub name: String,
        /// Whether this replica hears what is said to all. Otherwise it polls for itself, keeps no cached responses of shared plugins,
        /// and the rest of this answer is what it heard last.
        pub hears: bool,
        /// The number of live replicas, this one included: rates are divided by it.
        pub live: u32,
        /// The number of live replicas with another config than this one.
        pub differing: usize,
        /// How often this replica has dropped all cached responses of shared plugins, as it may have missed a notice.
        pub cache_drops: u64,
        /// The replicas that are known, by id.
        pub replicas: Page<ReplicaView>,
    }

    /// A replica of a cluster, as another one knows it.
    struct ReplicaView {
        /// Its id, which is new with each start.
        pub id: String,
        /// Whether it is the one that answers.
        pub this: bool,
        /// Whether it was heard within half of the lease.
        pub alive: bool,
        /// The time since it was heard last.
        pub silent_ms: u64,
        /// The version of the program.
        pub version: String,
        /// The name of its machine.
        pub machine: String,
        /// The id of its process.
        pub pid: u32,
        /// The digest of its config, without what belongs to a machine.
        pub config: String,
        /// Whether that is another one than of the replica that answers.
        pub differs: bool,
        /// The number of plugins that it polls for all.
        pub leases: usize,
        /// The names of these plugins, the first 64.
        pub leased_plugins: Vec<String>,
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
        /// What its component imports, compared with its grants; empty if it is not loaded, or brought by the program.
        pub requirements: Vec<RequirementView>,
        /// What was logged of it last, oldest first: lines of its guest, and its faults.
        pub log: Vec<PluginLogLine>,
    }

    /// A capability that a component imports or that its plugin is granted.
    struct RequirementView {
        /// The capability: the name of the imports.
        pub capability: String,
        /// How both relate: `not required`, `granted`, `not granted`, `missing`, `unused` or `unsupported`.
        pub status: String,
        /// What is granted.
        pub granted: Vec<String>,
    }

    /// A line of the log about a plugin.
    struct PluginLogLine {
        /// When it was logged.
        #[schemars(extend("format" = "date-time"))]
        pub time: String,
        /// Its level: `trace`, `debug`, `info`, `warn` or `error`.
        pub level: String,
        /// The line.
        pub text: String,
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
