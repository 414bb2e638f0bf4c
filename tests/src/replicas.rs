//! A cluster for fault injection: three nodes of NATS behind links that can fail, three replicas, a balancer,
//! subscribed clients of both lifecycles, and [resources that change](crate::changing_resources).
//!
//! Every event that a client receives is logged, and [compared](crate::change_check) with every change that was made. A
//! client whose stream ends opens another one, at the replica that the balancer chooses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::balancer::Balancer;
use crate::change_check::{Change, StreamLog, Verdict, are_told, check};
use crate::changing_resources::ChangingResources;
use crate::http::RawHttp;
use crate::{ConfigFile, HttpServer, NatsCluster, ReservedPort, Revision, WrittenConfig};

/// The time within which a holder is replaced.
pub const LEASE: Duration = Duration::from_secs(3);
/// The pause between two looks at a condition.
const LOOK: Duration = Duration::from_millis(20);
/// The time after which a client opens a stream again.
const RECONNECT: Duration = Duration::from_millis(100);

/// The load of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The number of resources that change, one after the other.
    pub resources: usize,
    /// The number of clients.
    pub clients: usize,
    /// The number of resources that each client subscribes to: client N to resource N, and the ones that follow it.
    pub subscriptions: usize,
}

/// Three replicas on three nodes of NATS, behind a balancer, with clients.
#[derive(Debug)]
pub struct ReplicaSet {
    /// The nodes of NATS.
    pub nats: NatsCluster,
    resources: ChangingResources,
    replicas: Vec<Replica>,
    balancer: Balancer,
    logs: Arc<Mutex<Logs>>,
    load: Load,
    clients: JoinSet<()>,
}

#[derive(Debug)]
struct Replica {
    config: WrittenConfig,
    port: ReservedPort,
    /// None while it is killed.
    server: Option<HttpServer>,
    /// The address of its administration listener.
    admin: String,
}

#[derive(Debug, Default)]
struct Logs {
    changes: Vec<Change>,
    streams: Vec<StreamLog>,
}

impl Load {
    /// Each client subscribes to all resources.
    pub fn of_all(resources: usize, clients: usize) -> Self {
        Self { resources, clients, subscriptions: resources }
    }

    /// The resources that a client subscribes to.
    fn subscribed(self, client: usize) -> impl Iterator<Item = usize> {
        (0..self.subscriptions).map(move |next| (client + next) % self.resources)
    }
}

impl Replica {
    async fn start(&mut self) {
        let server = HttpServer::start_at(&self.config, &self.port.address().to_string()).await;
        let line = server.log_line("administration at ").await;
        self.admin = line.split_whitespace().last().expect("it names its address").to_owned();
        self.server = Some(server);
    }

    /// Its metrics; nothing while it does not answer.
    async fn metrics(&self) -> String {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(2)).no_proxy().build().expect("a client");
        match client.get(format!("{}/metrics", self.admin)).send().await {
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }
}

impl ReplicaSet {
    /// Starts the cluster. Each client subscribes to resources that change, and to some that it may not see. Every
    /// fourth client has a session, of the revision 2025-11-25; the others use 2026-07-28.
    pub async fn start(load: Load) -> Self {
        let nats = NatsCluster::start().await;
        let resources = ChangingResources::new(load.resources).await;
        let mut replicas = Vec::new();
        for _ in 0..3 {
            let config = Self::config(&nats, &resources, "2/s").write();
            fs::write(config.dir().join("key"), "11".repeat(32)).expect("the key can be written");
            let mut replica = Replica { config, port: ReservedPort::new(), server: None, admin: String::new() };
            replica.start().await;
            replicas.push(replica);
        }
        let balancer = Balancer::start(replicas.iter().map(|replica| replica.port.address().to_string())).await;
        let logs = Arc::default();
        let mut set = Self { nats, resources, replicas, balancer, logs, load, clients: JoinSet::new() };
        for number in 0..load.clients {
            let client = Client {
                name: format!("client {number}"),
                url: set.balancer.mcp_url(),
                uris: load.subscribed(number).map(|number| set.resources.uri(number)).collect(),
                secrets: set.resources.secrets(),
                logs: set.logs.clone(),
            };
            if number % 4 == 3 {
                set.clients.spawn(client.listen_in_sessions());
            } else {
                set.clients.spawn(client.listen());
            }
        }
        set.wait_until_all_listen().await;
        set
    }

    fn config(nats: &NatsCluster, resources: &ChangingResources, failed_authentications: &str) -> ConfigFile {
        let cluster = format!(
            "\n[server.cursor-key]\nfile = \"key\"\n\n[admin]\nlisten = \"127.0.0.1:0\"\n\n[cluster]\nname = \"test\"\nnats = {:?}\nlease = \"{}s\"\n",
            nats.urls(),
            LEASE.as_secs(),
        );
        let shares = ConfigFile::new().http_limit("client-share", "1/1").http_limit("streams", 4096);
        let limited =
            shares.http_limit("failed-authentications", failed_authentications).http_limit("connections", 4096);
        let config = resources.plugins().into_iter().fold(limited, ConfigFile::plugin);
        config.rule(ChangingResources::rule()).append(&cluster)
    }

