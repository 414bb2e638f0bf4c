//! The families with samples for each loaded plugin.

use std::fmt;

use mcp_host_base::metrics::{Family, Samples};
use mcp_host_engine::plugin::{CallMetrics, Plugin, PluginUsage};
use mcp_host_sandbox::grant_usage::{GrantUsage, OutcomeCounts};

use super::to_u64;
use crate::response_cache::CachedPlugin;

const PLUGIN: &[&str] = &["plugin"];

/// A family with a sample for each loaded plugin.
pub(super) struct PluginFamily {
    pub(super) family: Family,
    pub(super) add: fn(&CachedPlugin, &mut Samples<'_>) -> fmt::Result,
}

/// The families of loaded plugins.
pub(super) const PLUGIN_FAMILIES: [PluginFamily; 26] = [
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
