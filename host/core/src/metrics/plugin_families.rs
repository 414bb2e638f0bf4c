//! The families with samples for each loaded plugin: one table, with a line for each family.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mcp_host_base::metrics::{Family, Samples};
use mcp_host_cluster::member::RoleName;
use mcp_host_cluster::shards::ShardsStats;
use mcp_host_cluster::share::ShareStats;
use mcp_host_engine::plugin::PluginUsage;
use mcp_host_sandbox::grant_usage::BucketUsage;

use super::to_u64;
use crate::response_cache::CachedPlugin;

/// A loaded plugin, and its values for this scrape.
pub(crate) struct MeasuredPlugin {
    pub(crate) plugin: Arc<CachedPlugin>,
    pub(crate) usage: PluginUsage,
    pub(crate) buckets: Vec<BucketUsage>,
    /// The lag of the last poll; none before the first one.
    pub(crate) poll_lag: Option<Duration>,
    /// Counters of polls that are shared with other replicas; none if polls are not shared.
    pub(crate) shared_polls: Option<ShardsStats>,
}

/// A family with samples for each loaded plugin.
pub(super) struct PluginFamily {
    family: Family,
    samples: PluginSamples,
}

/// The samples of a family for a plugin. The first label is the plugin.
enum PluginSamples {
    /// One, without further labels: a number.
    Number(fn(&MeasuredPlugin) -> u64),
    /// One, without further labels: a time in seconds; no sample if there is no time.
    Time(fn(&MeasuredPlugin) -> Option<Duration>),
    /// Several numbers with further labels: this calls the given function with each.
    Numbers(fn(&MeasuredPlugin, &mut Add<'_>) -> fmt::Result),
    /// A histogram.
    Durations,
}

/// Adds a sample with these further labels.
type Add<'a> = dyn FnMut(&[&str], u64) -> fmt::Result + 'a;

use PluginSamples::{Durations, Number, Numbers, Time};

impl PluginFamily {
    /// The family.
    pub(super) fn family(&self) -> &Family {
        &self.family
    }

    /// Adds the samples of a plugin.
    pub(super) fn add(&self, measured: &MeasuredPlugin, samples: &mut Samples<'_>) -> fmt::Result {
        let name = measured.plugin.name();
        match self.samples {
            Number(number) => samples.integer(&[name], number(measured)),
            Time(time) => time(measured).map_or(Ok(()), |time| samples.seconds(&[name], time)),
            Numbers(numbers) => numbers(measured, &mut |labels, number| match labels {
                [] => samples.integer(&[name], number),
                [one] => samples.integer(&[name, one], number),
                [one, two] => samples.integer(&[name, one, two], number),
                _ => Err(fmt::Error),
            }),
            Durations => samples.histogram(&[name], measured.plugin.metrics().durations()),
        }
    }
}

/// Declares families: the kind, the name, the labels besides `plugin`, the samples, and the help text.
macro_rules! families {
    ($($kind:ident $name:literal ($($label:literal),*) = $samples:expr, $help:literal;)*) => {
        &[$(PluginFamily { family: Family::$kind($name, &["plugin" $(, $label)*], $help), samples: $samples }),*]
    };
}

/// The families of loaded plugins.
#[rustfmt::skip]
pub(super) const PLUGIN_FAMILIES: &[PluginFamily] = families! {
    counter "mcp_host_plugin_calls_total" ("function", "outcome") = Numbers(calls),
        "Calls by function of the contract and outcome: ok, not-found, invalid-request, denied, cancelled, or the kind of the fault.";
    histogram "mcp_host_plugin_call_duration_seconds" () = Durations,
        "Durations of calls of all functions, including the wait for permits and the validation of the answer.";
    counter "mcp_host_plugin_faults_total" ("kind") = Numbers(faults),
        "Faults by kind. For an exceeded limit the kind is the limit's key: rate, queue, queue-timeout, deadline, cpu, memory, response-size and so on.";
    gauge "mcp_host_plugin_last_fault_timestamp_seconds" () = Time(|of| of.plugin.metrics().last_fault()),
        "The time of the last fault of a call, in seconds since the Unix epoch.";
    gauge "mcp_host_plugin_last_changes_timestamp_seconds" () = Time(|of| of.plugin.metrics().last_changes()),
        "The time of the last answer of `changes`, in seconds since the Unix epoch. It is called while a client is subscribed.";
    gauge "mcp_host_plugin_poll_lag_seconds" () = Time(|of| of.poll_lag),
        "The lag of the last poll for changes (`mcp_host_poll_lag_seconds`).";
    gauge "mcp_host_plugin_poll_role" ("role") = Numbers(poll_role),
        "The number of shards of the plugin in which this replica of a cluster has the role: idle, alone, following (another replica polls for it) or holding (it polls for all). A plugin has one shard unless clients watch very many resources.";
    counter "mcp_host_plugin_shared_polls_total" ("scope") = Numbers(shared_polls),
        "Polls of a plugin with shared polls, by scope: own (resources of this replica) or all (resources of all replicas).";
    counter "mcp_host_plugin_poll_gaps_total" () = Numbers(poll_gaps),
        "The number of times that this replica may have missed changes which another replica found, and notified all subscribers.";
    counter "mcp_host_plugin_poll_leases_total" ("outcome") = Numbers(poll_leases),
        "Leases to poll for all replicas that this replica took or lost, by outcome: taken, lost.";
    counter "mcp_host_plugin_cluster_failures_total" ("kind") = Numbers(cluster_failures),
        "Failed requests to NATS about the plugin, and invalid messages and records that were ignored, by kind: failed, invalid.";
    counter "mcp_host_plugin_cpu_seconds_total" () = Time(|of| Some(of.plugin.metrics().cpu())),
        "Processor time of calls.";
    gauge "mcp_host_plugin_unreachable_since_timestamp_seconds" () = Time(unreachable_since),
        "The time since which the server of an upstream cannot be reached, in seconds since the Unix epoch. No sample while it can be reached.";
    gauge "mcp_host_plugin_failing_since_timestamp_seconds" () = Time(failing_since),
        "The time since which most calls of the plugin fail, in seconds since the Unix epoch. No sample while most succeed.";
    gauge "mcp_host_plugin_preparation" ("state") = Numbers(preparation_state),
        "1 for the state of the preparation of a provider that exports `prepare`: off (the config has no `limits.prepare`), waiting, running, done, failing (it is retried) or stopped (it used up `limits.prepare.cpu`).";
    gauge "mcp_host_plugin_preparation_percent" () = Numbers(preparation_percent),
        "The progress of the preparation, in per cent. No sample while the progress is unknown.";
    gauge "mcp_host_plugin_preparation_cpu_seconds" () = Time(|of| of.plugin.preparation().map(|preparation| preparation.cpu)),
        "Processor time of the running preparation, or of the last one.";
    gauge "mcp_host_plugin_circuit_breaker_open" () = Number(|of| u64::from(of.plugin.suspended_for().is_some())),
        "1 while the circuit breaker suspends the plugin.";
    counter "mcp_host_plugin_circuit_breaker_openings_total" () = Number(|of| of.plugin.metrics().breaker_openings()),
        "Openings of the circuit breaker.";
    gauge "mcp_host_plugin_calls_running" () = Number(|of| to_u64(of.usage.running)),
        "Calls of clients that hold a permit.";
    gauge "mcp_host_plugin_calls_limit" () = Number(|of| to_u64(of.usage.concurrency)),
        "Permits: `limits.concurrency`, or the number of instances that `limits.memory` has room for.";
    gauge "mcp_host_plugin_calls_waiting" () = Number(|of| to_u64(of.usage.waiting)),
        "Calls that wait for a permit or for an instance slot.";
    gauge "mcp_host_plugin_queue_limit" () = Number(|of| to_u64(of.usage.queue)),
        "The maximum number of calls that wait for a permit: `limits.queue`.";
    gauge "mcp_host_plugin_memory_bytes" () = Number(|of| of.usage.memory),
        "Memory of all instances and of answers; for an upstream that is a program, memory of its processes.";
    gauge "mcp_host_plugin_memory_limit_bytes" () = Number(|of| of.usage.memory_limit),
        "`limits.memory`.";
    gauge "mcp_host_plugin_programs_running" () = Numbers(programs_running),
        "Running programs of an upstream.";
    counter "mcp_host_plugin_program_starts_total" () = Numbers(program_starts),
        "Starts of programs of an upstream since the upstream was loaded.";
    counter "mcp_host_plugin_program_ends_total" ("reason") = Numbers(program_ends),
        "Ends of programs of an upstream since the upstream was loaded, by reason: exit, signal, memory or cpu (killed above a limit), stopped (by the host), unknown.";
    counter "mcp_host_plugin_instances_created_total" () = Number(|of| of.plugin.metrics().instances_created()),
        "Instances that were created for a call.";
    counter "mcp_host_plugin_instances_reused_total" () = Number(|of| of.plugin.metrics().instances_reused()),
        "Calls that an idle instance served.";
    gauge "mcp_host_plugin_instances_idle" () = Number(|of| to_u64(of.usage.idle_instances)),
        "Instances that are kept for later calls.";
    counter "mcp_host_plugin_log_dropped_bytes_total" () = Number(|of| of.usage.dropped_log_bytes),
        "Bytes of the plugin's log that `limits.log` dropped.";
    counter "mcp_host_plugin_response_cache_hits_total" () = Number(|of| of.plugin.response_cache_counts().hits),
        "Responses that were in the response cache.";
    counter "mcp_host_plugin_response_cache_misses_total" () = Number(|of| of.plugin.response_cache_counts().misses),
        "Responses that were not in the response cache, and required a call.";
    gauge "mcp_host_plugin_response_cache_bytes" () = Number(|of| of.plugin.response_cache_usage().bytes),
        "Memory of the plugin's responses in the response cache.";
    gauge "mcp_host_plugin_response_cache_limit_bytes" () = Number(|of| of.plugin.response_cache_usage().capacity),
        "The plugin's part of `server.response-cache`.";
    gauge "mcp_host_plugin_bucket_bytes" ("bucket") = Numbers(|of, add| buckets(of, add, |bucket| bucket.bytes)),
        "Bytes of the keys and values in a key-value bucket. A bucket that no call has used since the plugin was loaded is read once.";
    gauge "mcp_host_plugin_bucket_limit_bytes" ("bucket") = Numbers(|of, add| buckets(of, add, |bucket| bucket.max_bytes)),
        "The bucket's quota of bytes: `quota` in `grants.keyvalue`.";
    gauge "mcp_host_plugin_bucket_keys" ("bucket") = Numbers(|of, add| buckets(of, add, |bucket| bucket.keys)),
        "Keys in a key-value bucket.";
    gauge "mcp_host_plugin_bucket_keys_limit" ("bucket") = Numbers(|of, add| buckets(of, add, |bucket| bucket.max_keys)),
        "The bucket's quota of keys: `keys` in `grants.keyvalue`.";
    counter "mcp_host_plugin_http_exchanges_total" ("outcome") = Numbers(http_exchanges),
        "HTTP exchanges of the provider by outcome: ok, client-error (4xx), server-error (5xx), refused-origin, refused-request, refused-address, limit, token, dns, connect, tls, timeout, too-large, protocol, cancelled.";
    counter "mcp_host_plugin_sql_statements_total" ("outcome") = Numbers(sql_statements),
        "SQL statements by outcome: ok, failed (or refused).";
    counter "mcp_host_plugin_sql_seconds_total" () = Time(|of| of.plugin.grant_usage().map(|usage| usage.sql_time).filter(|time| !time.is_zero())),
        "Time of SQL statements, including the wait for a connection.";
    gauge "mcp_host_plugin_supports_changes" () = Number(|of| u64::from(of.plugin.info().watches)),
        "1 if the provider supports change detection.";
};

fn unreachable_since(of: &MeasuredPlugin) -> Option<Duration> {
    of.plugin.outage()?.since.duration_since(SystemTime::UNIX_EPOCH).ok()
}

fn failing_since(of: &MeasuredPlugin) -> Option<Duration> {
    of.plugin.failing()?.since.duration_since(SystemTime::UNIX_EPOCH).ok()
}

fn preparation_state(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    of.plugin.preparation().map_or(Ok(()), |preparation| add(&[preparation.state.name()], 1))
}

fn preparation_percent(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    let percent = of.plugin.preparation().and_then(|preparation| preparation.percent);
    percent.map_or(Ok(()), |percent| add(&[], percent.into()))
}

fn poll_role(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    let Some(polls) = of.shared_polls else { return Ok(()) };
    let mut roles = RoleName::ALL.into_iter().zip(polls.roles).filter(|(_, count)| *count > 0);
    roles.try_for_each(|(role, count)| add(&[role.name()], count.into()))
}

fn shared_polls(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    let Some(ShareStats { member, .. }) = of.shared_polls.map(|polls| polls.stats) else { return Ok(()) };
    add(&["own"], member.own_polls)?;
    add(&["all"], member.shared_polls)
}

fn poll_gaps(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    of.shared_polls.map_or(Ok(()), |polls| add(&[], polls.stats.member.gaps))
}

fn poll_leases(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    let Some(ShareStats { member, .. }) = of.shared_polls.map(|polls| polls.stats) else { return Ok(()) };
    add(&["taken"], member.leases_taken)?;
    add(&["lost"], member.leases_lost)
}

fn cluster_failures(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    let Some(ShareStats { failed, invalid, .. }) = of.shared_polls.map(|polls| polls.stats) else { return Ok(()) };
    add(&["failed"], failed)?;
    add(&["invalid"], invalid)
}

fn calls(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    of.plugin.metrics().calls().try_for_each(|(function, outcome, count)| add(&[function, outcome], count))
}

fn faults(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    of.plugin.faults().iter().try_for_each(|(kind, count)| add(&[kind.name()], *count))
}

fn programs_running(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    let Some(programs) = of.plugin.programs() else { return Ok(()) };
    add(&[], to_u64(programs.programs.iter().filter(|program| program.is_running).count()))
}

fn program_starts(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    of.plugin.programs().map_or(Ok(()), |programs| add(&[], programs.starts))
}

/// Reasons with count 0 are left out.
fn program_ends(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    let Some(programs) = of.plugin.programs() else { return Ok(()) };
    programs.ends.iter().try_for_each(|(reason, count)| add(&[reason.name()], *count))
}

fn buckets(of: &MeasuredPlugin, add: &mut Add<'_>, amount: fn(&BucketUsage) -> u64) -> fmt::Result {
    of.buckets.iter().try_for_each(|bucket| add(&[&bucket.name], amount(bucket)))
}

fn http_exchanges(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    let Some(usage) = of.plugin.grant_usage() else { return Ok(()) };
    usage.http.by_outcome().try_for_each(|(outcome, count)| add(&[outcome], count))
}

/// Outcomes with count 0 are left out.
fn sql_statements(of: &MeasuredPlugin, add: &mut Add<'_>) -> fmt::Result {
    let Some(usage) = of.plugin.grant_usage() else { return Ok(()) };
    let outcomes = [("ok", usage.sql.succeeded()), ("failed", usage.sql.failed())];
    outcomes.into_iter().filter(|(_, count)| *count > 0).try_for_each(|(outcome, count)| add(&[outcome], count))
}
