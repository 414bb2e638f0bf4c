//! Who subscribes to a page is told when it changes, and then alone.

use mcp_host_tests::{ConfigFile, Origin, Plugin, Reply, Revision, StdioWire, WrittenConfig};
use serde_json::json;

use super::{serving, uri, web};

const UPDATED: &str = "notifications/resources/updated";

/// A page that has to be asked for again each time, with its content as its tag.
fn page(body: &str) -> Reply {
    Reply::ok("text/plain", body).cache_control("max-age=0").etag(&format!("\"{body}\""))
}

/// The provider with pages looked at every second.
fn watched(origin: &Origin) -> Plugin {
    web(&[origin]).config("check-seconds", 1)
}

/// A session that is subscribed to pages of a server.
struct Watcher<'a> {
    wire: StdioWire,
    origin: &'a Origin,
}

impl<'a> Watcher<'a> {
    async fn start(config: &WrittenConfig, origin: &'a Origin, pages: &[&str]) -> Self {
        let mut wire = StdioWire::start(config, Revision::V_2025_11_25).await;
        for path in pages {
            wire.request("resources/subscribe", json!({ "uri": uri(origin, path) })).await.result();
        }
        Self { wire, origin }
    }

    /// Waits until that page was looked at, and what came of it has been told. Gives the pages that were told of since the last
    /// time.
    async fn told_when_looked_at(&mut self, page: &str) -> Vec<String> {
        // The next look begins later than now, and when the one behind it begins it is over.
        self.origin.until_count(page, self.origin.count(page) + 2).await;
        self.wire.request("ping", json!({})).await.result();
        let early = self.wire.early();
        let updates = early.iter().filter(|message| message["method"] == UPDATED);
        updates.map(|update| update["params"]["uri"].as_str().unwrap().to_owned()).collect()
    }

    async fn updated(&mut self) -> String {
        self.wire.notification(UPDATED).await["params"]["uri"].as_str().unwrap().to_owned()
    }

    async fn end(mut self) {
        self.wire.close();
        self.wire.ended().await;
    }
}

#[tokio::test]
async fn whatever_happens_to_a_page_is_told_once_and_of_one_that_is_confirmed_nothing() {
    let origin = Origin::http().await;
    for path in ["/a", "/steady"] {
        origin.serve(path, page("one"));
    }
    let mut watcher = Watcher::start(&serving(watched(&origin)), &origin, &["/a", "/steady"]).await;
    let told = [uri(&origin, "/a")];
    assert_eq!(watcher.told_when_looked_at("/steady").await, [""; 0], "confirmed");
    origin.serve("/a", page("two"));
    assert_eq!(watcher.told_when_looked_at("/a").await, told, "changed");
    origin.serve("/a", Reply::status(404));
    assert_eq!(watcher.told_when_looked_at("/a").await, told, "gone");
    origin.serve("/a", page("three"));
    assert_eq!(watcher.told_when_looked_at("/a").await, told, "back");
    origin.serve("/a", Reply::ok("text/plain", "three").cache_control("max-age=0").etag("\"another\""));
    assert_eq!(watcher.told_when_looked_at("/a").await, [""; 0], "the same by another name");
    assert_eq!(watcher.told_when_looked_at("/steady").await, [""; 0], "confirmed all the while");
    let requests = origin.requests();
    let last = requests.iter().rfind(|request| request.path == "/steady").unwrap();
    assert_eq!(last.header("if-none-match"), Some("\"one\""));
    watcher.end().await;
}

#[tokio::test]
async fn of_a_server_that_is_down_nothing_is_told_until_it_is_back_with_a_change() {
    let origin = Origin::http().await;
    for path in ["/a", "/steady"] {
        origin.serve(path, page("one"));
    }
    let mut watcher = Watcher::start(&serving(watched(&origin)), &origin, &["/a", "/steady"]).await;
    watcher.told_when_looked_at("/a").await;
    origin.down().await;
    // That it could not be asked shows in what is read: it is what was there before.
    loop {
        let answer = watcher.wire.request("resources/read", json!({ "uri": uri(&origin, "/a") })).await;
        if answer.result()["contents"][0]["_meta"]["http-cache/stale"] == true {
            break;
        }
    }
    origin.serve("/a", page("two"));
    origin.up().await;
    assert_eq!(watcher.updated().await, uri(&origin, "/a"));
    assert_eq!(watcher.told_when_looked_at("/steady").await, [""; 0]);
    watcher.end().await;
}

#[tokio::test]
async fn pages_are_watched_on_when_their_plugin_is_another() {
    let origin = Origin::http().await;
    for path in ["/a", "/steady"] {
        origin.serve(path, page("one"));
    }
    let config = serving(watched(&origin));
    let mut watcher = Watcher::start(&config, &origin, &["/a", "/steady"]).await;
    config.replace(ConfigFile::new().plugin(watched(&origin).config("timeout-ms", 3000)));
    let mut told = [watcher.updated().await, watcher.updated().await];
    told.sort();
    assert_eq!(told, ["/a", "/steady"].map(|path| uri(&origin, path)), "each once");
    origin.serve("/a", page("two"));
    assert_eq!(watcher.told_when_looked_at("/a").await, [uri(&origin, "/a")]);
    watcher.end().await;
}
