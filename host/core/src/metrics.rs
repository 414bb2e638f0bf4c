//! Metrics of a host for Prometheus: [`HostCollector`].
//!
//! Metrics need no collection of their own: a scrape reads the counters and the state that the host has anyway. A
//! protocol server collects its additional metrics itself.
//!
//! Series of a plugin exist while it is loaded. A reload that replaces the plugin keeps the counters of its calls; the
//! counters of its faults, its log, its grants and its response cache restart at 0.

mod cluster_families;
mod load_families;
mod plugin_families;
mod watch_families;

use std::fmt;
use std::sync::Arc;

use mcp_host_base::metrics::{Family, Samples};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

pub use mcp_host_engine::plugin::CallCounts;

pub(crate) use self::plugin_families::MeasuredPlugin;
use self::plugin_families::PLUGIN_FAMILIES;
pub use crate::counters::ReloadFailure;

use crate::counters::HostCounters;
use crate::host::Host;

const BUILD: Family =
    Family::gauge("mcp_host_build_info", &["version"], "Always 1. The label is the version of the program.");
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
    "The time when the config was last applied, at the start or by a reload, in seconds since the Unix epoch.",
);
const LAST_RELOAD_SUCCESSFUL: Family = Family::gauge(
    "mcp_host_last_reload_successful",
    &[],
    "1 if the config file is served as it is, 0 if the last reload failed.",
);
const REQUESTS_RUNNING: Family = Family::gauge("mcp_host_requests_running", &[], "Running requests of all transports.");
const AUTHENTICATION_FAILURES: Family = Family::counter(
    "mcp_host_authentication_failures_total",
    &["reason"],
    "Requests and TLS handshakes whose credentials are not accepted, by reason.",
);
const AUDIT_FAILING: Family = Family::gauge(
    "mcp_host_audit_failing",
    &[],
    "1 while the audit log cannot be written, as on a full disk. When its queue is full, `audit.on-full` applies.",
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
    "Requests that were refused because the audit log had no space (`audit.on-full`).",
);

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
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
    /// The metrics of this host.
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
        watch_families::encode(host, encoder)?;
        cluster_families::encode(host, encoder)?;
        load_families::encode_compilations(host, encoder)?;
        let failed_logins = failed_logins.lock().clone();
        AUTHENTICATION_FAILURES.encode(encoder, |samples| {
            failed_logins.iter().try_for_each(|(reason, count)| samples.integer(&[reason], *count))
        })?;
        let audit = host.audit_usage();
        AUDIT_FAILING.encode_one(encoder, u64::from(audit.failure.is_some()))?;
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
        load_families::encode_states(&self.0, &states, &mut encoder)?;
        self.0.built_ins().encode_metrics(&mut encoder)?;
        PLUGIN_FAMILIES.iter().try_for_each(|family| {
            let add = |samples: &mut Samples<'_>| plugins.iter().try_for_each(|plugin| family.add(plugin, samples));
            family.family().encode(&mut encoder, add)
        })
    }
}
