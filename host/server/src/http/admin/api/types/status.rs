//! The status of the server and of its plugins.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CacheStatus, LogView, Page, PluginConfig, SearchView, WatchedCounts, api_types};

/// The state of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "name", rename_all = "kebab-case")]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub enum PluginState {
    /// The plugin is served.
    Ready {},
    /// The plugin is served, but most of its calls fail, or one of its grants cannot be used.
    Failing {
        /// The cause: `calls` or `grant`.
        cause: String,
        /// When it began.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        since: String,
        /// The number of failed calls among `calls`.
        failed: usize,
        /// The number of recent calls that were evaluated: at most 20, of the last ten minutes.
        calls: usize,
        /// The last failed function with the reason, or the reason why the grant cannot be used.
        reason: String,
    },
    /// The plugin is being loaded.
    Loading {},
    /// The plugin could not be loaded.
    Failed {
        /// The reason.
        reason: String,
    },
    /// The plugin is loaded, but cannot reach its data: an upstream whose server is not reachable.
    Unreachable {
        /// When it began.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        since: String,
        /// The reason of the last failed attempt.
        reason: String,
    },
    /// The plugin's circuit breaker is open.
    Suspended {
        /// The time until the next probe.
        retry_in_ms: u64,
    },
    /// An administrator disabled the plugin.
    Disabled {
        /// When it was disabled.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        since: String,
        /// The administrator.
        by: String,
    },
}

