//! Cleanup of subscriptions: a disconnected subscriber leaves nothing behind, and unsubscribing works after the
//! resource is gone.

use std::sync::Arc;

use mcp_host_server::serve_http;
use mcp_host_tests::{
    ConfigFile, Folder, HttpServer, Plugin, RawHttp, RawStdio, Revision, TIMEOUT, WrittenConfig, component, wait_until,
};
use mcp_resource_host::{Host, WatchStats};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{ACKNOWLEDGED, SESSIONS, UPDATED, next_notification, notes_config};
use crate::subscriptions::facade::start;

fn two_faulty_plugins(folder: &Folder) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::faulty("m", folder.path())).plugin(Plugin::faulty("n", folder.path())).allow_all()
}

/// A server over HTTP in this process, so that the state of its host can be inspected.
struct InProcessServer {
    host: Arc<Host>,
    url: String,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

impl InProcessServer {
    async fn start(config: &WrittenConfig) -> Self {
        let host = start(config).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let (served, ending) = (host.clone(), shutdown.clone());
        let serving = tokio::spawn(async move { serve_http(served, listener, ending).await.unwrap() });
        Self { host, url, shutdown, serving }
    }

    fn watch_counts(&self) -> (usize, usize, usize) {
        let WatchStats { subscribers, resources, plugins, .. } = self.host.watch_stats();
        (subscribers, resources, plugins)
    }

    async fn wait_until_watching(&self, expected: (usize, usize, usize)) {
        wait_until(&format!("{expected:?} are watched, subscribers, resources and plugins"), || {
            self.watch_counts() == expected
        })
        .await;
    }

    async fn end(self) {
        self.shutdown.cancel();
        timeout(TIMEOUT, self.serving).await.unwrap().unwrap();
    }
}

async fn subscribe(wire: &mut RawHttp, uris: &[&str]) {
    for uri in uris {
        wire.request("resources/subscribe", json!({ "uri": uri })).await.result();
    }
}

#[tokio::test]
async fn sessions_that_end_leave_nothing_behind() {
    let folder = Folder::with_files([("a", "a"), ("b", "b")]);
    let served = InProcessServer::start(&two_faulty_plugins(&folder).write()).await;
    assert_eq!(served.watch_counts(), (0, 0, 0));
    for revision in SESSIONS {
        let mut wires =
            [RawHttp::start(&served.url, revision.clone()).await, RawHttp::start(&served.url, revision).await];
        subscribe(&mut wires[0], &["faulty://m/a", "faulty://m/b"]).await;
        subscribe(&mut wires[1], &["faulty://m/a", "faulty://n/b"]).await;
        served.wait_until_watching((2, 3, 2)).await;
        let [first, second] = wires;
        // One session that is being notified at this moment, and one that reads its updates.
        folder.write("a", "changed");
        first.delete_session().await;
        served.wait_until_watching((1, 2, 2)).await;
        let events = second.event_stream().await;
        second.delete_session().await;
        served.wait_until_watching((0, 0, 0)).await;
        drop(events);
    }
    served.end().await;
}

#[tokio::test]
async fn unsubscriptions_leave_nothing_behind() {
    let folder = Folder::with_files([("a", "a"), ("b", "b")]);
    let host = start(&two_faulty_plugins(&folder).write()).await;
    let subscriber = host.subscriber(&mcp_resource_host::access::Principal::LOCAL);
    for uri in ["faulty://m/a", "faulty://n/b"] {
        host.subscribe(&subscriber, uri).await.unwrap();
    }
    host.subscribe(&subscriber, "faulty://n/none").await.unwrap_err();
    assert_eq!(host.watch_stats().resources, 2);
    for uri in ["faulty://m/a", "faulty://n/b"] {
        host.unsubscribe(&subscriber, uri).unwrap();
    }
    assert_eq!(host.watch_stats().resources, 0);
    wait_until("no plugin is asked any more", || host.watch_stats().plugins == 0).await;
}

#[tokio::test]
async fn streams_whose_connection_is_closed_leave_nothing_behind() {
    let folder = Folder::with_files([("a", "a"), ("b", "b")]);
    let served = InProcessServer::start(&two_faulty_plugins(&folder).write()).await;
    let mut wire = RawHttp::start(&served.url, Revision::V_2026_07_28).await;
    let mut listen = async |uris: &[&str]| {
        let wanted = json!({ "notifications": { "resourceSubscriptions": uris, "resourcesListChanged": true } });
        let mut stream = wire.request_builder("subscriptions/listen", wanted).send().await.unwrap();
        let mut seen = String::new();
        while seen.matches(UPDATED).count() < uris.len() {
            let chunk = timeout(TIMEOUT, stream.chunk()).await.unwrap().unwrap();
            seen.push_str(std::str::from_utf8(&chunk.expect("the stream goes on")).unwrap());
        }
        stream
    };
    let first = listen(&["faulty://m/a", "faulty://m/b"]).await;
    let second = listen(&["faulty://m/a"]).await;
    served.wait_until_watching((2, 2, 2)).await;
    drop(first);
    served.wait_until_watching((1, 1, 2)).await;
    drop(second);
    served.wait_until_watching((0, 0, 0)).await;
    served.end().await;
}

#[tokio::test]
async fn a_stream_over_stdio_that_is_cancelled_leaves_no_directory_watched() {
    let folder = Folder::with_files([("a", "a")]);
    let config = two_faulty_plugins(&folder).write();
    let mut wire = RawStdio::start_at(&config.path(), &["--no-reload"], Revision::V_2026_07_28).await;
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["faulty://m/a"] } });
    for _ in 0..2 {
        let id = wire.send_request("subscriptions/listen", wanted.clone()).await;
        next_notification(&mut wire, ACKNOWLEDGED).await;
        next_notification(&mut wire, UPDATED).await;
        assert!(wire.inotify_watches() > 0);
        wire.send(&cancel_notification(id)).await;
        wait_until("no directory is watched", || wire.inotify_watches() == 0).await;
    }
    wire.end().await;
}

