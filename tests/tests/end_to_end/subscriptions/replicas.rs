//! Replicas of a cluster on a real NATS server: one replica polls for all, and each replica notifies every change, even
//! if any of them dies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use mcp_host_tests::{ConfigFile, Folder, NatsServer, Plugin, RawStdio, Revision, TIMEOUT, WrittenConfig};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::next_updated;

const SHARED: &str = "files://f/shared.txt";
const TOKEN: &str = "a-token-of-an-administrator-for-tests";
/// A lease that is taken soon after its holder has died, or is too slow.
pub(super) const SHORT_LEASE: &str = "lease = \"3s\"\n";
/// A lease that also a slow replica renews in time, for tests in which the roles stay.
const LONG_LEASE: &str = "lease = \"1m\"\n";

/// A replica with a subscriber.
pub(super) struct Replica {
    pub(super) wire: RawStdio,
    admin: String,
    _config: WrittenConfig,
}

impl Replica {
    /// Starts a replica that serves a folder, with a subscriber to a shared file and to a file that only it watches.
    async fn start(nats: &NatsServer, folder: &Folder, own: &str) -> Self {
        let plugin = Plugin::files("f", folder.path()).set("watch-interval", "500ms");
        Self::serve(nats, plugin, &[SHARED, own]).await
    }

    /// Starts a replica that serves a plugin, with a subscriber to some resources.
    pub(super) async fn serve(nats: &NatsServer, plugin: Plugin, uris: &[&str]) -> Self {
        Self::serve_with(nats, plugin, uris, SHORT_LEASE).await
    }

    /// The same, with these keys of `[cluster]`.
    pub(super) async fn serve_with(nats: &NatsServer, plugin: Plugin, uris: &[&str], keys: &str) -> Self {
        let plugin = plugin.set("polling", "shared");
        let cluster = format!(
            "\n[server.cursor-key]\nfile = \"key\"\n\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = {{ file = \"token\" }}\n\n[cluster]\nname = \"test\"\nnats = [{:?}]\n{keys}",
            nats.url()
        );
        let config = ConfigFile::new().plugin(plugin).append(&cluster).write();
        fs::write(config.dir().join("key"), "11".repeat(32)).unwrap();
        fs::write(config.dir().join("token"), TOKEN).unwrap();
        let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
        for uri in uris {
            wire.request("resources/subscribe", json!({ "uri": uri })).await.result();
        }
        Self::of(wire, config).await
    }

    async fn of(wire: RawStdio, config: WrittenConfig) -> Self {
        let line = wire.log_line("administration at ").await;
        Self { wire, admin: line.split_whitespace().last().unwrap().to_owned(), _config: config }
    }

    async fn metrics(&self) -> String {
        reqwest::get(format!("{}/metrics", self.admin)).await.unwrap().text().await.unwrap()
    }

    /// Returns the replica's role: the one whose metric series exists.
    pub(super) async fn role(&self) -> String {
        let metrics = self.metrics().await;
        let series =
            metrics.lines().find_map(|line| line.strip_prefix("mcp_host_plugin_poll_role{plugin=\"f\",role=\""));
        series.expect("the polls are shared").split('"').next().unwrap().to_owned()
    }

