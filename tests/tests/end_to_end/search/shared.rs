//! An index that the replicas of a cluster share (`[search] shared = true`), on a real server of NATS.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use mcp_host_tests::{
    ConfigFile, Folder, NatsServer, Plugin, RawStdio, Revision, Rule, TIMEOUT, WrittenConfig, wait_until,
};
use rustix::process::Signal;
use tokio::time::sleep;

use super::{search, uris, wait_until_found};

/// The reads of the provider.
const READS: &str = "mcp_host_plugin_calls_total{plugin=\"f\",function=\"read\",outcome=\"ok\"}";
/// The stream of the object store.
const STREAM: &str = "OBJ_mcp-host-test-SEARCH";

/// A replica.
struct Replica {
    wire: RawStdio,
    admin: String,
    _config: WrittenConfig,
}

fn config(nats: &NatsServer, folder: &Folder) -> ConfigFile {
    let cluster = format!(
        "\n[server.cursor-key]\nfile = \"key\"\n\n[admin]\nlisten = \"127.0.0.1:0\"\n\n\
         [cluster]\nname = \"test\"\nnats = [{:?}]\nlease = \"3s\"\n",
        nats.url()
    );
    let plugin = Plugin::files("f", folder.path()).searched().set("polling", "shared").set("watch-interval", "500ms");
    ConfigFile::new().plugin(plugin).search("shared", true).append(&cluster)
}

impl Replica {
    async fn start(config: ConfigFile) -> Self {
        Self::start_with_key(config, "11").await
    }

    async fn start_with_key(config: ConfigFile, key: &str) -> Self {
        let config = config.write();
        fs::write(config.dir().join("key"), key.repeat(32)).unwrap();
        let wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
        let line = wire.log_line("administration at ").await;
        Self { wire, admin: line.split_whitespace().last().unwrap().to_owned(), _config: config }
    }

