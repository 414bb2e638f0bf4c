//! Sharing polls with other replicas of a cluster (`[cluster]`): the connection, and what a plugin is known by to all replicas.
//!
//! Who polls is decided in `mcp_host_cluster`; what is polled, and who is told, is decided here, in [`poller`](super::poller). Nothing that
//! another replica says is a permission: it is that a path below a mount may have changed, and subscribers are notified under the
//! same rules as of this replica's own polls.

use std::fmt;

use mcp_host_cluster::member::{MemberStats, RoleName};
use mcp_host_cluster::share::{ShardName, ShareStats, SharedPolls};
use mcp_host_engine::plugin::Plugin;

/// The cluster that this host is a replica of.
#[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "without the feature there is none"))]
pub(crate) struct Replicas {
    name: String,
    start: Box<dyn Fn(ShardName) -> SharedPolls + Send + Sync>,
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Replicas {
    /// A cluster of that name. `start` begins to share the polls of a plugin, on the current runtime.
    #[cfg(feature = "cluster")]
    pub(crate) fn new(name: String, start: impl Fn(ShardName) -> SharedPolls + Send + Sync + 'static) -> Self {
        Self { name, start: Box::new(start) }
    }

    /// The cluster of a config; none without one. Connects with the first plugin that is watched.
    ///
    /// # Errors
    ///
    /// The config was made by an application, and is not valid.
    #[cfg(feature = "cluster")]
    pub(crate) fn from_config(
        config: &mcp_host_config::Config,
    ) -> Result<Option<Self>, mcp_host_cluster::engine::nats::NatsError> {
        use mcp_host_cluster::ReplicaId;
        use mcp_host_cluster::engine::nats::{Login, Nats, NatsOptions};
        use mcp_host_config::cluster::NatsCredentials;

        let Some(cluster) = &config.cluster else { return Ok(None) };
        let (name, lease) = (cluster.name.as_str().to_owned(), cluster.lease.duration());
        let login = match &cluster.credentials {
            None => Login::None,
            Some(NatsCredentials::Token(token)) => Login::Token(token.expose().clone()),
            Some(NatsCredentials::Password(user, password)) => Login::Password(user.clone(), password.expose().clone()),
        };
        let engine = Nats::new(NatsOptions {
            servers: cluster.nats.iter().map(|url| url.as_str().to_owned()).collect(),
            login,
            ca: cluster.ca.iter().flat_map(|bundle| bundle.certificates()).cloned().collect(),
            bucket: format!("mcp-host-{name}"),
            timeout: lease.checked_div(5).unwrap_or(lease),
        })?;
        let me = ReplicaId::random();
        tracing::info!(target: "mcp_host", "this host is the replica {me} of the cluster `{name}`");
        Ok(Some(Self::new(name, move |shard| SharedPolls::start(engine.clone(), me, shard, lease))))
    }

    /// Shares the polls of a plugin, if one replica may poll for all.
    pub(super) fn share(&self, plugin: &Plugin) -> Option<SharedPolls> {
        let identity = plugin.poll_identity()?;
        Some((self.start)(ShardName::new(&self.name, [identity], 0)))
    }
}

/// The part of this replica in the polls of one plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedPollStats {
    pub(crate) role: RoleName,
    pub(crate) member: MemberStats,
    /// Requests to the engine that failed.
    pub(crate) failed: u64,
    /// What came and was no message or record.
    pub(crate) invalid: u64,
}

impl SharedPollStats {
    pub(super) fn of(polls: &SharedPolls) -> Self {
        let (role, ShareStats { member, invalid, failed }) = (polls.role(), polls.stats());
        Self { role, member, failed, invalid }
    }
}
