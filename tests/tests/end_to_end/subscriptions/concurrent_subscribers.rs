//! Many clients subscribe at the same time, the provider fails just then, or one client disconnects in the middle:
//! every client with an acknowledgement is notified of the next change.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{join_all, try_join_all};
use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, RawStdio, Revision, Rule, TIMEOUT, wait_until};
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::Config;
use mcp_resource_host::resource::Error;
use mcp_resource_host::{Host, Subscriber, Update};
use reqwest::Response;
use serde_json::json;
use tokio::time::timeout;

use crate::subscriptions::facade::start;

const UPDATED: &str = "notifications/resources/updated";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

fn watched_plugin(folder: &Folder) -> Plugin {
    Plugin::watched("w", folder.path()).limit("log", "16MiB/m")
}

/// A stream of `subscriptions/listen`.
struct Listener {
    stream: Response,
    buffer: String,
}

impl Listener {
    /// Listens, and returns after the acknowledgement.
    async fn start(server: &HttpServer, uris: &[&str]) -> Self {
        let wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
        let request = server.uninitialized(Revision::V_2026_07_28).request_builder("subscriptions/listen", wanted);
        let stream = timeout(TIMEOUT, request.send()).await.expect("in time").expect("a stream");
        let mut listener = Self { stream, buffer: String::new() };
        listener.wait_for(ACKNOWLEDGED).await;
        listener
    }

    /// Waits for an update that contains a text. Earlier ones are skipped.
    async fn wait_for(&mut self, text: &str) {
        loop {
            if let Some((_, rest)) = self.buffer.split_once(text) {
                self.buffer = rest.to_owned();
                return;
            }
            self.read_chunk(text).await;
        }
    }

    async fn read_chunk(&mut self, awaited: &str) {
        let chunk = timeout(TIMEOUT, self.stream.chunk()).await;
        let chunk = chunk.unwrap_or_else(|_| panic!("it never hears {awaited}")).unwrap();
        self.buffer.push_str(std::str::from_utf8(&chunk.expect("the stream goes on")).unwrap());
    }
}

fn count_matches(log: &str, text: &str) -> usize {
    log.matches(text).count()
}

#[tokio::test]
async fn all_who_listen_at_the_same_moment_hear_of_an_edit_and_share_one_question() {
    const LISTENERS: usize = 300;
    let folder = Folder::with_files([("state", "0")]);
    // `stat` takes long, so separate calls would fill any queue, and all listeners arrive during the call even on a
    // busy machine.
    let config = ConfigFile::new().plugin(watched_plugin(&folder).config("stat-ms", 500)).allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut listeners = join_all((0..LISTENERS).map(|_| Listener::start(&server, &["watched://w/f"]))).await;
    join_all(listeners.iter_mut().map(|listener| listener.wait_for(UPDATED))).await;
    folder.write("state", "1");
    join_all(listeners.iter_mut().map(|listener| listener.wait_for(UPDATED))).await;
    drop(listeners);
    let log = server.end().await.log;
    let questions = count_matches(&log, "stat f");
    assert!(questions <= LISTENERS / 5, "{questions} questions for {LISTENERS} listeners");
}

#[tokio::test]
async fn as_many_requests_as_are_made_at_once_subscribe_whatever_queue_and_rate_allow() {
    let folder = Folder::with_files([("state", "0")]);
    let narrow =
        watched_plugin(&folder).limit("concurrency", 1).limit("queue", 0).limit("rate", "1/s").config("stat-ms", 2);
    let config = ConfigFile::new().plugin(narrow).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let mut ids = Vec::new();
    for number in 0..100 {
        let uri = format!("watched://w/{number}");
        ids.push(wire.send_request("resources/subscribe", json!({ "uri": uri })).await);
    }
    for id in ids {
        wire.response_to(id).await.result();
    }
    folder.write("state", "1");
    let mut told = std::collections::BTreeSet::new();
    while told.len() < 100 {
        let update = wire.notification(UPDATED).await;
        told.insert(update["params"]["uri"].as_str().unwrap().to_owned());
    }
    wire.end().await;
}

#[tokio::test]
async fn whoever_listens_while_the_provider_fails_hears_of_it_when_it_is_back() {
    for fault in ["stat.trap", "stat.fail", "stat.hang", "changes.trap", "changes.fail", "changes.hang", "list.trap"] {
        let folder = Folder::with_files([("state", "0")]);
        let call = if fault.starts_with("stat") { "stat f" } else { "changes 1" };
        let broken = folder.write(fault, "");
        if fault == "list.trap" {
            // With traps, the circuit breaker opens, too.
            folder.write("stat.trap", "");
        }
        let config = ConfigFile::new().plugin(watched_plugin(&folder).limit("deadline", "1s")).allow_all().write();
        let server = HttpServer::start(&config).await;
        let mut listeners = join_all((0..20).map(|_| Listener::start(&server, &["watched://w/f"]))).await;
        let awaited = if fault == "list.trap" { "circuit breaker opened" } else { call };
        server.log_line(awaited).await;
        fs::remove_file(broken).unwrap();
        let _ = fs::remove_file(folder.path().join("stat.trap"));
        join_all(listeners.iter_mut().map(|listener| listener.wait_for(UPDATED))).await;
        folder.write("state", "1");
        join_all(listeners.iter_mut().map(|listener| listener.wait_for(UPDATED))).await;
        drop(listeners);
        server.end().await;
    }
}

