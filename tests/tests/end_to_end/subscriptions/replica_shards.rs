//! More watched resources of a plugin than one shard has: the replicas of a cluster divide them, and tell every change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use futures::future::join_all;
use mcp_host_tests::{ConfigFile, Folder, HttpServer, NatsServer, Plugin, Revision, TIMEOUT, WrittenConfig};
use reqwest::Response;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::UPDATED;

/// A shard has 15,000 resources before there are two.
const STREAMS: usize = 16;
const URIS: usize = 1000;

struct Replica {
    server: HttpServer,
    admin: String,
    listeners: Vec<Listener>,
    _config: WrittenConfig,
}

impl Replica {
    /// Starts a replica, and listens to all resources.
    async fn start(nats: &NatsServer, folder: &Folder) -> Self {
        let plugin = Plugin::watched("f", folder.path()).limit("log", "16MiB/m");
        let plugin = plugin.limit("cpu", "10s").limit("deadline", "1m").limit("queue-timeout", "1m");
        let plugin = plugin.set("polling", "shared").set("watch-interval", "500ms");
        let cluster = format!(
            "\n[server.cursor-key]\nfile = \"key\"\n\n[admin]\nlisten = \"127.0.0.1:0\"\n\n[cluster]\nname = \"test\"\nnats = [{:?}]\nlease = \"10s\"\n",
            nats.url()
        );
        let config = ConfigFile::new().http_limit("client-share", "1/1").plugin(plugin).allow_all().append(&cluster);
        let config = config.write();
        fs::write(config.dir().join("key"), "11".repeat(32)).unwrap();
        let server = HttpServer::start(&config).await;
        let line = server.log_line("administration at ").await;
        let admin = line.split_whitespace().last().unwrap().to_owned();
        let listeners = join_all((0..STREAMS).map(|number| Listener::start(&server, number))).await;
        Self { server, admin, listeners, _config: config }
    }

    /// Returns the number of shards for each role.
    async fn roles(&self) -> BTreeMap<String, usize> {
        let metrics = reqwest::get(format!("{}/metrics", self.admin)).await.unwrap().text().await.unwrap();
        let series = metrics.lines().filter_map(|line| {
            let (role, count) =
                line.strip_prefix("mcp_host_plugin_poll_role{plugin=\"f\",role=\"")?.split_once("\"} ")?;
            Some((role.to_owned(), count.parse().ok()?))
        });
        series.collect()
    }
}

/// An event stream with subscriptions to some of the resources.
struct Listener {
    uris: BTreeSet<String>,
    stream: Response,
    buffer: String,
}

impl Listener {
    async fn start(server: &HttpServer, number: usize) -> Self {
        let uris: BTreeSet<_> = (0..URIS).map(|path| format!("watched://f/{number}/{path}")).collect();
        let wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
        let request = server.uninitialized(Revision::V_2026_07_28).request_builder("subscriptions/listen", wanted);
        let stream = timeout(TIMEOUT, request.send()).await.expect("in time").expect("a stream");
        Self { uris, stream, buffer: String::new() }
    }

    /// Reads until there was an update of each resource.
    async fn told_of_all(&mut self) {
        let mut left = self.uris.clone();
        while !left.is_empty() {
            let chunk = timeout(TIMEOUT, self.stream.chunk()).await;
            let chunk = chunk.unwrap_or_else(|_| panic!("it is not told of {left:?}")).unwrap();
            self.buffer.push_str(std::str::from_utf8(&chunk.expect("the stream goes on")).unwrap());
            let text = std::mem::take(&mut self.buffer);
            let (lines, rest) = text.rsplit_once('\n').unwrap_or(("", text.as_str()));
            for data in lines.lines().filter_map(|line| line.strip_prefix("data:")) {
                let message: Value = serde_json::from_str(data.trim()).unwrap_or_default();
                if message["method"] == UPDATED {
                    left.remove(message["params"]["uri"].as_str().unwrap());
                }
            }
            self.buffer = rest.to_owned();
        }
    }
}

/// Waits until there are two shards, each with one holder, which the other replicas follow.
async fn settle(replicas: &[Replica]) {
    let began = Instant::now();
    loop {
        let roles = join_all(replicas.iter().map(Replica::roles)).await;
        let count = |role: &str| roles.iter().filter_map(|roles| roles.get(role)).sum::<usize>();
        let (holding, following) = (count("holding"), count("following"));
        if (holding, following, count("alone")) == (2, 2 * (replicas.len() - 1), 0) {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "the shards are not shared: {roles:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Changes all resources, and waits until each subscriber was notified of each.
async fn change_and_check(folder: &Folder, replicas: &mut [Replica], state: &str) {
    folder.write("state", state);
    let listeners = replicas.iter_mut().flat_map(|replica| &mut replica.listeners);
    join_all(listeners.map(Listener::told_of_all)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_thousand_resources_are_two_shards_and_every_change_is_told() {
    let nats = NatsServer::start().await;
    let folder = Folder::with_files([("state", "0")]);
    let mut replicas = vec![Replica::start(&nats, &folder).await];
    // A subscription that was acknowledged while it was pending is notified when it becomes active.
    change_and_check(&folder, &mut replicas, "1").await;
    settle(&replicas).await;
    replicas.push(Replica::start(&nats, &folder).await);
    change_and_check(&folder, &mut replicas, "2").await;
    settle(&replicas).await;
    for state in ["3", "4"] {
        change_and_check(&folder, &mut replicas, state).await;
    }

    // The holder dies: the other replica takes both shards.
    let killed = replicas.remove(0);
    killed.server.signal(Signal::KILL);
    killed.server.wait_killed().await;
    change_and_check(&folder, &mut replicas, "5").await;
    settle(&replicas).await;
    change_and_check(&folder, &mut replicas, "6").await;
    for replica in replicas {
        drop(replica.listeners);
        replica.server.end().await;
    }
}
