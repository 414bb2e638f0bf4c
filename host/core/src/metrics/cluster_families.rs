//! The families of the cluster that the host is a replica of. Without `[cluster]` they have no samples.

use std::fmt;

use mcp_host_base::metrics::Family;
use prometheus_client::encoding::DescriptorEncoder;

use super::to_u64;
use crate::host::Host;

const LIVE: Family = Family::gauge(
    "mcp_host_cluster_live_replicas",
    &[],
    "Live replicas of the cluster, this one included: the number by which rates are divided.",
);
const DIFFERING: Family = Family::gauge(
    "mcp_host_cluster_differing_configs",
    &[],
    "Live replicas of the cluster with another config than this one.",
);
const HEARS: Family = Family::gauge(
    "mcp_host_cluster_hears",
    &[],
    "1 while this replica hears what is said to all, 0 after it has heard nothing for half of the lease.",
);
const LEASES: Family =
    Family::gauge("mcp_host_cluster_leases", &[], "Plugins that this replica polls for all replicas.");
const STALE: Family = Family::counter(
    "mcp_host_cluster_stale_total",
    &["direction"],
    "Notices that cached responses of a plugin are stale, by direction: sent, heard.",
);
const DROPPED: Family = Family::counter(
    "mcp_host_cluster_cache_drops_total",
    &[],
    "How often all cached responses of shared plugins were dropped, as a notice may have been missed.",
);
const FAILURES: Family = Family::counter(
    "mcp_host_cluster_failures_total",
    &["kind"],
    "Requests to NATS about the replicas that failed, and notices that were ignored as they are none: failed, invalid.",
);

/// Writes them.
pub(super) fn encode(host: &Host, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(cluster) = host.cluster() else { return Ok(()) };
    LIVE.encode_one(encoder, u64::from(cluster.live.get()))?;
    DIFFERING.encode_one(encoder, to_u64(cluster.differing))?;
    HEARS.encode_one(encoder, u64::from(cluster.hears))?;
    let leases = cluster.replicas.iter().find(|replica| replica.is_me).map_or(0, |me| me.about.leases);
    LEASES.encode_one(encoder, to_u64(leases))?;
    STALE.encode(encoder, |samples| {
        samples.integer(&["sent"], cluster.stats.stale_sent)?;
        samples.integer(&["heard"], cluster.stats.stale_heard)
    })?;
    DROPPED.encode_one(encoder, cluster.stats.dropped_all)?;
    FAILURES.encode(encoder, |samples| {
        samples.integer(&["failed"], cluster.failed)?;
        samples.integer(&["invalid"], cluster.invalid)
    })
}
