//! Metrics of a host for Prometheus: [`HostCollector`].
//!
//! Nothing is collected for them: a scrape reads what the host counts and knows anyway. What a protocol server counts beside that,
//! it collects itself.
//!
//! Series of a plugin exist while it is loaded. What is counted of its calls goes on when a reload replaces it; the counters of
//! its faults, of its log, of its grants and of its response cache begin again at 0.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use mcp_host_base::metrics::{Counter, Family, LastTime, Samples};
use mcp_host_engine::plugin::{CallMetrics, Plugin, PluginUsage};
use mcp_host_sandbox::grant_usage::{GrantUsage, OutcomeCounts};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

pub use mcp_host_engine::plugin::CallCounts;

use crate::host::Host;
use crate::response_cache::CachedPlugin;
use crate::watch::WatchStats;

/// The states of a plugin.
const STATES: [&str; 5] = ["ready", "loading", "failed", "suspended", "disabled"];

const PLUGIN: &[&str] = &["plugin"];

/// A family with a sample for each loaded plugin.
struct PluginFamily {
    family: Family,
    add: fn(&CachedPlugin, &mut Samples<'_>) -> fmt::Result,
}

const STATE: Family = Family::gauge(
    "mcp_host_plugin_state",
    &["plugin", "state"],
    "1 for the state that the plugin is in: ready, loading, failed (it could not be loaded), suspended (its circuit breaker is open), disabled.",
);

/// The families of loaded plugins.
const PLUGIN_FAMILIES: [PluginFamily; 26] = [
    metric(
        Family::counter(
            "mcp_host_plugin_calls_total",
            &["plugin", "function", "outcome"],
            "Calls by function of the contract and outcome: ok, not-found, invalid-request, denied, cancelled, or the kind of the fault.",
        ),
        |plugin, samples| {
            let mut calls = plugin.metrics().calls();
            calls.try_for_each(|(function, outcome, count)| samples.integer(&[plugin.name(), function, outcome], count))
        },
    ),
    metric(
        Family::histogram(
            "mcp_host_plugin_call_duration_seconds",
            &["plugin", "function"],
            "Durations of calls, with the wait for permits and the validation of the answer.",
        ),
        |plugin, samples| {
            let mut durations = plugin.metrics().durations();
            durations.try_for_each(|(function, durations)| samples.histogram(&[plugin.name(), function], durations))
        },
    ),
    metric(
        Family::counter(
            "mcp_host_plugin_faults_total",
            &["plugin", "kind"],
            "Faults by kind. For a limit it is the limit's key: rate, queue, queue-timeout, deadline, cpu, memory, response-size and so on.",
        ),
        |plugin, samples| {
            let faults = plugin.faults();
            faults.iter().try_for_each(|(kind, count)| samples.integer(&[plugin.name(), kind.name()], *count))
        },
    ),
    metric(
        Family::gauge(
            "mcp_host_plugin_last_fault_timestamp_seconds",
            PLUGIN,
            "When a call had a fault last, in seconds since the epoch of Unix.",
        ),
        |plugin, samples| match plugin.metrics().last_fault() {
            Some(time) => samples.seconds(&[plugin.name()], time),
            None => Ok(()),
        },
    ),
    metric(
        Family::gauge(
            "mcp_host_plugin_last_changes_timestamp_seconds",
            PLUGIN,
            "When `changes` was answered last, in seconds since the epoch of Unix. It is called while a client is subscribed.",
        ),
        |plugin, samples| match plugin.metrics().last_changes() {
            Some(time) => samples.seconds(&[plugin.name()], time),
            None => Ok(()),
        },
    ),
    metric(
        Family::counter("mcp_host_plugin_cpu_seconds_total", PLUGIN, "Processor time of calls."),
        |plugin, samples| samples.seconds(&[plugin.name()], plugin.metrics().cpu()),
    ),
    metric(
        Family::gauge(
            "mcp_host_plugin_circuit_breaker_open",
            PLUGIN,
            "1 while the circuit breaker suspends the plugin.",
        ),
        |plugin, samples| samples.integer(&[plugin.name()], u64::from(plugin.suspended_for().is_some())),
    ),
    metric(
        Family::counter(
            "mcp_host_plugin_circuit_breaker_openings_total",
            PLUGIN,
            "How often the circuit breaker opened.",
        ),
        |plugin, samples| counted(plugin, samples, CallMetrics::breaker_openings),
    ),
    metric(
        Family::gauge("mcp_host_plugin_calls_running", PLUGIN, "Calls of clients that hold a permit."),
        |plugin, samples| used(plugin, samples, |usage| to_u64(usage.running)),
    ),
    metric(
        Family::gauge(
            "mcp_host_plugin_calls_limit",
            PLUGIN,
            "Permits: `limits.concurrency`, or the number of instances that `limits.memory` has room for.",
        ),
        |plugin, samples| used(plugin, samples, |usage| to_u64(usage.concurrency)),
    ),
    metric(
        Family::gauge("mcp_host_plugin_calls_waiting", PLUGIN, "Calls that wait for a permit or for an instance slot."),
        |plugin, samples| used(plugin, samples, |usage| to_u64(usage.waiting)),
    ),
    metric(
        Family::gauge(
            "mcp_host_plugin_queue_limit",
            PLUGIN,
            "The number of calls that may wait for a permit: `limits.queue`.",
        ),
        |plugin, samples| used(plugin, samples, |usage| to_u64(usage.queue)),
    ),
    metric(
        Family::gauge("mcp_host_plugin_memory_bytes", PLUGIN, "Memory in use, of all instances and of answers."),
        |plugin, samples| used(plugin, samples, |usage| usage.memory),
    ),
    metric(Family::gauge("mcp_host_plugin_memory_limit_bytes", PLUGIN, "`limits.memory`."), |plugin, samples| {
        used(plugin, samples, |usage| usage.memory_limit)
    }),
    metric(
        Family::counter("mcp_host_plugin_instances_created_total", PLUGIN, "Instances that were made for a call."),
        |plugin, samples| counted(plugin, samples, CallMetrics::instances_created),
    ),
    metric(
        Family::counter("mcp_host_plugin_instances_reused_total", PLUGIN, "Calls that an idle instance served."),
        |plugin, samples| counted(plugin, samples, CallMetrics::instances_reused),
    ),
    metric(
        Family::gauge("mcp_host_plugin_instances_idle", PLUGIN, "Instances that are kept for later calls."),
        |plugin, samples| used(plugin, samples, |usage| to_u64(usage.idle_instances)),
    ),
    metric(
        Family::counter(
            "mcp_host_plugin_log_dropped_bytes_total",
            PLUGIN,
            "Bytes of its log that `limits.log` dropped.",
        ),
        |plugin, samples| used(plugin, samples, |usage| usage.dropped_log_bytes),
    ),
    metric(
        Family::counter(
            "mcp_host_plugin_response_cache_hits_total",
            PLUGIN,
            "Responses that were in the response cache.",
        ),
        |plugin, samples| samples.integer(&[plugin.name()], plugin.response_cache_counts().hits),
    ),
    metric(
        Family::counter(
            "mcp_host_plugin_response_cache_misses_total",
            PLUGIN,
            "Responses that were not, and took a call.",
        ),
        |plugin, samples| samples.integer(&[plugin.name()], plugin.response_cache_counts().misses),
    ),
    metric(
        Family::gauge("mcp_host_plugin_response_cache_bytes", PLUGIN, "Memory of the responses in the cache."),
        |plugin, samples| samples.integer(&[plugin.name()], plugin.response_cache_usage().bytes),
    ),
    metric(
        Family::gauge(
            "mcp_host_plugin_response_cache_limit_bytes",
            PLUGIN,
            "The plugin's part of `server.response-cache`.",
        ),
        |plugin, samples| samples.integer(&[plugin.name()], plugin.response_cache_usage().capacity),
    ),
    metric(
        Family::counter(
            "mcp_host_plugin_http_exchanges_total",
            &["plugin", "outcome"],
            "HTTP exchanges with granted origins by outcome: ok (there is a response), failed (or refused).",
        ),
        |plugin, samples| by_outcome(plugin, samples, |usage| usage.http),
    ),
    metric(
        Family::counter(
            "mcp_host_plugin_sql_statements_total",
            &["plugin", "outcome"],
            "SQL statements by outcome: ok, failed (or refused).",
        ),
        |plugin, samples| by_outcome(plugin, samples, |usage| usage.sql),
    ),
    metric(
        Family::counter(
            "mcp_host_plugin_sql_seconds_total",
            PLUGIN,
            "Time of SQL statements, with the wait for a connection.",
        ),
        |plugin, samples| match plugin.grant_usage() {
            Some(usage) if !usage.sql_time.is_zero() => samples.seconds(&[plugin.name()], usage.sql_time),
            _ => Ok(()),
        },
    ),
    metric(
        Family::gauge("mcp_host_plugin_supports_changes", PLUGIN, "1 if the provider supports change detection."),
        |plugin, samples| samples.integer(&[plugin.name()], u64::from(plugin.info().watches)),
    ),
];

const BUILD: Family = Family::gauge("mcp_host_build_info", &["version"], "1, with the version of the program.");
const GENERATION: Family = Family::gauge(
    "mcp_host_generation",
    &[],
    "The number of the generation of the config that is served; the first is 1.",
);
const RELOADS: Family = Family::counter(
    "mcp_host_reloads_total",
    &["outcome"],
    "Reloads of the config by outcome: ok (it changed something), failed.",
);
const LAST_RELOAD: Family = Family::gauge(
    "mcp_host_last_reload_timestamp_seconds",
    &[],
    "When the config was applied last, at the start or by a reload, in seconds since the epoch of Unix.",
);
const LAST_RELOAD_SUCCESSFUL: Family = Family::gauge(
    "mcp_host_last_reload_successful",
    &[],
    "1 if the config file is served as it is, 0 if the last reload failed.",
);
const REQUESTS_RUNNING: Family =
    Family::gauge("mcp_host_requests_running", &[], "Requests of all transports that are executed.");
const SUBSCRIBERS: Family =
    Family::gauge("mcp_host_subscribers", &[], "Sessions and streams that may have subscriptions.");
const WATCHED_RESOURCES: Family =
    Family::gauge("mcp_host_watched_resources", &[], "Resources that clients are subscribed to.");
const POLLED_PLUGINS: Family = Family::gauge("mcp_host_polled_plugins", &[], "Plugins that are polled for changes.");
const UPDATES: Family = Family::counter(
    "mcp_host_updates_total",
    &["kind"],
    "Notifications that were taken by sessions and streams to be sent: of a resource, of the listing.",
);
const AUTHENTICATION_FAILURES: Family = Family::counter(
    "mcp_host_authentication_failures_total",
    &["reason"],
    "Requests and TLS handshakes whose credentials are not accepted, by reason.",
);
const AUDIT_QUEUE: Family =
    Family::gauge("mcp_host_audit_queue_bytes", &[], "Bytes of the audit log that wait to be written.");
const AUDIT_QUEUE_LIMIT: Family =
    Family::gauge("mcp_host_audit_queue_limit_bytes", &[], "The size of the queue of the audit log.");
const AUDIT_DROPPED: Family =
    Family::counter("mcp_host_audit_dropped_lines_total", &[], "Lines of the audit log that were dropped.");
const AUDIT_REFUSED: Family = Family::counter(
    "mcp_host_audit_refused_requests_total",
    &[],
    "Requests that were refused, because the audit log had no space (`audit.on-full`).",
);

const fn metric(family: Family, add: fn(&CachedPlugin, &mut Samples<'_>) -> fmt::Result) -> PluginFamily {
    PluginFamily { family, add }
}

/// Adds what is counted of the calls of a plugin.
fn counted(plugin: &Plugin, samples: &mut Samples<'_>, count: fn(&CallMetrics) -> u64) -> fmt::Result {
    samples.integer(&[plugin.name()], count(plugin.metrics()))
}

/// Adds how often a plugin has used a grant, if it has.
fn by_outcome(plugin: &Plugin, samples: &mut Samples<'_>, of: fn(GrantUsage<'_>) -> &OutcomeCounts) -> fmt::Result {
    let Some(counts) = plugin.grant_usage().map(of) else { return Ok(()) };
    let outcomes = [("ok", counts.succeeded()), ("failed", counts.failed())];
    outcomes
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .try_for_each(|(outcome, count)| samples.integer(&[plugin.name(), outcome], count))
}

/// Adds what a plugin uses.
fn used(plugin: &Plugin, samples: &mut Samples<'_>, amount: fn(&PluginUsage) -> u64) -> fmt::Result {
    samples.integer(&[plugin.name()], amount(&plugin.usage()))
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Why a config, or a part of it, is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadFailure {
    /// When the reload failed. For a reload that is tried again: when it failed last.
    pub at: SystemTime,
    /// Why, and what is served instead.
    pub reason: String,
}

/// What a host counts for metrics only.
#[derive(Debug, Default)]
pub(crate) struct HostCounters {
    reloads: Counter,
    failed_reloads: Counter,
    last_reload: LastTime,
    /// Why the last reload failed; none if it did not.
    reload_failure: Mutex<Option<ReloadFailure>>,
    /// By reason: a few dozen, which the servers name.
    failed_logins: Mutex<BTreeMap<&'static str, u64>>,
}

impl HostCounters {
    /// The counters of a host that starts.
    pub(crate) fn new() -> Self {
        let counters = Self::default();
        counters.last_reload.set_now();
        counters
    }

    /// Counts a reload.
    pub(crate) fn record_reload(&self, is_ok: bool) {
        if is_ok {
            self.reloads.increment();
            self.last_reload.set_now();
        } else {
            self.failed_reloads.increment();
        }
    }

    /// Records how the last reload ended.
    pub(crate) fn record_reload_outcome<T>(&self, outcome: &Result<T, String>) {
        let failure = |reason: &String| ReloadFailure { at: SystemTime::now(), reason: reason.clone() };
        *self.reload_failure.lock() = outcome.as_ref().err().map(failure);
    }

    /// Returns why the last reload failed; none if it did not.
    pub(crate) fn reload_failure(&self) -> Option<ReloadFailure> {
        self.reload_failure.lock().clone()
    }

    /// Counts credentials that are not accepted.
    pub(crate) fn record_failed_login(&self, reason: &'static str) {
        let mut failed = self.failed_logins.lock();
        let count = failed.entry(reason).or_default();
        *count = count.saturating_add(1);
    }
}

/// The metrics of a host, for a registry of `prometheus-client`.
///
/// ```
/// # async fn register(host: std::sync::Arc<mcp_resource_host::Host>) {
/// use mcp_resource_host::metrics::HostCollector;
/// use prometheus_client::registry::Registry;
///
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(HostCollector::new(host)));
/// # }
/// ```
#[derive(Debug)]
pub struct HostCollector(Arc<Host>);

impl HostCollector {
    /// The metrics of that host.
    pub fn new(host: Arc<Host>) -> Self {
        Self(host)
    }

