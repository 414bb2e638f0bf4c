//! What the server is, how it is, and how its plugins are.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CacheStatus, LogView, Page, PluginConfig, SearchView, WatchedCounts, api_types};

/// The state of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub enum PluginState {
    /// It is served.
    Ready {},
    /// It is served, and most of its calls fail, or a grant of it cannot be used.
    Failing {
        /// Which of the two: `calls` or `grant`.
        cause: String,
        /// Since when.
        #[schemars(extend("format" = "date-time"))]
        since: String,
        /// The calls that failed, of those in `calls`.
        failed: usize,
        /// The last calls that are looked at: 20 at most, of the last ten minutes.
        calls: usize,
        /// The function that failed last, and why; or why the grant cannot be used.
        reason: String,
    },
    /// It is being loaded.
    Loading {},
    /// It could not be loaded.
    Failed {
        /// Why.
        reason: String,
    },
    /// It is loaded, and its data cannot be reached: an upstream whose server is gone.
    Unreachable {
        /// Since when.
        #[schemars(extend("format" = "date-time"))]
        since: String,
        /// Why, as of the last attempt.
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
        /// The audit log; null without one.
        pub audit: Option<AuditStatus>,
        /// The filter of the log.
        pub log: LogView,
        /// The cluster that the host is a replica of; null without one.
        pub cluster: Option<ClusterView>,
    }

    /// The audit log.
    struct AuditStatus {
        /// The file; null if it is written to standard error.
        pub file: Option<String>,
        /// That it cannot be written; null if the last write succeeded.
        pub failure: Option<AuditFailureView>,
        /// Whether requests are refused while it cannot be written (`on-full = "refuse"`); otherwise lines are dropped once the queue
        /// is full.
        pub refuses: bool,
        /// The lines that were lost since the start.
        pub dropped_lines: u64,
        /// The requests that were refused since the start, as they would have had no line.
        pub refused_requests: u64,
    }

    /// That the audit log cannot be written.
    struct AuditFailureView {
        /// Since when.
        #[schemars(extend("format" = "date-time"))]
        pub since: String,
        /// Why, as of the last attempt.
        pub reason: String,
    }

    /// A cluster, as this replica knows it.
    struct ClusterView {
        /// Its name.
        pub name: String,
        /// Whether this replica hears what is said to all. Otherwise it polls for itself, keeps no cached responses of shared plugins,
        /// and knows of no other replica that is alive: what it says of others is what it heard last.
        pub hears: bool,
        /// The number of live replicas, this one included: as many as have `alive` in the list.
        pub live: u32,
        /// The number by which rates are divided: `live`, `max-replicas` at most; while nothing is heard, as before.
        pub rate_divisor: u32,
        /// The number of live replicas with another config than this one.
        pub differing: usize,
        /// The number of live replicas with another `server.cursor-key`, so that cursors of one are not valid at the other.
        pub differing_cursor_keys: usize,
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
        /// Whether it was heard within half of the lease, and so was the one that answers.
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
        /// Whether cursors of one of the two are not valid at the other, as their `server.cursor-key` differ.
        pub cursor_key_differs: bool,
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
        /// The memory of its calls and idle instances, or of the processes of its program; null if it is not loaded.
        pub memory: Option<Memory>,
        /// The number of faults since it was loaded, by kind.
        pub faults: BTreeMap<String, u64>,
        /// Its part of the response cache.
        pub cache: CacheStatus,
        /// Its calls of the last minute; null if it is not loaded.
        pub recent: Option<RecentCalls>,
        /// The number of its resources that clients watch.
        pub watched: usize,
        /// How far its preparation is; null if it is not loaded, or its provider does not prepare.
        pub preparation: Option<PreparationView>,
    }

    /// The preparation of a plugin: work of its provider that takes longer than a call.
    struct PreparationView {
        /// `off` (the config has no `limits.prepare`), `waiting`, `running`, `done`, `failing` (it is retried) or `stopped` (it used up
        /// `limits.prepare.cpu`).
        pub state: String,
        /// When that began; of `failing`, the first of the calls that fail.
        #[schemars(extend("format" = "date-time"))]
        pub since: String,
        /// How much is done, in per cent; null if that is not known.
        pub percent: Option<u8>,
        /// What the provider said last.
        pub message: Option<String>,
        /// Why it is failing, or has stopped.
        pub reason: Option<String>,
        /// The calls of this preparation, or of the last one.
        pub calls: u64,
        /// Their processor time.
        pub cpu_ms: u64,
        /// `limits.prepare.cpu`; null without.
        pub cpu_limit_ms: Option<u64>,
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

    /// A plugin.
    struct PluginDetails {
        /// Its status.
        pub status: PluginStatus,
        /// How often it was loaded since the start of the server.
        pub loads: PluginLoads,
        /// Its config; null if the program brings it.
        pub config: Option<PluginConfig>,
        /// What its calls and its stored data use now of what they may; null if it is not loaded.
        pub usage: Option<UsageView>,
        /// What the search index has of it; null if it is not searched.
        pub search: Option<SearchView>,
        /// The programs that it runs, if it is an upstream with a `command`; null otherwise, and if it is not loaded.
        pub programs: Option<ProgramsView>,
        /// What its component imports, compared with its grants; empty if it is not loaded, or brought by the program.
        pub requirements: Vec<RequirementView>,
        /// What its component asks for and it is not granted, or not configured as it needs it, a line each.
        pub unmet: Vec<String>,
        /// What was logged of it last, oldest first: lines of its guest, or of the standard error of its program, and its faults; of one
        /// that could not be loaded, why.
        pub log: Vec<PluginLogLine>,
    }

    /// What a plugin uses now, beside its memory.
    struct UsageView {
        /// The calls of clients that run.
        pub running: usize,
        /// The calls that may run at a time: `limits.concurrency`, or fewer if `limits.memory` has no room for as many instances.
        pub concurrency: usize,
        /// The calls that wait.
        pub waiting: usize,
        /// The calls that may wait: `limits.queue`.
        pub queue: usize,
        /// The key-value buckets.
        pub buckets: Vec<BucketView>,
    }

    /// A key-value bucket.
    struct BucketView {
        /// Its name.
        pub name: String,
        /// The bytes of its keys and values.
        pub bytes: u64,
        /// Its quota of bytes.
        pub max_bytes: u64,
        /// Its keys.
        pub keys: u64,
        /// Its quota of keys.
        pub max_keys: u64,
    }

    /// The programs of an upstream: one, or one for each principal with a view of its own.
    struct ProgramsView {
        /// Those that run, or are started again when they are needed; the host's own first.
        pub programs: Vec<ProgramView>,
        /// How often one was started, since the plugin was loaded.
        pub starts: u64,
        /// How many have ended since then, by reason: `exit`, `signal`, `memory` or `cpu` (killed above a limit), `stopped` (by the
        /// host), `unknown`.
        pub ends: BTreeMap<String, u64>,
        /// The last end, of any of them; null if none has ended.
        pub last_end: Option<ProgramEndView>,
    }

    /// A program, and all processes that it has started. What they use is measured once a second.
    struct ProgramView {
        /// The number of its process; null if it does not run, or that is not known.
        pub process: Option<u32>,
        /// `running` or `ended`.
        pub state: String,
        /// When it was started last.
        #[schemars(extend("format" = "date-time"))]
        pub started: String,
        /// How often it was started again after an end.
        pub restarts: u64,
        /// The memory; null if it is not measured.
        pub memory: Option<u64>,
        /// The limit of the memory; null without one.
        pub memory_limit: Option<u64>,
        /// The processor time since the start; null if it is not measured.
        pub cpu_ms: Option<u64>,
        /// The limit of the processor time; null without one.
        pub cpu_limit_ms: Option<u64>,
        /// The processes and threads; null if they are not counted.
        pub processes: Option<u64>,
        /// The limit of them; null without one.
        pub processes_limit: Option<u64>,
    }

    /// The end of a program.
    struct ProgramEndView {
        /// When.
        #[schemars(extend("format" = "date-time"))]
        pub time: String,
        /// Why: one of the reasons of `ends`.
        pub reason: String,
        /// Why, as a sentence.
        pub text: String,
    }

    /// The loads of a plugin.
    struct PluginLoads {
        /// Those after which it was served.
        pub succeeded: u64,
        /// Those that failed, by reason.
        pub failed: BTreeMap<String, u64>,
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
        /// How often it was logged; `time` is the last time.
        pub times: u64,
    }
}

impl PluginState {
    /// Its name.
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