    /// Changes the next resource, in turn, and one that is hidden from all clients.
    pub fn change(&mut self) {
        let change = self.resources.change();
        self.logs.lock().expect("a log").changes.push(change);
    }

    /// Waits until as many streams are open as there are clients.
    pub async fn wait_until_all_listen(&self) {
        let logs = &self.logs;
        let open = || logs.lock().expect("a log").streams.iter().filter(|stream| stream.until.is_none()).count();
        wait("all clients listen", async || open() == self.clients.len()).await;
    }

    /// Changes every resource once, and waits until every stream that stays open was notified of all changes so far,
    /// except changes of pages, which are polled once a second and would make up most of the time of a round.
    pub async fn round(&mut self) {
        for _ in 0..self.load.resources {
            self.change();
        }
        self.wait_until_told_of(ChangingResources::is_found_soon).await;
    }

    /// Waits until every stream that stays open was notified of all changes so far.
    pub async fn wait_until_told(&self) {
        self.wait_until_told_of(|_| true).await;
    }

    async fn wait_until_told_of(&self, concerns: impl Fn(&str) -> bool) {
        wait("all are told", async || {
            let logs = self.logs.lock().expect("a log");
            are_told(logs.changes.iter().filter(|change| concerns(&change.uri)), &logs.streams)
        })
        .await;
    }

    /// Compares the received updates with the changes so far. A stream has to be notified within the bound.
    pub fn verdict(&self, bound: Duration) -> Verdict {
        let logs = self.logs.lock().expect("a log");
        check(&logs.changes, &logs.streams, bound, Instant::now())
    }

    /// The replica that polls the files for all, once there is one and the others that answer follow it.
    pub async fn holder(&self) -> usize {
        self.holder_of("f").await
    }

    /// The same of a plugin: `f` with the files, `t` with the tables, `w` with the pages.
    pub async fn holder_of(&self, plugin: &str) -> usize {
        let mut holder = None;
        wait("one replica polls for all", async || {
            let mut roles = BTreeMap::new();
            for (index, replica) in self.replicas.iter().enumerate().filter(|(_, replica)| replica.server.is_some()) {
                roles.insert(index, role(&replica.metrics().await, plugin));
            }
            let count = |wanted: &str| roles.values().filter(|role| *role == wanted).count();
            holder = roles.iter().find(|(_, role)| *role == "holding").map(|(index, _)| *index);
            holder.is_some() && count("following") + count("idle") + 1 == roles.len()
        })
        .await;
        holder.expect("it was found")
    }