    async fn value(&self, series: &str) -> u64 {
        let metrics = reqwest::get(format!("{}/metrics", self.admin)).await.unwrap().text().await.unwrap();
        metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0)
    }

    /// Waits until this replica has a part in the index of the plugin.
    async fn until_role(&self, role: &str) {
        let began = Instant::now();
        while self.value(&format!("mcp_host_search_role{{plugin=\"f\",role=\"{role}\"}}")).await != 1 {
            assert!(began.elapsed() < TIMEOUT, "it is not {role}: {}", self.wire.log());
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether this replica has not indexed the plugin so far. On a busy machine it may not hear the others in time.
    fn has_followed(&self) -> bool {
        let log = self.wire.log();
        let indexes = ["indexes a plugin for itself", "builds the search index of a plugin for all replicas"];
        indexes.iter().all(|line| !log.contains(line))
    }

    /// The number of snapshots with this result.
    async fn snapshots(&self, result: &str) -> u64 {
        self.value(&format!("mcp_host_search_snapshots_total{{plugin=\"f\",result=\"{result}\"}}")).await
    }
}

/// Files that were last modified an hour ago: an index reads again what was modified shortly before it was read.
fn files(count: usize) -> Folder {
    let folder = Folder::with_files((0..count).map(|number| (format!("{number}.md"), format!("common word{number}"))));
    let modified = SystemTime::now().checked_sub(Duration::from_hours(1)).unwrap();
    for number in 0..count {
        let file = fs::File::options().write(true).open(folder.path().join(format!("{number}.md"))).unwrap();
        file.set_modified(modified).unwrap();
    }
    folder
}

#[tokio::test]
async fn one_replica_reads_and_the_others_find_what_it_has_read_until_it_dies() {
    let (nats, folder) = (NatsServer::start().await, files(50));
    let mut one = Replica::start(config(&nats, &folder)).await;
    one.wire.log_line("builds the search index of a plugin for all replicas").await;
    wait_until_found(&mut one.wire, "common", 50).await;
    let mut other = Replica::start(config(&nats, &folder)).await;
    other.wire.log_line("fetches the search index of a plugin").await;
    wait_until_found(&mut other.wire, "common", 50).await;
    assert_eq!(uris(&search(&mut other.wire, "word49").await), ["files://f/49.md"]);

    folder.write("7.md", "entirely different");
    fs::remove_file(folder.path().join("8.md")).unwrap();
    for replica in [&mut one, &mut other] {
        wait_until_found(&mut replica.wire, "entirely different", 1).await;
        wait_until_found(&mut replica.wire, "word8", 0).await;
    }
    if other.has_followed() {
        assert!(one.value(READS).await >= 51, "{}", one.value(READS).await);
        assert_eq!(other.value(READS).await, 0, "it has read nothing");
        assert!(one.snapshots("published").await >= 2 && other.snapshots("fetched").await >= 2);
    }
    assert_eq!(other.snapshots("rejected").await, 0);

    let before = other.value(READS).await;
    one.wire.signal(Signal::KILL);
    other.until_role("building").await;
    folder.write("9.md", "after the death of the first");
    wait_until_found(&mut other.wire, "death", 1).await;
    wait_until_found(&mut other.wire, "common", 47).await;
    assert!(other.value(READS).await - before < 40, "what the first had read is not read again");
    one.wire.wait_exit_unread().await;
    other.wire.end().await;
}

#[tokio::test]
async fn a_principal_finds_in_a_snapshot_only_what_its_replica_allows() {
    let nats = NatsServer::start().await;
    let folder = Folder::with_files([("a.md", "needle"), ("secret/b.md", "needle in secret")]);
    let mut one = Replica::start(config(&nats, &folder)).await;
    wait_until_found(&mut one.wire, "needle", 2).await;
    let rule = Rule::for_principal("local").allow(["**"]).deny(["**/secret/**"]);
    let mut other = Replica::start(config(&nats, &folder).rule(rule)).await;
    other.until_role("following").await;
    wait_until_found(&mut other.wire, "needle", 1).await;
    assert_eq!(uris(&search(&mut other.wire, "needle").await), ["files://f/a.md"]);
    assert_eq!(search(&mut other.wire, "secret").await["total"], 0);
    assert_eq!(other.value("mcp_host_search_documents{plugin=\"f\"}").await, 2);
    if other.has_followed() {
        assert_eq!(other.value(READS).await, 0);
    }
    one.wire.end().await;
    other.wire.end().await;
}

/// Waits until one of two replicas builds the index, and the other one follows.
async fn share(replicas: &[Replica]) {
    let began = Instant::now();
    loop {
        let mut roles = Vec::new();
        for role in ["building", "following"] {
            for replica in replicas {
                roles.push(replica.value(&format!("mcp_host_search_role{{plugin=\"f\",role=\"{role}\"}}")).await);
            }
        }
        if roles == [1, 0, 0, 1] || roles == [0, 1, 1, 0] {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "{roles:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn while_nats_is_gone_each_replica_indexes_for_itself() {
    let (mut nats, folder) = (NatsServer::start().await, files(10));
    let mut replicas = [Replica::start(config(&nats, &folder)).await, Replica::start(config(&nats, &folder)).await];
    for replica in &mut replicas {
        wait_until_found(&mut replica.wire, "common", 10).await;
    }
    share(&replicas).await;
    nats.kill().await;
    for replica in &replicas {
        replica.until_role("alone").await;
        let is_reason = |line: &str| line.contains("indexes a plugin for itself") && line.contains("cannot be reached");
        let is_logged = || replica.wire.log().lines().any(|line| line.contains("WARN") && is_reason(line));
        wait_until("the log says why each replica indexes for itself", is_logged).await;
    }
    folder.write("3.md", "while nats is gone");
    for replica in &mut replicas {
        wait_until_found(&mut replica.wire, "gone", 1).await;
        wait_until_found(&mut replica.wire, "common", 9).await;
    }
    nats.restart().await;
    share(&replicas).await;
    folder.write("4.md", "nats is back");
    for replica in &mut replicas {
        wait_until_found(&mut replica.wire, "back", 1).await;
    }
    for replica in replicas {
        replica.wire.end().await;
    }
}

#[tokio::test]
async fn a_snapshot_that_another_client_of_nats_replaces_is_not_used() {
    let (nats, folder) = (NatsServer::start().await, files(10));
    let mut one = Replica::start(config(&nats, &folder)).await;
    wait_until_found(&mut one.wire, "common", 10).await;
    let began = Instant::now();
    let subject = loop {
        let subjects = nats.subjects_of(STREAM).await;
        if let Some(found) = subjects.into_iter().find(|subject| subject.starts_with("$O.mcp-host-test-SEARCH.M.")) {
            break found;
        }
        assert!(began.elapsed() < TIMEOUT);
        sleep(Duration::from_millis(50)).await;
    };
    let mut other = Replica::start(config(&nats, &folder)).await;
    wait_until_found(&mut other.wire, "common", 10).await;
    // The replica that builds publishes again, and is overwritten again.
    let began = Instant::now();
    while other.value("mcp_host_search_role{plugin=\"f\",role=\"alone\"}").await != 1 {
        nats.publish([(subject.as_str(), b"{\"name\":\"forged\"}".to_vec())]).await;
        assert!(began.elapsed() < TIMEOUT, "{}", other.wire.log());
    }
    folder.write("3.md", "after the forgery");
    wait_until_found(&mut other.wire, "forgery", 1).await;
    other.until_role("following").await;
    wait_until_found(&mut other.wire, "forgery", 1).await;
    one.wire.end().await;
    other.wire.end().await;
}

#[tokio::test]
async fn replicas_with_another_cursor_key_do_not_share_an_index() {
    let (nats, folder) = (NatsServer::start().await, files(5));
    let mut one = Replica::start(config(&nats, &folder)).await;
    let mut other = Replica::start_with_key(config(&nats, &folder), "22").await;
    for replica in [&mut one, &mut other] {
        replica.until_role("building").await;
        wait_until_found(&mut replica.wire, "common", 5).await;
    }
    one.wire.end().await;
    other.wire.end().await;
}