#[tokio::test]
async fn a_request_to_subscribe_is_tried_again_and_its_error_leaves_nothing_behind() {
    let folder = Folder::with_files([("state", "0"), ("stat.trap", "")]);
    let host = start(&ConfigFile::new().plugin(watched_plugin(&folder)).write()).await;
    let subscriber = host.subscriber(&Principal::LOCAL);
    let error = host.subscribe(&subscriber, "watched://w/f").await.unwrap_err();
    assert!(matches!(error, Error::Internal { .. } | Error::Unavailable { .. }), "{error:?}");
    assert_eq!(host.watch_stats().resources, 0);
    let trying = host.subscribe(&subscriber, "watched://w/g");
    let repairing = async {
        wait_until("it was tried", || !host.plugins()[0].faults.is_empty()).await;
        fs::remove_file(folder.path().join("stat.trap")).unwrap();
    };
    let (tried, ()) = futures::join!(trying, repairing);
    tried.unwrap();
    for uri in ["watched://w/missing/x", "watched://w/plain/x"] {
        host.subscribe(&subscriber, uri).await.unwrap_err();
    }
    assert_eq!(host.watch_stats().resources, 1);
}

/// A host whose provider answers no `stat` before the gate is opened, and counts the calls.
struct GatedHost {
    folder: Folder,
    counts: Folder,
    host: Arc<Host>,
}

impl GatedHost {
    async fn start(config: ConfigFile) -> Self {
        let folder = Folder::with_files([("state", "0"), ("stat.wait", "")]);
        let counts = Folder::with_files::<&str, &str>([]);
        let host = start(&Self::config(&folder, &counts, config).write()).await;
        Self { folder, counts, host }
    }

    fn config(folder: &Folder, counts: &Folder, config: ConfigFile) -> ConfigFile {
        config.plugin(watched_plugin(folder).writable_dir(counts.path(), "/count", "1MiB").limit("deadline", "1m"))
    }

    async fn reload(&self, config: ConfigFile) {
        let written = Self::config(&self.folder, &self.counts, config).write();
        self.host.reload(Config::load(written.path()).unwrap()).await.unwrap();
    }

    fn stat_count(&self) -> usize {
        fs::read(self.counts.path().join("stat")).map_or(0, |file| file.len())
    }

    async fn wait_until_stat_called(&self) {
        wait_until("the provider is asked", || self.stat_count() > 0).await;
    }

    fn open_gate(&self) {
        fs::remove_file(self.folder.path().join("stat.wait")).unwrap();
    }
}

async fn next_update(subscriber: &Subscriber) -> Update {
    timeout(TIMEOUT, subscriber.next()).await.expect("an update in time")
}

#[tokio::test]
async fn the_first_who_asks_and_goes_away_takes_the_question_from_nobody() {
    let gated = GatedHost::start(ConfigFile::new()).await;
    let host = gated.host.clone();
    let subscribers: Vec<_> = (0..20).map(|_| host.subscriber(&Principal::LOCAL)).collect();
    let tasks = subscribers.into_iter().map(|subscriber| {
        let host = host.clone();
        tokio::spawn(async move { host.subscribe(&subscriber, "watched://w/f").await.map(|()| subscriber) })
    });
    let mut tasks = tasks.collect::<Vec<_>>().into_iter();
    gated.wait_until_stat_called().await;
    let first = tasks.next().unwrap();
    first.abort();
    first.await.unwrap_err();
    gated.open_gate();
    let subscribers = try_join_all(tasks).await.unwrap();
    gated.folder.write("state", "1");
    for subscriber in subscribers {
        let subscriber = subscriber.unwrap();
        assert_eq!(next_update(&subscriber).await, Update::Resource("watched://w/f".to_owned()));
    }
    assert_eq!(gated.stat_count(), 1, "one question is enough for all");
}

