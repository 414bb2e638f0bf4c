//! Notifications of changes: in sessions, on the streams of 2026-07-28, and on the command line.

mod cleanup;
mod concurrent_subscribers;
mod directory_events;
mod facade;
mod model;
mod replica_caches;
mod replica_certificates;
mod replica_check;
mod replica_faults;
mod replica_operations;
mod replica_shards;
mod replicas;
pub(crate) mod session_streams;
mod shared_sessions;
mod update_rate;
mod watch_command;

use mcp_host_tests::{ConfigFile, Folder, GitRepo, HttpServer, Plugin, RawStdio, Revision, Rule, TIMEOUT, component};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::timeout;

const UPDATED: &str = "notifications/resources/updated";
const LISTING: &str = "notifications/resources/list_changed";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const SESSIONS: [Revision; 2] = [Revision::V_2025_06_18, Revision::V_2025_11_25];

fn notes_config() -> (Folder, ConfigFile) {
    let folder = Folder::with_files([("a.md", "a"), ("b.md", "b"), ("secret/c.md", "c")]);
    let config = ConfigFile::new().plugin(Plugin::notes("n", folder.path()));
    (folder, config)
}

/// Returns the URI of the next update; other messages are skipped.
async fn next_updated(wire: &mut RawStdio) -> String {
    next_notification(wire, UPDATED).await["params"]["uri"].as_str().unwrap().to_owned()
}

async fn next_notification(wire: &mut RawStdio, method: &str) -> Value {
    loop {
        let message = wire.message().await.expect("a notification before the end");
        if message["method"] == method {
            return message;
        }
    }
}

#[tokio::test]
async fn every_change_after_a_subscription_is_told() {
    let (folder, config) = notes_config();
    let config = config.write();
    for revision in SESSIONS {
        let mut wire = RawStdio::start(&config, revision).await;
        wire.request("resources/subscribe", json!({ "uri": "notes://n/a.md" })).await.result();
        for round in 0..3 {
            folder.write("a.md", "longer and ".repeat(round + 2));
            assert_eq!(next_updated(&mut wire).await, "notes://n/a.md");
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn an_update_names_the_resource_as_it_was_subscribed_to() {
    let (folder, config) = notes_config();
    let config = config.write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wire.request("resources/subscribe", json!({ "uri": "NOTES://n/./%61.md" })).await.result();
    folder.write("a.md", "changed");
    assert_eq!(next_updated(&mut wire).await, "NOTES://n/./%61.md");
    wire.end().await;
}

#[tokio::test]
async fn after_an_unsubscription_nothing_more_is_told() {
    let (folder, config) = notes_config();
    let config = config.write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for uri in ["notes://n/a.md", "notes://n/b.md"] {
        wire.request("resources/subscribe", json!({ "uri": uri })).await.result();
    }
    wire.request("resources/unsubscribe", json!({ "uri": "notes://n/a.md" })).await.result();
    folder.write("a.md", "changed first");
    folder.write("b.md", "changed second");
    assert_eq!(next_updated(&mut wire).await, "notes://n/b.md");
    wire.end().await;
}

#[tokio::test]
async fn a_session_is_told_when_what_is_listed_changes() {
    let (folder, config) = notes_config();
    let config = config.write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    // A subscription is answered after a round of polling, so the listing is known from here on.
    wire.request("resources/subscribe", json!({ "uri": "notes://n/a.md" })).await.result();
    folder.write("new.md", "new");
    next_notification(&mut wire, LISTING).await;
    wire.end().await;
}

#[tokio::test]
async fn commits_are_told_to_those_who_watch_a_branch() {
    let repo = GitRepo::with_files([("a.txt", "one")]);
    let config = ConfigFile::new().plugin(Plugin::git("g", repo.path())).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for uri in ["git://g/blob/HEAD/a.txt", "git://g/refs"] {
        wire.request("resources/subscribe", json!({ "uri": uri })).await.result();
    }
    std::fs::write(repo.path().join("a.txt"), "two").unwrap();
    repo.git(["commit", "--all", "--message", "second"]);
    let mut told = [next_updated(&mut wire).await, next_updated(&mut wire).await];
    told.sort();
    assert_eq!(told, ["git://g/blob/HEAD/a.txt", "git://g/refs"]);
    wire.end().await;
}

#[tokio::test]
async fn what_is_not_there_or_cannot_be_watched_or_is_denied_cannot_be_subscribed_to() {
    let (_folder, config) = notes_config();
    let hello = Plugin::new("hello", &component("hello"), "hello:///");
    let denied = Rule::for_principal("local").deny(["**/secret/**"]);
    let config = config.plugin(hello).rule(denied).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for (uri, code) in [
        ("notes://n/none.md", -32002),
        ("notes://n/secret/c.md", -32002),
        ("other://n/a.md", -32002),
        ("hello:///world", -32602),
        ("no uri", -32602),
    ] {
        let answer = wire.request("resources/subscribe", json!({ "uri": uri })).await;
        assert_eq!(answer.error_code(), code, "{uri}: {answer:?}");
    }
    wire.end().await;
}

#[tokio::test]
async fn a_stream_over_stdio_is_acknowledged_and_told_until_it_is_cancelled() {
    let (folder, config) = notes_config();
    let config = config.write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["notes://n/a.md", "other://x/", "no uri"] } });
    let id = wire.send_request("subscriptions/listen", wanted).await;
    let acknowledged = next_notification(&mut wire, ACKNOWLEDGED).await;
    // Acknowledgements do not reveal which mounts exist. A text that is not a URI is not acknowledged.
    let told = json!({ "resourceSubscriptions": ["notes://n/a.md", "other://x/"] });
    assert_eq!(acknowledged["params"]["notifications"], told);
    // The first update is sent as soon as the subscription is active; then each change causes one.
    for content in [None, Some("changed"), Some("changed again")] {
        if let Some(content) = content {
            folder.write("a.md", content);
        }
        let told = next_notification(&mut wire, UPDATED).await;
        assert_eq!(told["params"]["uri"], "notes://n/a.md");
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    }
    wire.end().await;
}

#[tokio::test]
async fn a_stream_over_http_is_told_and_ends_in_order_with_the_server() {
    let (folder, config) = notes_config();
    let config = config.allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["notes://n/a.md"] } });
    let mut stream = wire.request_builder("subscriptions/listen", wanted).send().await.unwrap();
    let mut seen = String::new();
    for (awaited, then) in [(ACKNOWLEDGED, None), (UPDATED, Some("changed")), (UPDATED, None)] {
        while !seen.contains(awaited) {
            let chunk = timeout(TIMEOUT, stream.chunk()).await.unwrap().unwrap();
            seen.push_str(std::str::from_utf8(&chunk.expect("the stream goes on")).unwrap());
        }
        seen = seen.split_once(awaited).unwrap().1.to_owned();
        if let Some(content) = then {
            folder.write("a.md", content);
        }
    }
    server.signal(Signal::TERM);
    while let Some(chunk) = timeout(TIMEOUT, stream.chunk()).await.unwrap().unwrap() {
        seen.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(seen.contains("\"result\""), "a graceful end is a result: {seen}");
    server.wait_clean_exit().await;
}