fn cancel_notification(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

/// A config without watchable resources.
fn unwatchable_config() -> ConfigFile {
    ConfigFile::new().plugin(Plugin::new("hello", &component("hello"), "hello:///"))
}

/// The errors of requests to subscribe when no resource can be watched.
const NOTHING_TO_WATCH: [(&str, i64); 2] = [("notes://n/a.md", -32002), ("hello:///world", -32602)];

#[tokio::test]
async fn a_session_over_stdio_unsubscribes_in_order_when_nothing_can_be_watched_any_more() {
    for revision in SESSIONS {
        let (_folder, config) = notes_config();
        let config = config.write();
        let mut wire = RawStdio::start(&config, revision).await;
        wire.request("resources/subscribe", json!({ "uri": "notes://n/a.md" })).await.result();
        config.replace(unwatchable_config());
        wire.log_line("generation=2 ").await;
        for (uri, code) in NOTHING_TO_WATCH {
            assert_eq!(wire.request("resources/subscribe", json!({ "uri": uri })).await.error_code(), code);
        }
        assert_eq!(wire.request("resources/subscribe", json!({})).await.error_code(), -32602);
        assert_eq!(
            *wire.request("resources/unsubscribe", json!({ "uri": "notes://n/a.md" })).await.result(),
            json!({})
        );
        wire.end().await;
    }
}

#[tokio::test]
async fn a_session_over_http_unsubscribes_in_order_when_nothing_can_be_watched_any_more() {
    let (_folder, config) = notes_config();
    let config = config.allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut old = server.raw_client(Revision::V_2025_11_25).await;
    old.request("resources/subscribe", json!({ "uri": "notes://n/a.md" })).await.result();
    config.replace(unwatchable_config().allow_all());
    server.log_line("generation=2 ").await;
    for (uri, code) in NOTHING_TO_WATCH {
        assert_eq!(old.request("resources/subscribe", json!({ "uri": uri })).await.error_code(), code);
    }
    assert_eq!(*old.request("resources/unsubscribe", json!({ "uri": "notes://n/a.md" })).await.result(), json!({}));
    // The capabilities of a new session do not include subscriptions, and requests to subscribe fail.
    let mut new = server.raw_client(Revision::V_2025_11_25).await;
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        assert_eq!(new.request(method, json!({ "uri": "notes://n/a.md" })).await.error_code(), -32601);
    }
    server.end().await;
}