    fn encode_host(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let host = &*self.0;
        let HostCounters { reloads, failed_reloads, last_reload, reload_failure, failed_logins } = host.counters();
        BUILD.encode(encoder, |samples| samples.integer(&[env!("CARGO_PKG_VERSION")], 1))?;
        GENERATION.encode_one(encoder, host.generation())?;
        RELOADS.encode(encoder, |samples| {
            samples.integer(&["ok"], reloads.get())?;
            samples.integer(&["failed"], failed_reloads.get())
        })?;
        LAST_RELOAD.encode(encoder, |samples| samples.seconds(&[], last_reload.get().unwrap_or_default()))?;
        LAST_RELOAD_SUCCESSFUL.encode_one(encoder, u64::from(reload_failure.lock().is_none()))?;
        REQUESTS_RUNNING.encode_one(encoder, to_u64(host.requests_running()))?;
        let WatchStats { subscribers, resources, plugins } = host.watch_stats();
        SUBSCRIBERS.encode_one(encoder, to_u64(subscribers))?;
        WATCHED_RESOURCES.encode_one(encoder, to_u64(resources))?;
        POLLED_PLUGINS.encode_one(encoder, to_u64(plugins))?;
        let (of_resources, of_listing) = host.updates_taken();
        UPDATES.encode(encoder, |samples| {
            samples.integer(&["resource"], of_resources)?;
            samples.integer(&["listing"], of_listing)
        })?;
        let failed_logins = failed_logins.lock().clone();
        AUTHENTICATION_FAILURES.encode(encoder, |samples| {
            failed_logins.iter().try_for_each(|(reason, count)| samples.integer(&[reason], *count))
        })?;
        let audit = host.audit_usage();
        AUDIT_QUEUE.encode_one(encoder, to_u64(audit.queued))?;
        AUDIT_QUEUE_LIMIT.encode_one(encoder, to_u64(audit.limit))?;
        AUDIT_DROPPED.encode_one(encoder, audit.dropped_lines)?;
        AUDIT_REFUSED.encode_one(encoder, audit.refused_requests)
    }
}

impl Collector for HostCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_host(&mut encoder)?;
        let (states, plugins) = self.0.plugins_to_measure();
        STATE.encode(&mut encoder, |samples| {
            states.iter().try_for_each(|(name, state)| samples.one_of(name, &STATES, state))
        })?;
        PLUGIN_FAMILIES.iter().try_for_each(|PluginFamily { family, add }| {
            family.encode(&mut encoder, |samples| plugins.iter().try_for_each(|plugin| add(plugin, samples)))
        })
    }
}