api_types! {
    /// The identity and the status of the server.
    struct Status {
        /// The version of the program.
        pub version: String,
        /// The process id.
        pub pid: u32,
        /// When the administration listener started.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        pub started: String,
        /// The time since `started`.
        pub uptime_seconds: u64,
        /// The number of the config's generation: 1 at the start, incremented by each reload that changes something.
        pub generation: u64,
        /// The config file.
        pub config_file: Option<String>,
        /// Whether `/readyz` answers 200.
        pub ready: bool,
        /// The reasons why `/readyz` does not answer 200.
        pub not_ready: Vec<String>,
        /// The last reload, if it failed, so that the current config file is not served; null if it succeeded.
        pub reload_failure: Option<FailedReload>,
        /// The plugins, by name.
        pub plugins: Page<PluginStatus>,
        /// The number of sessions.
        pub sessions: usize,
        /// The counts of subscriptions.
        pub watched: WatchedCounts,
        /// The audit log; null without one.
        pub audit: Option<AuditStatus>,
        /// The reasons why plugins could not be indexed for search, by plugin.
        pub search_failures: BTreeMap<String, String>,
        /// The filter of the log.
        pub log: LogView,
        /// The cluster of this replica; null without one.
        pub cluster: Option<ClusterView>,
    }

    /// The audit log.
    struct AuditStatus {
        /// The file; null if the log is written to standard error.
        pub file: Option<String>,
        /// The write failure; null if the last write succeeded.
        pub failure: Option<AuditFailureView>,
        /// Whether requests are refused while the log cannot be written (`on-full = "refuse"`). If not, lines are dropped while the queue
        /// is full.
        pub refuses: bool,
        /// The number of lost lines since the start.
        pub dropped_lines: u64,
        /// The number of requests since the start that were refused because they could not be logged.
        pub refused_requests: u64,
    }

    /// A failure to write the audit log.
    struct AuditFailureView {
        /// When the failure began.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        pub since: String,
        /// The reason of the last failed attempt.
        pub reason: String,
    }

    /// The cluster, as seen by this replica.
    struct ClusterView {
        /// The name of the cluster.
        pub name: String,
        /// Whether this replica receives the messages to all replicas. If not, it polls for itself, does not cache responses of shared
        /// plugins, and does not know which other replicas are alive; its data about other replicas are the last received.
        pub hears: bool,
        /// The number of live replicas, including this one: those with `alive` in the list.
        pub live: u32,
        /// The divisor of rates: `live`, at most `max-replicas`. While this replica receives no messages, the divisor does not change.
        pub rate_divisor: u32,
        /// The number of live replicas with another config than this replica.
        pub differing: usize,
        /// The number of live replicas with another `server.cursor-key`: their cursors are not valid at this replica, and vice versa.
        pub differing_cursor_keys: usize,
        /// The number of times that this replica dropped all cached responses of shared plugins, because it may have missed a notice.
        pub cache_drops: u64,
        /// The known replicas, by id.
        pub replicas: Page<ReplicaView>,
    }

    /// A replica of a cluster, as seen by this replica.
    struct ReplicaView {
        /// The id of the replica, which is new at each start.
        pub id: String,
        /// Whether it is the replica that answers.
        pub this: bool,
        /// Whether a message of the replica was received within half of the lease; true for the replica that answers.
        pub alive: bool,
        /// The time since the last received message of the replica.
        pub silent_ms: u64,
        /// The version of the program.
        pub version: String,
        /// The name of the replica's machine.
        pub machine: String,
        /// The process id.
        pub pid: u32,
        /// The digest of the replica's config, without machine-specific parts.
        pub config: String,
        /// Whether its config differs from the config of the replica that answers.
        pub differs: bool,
        /// Whether its `server.cursor-key` differs from the key of the replica that answers, so that cursors of one are not valid at the
        /// other.
        pub cursor_key_differs: bool,
        /// The number of plugins that the replica polls for all replicas.
        pub leases: usize,
        /// The names of these plugins; at most 64.
        pub leased_plugins: Vec<String>,
    }

    /// A failed reload.
    struct FailedReload {
        /// When the reload failed; for a reload that is retried, the last time.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        pub time: String,
        /// The reason, and the config that is served instead.
        pub reason: String,
    }

    /// The status of a plugin.
    struct PluginStatus {
        /// Its name.
        pub name: String,
        /// The URI prefix that the plugin owns.
        pub mount: String,
        /// Its state.
        pub state: PluginState,
        /// Whether the plugin's provider has answered a call since it was loaded, besides those of loading. Until then it is not known
        /// whether a plugin in the state `ready` works.
        pub answered: bool,
        /// Whether the config declares the plugin. If not, it is a native plugin of the program.
        pub configured: bool,
        /// The SHA-256 digest of the component.
        pub digest: Option<String>,
        /// The memory of the plugin's calls and idle instances, or of its program's processes; null if the plugin is not loaded.
        pub memory: Option<Memory>,
        /// The number of faults by kind, since the plugin was loaded.
        pub faults: BTreeMap<String, u64>,
        /// The plugin's part of the response cache.
        pub cache: CacheStatus,
        /// The plugin's calls of the last minute; null if the plugin is not loaded.
        pub recent: Option<RecentCalls>,
        /// The number of warnings about the plugin's grants and settings, whose texts its details have; 0 until the server has inspected
        /// its component for them, which follows its loading.
        pub warnings: usize,
        /// The number of the plugin's resources that clients watch.
        pub watched: usize,
        /// The progress of the plugin's preparation; null if the plugin is not loaded, or its provider does not prepare data.
        pub preparation: Option<PreparationView>,
    }

    /// The preparation of a plugin's data, which takes longer than a call.
    struct PreparationView {
        /// `off` (the config has no `limits.prepare`), `waiting`, `running`, `done`, `failing` (it is retried) or `stopped` (it has
        /// exceeded `limits.prepare.cpu`).
        pub state: String,
        /// When that began; of `failing`, the first of the calls that fail.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        pub since: String,
        /// The progress in percent; null if it is unknown.
        pub percent: Option<u8>,
        /// The provider's last message.
        pub message: Option<String>,
        /// The reason why the preparation is failing, or has stopped.
        pub reason: Option<String>,
        /// The number of calls of this preparation, or of the last one.
        pub calls: u64,
        /// The processor time of these calls.
        pub cpu_ms: u64,
        /// `limits.prepare.cpu`; null without a limit.
        pub cpu_limit_ms: Option<u64>,
    }

    /// The calls of the last minute, of all functions.
    struct RecentCalls {
        /// The length of the time window: about a minute, or less soon after the start of the administration listener.
        pub window_ms: u64,
        /// The number of calls.
        pub calls: u64,
        /// The median of the durations, estimated from a histogram, in microseconds; null without calls.
        pub p50_us: Option<u64>,
        /// The 99th percentile of the durations, in microseconds; null without calls.
        pub p99_us: Option<u64>,
    }

    /// The memory use and its limit.
    struct Memory {
        /// The memory in use.
        pub used: u64,
        /// `limits.memory`.
        pub limit: u64,
    }

    /// The details of a plugin.
    struct PluginDetails {
        /// Its status.
        pub status: PluginStatus,
        /// The number of loads since the start of the server.
        pub loads: PluginLoads,
        /// The plugin's config; null for a native plugin.
        pub config: Option<PluginConfig>,
        /// The current resource use of the plugin's calls and stored data, with the limits; null if the plugin is not loaded.
        pub usage: Option<UsageView>,
        /// The search index's content of the plugin; null if the plugin is not searched.
        pub search: Option<SearchView>,
        /// The plugin's programs, if it is an upstream with a `command`; null if it is not, or is not loaded.
        pub programs: Option<ProgramsView>,
        /// The imports of the plugin's component, compared with its grants; empty for a native plugin, and if the plugin is not loaded.
        pub requirements: Vec<RequirementView>,
        /// The needs of the plugin's component that are not granted, or not configured as required, one line each.
        pub unmet: Vec<String>,
        /// The warnings about the plugin's grants and settings, one line each, as `mcp-host check` prints them, except those for which
        /// `check` makes a call or a connection. Empty if the plugin is not loaded.
        pub warnings: Vec<String>,
        /// The last log lines about the plugin, oldest first: lines of its guest, or of its program's standard error, and its faults. If
        /// the plugin could not be loaded, the reason.
        pub log: Vec<PluginLogLine>,
    }

    /// The current resource use of a plugin, besides its memory.
    struct UsageView {
        /// The number of running calls of clients.
        pub running: usize,
        /// The maximum number of concurrent calls: `limits.concurrency`, or less if `limits.memory` has no room for this number of
        /// instances.
        pub concurrency: usize,
        /// The number of queued calls.
        pub waiting: usize,
        /// The maximum number of queued calls: `limits.queue`.
        pub queue: usize,
        /// The key-value buckets.
        pub buckets: Vec<BucketView>,
    }

    /// A key-value bucket.
    struct BucketView {
        /// Its name.
        pub name: String,
        /// The size of the keys and values.
        pub bytes: u64,
        /// The quota of the size.
        pub max_bytes: u64,
        /// The number of keys.
        pub keys: u64,
        /// The quota of the number of keys.
        pub max_keys: u64,
    }

    /// The programs of an upstream: one, or one for each principal that has its own view.
    struct ProgramsView {
        /// The programs that run, or will be started again when needed; the host's own program first.
        pub programs: Vec<ProgramView>,
        /// The number of starts since the plugin was loaded.
        pub starts: u64,
        /// The number of ends since the plugin was loaded, by reason: `exit`, `signal`, `memory` or `cpu` (killed because it exceeded a
        /// limit), `stopped` (by the host), `unknown`.
        pub ends: BTreeMap<String, u64>,
        /// The last end of any program; null if no program has ended.
        pub last_end: Option<ProgramEndView>,
    }

    /// A program with all processes that it has started. Their usage is measured every second.
    struct ProgramView {
        /// The process id; null if the program does not run, or the id is unknown.
        pub process: Option<u32>,
        /// `running` or `ended`.
        pub state: String,
        /// When the program was last started.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        pub started: String,
        /// The number of restarts after an end.
        pub restarts: u64,
        /// The memory in use; null if it is not measured.
        pub memory: Option<u64>,
        /// The limit of the memory; null without a limit.
        pub memory_limit: Option<u64>,
        /// The processor time since the start; null if it is not measured.
        pub cpu_ms: Option<u64>,
        /// The limit of the processor time; null without a limit.
        pub cpu_limit_ms: Option<u64>,
        /// The number of processes and threads; null if they are not counted.
        pub processes: Option<u64>,
        /// The limit of this number; null without a limit.
        pub processes_limit: Option<u64>,
    }

    /// The end of a program.
    struct ProgramEndView {
        /// When the program ended.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        pub time: String,
        /// The reason, as in `ends`.
        pub reason: String,
        /// The reason as a sentence.
        pub text: String,
    }

    /// The loads of a plugin.
    struct PluginLoads {
        /// The number of successful loads.
        pub succeeded: u64,
        /// The number of failed loads, by reason.
        pub failed: BTreeMap<String, u64>,
    }

    /// A capability that a component imports, or that its plugin is granted.
    struct RequirementView {
        /// The name of the capability.
        pub capability: String,
        /// The comparison of import and grant: `not required`, `granted`, `not granted`, `missing`, `unused` or `unsupported`.
        pub status: String,
        /// The grants of the capability.
        pub granted: Vec<String>,
    }

    /// A log line about a plugin.
    struct PluginLogLine {
        /// When the line was logged.
        #[cfg_attr(test, schemars(extend("format" = "date-time")))]
        pub time: String,
        /// The level: `trace`, `debug`, `info`, `warn` or `error`.
        pub level: String,
        /// The line.
        pub text: String,
        /// How many times the line was logged; `time` is the last time.
        pub times: u64,
    }
}

impl PluginState {
    /// Returns the name of the state.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ready {} => "ready",
            Self::Failing { .. } => "failing",
            Self::Loading {} => "loading",
            Self::Failed { .. } => "failed",
            Self::Unreachable { .. } => "unreachable",
            Self::Suspended { .. } => "suspended",
            Self::Disabled { .. } => "disabled",
        }
    }
}
