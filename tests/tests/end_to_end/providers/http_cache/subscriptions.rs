//! A subscriber of a page is notified when the page changes, and only then.

use mcp_host_tests::{ConfigFile, MockOrigin, Plugin, RawStdio, Reply, Revision, WrittenConfig};
use serde_json::json;

use super::{page_uri, plugin_config, web_plugin};

const UPDATED: &str = "notifications/resources/updated";

/// A page that must be revalidated each time, with its content as its entity tag.
fn page(body: &str) -> Reply {
    Reply::ok("text/plain", body).cache_control("max-age=0").etag(&format!("\"{body}\""))
}

/// The provider, with pages polled every second.
fn watched_plugin(origin: &MockOrigin) -> Plugin {
    web_plugin(&[origin]).config("check-seconds", 1)
}

/// A session that is subscribed to pages of an origin.
struct PageWatcher<'a> {
    wire: RawStdio,
    origin: &'a MockOrigin,
}

impl<'a> PageWatcher<'a> {
    async fn start(config: &WrittenConfig, origin: &'a MockOrigin, pages: &[&str]) -> Self {
        let mut wire = RawStdio::start(config, Revision::V_2025_11_25).await;
        for path in pages {
            wire.request("resources/subscribe", json!({ "uri": page_uri(origin, path) })).await.result();
        }
        Self { wire, origin }
    }

    /// Waits until a page was polled and the result was notified. Returns the pages notified since the last call.
    async fn updates_after_check(&mut self, page: &str) -> Vec<String> {
        // The next poll starts after now. When the poll after it starts, the next poll has ended.
        self.origin.wait_for_count(page, self.origin.request_count(page) + 2).await;
        self.wire.request("ping", json!({})).await.result();
        let early = self.wire.take_notifications();
        let updates = early.iter().filter(|message| message["method"] == UPDATED);
        updates.map(|update| update["params"]["uri"].as_str().unwrap().to_owned()).collect()
    }

    async fn next_updated(&mut self) -> String {
        self.wire.notification(UPDATED).await["params"]["uri"].as_str().unwrap().to_owned()
    }

    async fn end(self) {
        self.wire.end().await;
    }
}

#[tokio::test]
async fn whatever_happens_to_a_page_is_told_once_and_of_one_that_is_confirmed_nothing() {
    let origin = MockOrigin::http().await;
    for path in ["/a", "/steady"] {
        origin.serve(path, page("one"));
    }
    let mut watcher = PageWatcher::start(&plugin_config(watched_plugin(&origin)), &origin, &["/a", "/steady"]).await;
    let told = [page_uri(&origin, "/a")];
    assert_eq!(watcher.updates_after_check("/steady").await, [""; 0], "confirmed");
    origin.serve("/a", page("two"));
    assert_eq!(watcher.updates_after_check("/a").await, told, "changed");
    origin.serve("/a", Reply::status(404));
    assert_eq!(watcher.updates_after_check("/a").await, told, "gone");
    origin.serve("/a", page("three"));
    assert_eq!(watcher.updates_after_check("/a").await, told, "back");
    origin.serve("/a", Reply::ok("text/plain", "three").cache_control("max-age=0").etag("\"another\""));
    assert_eq!(watcher.updates_after_check("/a").await, [""; 0], "the same by another name");
    assert_eq!(watcher.updates_after_check("/steady").await, [""; 0], "confirmed all the while");
    let requests = origin.requests();
    let last = requests.iter().rfind(|request| request.path == "/steady").unwrap();
    assert_eq!(last.header("if-none-match"), Some("\"one\""));
    watcher.end().await;
}

#[tokio::test]
async fn of_a_server_that_is_down_nothing_is_told_until_it_is_back_with_a_change() {
    let origin = MockOrigin::http().await;
    for path in ["/a", "/steady"] {
        origin.serve(path, page("one"));
    }
    let mut watcher = PageWatcher::start(&plugin_config(watched_plugin(&origin)), &origin, &["/a", "/steady"]).await;
    watcher.updates_after_check("/a").await;
    origin.take_down().await;
    // A read shows that the poll failed: its content is the previous one.
    loop {
        let answer = watcher.wire.request("resources/read", json!({ "uri": page_uri(&origin, "/a") })).await;
        if answer.result()["contents"][0]["_meta"]["http-cache/stale"] == true {
            break;
        }
    }
    origin.serve("/a", page("two"));
    origin.bring_up().await;
    assert_eq!(watcher.next_updated().await, page_uri(&origin, "/a"));
    assert_eq!(watcher.updates_after_check("/steady").await, [""; 0]);
    watcher.end().await;
}

#[tokio::test]
async fn pages_are_watched_on_when_their_plugin_is_another() {
    let origin = MockOrigin::http().await;
    for path in ["/a", "/steady"] {
        origin.serve(path, page("one"));
    }
    let config = plugin_config(watched_plugin(&origin));
    let mut watcher = PageWatcher::start(&config, &origin, &["/a", "/steady"]).await;
    config.replace(ConfigFile::new().plugin(watched_plugin(&origin).config("timeout-ms", 3000)));
    let mut told = [watcher.next_updated().await, watcher.next_updated().await];
    told.sort();
    assert_eq!(told, ["/a", "/steady"].map(|path| page_uri(&origin, path)), "each once");
    origin.serve("/a", page("two"));
    assert_eq!(watcher.updates_after_check("/a").await, [page_uri(&origin, "/a")]);
    watcher.end().await;
}
