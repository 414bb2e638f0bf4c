//! The cluster of a config, over NATS.

use std::num::NonZeroU32;
use std::sync::OnceLock;

use mcp_host_cluster::ReplicaId;
use mcp_host_cluster::engine::nats::{Login, Nats, NatsError, NatsOptions};
use mcp_host_cluster::presence::Presence;
use mcp_host_cluster::session::SessionStore;
use mcp_host_cluster::share::SharedPolls;
use mcp_host_config::Config;
use mcp_host_config::cluster::{NatsCredentials, SessionPlace};

use super::Replicas;

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
        let login = match &cluster.credentials {
            None => Login::None,
            Some(NatsCredentials::Token(token)) => Login::Token(token.expose().clone()),
            Some(NatsCredentials::Password(user, password)) => Login::Password(user.clone(), password.expose().clone()),
        };
        let timeout = lease.checked_div(5).unwrap_or(lease);
        let engine = Nats::new(NatsOptions {
            servers: cluster.nats.iter().map(|url| url.as_str().to_owned()).collect(),
            login,
            ca: cluster.ca.iter().flat_map(|bundle| bundle.certificates()).cloned().collect(),
            bucket: format!("mcp-host-{name}"),
            timeout,
        })?;
        let me = ReplicaId::random();
        tracing::info!(target: "mcp_host", "this host is the replica {me} of the cluster `{name}`");
        let joined = (engine.clone(), name.clone());
        // No cluster's name has capital letters.
        let sessions = (cluster.sessions == SessionPlace::Shared)
            .then(|| SessionStore::new(engine.with_session_bucket(format!("mcp-host-{name}-SESSIONS")), me, timeout));
        Ok(Some(Self {
            name,
            start: Box::new(move |shard| SharedPolls::start(engine.clone(), me, shard, lease)),
            join: Box::new(move |observer| {
                let (engine, name) = &joined;
                Presence::start(engine.clone(), me, name, lease, max_replicas, observer)
            }),
            presence: OnceLock::new(),
            sessions,
        }))
    }
}
