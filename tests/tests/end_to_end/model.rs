//! Whatever happens in whatever order, the rule of subscriptions holds: every change after a subscription is followed by at
//! least one update, and none comes after an unsubscription is answered.
//!
//! A run does some steps by chance: edits, files that are new, providers that trap, hang and fail, reloads that change a
//! plugin, take it away or bring it back, subscriptions, unsubscriptions, subscribers that go away, that do not read. It keeps
//! a model of what is owed to whom, and at its end waits until all of it has been paid. Chance is a seed, which a failure
//! names: `MCP_HOST_SEED=17 cargo test -p mcp-host-tests model` runs that one again, and `MCP_HOST_SEEDS=1000` runs more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcp_host_tests::{ConfigFile, Folder, Http, HttpWire, PATIENCE, Plugin, Revision, StdioWire, WrittenConfig};
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::Config;
use mcp_resource_host::{Host, Subscriber, Update};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::watching::start;

const FILES: [&str; 4] = ["a", "b", "c", "d"];
const PLUGINS: [&str; 2] = ["m", "n"];
const SUBSCRIBERS: usize = 4;
const UPDATED: &str = "notifications/resources/updated";

/// Numbers by chance (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// How subscribers are reached: over the façade, stdio or HTTP.
trait Face {
    /// Whether an update that was sent before an unsubscription was answered may still arrive behind the answer: where both
    /// have connections of their own.
    const OVERTAKES: bool;

    /// Subscribes; whether that was granted.
    async fn subscribe(&mut self, who: usize, uri: &str) -> bool;
    /// Unsubscribes; what it was told before that was answered.
    async fn unsubscribe(&mut self, who: usize, uri: &str) -> Vec<String>;
    /// Goes away and comes anew, with no subscriptions.
    async fn leave(&mut self, who: usize);
    /// What that one has been told by now.
    async fn told(&mut self, who: usize) -> Vec<String>;
    /// Waits until that one is told something.
    async fn wait(&mut self, who: usize) -> Vec<String>;
    /// Has the host go over to the config file of now.
    async fn reload(&mut self, config: &WrittenConfig);
}

/// What is owed to one subscriber.
#[derive(Default)]
struct Account {
    /// What it subscribed to, and whether it changed since it was last told.
    subscribed: BTreeMap<String, bool>,
    /// It does not read what it is told for now.
    is_slow: bool,
}

struct Run {
    seed: u64,
    chance: Chance,
    folder: Folder,
    config: WrittenConfig,
    accounts: Vec<Account>,
    moods: BTreeSet<&'static str>,
    serves_n: bool,
    edits: u64,
    steps: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let folder = Folder::with_files(FILES.map(|name| (name, "0")));
        folder.write(".mood/none", "");
        let config = config(&folder, 0, true).write();
        let accounts = std::iter::repeat_with(Account::default).take(SUBSCRIBERS).collect();
        let chance = Chance(seed);
        Self {
            seed,
            chance,
            folder,
            config,
            accounts,
            moods: BTreeSet::new(),
            serves_n: true,
            edits: 0,
            steps: Vec::new(),
        }
    }

    /// Does steps by chance, then pays what is owed.
    async fn run<F: Face>(mut self, face: &mut F, steps: usize) {
        for _ in 0..steps {
            self.step(face).await;
        }
        self.moods.clone().into_iter().for_each(|mood| self.set_mood(mood, false));
        if !self.serves_n {
            self.serves_n = true;
            self.reload(face).await;
        }
        for who in 0..SUBSCRIBERS {
            let began = Instant::now();
            while self.owes(who) {
                assert!(began.elapsed() < PATIENCE, "{}", self.report(who));
                match timeout(PATIENCE, face.wait(who)).await {
                    Ok(told) => self.take::<F>(who, told),
                    Err(_) => panic!("{}", self.report(who)),
                }
            }
        }
    }

    async fn step<F: Face>(&mut self, face: &mut F) {
        let who = self.chance.below(SUBSCRIBERS);
        let file = self.chance.of(&FILES);
        let uri = format!("moody://{}/{file}", self.chance.of(&PLUGINS));
        match self.chance.below(20) {
            0..=5 => {
                self.log(format!("edit {file}"));
                self.edits += 1;
                self.folder.write(file, format!("edit {}", self.edits));
                for account in &mut self.accounts {
                    let concerned = account.subscribed.iter_mut().filter(|(uri, _)| uri.ends_with(&format!("/{file}")));
                    concerned.for_each(|(_, owed)| *owed = true);
                }
            }
            6..=10 => {
                let granted = face.subscribe(who, &uri).await;
                self.log(format!("{who} subscribes to {uri}: {granted}"));
                if granted {
                    self.accounts[who].subscribed.entry(uri).or_insert(false);
                }
            }
            11..=12 => {
                self.log(format!("{who} unsubscribes from {uri}"));
                let told = face.unsubscribe(who, &uri).await;
                self.take::<F>(who, told);
                self.accounts[who].subscribed.remove(&uri);
            }
            13 => {
                self.log(format!("{who} leaves"));
                face.leave(who).await;
                self.accounts[who] = Account::default();
            }
            14 => {
                self.accounts[who].is_slow = !self.accounts[who].is_slow;
                self.log(format!("{who} is slow: {}", self.accounts[who].is_slow));
            }
            15..=16 => {
                let mood = self.chance.of(&["changes.trap", "changes.hang", "changes.fail", "read.trap"]);
                let is_on = !self.moods.contains(mood);
                self.log(format!("{mood}: {is_on}"));
                self.set_mood(mood, is_on);
            }
            17 => {
                self.serves_n = self.chance.below(3) > 0;
                self.log(format!("reload, with n: {}", self.serves_n));
                self.reload(face).await;
            }
            _ => {
                for who in 0..SUBSCRIBERS {
                    if !self.accounts[who].is_slow {
                        self.drain(face, who).await;
                    }
                }
            }
        }
    }

    fn set_mood(&mut self, mood: &'static str, is_on: bool) {
        let file = self.folder.path().join(".mood").join(mood);
        if is_on {
            self.moods.insert(mood);
            std::fs::write(file, "").unwrap();
        } else {
            self.moods.remove(mood);
            std::fs::remove_file(file).unwrap();
        }
    }

    async fn reload(&mut self, face: &mut impl Face) {
        self.edits += 1;
        self.config.replace(config(&self.folder, self.edits, self.serves_n));
        face.reload(&self.config).await;
    }

    async fn drain<F: Face>(&mut self, face: &mut F, who: usize) {
        let told = face.told(who).await;
        self.take::<F>(who, told);
    }

    /// What is told is of something that is subscribed to, and is not owed any more.
    fn take<F: Face>(&mut self, who: usize, told: Vec<String>) {
        for uri in told {
            self.log(format!("{who} is told of {uri}"));
            match self.accounts[who].subscribed.get_mut(&uri) {
                Some(owed) => *owed = false,
                None if F::OVERTAKES => {}
                None => panic!("{who} is told of {uri}, which it did not subscribe to: {}", self.report(who)),
            }
        }
    }

    fn owes(&self, who: usize) -> bool {
        self.accounts[who].subscribed.values().any(|owed| *owed)
    }

    fn log(&mut self, step: String) {
        self.steps.push(step);
    }

    fn report(&self, who: usize) -> String {
        let owed = &self.accounts[who].subscribed;
        format!("seed {}: subscriber {who} is owed {owed:?} after\n{}", self.seed, self.steps.join("\n"))
    }
}

