//! The host as a replica of a cluster: what it publishes about itself, and how it handles messages of other replicas.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};

use mcp_host_base::shared_buckets::SharedBuckets;
use mcp_host_base::shared_snapshots::SharedSnapshots;
use mcp_host_cluster::presence::Observer;
use mcp_host_cluster::roster::Dropped;
use mcp_host_config::{Config, RuleLine};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::Host;
use super::generation::Generation;
use super::generation_store::GenerationStore;
use super::start_error::StartError;
use crate::access::rate::RequestRates;
use crate::catalog::CursorKey;
use crate::watch::replicas::{self, Replicas, about_process};

#[doc(hidden)]
pub use mcp_host_cluster::ReplicaId;
#[doc(hidden)]
pub use mcp_host_cluster::engine::model::Model as ModelEngine;
pub use mcp_host_cluster::presence::ClusterView;
#[doc(hidden)]
pub use mcp_host_cluster::roster::Opener;
pub use mcp_host_cluster::roster::{About, ReplicaView, RosterStats};
#[doc(hidden)]
pub use mcp_host_cluster::session::{
    MAX_SUBSCRIPTIONS, MAX_URI_BYTES, RecordPlace, SessionChange, SessionKey, SessionRecord, SessionStore, StoreError,
    Stored, StreamPlace, Unwritten,
};

impl Host {
    /// Returns this host's view of its cluster; none without `[cluster]`.
    pub fn cluster(&self) -> Option<ClusterView> {
        self.hub.cluster()
    }

    /// Returns the records of the sessions that replicas share; none unless `cluster.sessions` is `"shared"`.
    #[doc(hidden)]
    pub fn shared_sessions(&self) -> Option<SessionStore> {
        self.hub.replicas()?.sessions().cloned()
    }

    /// Returns whether this replica receives messages of its cluster; false without `[cluster]`.
    #[doc(hidden)]
    pub fn hears_cluster(&self) -> bool {
        self.hub.replicas().is_some_and(Replicas::hears)
    }

    /// Returns the known state of the replica whose id has these first 16 digits; [`Opener::Gone`] without `[cluster]`.
    #[doc(hidden)]
    pub fn session_opener(&self, digits: u64) -> Opener {
        self.hub.replicas().map_or(Opener::Gone, |replicas| replicas.opener(digits))
    }

    /// Notifies the other replicas that the record of a session has changed. Does not wait.
    #[doc(hidden)]
    pub fn session_changed(&self, session: SessionKey) {
        if let Some(replicas) = self.hub.replicas() {
            replicas.session_changed(session);
        }
    }
}

/// Returns the key-value buckets that the replicas of a config's cluster share (`shared = true`); none without
/// `[cluster]`. Connects at the first use.
///
/// # Errors
///
/// An application made the config, and its cluster is not valid.
pub fn shared_buckets(config: &Config) -> Result<Option<Arc<dyn SharedBuckets>>, StartError> {
    Ok(replicas::shared_buckets(config)?)
}

/// Returns the snapshots of search indexes that the replicas of a config's cluster share; none without `[cluster]`.
/// `key` is the key that all replicas have.
///
/// # Errors
///
/// An application made the config, and its cluster is not valid.
pub(super) fn shared_snapshots(config: &Config, key: &CursorKey) -> Result<Option<SharedSnapshots>, StartError> {
    let store = replicas::snapshot_store(config)?;
    Ok(store.map(|store| SharedSnapshots { store, secret: key.derive("snapshots of search indexes") }))
}

/// Joins the cluster of the config, if there is one. Dropping the store leaves the cluster.
pub(super) fn join(store: &Arc<GenerationStore>, rates: &Arc<RequestRates>, key: &CursorKey) {
    if let Some(replicas) = store.hub.replicas() {
        let digest = Mutex::new((0, String::new()));
        let process = About { cursor_keys: key.digests(replicas.name()), ..about_process() };
        let host = ReplicaHost { store: Arc::downgrade(store), rates: rates.clone(), process, digest };
        replicas.join(Box::new(host));
    }
}

