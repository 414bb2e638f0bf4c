//! The other replicas of a cluster (`[cluster]`): the connection, shared polls, the name of a plugin that all replicas
//! use, and messages about stale responses.
//!
//! `mcp_host_cluster` decides which replica polls; [`poller`](super::poller) decides what is polled and who is
//! notified. A message of another replica never grants access: it only says that a path below a mount may have changed.
//! Subscribers are notified under the same rules as after this replica's own polls.

#[cfg(not(feature = "cluster"))]
mod absent;
#[cfg(feature = "cluster")]
mod nats;

use std::fmt;
use std::sync::OnceLock;

use mcp_host_cluster::presence::{ClusterView, Observer, Presence};
use mcp_host_cluster::roster::{About, Opener};
use mcp_host_cluster::session::{SessionKey, SessionStore};
use mcp_host_cluster::shards::{LISTING_SHARD, Shards};
use mcp_host_cluster::share::ShardName;
use mcp_host_engine::plugin::Plugin;

#[cfg(not(feature = "cluster"))]
pub(crate) use self::absent::{shared_buckets, snapshot_store};
#[cfg(feature = "cluster")]
pub(crate) use self::nats::{shared_buckets, snapshot_store};

/// The cluster that this host is a replica of.
#[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "without the feature there is none"))]
pub(crate) struct Replicas {
    name: String,
    /// Begins sharing the polls of a plugin.
    start: Box<dyn Fn(ShardName) -> Shards + Send + Sync>,
    /// Joins the cluster.
    join: Box<dyn Fn(HostObserver) -> Presence + Send + Sync>,
    /// The presence of this replica, once it has joined.
    presence: OnceLock<Presence>,
    /// The records of sessions, if replicas share them.
    sessions: Option<SessionStore>,
}

/// The host's handler for messages of other replicas.
pub(crate) type HostObserver = Box<dyn Observer>;

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Replicas {
    /// Shares the polls of a plugin, if one replica may poll for all.
    pub(super) fn share(&self, plugin: &Plugin) -> Option<Shards> {
        Some((self.start)(self.shard(plugin)?))
    }

    /// Joins the cluster, on the current runtime.
    pub(crate) fn join(&self, observer: HostObserver) {
        self.presence.get_or_init(|| (self.join)(observer));
    }

    /// Notifies the other replicas that their cached responses of a plugin are stale, if its responses are the same on
    /// all replicas.
    pub(super) fn invalidate(&self, plugin: &Plugin) {
        if let (Some(presence), Some(shard)) = (self.presence.get(), self.shard(plugin)) {
            presence.invalidate(&shard);
        }
    }

    /// The name of the cluster.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The records of sessions, if replicas share them.
    pub(crate) fn sessions(&self) -> Option<&SessionStore> {
        self.sessions.as_ref()
    }

    /// Returns whether this replica receives messages of the others.
    pub(crate) fn hears(&self) -> bool {
        self.presence.get().is_some_and(Presence::hears)
    }

    /// Returns what is known of the replica whose id has these first 16 digits.
    pub(crate) fn opener(&self, digits: u64) -> Opener {
        self.presence.get().map_or(Opener::Gone, |presence| presence.opener(digits))
    }

    /// Notifies the other replicas that the record of a session has changed.
    pub(crate) fn session_changed(&self, session: SessionKey) {
        if let Some(presence) = self.presence.get() {
            presence.session_changed(session);
        }
    }

    /// Returns whether other replicas know the plugin by this key.
    pub(super) fn is_shard(&self, plugin: &Plugin, key: &str) -> bool {
        self.shard(plugin).is_some_and(|shard| shard.key() == key)
    }

    /// Returns this replica's view of the cluster; none before it has joined.
    pub(super) fn view(&self) -> Option<ClusterView> {
        self.presence.get().map(Presence::view)
    }

    /// Returns the name of the first shard, by which other replicas know the plugin.
    fn shard(&self, plugin: &Plugin) -> Option<ShardName> {
        Some(ShardName::new(&self.name, [plugin.poll_identity()?], LISTING_SHARD))
    }
}

/// What this process publishes about itself, except its config and its leases.
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