/// The config of a run: `n` is another one each time, `m` stays as it is.
fn config(folder: &Folder, time: u64, serves_n: bool) -> ConfigFile {
    let moody = |name| Plugin::moody(name, folder.path()).limit("deadline", "200ms");
    let config = ConfigFile::new().open().plugin(moody("m"));
    if serves_n { config.plugin(moody("n").config("time", i64::try_from(time).unwrap())) } else { config }
}

/// The seeds to run: that of the environment, or the first so many.
fn seeds(count: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    match (number("MCP_HOST_SEED"), number("MCP_HOST_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, more) => (1..=more.unwrap_or(count)).collect(),
    }
}

struct Facade {
    host: Arc<Host>,
    subscribers: Vec<Subscriber>,
}

impl Facade {
    async fn start(config: &WrittenConfig) -> Self {
        let host = start(config).await;
        let subscribers = (0..SUBSCRIBERS).map(|_| host.subscriber(&Principal::LOCAL)).collect();
        Self { host, subscribers }
    }
}

fn uri(update: Update) -> Option<String> {
    match update {
        Update::Resource(uri) => Some(uri),
        Update::Listing => None,
    }
}

impl Face for Facade {
    const OVERTAKES: bool = false;

    async fn subscribe(&mut self, who: usize, uri: &str) -> bool {
        self.host.subscribe(&self.subscribers[who], uri).await.is_ok()
    }

    async fn unsubscribe(&mut self, who: usize, uri: &str) -> Vec<String> {
        let told = self.told(who).await;
        // That there is no such plugin any more is no error that would matter.
        let _ = self.host.unsubscribe(&self.subscribers[who], uri);
        told
    }

    async fn leave(&mut self, who: usize) {
        self.subscribers[who] = self.host.subscriber(&Principal::LOCAL);
    }

    async fn told(&mut self, who: usize) -> Vec<String> {
        std::iter::from_fn(|| self.subscribers[who].take()).filter_map(uri).collect()
    }

    async fn wait(&mut self, who: usize) -> Vec<String> {
        uri(self.subscribers[who].next().await).into_iter().collect()
    }

    async fn reload(&mut self, config: &WrittenConfig) {
        self.host.reload(Config::load(&config.path()).unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn over_the_facade_the_rule_holds_whatever_happens() {
    let runs = seeds(24).into_iter().map(|seed| async move {
        let run = Run::new(seed);
        let mut face = Facade::start(&run.config).await;
        run.run(&mut face, 60).await;
    });
    futures::future::join_all(runs).await;
}

/// The URI of an update.
fn told_of(message: &Value) -> Option<String> {
    (message["method"] == UPDATED).then(|| message["params"]["uri"].as_str().unwrap().to_owned())
}

/// A server over stdio for each.
struct OverStdio {
    config: std::path::PathBuf,
    wires: Vec<StdioWire>,
}

impl OverStdio {
    async fn start(config: &WrittenConfig) -> Self {
        let mut face = Self { config: config.path(), wires: Vec::new() };
        for _ in 0..SUBSCRIBERS {
            face.wires.push(face.wire().await);
        }
        face
    }

    async fn wire(&self) -> StdioWire {
        StdioWire::start_at(&self.config, &[], Revision::V_2025_11_25).await
    }

    async fn end(self) {
        for mut wire in self.wires {
            wire.close();
            wire.ended().await;
        }
    }
}

impl Face for OverStdio {
    const OVERTAKES: bool = false;

    async fn subscribe(&mut self, who: usize, uri: &str) -> bool {
        let answer = self.wires[who].request("resources/subscribe", json!({ "uri": uri })).await;
        answer.message.get("result").is_some()
    }

    async fn unsubscribe(&mut self, who: usize, uri: &str) -> Vec<String> {
        self.wires[who].request("resources/unsubscribe", json!({ "uri": uri })).await;
        self.wires[who].early().iter().filter_map(told_of).collect()
    }

    async fn leave(&mut self, who: usize) {
        let new = self.wire().await;
        let mut old = std::mem::replace(&mut self.wires[who], new);
        old.close();
        old.ended().await;
    }

    async fn told(&mut self, who: usize) -> Vec<String> {
        self.wires[who].request("ping", json!({})).await.result();
        self.wires[who].early().iter().filter_map(told_of).collect()
    }

    async fn wait(&mut self, who: usize) -> Vec<String> {
        told_of(&self.wires[who].notification(UPDATED).await).into_iter().collect()
    }

    /// The server sees by itself that its config is another one, and when does not matter.
    async fn reload(&mut self, _: &WrittenConfig) {}
}

#[tokio::test]
async fn over_stdio_the_rule_holds_whatever_happens() {
    for seed in seeds(3) {
        let run = Run::new(seed);
        let mut face = OverStdio::start(&run.config).await;
        run.run(&mut face, 40).await;
        face.end().await;
    }
}

/// One server over HTTP, with a session for each.
struct OverHttp {
    server: Http,
    sessions: Vec<Session>,
}

struct Session {
    wire: HttpWire,
    told: mpsc::UnboundedReceiver<String>,
}

impl OverHttp {
    async fn start(config: &WrittenConfig) -> Self {
        let mut face = Self { server: Http::start(config).await, sessions: Vec::new() };
        for _ in 0..SUBSCRIBERS {
            face.sessions.push(face.session().await);
        }
        face
    }

    async fn session(&self) -> Session {
        let wire = self.server.wire(Revision::V_2025_11_25).await;
        let mut events = wire.events().await;
        let (sender, told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut text = String::new();
            while let Ok(Some(chunk)) = events.chunk().await {
                text.push_str(std::str::from_utf8(&chunk).unwrap());
                while let Some((line, rest)) = text.split_once('\n') {
                    let message = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data.trim()).ok());
                    if message.as_ref().and_then(told_of).is_some_and(|uri| sender.send(uri).is_err()) {
                        return;
                    }
                    text = rest.to_owned();
                }
            }
        });
        Session { wire, told }
    }
}

impl Face for OverHttp {
    const OVERTAKES: bool = true;

    async fn subscribe(&mut self, who: usize, uri: &str) -> bool {
        let answer = self.sessions[who].wire.request("resources/subscribe", json!({ "uri": uri })).await;
        answer.message.get("result").is_some()
    }

    async fn unsubscribe(&mut self, who: usize, uri: &str) -> Vec<String> {
        self.sessions[who].wire.request("resources/unsubscribe", json!({ "uri": uri })).await;
        self.told(who).await
    }

    async fn leave(&mut self, who: usize) {
        self.sessions[who] = self.session().await;
    }

    async fn told(&mut self, who: usize) -> Vec<String> {
        std::iter::from_fn(|| self.sessions[who].told.try_recv().ok()).collect()
    }

    async fn wait(&mut self, who: usize) -> Vec<String> {
        vec![self.sessions[who].told.recv().await.expect("the stream goes on")]
    }

    /// The server sees by itself that its config is another one, and when does not matter.
    async fn reload(&mut self, _: &WrittenConfig) {}
}

#[tokio::test]
async fn over_http_the_rule_holds_whatever_happens() {
    for seed in seeds(3) {
        let run = Run::new(seed);
        let mut face = OverHttp::start(&run.config).await;
        run.run(&mut face, 40).await;
        drop(face.sessions);
        face.server.end().await;
    }
}