/// How a host handles messages of other replicas.
struct ReplicaHost {
    store: Weak<GenerationStore>,
    rates: Arc<RequestRates>,
    process: About,
    /// The digest of the config of a generation.
    digest: Mutex<(u64, String)>,
}

impl ReplicaHost {
    fn digest(&self, generation: &Generation) -> String {
        let mut known = self.digest.lock();
        if known.0 != generation.number {
            *known = (generation.number, config_digest(&generation.config));
        }
        known.1.clone()
    }
}

impl Observer for ReplicaHost {
    fn describe(&self) -> About {
        let Some(store) = self.store.upgrade() else { return self.process.clone() };
        let named_leases = store.hub.leases();
        let config = self.digest(&store.generation.load());
        let sessions = store.hub.replicas().and_then(Replicas::sessions);
        let has_unwritten_sessions = sessions.is_some_and(SessionStore::has_unwritten);
        About { config, leases: named_leases.len(), named_leases, has_unwritten_sessions, ..self.process.clone() }
    }

    fn drop_cached(&self, dropped: &Dropped) {
        if let Some(store) = self.store.upgrade() {
            store.hub.drop_cached(dropped);
        }
    }

    fn set_replicas(&self, replicas: NonZeroU32) {
        self.rates.set_replicas(replicas);
    }
}

/// Returns the digest of the settings that replicas of a cluster have in common: plugins, principals, issuers, groups,
/// rules, and the limits of clients. It excludes settings of a machine (addresses, directories, certificates, logs),
/// secrets, and the lines of rules in the file, which depend on comments.
fn config_digest(config: &Config) -> String {
    let Config { http, plugins, principals, issuers, groups, rules, search, .. } = config;
    let mut rules = rules.clone();
    for rule in &mut rules {
        rule.line = RuleLine::default();
    }
    let text = format!("{:?} {plugins:?} {principals:?} {issuers:?} {groups:?} {rules:?} {search:?}", http.limits);
    Sha256::digest(text.as_bytes()).iter().take(16).fold(String::new(), |mut hexadecimal, byte| {
        let _ = write!(hexadecimal, "{byte:02x}");
        hexadecimal
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mcp_host_config::{Environment, Plugin};

    use super::*;

    #[test]
    fn configs_differ_by_what_is_served_and_not_by_what_belongs_to_a_machine() {
        let mut config = Config::default();
        let digest = config_digest(&config);
        assert_eq!(digest.len(), 32);
        config.server.http = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into());
        config.server.state = Some("/var/lib/mcp-host".into());
        assert_eq!(config_digest(&config), digest);
        config.http.limits.rate = "5/s".parse().unwrap();
        let with_rate = config_digest(&config);
        assert_ne!(with_rate, digest);
        let plugin = Plugin::new("n".parse().unwrap(), "n.wasm", "n:///".parse().unwrap());
        config.plugins.add(plugin).unwrap();
        assert_ne!(config_digest(&config), with_rate);
    }

    #[test]
    fn configs_with_the_same_rules_on_other_lines_are_the_same() {
        let config = |comments: &str, deny: &str| {
            let text = format!(
                "{comments}[[upstream]]\nname = 'a'\nurl = 'https://a.example/mcp'\nmount = 'a+'\n\n[[rule]]\nprincipals = ['local']\n\
                 allow = ['a+**']\ndeny = ['{deny}']\n"
            );
            Config::parse_in(&text, Path::new("/etc/mcp-host.toml"), &Environment::empty()).unwrap()
        };
        let (one, other) = (config("", "**/.env"), config("# A comment.\n\n", "**/.env"));
        assert_ne!(one.rules[0].line.get(), other.rules[0].line.get());
        assert_eq!(config_digest(&one), config_digest(&other));
        assert_ne!(config_digest(&one), config_digest(&config("", "**/.key")));
    }
}