#[tokio::test]
async fn a_question_ends_with_the_last_who_asked_it() {
    let gated = GatedHost::start(ConfigFile::new()).await;
    let (host, subscriber) = (gated.host.clone(), gated.host.subscriber(&Principal::LOCAL));
    for asked in 1..=5 {
        let asking = host.subscribe(&subscriber, "watched://w/f");
        tokio::select! {
            answer = asking => panic!("the gate is closed: {answer:?}"),
            // More than the concurrency limit: the cancelled calls have ended.
            () = wait_until("the provider is asked", || gated.stat_count() == asked) => {}
        }
    }
    assert_eq!(host.watch_stats().resources, 0);
}

#[tokio::test]
async fn who_may_not_subscribe_shares_no_question_and_who_may_not_any_more_no_answer() {
    let deny = || ConfigFile::new().allow_all().rule(Rule::for_principal("anonymous").deny(["**/f"]));
    let gated = GatedHost::start(deny()).await;
    let host = gated.host.clone();
    let allowed = host.subscriber(&Principal::LOCAL);
    let subscribing = {
        let host = host.clone();
        tokio::spawn(async move { (host.subscribe(&allowed, "watched://w/f").await, allowed) })
    };
    gated.wait_until_stat_called().await;
    // The gate is closed: a subscriber that shared the call would wait for its answer.
    let denied = host.subscriber(&Principal::ANONYMOUS);
    let error = host.subscribe(&denied, "watched://w/f").await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    gated.reload(deny().rule(Rule::for_principal("local").deny(["**/f"]))).await;
    gated.open_gate();
    let (answer, _allowed) = subscribing.await.unwrap();
    assert!(matches!(answer, Err(Error::NotFound { .. })), "{answer:?}");
    assert_eq!((gated.stat_count(), host.watch_stats().resources), (1, 0));
}

#[tokio::test]
async fn what_was_acknowledged_and_cannot_be_subscribed_to_is_tried_again_after_each_reload() {
    let folder = Folder::with_files([("state", "0"), ("stat.fail", "")]);
    let with = || ConfigFile::new().plugin(watched_plugin(&folder)).allow_all();
    let other = Folder::with_files([("state", "0")]);
    let without = || ConfigFile::new().plugin(Plugin::watched("v", other.path())).allow_all();
    let config = with().rule(Rule::for_principal("anonymous").deny(["**/secret"])).write();
    let server = HttpServer::start(&config).await;
    let mut gone = Listener::start(&server, &["watched://w/f"]).await;
    let mut denied = Listener::start(&server, &["watched://w/secret"]).await;
    server.log_line("stat f").await;
    config.replace(without());
    server.log_line("generation=2 ").await;
    fs::remove_file(folder.path().join("stat.fail")).unwrap();
    config.replace(with());
    server.log_line("generation=3 ").await;
    gone.wait_for(UPDATED).await;
    denied.wait_for(UPDATED).await;
    folder.write("state", "1");
    gone.wait_for(UPDATED).await;
    denied.wait_for(UPDATED).await;
    drop((gone, denied));
    server.end().await;
}

#[tokio::test]
async fn what_hangs_in_one_plugin_delays_nothing_of_another() {
    let folder = Folder::with_files([("state", "0")]);
    let config = ConfigFile::new()
        .plugin(watched_plugin(&folder).limit("deadline", "10m"))
        .plugin(Plugin::watched("good", folder.path()));
    let server = HttpServer::start(&config.allow_all().write()).await;
    let slow: Vec<_> = (0..200).map(|number| format!("watched://w/slow/{number}")).collect();
    let uris: Vec<_> = slow.iter().map(String::as_str).chain(["watched://good/f"]).collect();
    let mut listener = Listener::start(&server, &uris).await;
    for state in ["1", "2"] {
        listener.wait_for("watched://good/f").await;
        folder.write("state", state);
    }
    drop(listener);
    server.end().await;
}

#[tokio::test]
async fn all_who_listen_hear_of_edits_while_others_read_without_end() {
    let folder = Folder::with_files([("state", "0")]);
    let server = HttpServer::start(&ConfigFile::new().plugin(watched_plugin(&folder)).allow_all().write()).await;
    let mut listeners = join_all((0..50).map(|_| Listener::start(&server, &["watched://w/f"]))).await;
    let reading = AtomicBool::new(true);
    let read = async || {
        let mut wire = server.uninitialized(Revision::V_2026_07_28);
        while reading.load(Ordering::Relaxed) {
            wire.request("resources/read", json!({ "uri": "watched://w/other" })).await;
        }
    };
    let listening = async {
        join_all(listeners.iter_mut().map(|listener| listener.wait_for(UPDATED))).await;
        for state in ["1", "2", "3"] {
            folder.write("state", state);
            join_all(listeners.iter_mut().map(|listener| listener.wait_for(UPDATED))).await;
        }
        reading.store(false, Ordering::Relaxed);
    };
    futures::join!(listening, join_all((0..64).map(|_| read())));
    drop(listeners);
    server.end().await;
}