    /// A metric without labels of a replica; 0 if it does not answer.
    pub async fn metric(&self, index: usize, name: &str) -> f64 {
        let metrics = self.replicas[index].metrics().await;
        metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("{} ")?.parse().ok()).unwrap_or(0.0)
    }

    /// Waits until each running replica counts `live` live ones.
    pub async fn wait_for_live(&self, live: u32) {
        self.wait_for_metric("mcp_host_cluster_live_replicas", live).await;
    }

    /// Waits until a metric without labels has that value at each replica that runs.
    pub async fn wait_for_metric(&self, name: &str, value: u32) {
        wait(&format!("{name} is {value}"), async || {
            for (index, _) in self.replicas.iter().enumerate().filter(|(_, replica)| replica.server.is_some()) {
                let known = self.metric(index, name).await;
                if (known - f64::from(value)).abs() > 0.5 {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// Kills a replica (`kill -9`).
    pub async fn kill(&mut self, index: usize) {
        let server = self.replicas[index].server.take().expect("it runs");
        server.signal(Signal::KILL);
        server.wait_killed().await;
    }

    /// Starts a replica that does not run.
    pub async fn restart(&mut self, index: usize) {
        self.replicas[index].start().await;
    }

    /// Ends a replica as its service manager does, and starts it with another config.
    pub async fn replace(&mut self, index: usize, failed_authentications: &str) {
        let server = self.replicas[index].server.take().expect("it runs");
        server.end().await;
        let config = Self::config(&self.nats, &self.resources, failed_authentications);
        self.replicas[index].config.replace(config);
        self.restart(index).await;
    }

    /// Sends a replica a signal.
    pub fn signal(&self, index: usize, signal: Signal) {
        self.replicas[index].server.as_ref().expect("it runs").signal(signal);
    }

    /// Ends everything, in order. Returns what was found, with that bound.
    pub async fn end(mut self, bound: Duration) -> Verdict {
        let verdict = self.verdict(bound);
        self.clients.shutdown().await;
        for replica in &mut self.replicas {
            if let Some(server) = replica.server.take() {
                server.end().await;
            }
        }
        verdict
    }
}

/// The role in the polls of a plugin.
fn role(metrics: &str, plugin: &str) -> String {
    let prefix = format!("mcp_host_plugin_poll_role{{plugin=\"{plugin}\",role=\"");
    let series = metrics.lines().find_map(|line| line.strip_prefix(&prefix));
    series.and_then(|series| series.split('"').next()).unwrap_or_default().to_owned()
}

async fn wait(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !holds().await {
            tokio::time::sleep(LOOK).await;
        }
    };
    assert!(tokio::time::timeout(crate::TIMEOUT, looking).await.is_ok(), "it does not come to it that {what}");
}

/// A client of the balancer.
struct Client {
    name: String,
    url: String,
    /// What it subscribes to, and may see.
    uris: BTreeSet<String>,
    /// What it subscribes to, and may not see.
    secrets: Vec<String>,
    logs: Arc<Mutex<Logs>>,
}

impl Client {
    fn wanted(&self) -> impl Iterator<Item = &String> {
        self.uris.iter().chain(&self.secrets)
    }

    /// The events of a stream that is not acknowledged yet.
    fn heard(&self, stream: String) -> Heard {
        let log = StreamLog::new(stream, self.uris.clone());
        Heard { logs: self.logs.clone(), log: Some(log), index: None, last_event: None }
    }

    /// Listens for ever: a stream that ends is opened again.
    async fn listen(self) {
        let mut wire = RawHttp::start(&self.url, Revision::V_2026_07_28).await;
        let wanted: Vec<_> = self.wanted().collect();
        for number in 0.. {
            let params = json!({ "notifications": { "resourceSubscriptions": wanted } });
            if let Ok(stream) = wire.request_builder("subscriptions/listen", params).send().await {
                let mut heard = self.heard(format!("{}, stream {number}", self.name));
                heard.read(stream).await;
                heard.end();
            }
            tokio::time::sleep(RECONNECT).await;
        }
    }

    /// The same in a session of the revision 2025-11-25: a stream that ends is resumed, and if the session no longer
    /// exists, another one is opened.
    async fn listen_in_sessions(self) {
        for number in 0.. {
            self.listen_in_a_session(format!("{}, session {number}", self.name)).await;
            tokio::time::sleep(RECONNECT).await;
        }
    }

    /// Receives events until the session no longer exists.
    async fn listen_in_a_session(&self, stream: String) -> Option<()> {
        let mut wire = RawHttp::try_start(&self.url, Revision::V_2025_11_25).await?;
        for wanted in self.wanted() {
            let answer = wire.try_request("resources/subscribe", json!({ "uri": wanted })).await?;
            if answer.message.get("result").is_none() && self.uris.contains(wanted) {
                return None;
            }
        }
        let mut heard = self.heard(stream);
        let mut stream = wire.try_event_stream(None).await?;
        heard.begin();
        loop {
            heard.read(stream).await;
            heard.end();
            tokio::time::sleep(RECONNECT).await;
            stream = wire.try_event_stream(heard.last_event.as_deref()).await?;
            // Changes made in between are pending.
            heard.resume();
        }
    }
}

/// The events of one stream.
struct Heard {
    logs: Arc<Mutex<Logs>>,
    /// The log, until the subscription is acknowledged.
    log: Option<StreamLog>,
    /// The index of the log in the list of logs.
    index: Option<usize>,
    /// The id of the last event.
    last_event: Option<String>,
}

impl Heard {
    /// Reads until the stream ends.
    async fn read(&mut self, mut stream: reqwest::Response) {
        let mut buffer = String::new();
        while let Ok(Some(bytes)) = stream.chunk().await {
            buffer.push_str(&String::from_utf8_lossy(&bytes));
            while let Some((event, rest)) = buffer.split_once("\n\n") {
                self.hear(event);
                buffer = rest.to_owned();
            }
        }
    }

    fn hear(&mut self, event: &str) {
        let field = |name: &'static str| event.lines().filter_map(move |line| line.strip_prefix(name));
        let data = field("data:").collect::<String>();
        let message: Value = serde_json::from_str(data.trim()).unwrap_or_default();
        match (message["method"].as_str(), self.index) {
            (Some("notifications/subscriptions/acknowledged"), None) => self.begin(),
            (Some("notifications/resources/updated"), Some(index)) => {
                let uri = message["params"]["uri"].as_str().unwrap_or_default();
                self.logs.lock().expect("a log").streams[index].hear(uri);
            }
            _ => {}
        }
        if let Some(id) = field("id:").next() {
            self.last_event = Some(id.trim().to_owned());
        }
    }

    /// The subscriptions are acknowledged now.
    fn begin(&mut self) {
        let mut logs = self.logs.lock().expect("a log");
        if let Some(log) = self.log.take() {
            self.index = Some(logs.streams.len());
            logs.streams.push(StreamLog { since: Instant::now(), ..log });
        }
    }

    /// The stream has ended now.
    fn end(&self) {
        self.set_until(Some(Instant::now()));
    }

    /// Marks the stream as continuing.
    fn resume(&self) {
        self.set_until(None);
    }

    fn set_until(&self, until: Option<Instant>) {
        if let Some(index) = self.index {
            self.logs.lock().expect("a log").streams[index].until = until;
        }
    }
}
