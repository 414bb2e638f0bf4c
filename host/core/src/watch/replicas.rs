//! The other replicas of a cluster (`[cluster]`): the connection, shared polls, what a plugin is known by to all replicas, and what replicas
//! tell each other of stale responses.
//!
//! Who polls is decided in `mcp_host_cluster`; what is polled, and who is told, is decided here, in [`poller`](super::poller). Nothing that
//! another replica says is a permission: it is that a path below a mount may have changed, and subscribers are notified under the
//! same rules as of this replica's own polls.

use std::fmt;
use std::sync::OnceLock;

use mcp_host_cluster::member::{MemberStats, RoleName};
use mcp_host_cluster::presence::{ClusterView, Observer, Presence};
use mcp_host_cluster::roster::About;
use mcp_host_cluster::share::{ShardName, ShareStats, SharedPolls};
use mcp_host_engine::plugin::Plugin;

/// The cluster that this host is a replica of.
#[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "without the feature there is none"))]
pub(crate) struct Replicas {
    name: String,
    /// Begins to share the polls of a plugin.
    start: Box<dyn Fn(ShardName) -> SharedPolls + Send + Sync>,
    /// Joins the cluster.
    join: Box<dyn Fn(HostObserver) -> Presence + Send + Sync>,
    /// The presence of this replica, once it has joined.
    presence: OnceLock<Presence>,
}

/// What the host does about what other replicas say.
pub(crate) type HostObserver = Box<dyn Observer>;

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Replicas {
    /// The cluster of a config; none without one. Connects with the first plugin that is watched.
    ///
    /// # Errors
    ///
    /// The config was made by an application, and is not valid.
    #[cfg(feature = "cluster")]
    pub(crate) fn from_config(
        config: &mcp_host_config::Config,
    ) -> Result<Option<Self>, mcp_host_cluster::engine::nats::NatsError> {
        use std::num::NonZeroU32;

        use mcp_host_cluster::ReplicaId;
        use mcp_host_cluster::engine::nats::{Login, Nats, NatsOptions};
        use mcp_host_config::cluster::NatsCredentials;

        let Some(cluster) = &config.cluster else { return Ok(None) };
        let (name, lease) = (cluster.name.as_str().to_owned(), cluster.lease.duration());
        let max_replicas = u32::try_from(cluster.max_replicas.get()).ok().and_then(NonZeroU32::new);
        let max_replicas = max_replicas.unwrap_or(NonZeroU32::MIN);
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
        let joined = (engine.clone(), name.clone());
        Ok(Some(Self {
            name,
            start: Box::new(move |shard| SharedPolls::start(engine.clone(), me, shard, lease)),
            join: Box::new(move |observer| {
                let (engine, name) = &joined;
                Presence::start(engine.clone(), me, name, lease, max_replicas, observer)
            }),
            presence: OnceLock::new(),
        }))
    }

    /// Shares the polls of a plugin, if one replica may poll for all.
    pub(super) fn share(&self, plugin: &Plugin) -> Option<SharedPolls> {
        Some((self.start)(self.shard(plugin)?))
    }

    /// Joins the cluster, on the current runtime.
    pub(crate) fn join(&self, observer: HostObserver) {
        self.presence.get_or_init(|| (self.join)(observer));
    }

    /// Tells the other replicas that their cached responses of a plugin are stale, if what it answers is the same for all.
    pub(super) fn invalidate(&self, plugin: &Plugin) {
        if let (Some(presence), Some(shard)) = (self.presence.get(), self.shard(plugin)) {
            presence.invalidate(&shard);
        }
    }

    /// Whether a plugin is what other replicas know by that key.
    pub(super) fn is_shard(&self, plugin: &Plugin, key: &str) -> bool {
        self.shard(plugin).is_some_and(|shard| shard.key() == key)
    }

    /// The cluster as this replica knows it; none before it has joined.
    pub(super) fn view(&self) -> Option<ClusterView> {
        self.presence.get().map(Presence::view)
    }

    fn shard(&self, plugin: &Plugin) -> Option<ShardName> {
        Some(ShardName::new(&self.name, [plugin.poll_identity()?], 0))
    }
}

/// What this process says about itself beside its config and its leases.
pub(crate) fn about_process() -> About {
    let machine =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine.unwrap_or_default().trim().to_owned(),
        process: std::process::id(),
        ..About::default()
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
