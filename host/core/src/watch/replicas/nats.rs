//! The cluster of a config, over NATS.

use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use mcp_host_base::log_target;
use mcp_host_base::shared_buckets::SharedBuckets;
use mcp_host_base::shared_snapshots::SnapshotStore;
use mcp_host_cluster::ReplicaId;
use mcp_host_cluster::engine::nats::{Login, Nats, NatsBuckets, NatsError, NatsOptions, NatsSnapshots};
use mcp_host_cluster::memory::WantsMemory;
use mcp_host_cluster::presence::Presence;
use mcp_host_cluster::session::SessionStore;
use mcp_host_cluster::shards::Shards;
use mcp_host_config::Config;
use mcp_host_config::cluster::{Cluster, NatsCredentials, SessionPlace};

use super::Replicas;

/// Returns how to connect to the servers of a cluster.
fn options(cluster: &Cluster, bucket: String) -> NatsOptions {
    let lease = cluster.lease.duration();
    NatsOptions {
        servers: cluster.nats.iter().map(|url| url.as_str().to_owned()).collect(),
        login: match &cluster.credentials {
            None => Login::None,
            Some(NatsCredentials::Token(token)) => Login::Token(token.expose().clone()),
            Some(NatsCredentials::Password(user, password)) => Login::Password(user.clone(), password.expose().clone()),
        },
        ca: cluster.ca.iter().flat_map(|bundle| bundle.certificates()).cloned().collect(),
        bucket,
        timeout: lease.checked_div(5).unwrap_or(lease),
    }
}

/// Returns the buckets that the replicas of a config's cluster share; none without a cluster. Connects at the first
/// use, and does not join the cluster.
///
/// # Errors
///
/// An application made the config, and it is not valid.
pub(crate) fn shared_buckets(config: &Config) -> Result<Option<Arc<dyn SharedBuckets>>, NatsError> {
    let Some(cluster) = &config.cluster else { return Ok(None) };
    let buckets = NatsBuckets::new(options(cluster, String::new()), cluster.name.as_str())?;
    Ok(Some(Arc::new(buckets)))
}

/// Returns the snapshots of search indexes that the replicas of a config's cluster share; none without a cluster.
/// Connects at the first use.
///
/// # Errors
///
/// An application made the config, and it is not valid.
pub(crate) fn snapshot_store(config: &Config) -> Result<Option<Arc<dyn SnapshotStore>>, NatsError> {
    let Some(cluster) = &config.cluster else { return Ok(None) };
    let name = cluster.name.as_str();
    let options = options(cluster, format!("mcp-host-{name}"));
    Ok(Some(Arc::new(NatsSnapshots::new(options, name, cluster.lease.duration())?)))
}

impl Replicas {
    /// Returns the cluster of a config; none without one. Connects when the first plugin is watched.
    ///
    /// # Errors
    ///
    /// An application made the config, and it is not valid.
    pub(crate) fn from_config(config: &Config) -> Result<Option<Self>, NatsError> {
        let Some(cluster) = &config.cluster else { return Ok(None) };
        let (name, lease) = (cluster.name.as_str().to_owned(), cluster.lease.duration());
        let max_replicas = u32::try_from(cluster.max_replicas.get()).ok().and_then(NonZeroU32::new);
        let max_replicas = max_replicas.unwrap_or(NonZeroU32::MIN);
        let options = options(cluster, format!("mcp-host-{name}"));
        let timeout = options.timeout;
        let engine = Nats::new(options)?;
        let me = ReplicaId::random();
        tracing::info!(target: log_target::CLUSTER, "this host is the replica {me} of the cluster `{name}`");
        let (joined, memory) = ((engine.clone(), name.clone()), WantsMemory::default());
        // No cluster's name has capital letters.
        let sessions = (cluster.sessions == SessionPlace::Shared)
            .then(|| SessionStore::new(engine.with_session_bucket(format!("mcp-host-{name}-SESSIONS")), me, timeout));
        Ok(Some(Self {
            name,
            start: Box::new(move |shard| Shards::start(engine.clone(), me, shard, lease, memory.clone())),
            join: Box::new(move |observer| {
                let (engine, name) = &joined;
                Presence::start(engine.clone(), me, name, lease, max_replicas, observer)
            }),
            presence: OnceLock::new(),
            sessions,
        }))
    }
}
