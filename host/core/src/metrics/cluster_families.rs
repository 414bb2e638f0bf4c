//! The families of the cluster that the host is a replica of. Without `[cluster]` they have no samples.

use std::fmt;

use mcp_host_base::metrics::Family;
use prometheus_client::encoding::DescriptorEncoder;

use super::to_u64;
use crate::host::{ClusterView, Host};

const LIVE: Family = Family::gauge(
    "mcp_host_cluster_live_replicas",
    &[],
    "Live replicas of the cluster, including this one; 1 while this replica receives no broadcasts.",
);
const DIVISOR: Family = Family::gauge(
    "mcp_host_cluster_rate_divisor",
    &[],
    "The number by which rates are divided: the live replicas, `max-replicas` at most. It does not change while this replica receives no broadcasts.",
);
const DIFFERING: Family = Family::gauge(
    "mcp_host_cluster_differing_configs",
    &[],
    "Live replicas of the cluster with another config than this one.",
);
const DIFFERING_CURSOR_KEYS: Family = Family::gauge(
    "mcp_host_cluster_differing_cursor_keys",
    &[],
    "Live replicas of the cluster with another `server.cursor-key` than this one. Cursors of one are not valid at the other.",
);
const HEARS: Family = Family::gauge(
    "mcp_host_cluster_hears",
    &[],
    "1 while this replica receives broadcasts of the cluster, 0 after it has received none for half of the lease.",
);
const LEASES: Family = Family::gauge(
    "mcp_host_cluster_leases",
    &[],
    "Plugins of which this replica polls at least one shard for all replicas.",
);
const STALE: Family = Family::counter(
    "mcp_host_cluster_stale_total",
    &["direction"],
    "Notices that cached responses of a plugin are stale, by direction: sent, heard (received).",
);
const DROPPED: Family = Family::counter(
    "mcp_host_cluster_cache_drops_total",
    &[],
    "Drops of all cached responses of shared plugins, because a notice may have been missed.",
);
const FAILURES: Family = Family::counter(
    "mcp_host_cluster_failures_total",
    &["kind"],
    "Failed requests to NATS about the replicas, and invalid notices that were ignored, by kind: failed, invalid.",
);

const SESSION_FAILURES: Family = Family::counter(
    "mcp_host_cluster_session_failures_total",
    &["kind"],
    "Failed requests to NATS about shared sessions, and invalid values that were ignored, by kind: failed, invalid.",
);

/// The numbers of one family, each with the values of its labels.
type Numbers = Vec<(&'static [&'static str], u64)>;

/// Writes the families.
pub(super) fn encode(host: &Host, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let cluster = host.cluster();
    let mut add = |family: Family, numbers: fn(&ClusterView) -> Numbers| {
        family.encode(encoder, |samples| {
            let numbers = cluster.as_ref().map(numbers).unwrap_or_default();
            numbers.into_iter().try_for_each(|(labels, number)| samples.integer(labels, number))
        })
    };
    add(LIVE, |cluster| vec![(&[], u64::from(cluster.live.get()))])?;
    add(DIVISOR, |cluster| vec![(&[], u64::from(cluster.divisor.get()))])?;
    add(DIFFERING, |cluster| vec![(&[], to_u64(cluster.differing))])?;
    add(DIFFERING_CURSOR_KEYS, |cluster| vec![(&[], to_u64(cluster.differing_cursor_keys))])?;
    add(HEARS, |cluster| vec![(&[], u64::from(cluster.hears))])?;
    add(LEASES, |cluster| {
        let me = cluster.replicas.iter().find(|replica| replica.is_me);
        vec![(&[], to_u64(me.map_or(0, |me| me.about.leases)))]
    })?;
    add(STALE, |cluster| vec![(&["sent"], cluster.stats.stale_sent), (&["heard"], cluster.stats.stale_heard)])?;
    add(DROPPED, |cluster| vec![(&[], cluster.stats.dropped_all)])?;
    add(FAILURES, |cluster| vec![(&["failed"], cluster.failed), (&["invalid"], cluster.invalid)])?;
    SESSION_FAILURES.encode(encoder, |samples| {
        let Some((failed, invalid)) = host.shared_sessions().map(|sessions| sessions.failures()) else { return Ok(()) };
        samples.integer(&["failed"], failed)?;
        samples.integer(&["invalid"], invalid)
    })
}
