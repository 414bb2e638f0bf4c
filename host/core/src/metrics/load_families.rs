//! The families of loading plugins: states, load failures, and compilations.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use mcp_host_base::metrics::Family;
use mcp_host_engine::CompileMetrics;
use prometheus_client::encoding::DescriptorEncoder;

use super::to_u64;
use crate::host::{Host, MeasuredState};

/// The states of a plugin.
const STATES: [&str; 7] = ["ready", "failing", "loading", "failed", "unreachable", "suspended", "disabled"];

const STATE: Family = Family::gauge(
    "mcp_host_plugin_state",
    &["plugin", "state"],
    "1 for the state of the plugin: ready, failing (it is served, and most of its last calls failed), loading, failed (it could not be loaded), unreachable (the server of an upstream is gone), suspended (its circuit breaker is open), disabled.",
);
const REQUIRED: Family =
    Family::gauge("mcp_host_plugin_required", &["plugin"], "1 if the server is not ready without the plugin, else 0.");
const LOAD_FAILURES: Family = Family::counter(
    "mcp_host_plugin_load_failures_total",
    &["plugin", "reason"],
    "Failures to load the plugin by reason: read, not-a-component, too-large, memory, digest, compile, import, not-a-provider, cache, describe, database, upstream.",
);
const LAST_LOAD_FAILURE: Family = Family::gauge(
    "mcp_host_plugin_last_load_failure_timestamp_seconds",
    &["plugin", "reason"],
    "The time of the last failure to load the plugin for this reason, in seconds since the Unix epoch.",
);
const COMPILATIONS: Family = Family::counter(
    "mcp_host_compilations_total",
    &["outcome"],
    "Compilations of components by outcome: ok, failed, cancelled. A cached component is not compiled.",
);
const COMPILE_DURATION: Family = Family::histogram(
    "mcp_host_compilation_duration_seconds",
    &[],
    "Durations of compilations, excluding the wait for a compiler.",
);
const COMPILATIONS_RUNNING: Family = Family::gauge("mcp_host_compilations_running", &[], "Running compilers.");
const COMPILATIONS_LIMIT: Family = Family::gauge(
    "mcp_host_compilations_limit",
    &[],
    "The maximum number of running compilers: the number of processors.",
);
const COMPILATIONS_WAITING: Family = Family::gauge(
    "mcp_host_compilations_waiting",
    &[],
    "Components in the queue for a compiler, or that another process compiles.",
);

/// Writes the states of these plugins, and their load failures.
pub(super) fn encode_states(host: &Host, states: &[MeasuredState], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    STATE.encode(encoder, |samples| {
        states.iter().try_for_each(|measured| samples.one_of(&measured.plugin, &STATES, measured.state))
    })?;
    REQUIRED.encode(encoder, |samples| {
        states.iter().try_for_each(|measured| samples.integer(&[&measured.plugin], u64::from(measured.is_required)))
    })?;
    let names: HashSet<_> = states.iter().map(|measured| measured.plugin.as_str()).collect();
    let loads = host.load_counts();
    LOAD_FAILURES.encode(encoder, |samples| {
        loads.retain_failures(
            |plugin| names.contains(plugin),
            |plugin, reason, failure| samples.integer(&[plugin, reason], failure.count.get()),
        )
    })?;
    LAST_LOAD_FAILURE.encode(encoder, |samples| {
        loads.retain_failures(
            |plugin| names.contains(plugin),
            |plugin, reason, failure| samples.seconds(&[plugin, reason], failure.last.get().unwrap_or(Duration::ZERO)),
        )
    })
}

/// Writes the families of compilations.
pub(super) fn encode_compilations(host: &Host, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let (compilers, metrics) = host.compile_metrics();
    let CompileMetrics { waiting, running, succeeded, failed, cancelled, durations } = metrics;
    COMPILATIONS.encode(encoder, |samples| {
        samples.integer(&["ok"], succeeded.get())?;
        samples.integer(&["failed"], failed.get())?;
        samples.integer(&["cancelled"], cancelled.get())
    })?;
    COMPILE_DURATION.encode(encoder, |samples| samples.histogram(&[], durations))?;
    COMPILATIONS_RUNNING.encode_one(encoder, running.get())?;
    COMPILATIONS_LIMIT.encode_one(encoder, to_u64(compilers))?;
    COMPILATIONS_WAITING.encode_one(encoder, waiting.get())
}