    pub(super) async fn value(&self, series: &str) -> u64 {
        let metrics = self.metrics().await;
        metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0)
    }

    /// Waits until a series has a value that meets the condition.
    pub(super) async fn value_is(&self, series: &str, is_met: impl Fn(u64) -> bool) {
        let looking = async {
            while !is_met(self.value(series).await) {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, looking).await.unwrap_or_else(|_| panic!("{series} has another value"));
    }

    /// Returns the administration API's report on the cluster.
    async fn cluster(&self) -> Value {
        let request = reqwest::Client::new().get(format!("{}/api/v1/cluster", self.admin)).bearer_auth(TOKEN);
        request.send().await.unwrap().json().await.unwrap()
    }

    /// Waits until the replica knows `live` live replicas, `differing` of them with another config.
    pub(super) async fn knows(&self, live: u64, differing: u64) -> Value {
        let looking = async {
            loop {
                let cluster = self.cluster().await;
                if (&cluster["live"], &cluster["differing"]) == (&json!(live), &json!(differing)) {
                    return cluster;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, looking).await.expect("the replicas are known")
    }

    /// Reads updates until there was one of each URI.
    async fn told_of_all(&mut self, uris: &[&str]) {
        let mut left = BTreeSet::from_iter(uris.iter().map(|uri| (*uri).to_owned()));
        while !left.is_empty() {
            left.remove(&next_updated(&mut self.wire).await);
        }
    }

    /// Reads updates until there was one of the URI.
    pub(super) async fn told_of(&mut self, uri: &str) {
        while next_updated(&mut self.wire).await != uri {}
    }
}

/// Waits until one replica polls for all, and returns its index.
async fn holder(replicas: &BTreeMap<usize, Replica>) -> usize {
    let settle = async {
        loop {
            let mut roles = BTreeMap::new();
            for (index, replica) in replicas {
                roles.insert(*index, replica.role().await);
            }
            let holder = roles.iter().find(|(_, role)| *role == "holding").map(|(index, _)| *index);
            let following = roles.values().filter(|role| *role == "following").count();
            match holder {
                Some(holder) if following + 1 == replicas.len() => return holder,
                _ => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(TIMEOUT, settle).await.expect("one replica polls for all")
}

/// Returns whether a replica's report on the cluster lists this many live replicas, and one holder among them: this
/// replica if `is_holder`, otherwise another.
fn is_reported(cluster: &Value, live: usize, is_holder: bool) -> bool {
    assert_eq!(cluster["name"], "test", "{cluster}");
    let known = cluster["replicas"]["items"].as_array().unwrap();
    let holders: Vec<_> = known.iter().filter(|known| known["leased_plugins"] == json!(["f"])).collect();
    let [holder] = holders[..] else { return false };
    let hears_all = cluster["hears"] == true && cluster["live"] == json!(live) && cluster["differing"] == 0;
    hears_all && holder["leases"] == 1 && (holder["this"] == true) == is_holder
}

/// Waits until each replica reports the replica that polls for all, and returns its index. Each replica announces its
/// role periodically. A holder that is too slow is replaced meanwhile.
async fn reported_holder(replicas: &BTreeMap<usize, Replica>) -> usize {
    let looking = async {
        loop {
            let holder = holder(replicas).await;
            let mut are_reporting = true;
            for (index, replica) in replicas {
                are_reporting &= is_reported(&replica.cluster().await, replicas.len(), *index == holder);
            }
            if are_reporting {
                return holder;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, looking).await.expect("each replica reports the holder")
}

/// Edits the shared file and each replica's own file, and reads the updates of each replica.
async fn edit_and_check(folder: &Folder, replicas: &mut BTreeMap<usize, Replica>, content: &str) {
    folder.write("shared.txt", content);
    for replica in replicas.values_mut() {
        replica.told_of(SHARED).await;
    }
    for (index, replica) in replicas {
        folder.write(format!("{index}.txt"), content);
        replica.told_of(&format!("files://f/{index}.txt")).await;
    }
}

#[tokio::test]
async fn one_replica_polls_for_all_and_every_change_is_told_though_replicas_and_the_engine_die() {
    let mut nats = NatsServer::start().await;
    let folder = Folder::with_files([("shared.txt", "a"), ("0.txt", "a"), ("1.txt", "a"), ("2.txt", "a")]);
    let mut replicas = BTreeMap::new();
    for index in 0..3 {
        replicas.insert(index, Replica::start(&nats, &folder, &format!("files://f/{index}.txt")).await);
    }
    holder(&replicas).await;
    edit_and_check(&folder, &mut replicas, "xx").await;
    let first = reported_holder(&replicas).await;
    let shared = "mcp_host_plugin_shared_polls_total{plugin=\"f\",scope=\"all\"}";
    replicas[&first].value_is(shared, |polls| polls > 0).await;

    // The holder dies: the next holder continues with its tokens.
    let killed = replicas.remove(&first).unwrap();
    killed.wire.signal(Signal::KILL);
    killed.wire.wait_exit_unread().await;
    edit_and_check(&folder, &mut replicas, "xxx").await;
    let second = holder(&replicas).await;
    edit_and_check(&folder, &mut replicas, "xxxx").await;
    assert_ne!(second, first);

    // The NATS server dies: each replica polls for itself.
    nats.kill().await;
    edit_and_check(&folder, &mut replicas, "xxxxx").await;

    // The server comes back, and sharing resumes.
    nats.restart().await;
    holder(&replicas).await;
    edit_and_check(&folder, &mut replicas, "xxxxxx").await;

    // A replica that shuts down releases the lease.
    let third = holder(&replicas).await;
    replicas.remove(&third).unwrap().wire.end().await;
    holder(&replicas).await;
    edit_and_check(&folder, &mut replicas, "xxxxxxx").await;
    for (_, replica) in replicas {
        replica.wire.end().await;
    }
}

#[tokio::test]
async fn without_the_engine_a_replica_serves_and_polls_for_itself() {
    let mut nats = NatsServer::start().await;
    nats.kill().await;
    let folder = Folder::with_files([("shared.txt", "a"), ("0.txt", "a")]);
    let mut replicas = BTreeMap::from([(0, Replica::start(&nats, &folder, "files://f/0.txt").await)]);
    assert_eq!(replicas[&0].role().await, "alone");
    edit_and_check(&folder, &mut replicas, "xx").await;
    nats.restart().await;
    holder(&replicas).await;
    edit_and_check(&folder, &mut replicas, "xxx").await;
    for (_, replica) in replicas {
        replica.wire.end().await;
    }
}

#[tokio::test]
async fn a_replica_with_another_config_is_told_of_in_the_log_the_metrics_and_the_api() {
    let nats = NatsServer::start().await;
    let folder = Folder::with_files([("shared.txt", "a"), ("0.txt", "a")]);
    let one = Replica::start(&nats, &folder, "files://f/0.txt").await;
    one.knows(1, 0).await;
    let differing = |more: &str| {
        let plugin = Plugin::files("f", folder.path()).set("polling", "shared").set("watch-interval", "500ms");
        let cluster = format!(
            "{more}\n[server.cursor-key]\nfile = \"key\"\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = {{ file = \"token\" }}\n[cluster]\nname = \"test\"\nnats = [{:?}]\n{SHORT_LEASE}",
            nats.url()
        );
        ConfigFile::new().plugin(plugin).append(&cluster)
    };
    let config = differing("\n[[rule]]\nprincipals = [\"local\"]\nallow = [\"files://f/**\"]\n").write();
    fs::write(config.dir().join("key"), "11".repeat(32)).unwrap();
    fs::write(config.dir().join("token"), TOKEN).unwrap();
    let other = Replica::of(RawStdio::start(&config, Revision::V_2025_11_25).await, config).await;
    let cluster = one.knows(2, 1).await;
    assert_eq!(other.knows(2, 1).await["differing"], 1);
    let known = cluster["replicas"]["items"].as_array().unwrap();
    assert_eq!(known.iter().filter(|known| known["differs"] == true).count(), 1, "{cluster}");
    one.value_is("mcp_host_cluster_differing_configs{}", |differing| differing == 1).await;
    one.wire.log_line("has another config than this one").await;
    other.wire.end().await;
    one.knows(1, 0).await;
    one.wire.end().await;
}

/// Waits until the replicas have these roles.
pub(super) async fn have_roles(replicas: &[Replica], expected: &[&str]) {
    let settle = async {
        loop {
            let mut roles = Vec::new();
            for replica in replicas {
                roles.push(replica.role().await);
            }
            if roles == expected {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, settle).await.unwrap_or_else(|_| panic!("the roles are {expected:?}"));
}

/// Changes everything a few times, and reads the updates of the resources for which the provider does not fail.
async fn change_and_check(folder: &Folder, replicas: &mut [Replica], name: &str) {
    for round in 0..5 {
        folder.write("state", format!("{name} {round}"));
        for (index, replica) in replicas.iter_mut().enumerate() {
            replica.told_of_all(&["watched://f/shared", &format!("watched://f/{index}")]).await;
        }
    }
}

const GAPS: &str = "mcp_host_plugin_poll_gaps_total{plugin=\"f\"}";

#[tokio::test]
async fn a_path_that_fails_at_one_replica_ends_no_notifications_of_others_at_any() {
    let nats = NatsServer::start().await;
    let folder = Folder::with_files([("state", "0")]);
    let mut replicas = Vec::new();
    for index in 0..3 {
        let uris = ["watched://f/shared", &format!("watched://f/{index}")];
        replicas.push(Replica::serve_with(&nats, Plugin::watched("f", folder.path()), &uris, LONG_LEASE).await);
        have_roles(&replicas[..1], &["holding"]).await;
    }
    have_roles(&replicas, &["holding", "following", "following"]).await;

    // A follower watches a path for which the provider fails from now on: that replica polls for itself, and nothing
    // else changes.
    replicas[1].wire.request("resources/subscribe", json!({ "uri": "watched://f/bad/1" })).await.result();
    have_roles(&replicas, &["holding", "following", "following"]).await;
    folder.write("bad", "");
    have_roles(&replicas, &["holding", "alone", "following"]).await;
    change_and_check(&folder, &mut replicas, "follower").await;
    assert_eq!((replicas[0].value(GAPS).await, replicas[2].value(GAPS).await), (0, 0));

    // Another replica's client subscribes to such a path repeatedly, and so does a client of the holder.
    for number in 0..3 {
        for index in [2, 0] {
            let uri = format!("watched://f/bad/new-{number}");
            replicas[index].wire.send_request("resources/subscribe", json!({ "uri": uri })).await;
        }
        change_and_check(&folder, &mut replicas, &format!("new {number}")).await;
    }
    assert_eq!((replicas[0].value(GAPS).await, replicas[2].value(GAPS).await), (0, 0));

    // Changes during the provider's failure are notified after its recovery.
    fs::remove_file(folder.path().join("bad")).unwrap();
    replicas[1].told_of("watched://f/bad/1").await;
    change_and_check(&folder, &mut replicas, "good again").await;
    for replica in replicas {
        replica.wire.end().await;
    }
}
