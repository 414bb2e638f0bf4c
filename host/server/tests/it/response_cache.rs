//! The response cache over HTTP. A native provider counts its calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HOST};
use futures::future::join_all;
use http_body_util::BodyExt;
use mcp_host_server::HttpOptions;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::audit::Audit;
use mcp_resource_host::config::{Config, PrincipalSelector, Rule};
use mcp_resource_host::plugin::NativePlugin;
use mcp_resource_host::provider::{
    self, ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, async_trait,
};
use mcp_resource_host::{Host, ListRequest};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::TIMEOUT;

const TTL: Duration = Duration::from_secs(600);
/// The files: name, time to live, and length of the text.
const FILES: [(&str, Option<Duration>, usize); 5] = [
    ("a", Some(TTL), 10),
    ("b", Some(TTL), 10),
    ("forever", Some(Duration::from_millis(u64::MAX)), 10),
    ("large", Some(TTL), 300_000),
    ("uncached", None, 10),
];

/// Files whose content is their version.
#[derive(Default)]
struct Files {
    version: AtomicU64,
    reads: AtomicUsize,
    lists: AtomicUsize,
    /// Whether all listed files have a time to live.
    lists_cacheable: bool,
    /// Whether `a` is listed with a time to live of a minute.
    lists_short: bool,
    /// If set, a read takes a permit after it has read the version.
    gate: Option<Semaphore>,
}

fn entry(path: &str) -> provider::Result<Entry> {
    let (name, ttl, _) = FILES.into_iter().find(|(name, ..)| *name == path).ok_or(Failure::NotFound)?;
    let entry = Entry::new(path, name).title("A file").subscribable();
    Ok(match ttl {
        Some(ttl) => entry.ttl(ttl),
        None => entry,
    })
}

#[async_trait]
impl Provider for Files {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("files", "1.0.0").watches(true)
    }

    async fn list(&self, _: Option<&str>, cursor: Option<&str>, _: usize) -> provider::Result<Page> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let listed = FILES.into_iter().filter(|(_, ttl, _)| ttl.is_some() || !self.lists_cacheable);
        let listed = listed.map(|(name, ..)| match entry(name).unwrap() {
            entry if name == "a" && self.lists_short => entry.ttl(Duration::from_secs(60)),
            entry => entry,
        });
        let (first, second): (Vec<_>, Vec<_>) = listed.partition(|one| one.path.as_str() < "c");
        Ok(match cursor {
            None => Page { entries: first, next_cursor: Some("c".to_owned()) },
            Some(_) => Page::last(second),
        })
    }

    async fn stat(&self, path: &str) -> provider::Result<Entry> {
        entry(path)
    }

    async fn read(&self, path: &str) -> provider::Result<Vec<Contents>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let version = self.version.load(Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        if path == "dir" {
            return Ok(vec![Contents::text(Entry::directory("dir", "dir").ttl(TTL), "written by the provider: a, b")]);
        }
        if path == "both" {
            return Ok(["a", "b"].map(|path| Contents::text(entry(path).unwrap(), path)).into());
        }
        let length = FILES.into_iter().find(|(name, ..)| *name == path).map_or(0, |(.., length)| length);
        Ok(vec![Contents::text(entry(path)?, format!("{version}\n{}", "\"é".repeat(length)))])
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> provider::Result<ChangeSet> {
        let version = self.version.load(Ordering::SeqCst).to_string();
        let mut changes = ChangeSet::none(&version);
        if since.is_some_and(|since| since != version) {
            changes.changed = watched.to_vec();
        }
        Ok(changes)
    }
}

/// A server of these files.
struct Server {
    host: Arc<Host>,
    files: Arc<Files>,
    routes: Router,
    _dir: TempDir,
}

impl Server {
    async fn start(files: Files) -> Self {
        Self::start_with(files, |_| (), |plugin| plugin).await
    }

    async fn start_with(
        files: Files,
        change: impl FnOnce(&mut Config),
        change_plugin: impl FnOnce(NativePlugin) -> NativePlugin,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new();
        let mut rule = Rule::new([PrincipalSelector::Named("ada".into())]);
        rule.allow = vec!["**".parse().unwrap()];
        config.rules.push(rule);
        let mut rule = Rule::new([PrincipalSelector::Named("bob".into())]);
        rule.allow = ["both", "b", "dir"].map(|path| format!("files:///{path}").parse().unwrap()).into();
        config.rules.push(rule);
        config.server.cache = Some(dir.path().join("cache"));
        config.server.state = Some(dir.path().join("state"));
        change(&mut config);
        let files = Arc::new(files);
        let plugin = NativePlugin::new("files".parse().unwrap(), "files:///".parse().unwrap(), files.clone());
        let plugin = change_plugin(plugin.watch_interval("100ms".parse().unwrap()));
        let host = Arc::new(Host::builder(config).native_plugin(plugin).start().await.unwrap());
        let routes = mcp_host_server::http_service(host.clone(), HttpOptions::new()).into_router();
        Self { host, files, routes, _dir: dir }
    }

    /// Starts a server with an audit log in this directory.
    async fn start_audited(files: Files, log: &TempDir) -> Self {
        let audit = Audit::to_file(log.path().join("audit.jsonl"));
        Self::start_with(files, |config| config.audit = Some(audit), |plugin| plugin).await
    }

    /// Ends the server, and returns for each request the cache member of its line in the audit log.
    async fn recorded_as_cached(&self, log: &TempDir) -> Vec<Value> {
        self.recorded(log).await.into_iter().map(|line| line["cached"].clone()).collect()
    }

    /// Ends the server, and returns the lines of its requests in the audit log.
    async fn recorded(&self, log: &TempDir) -> Vec<Value> {
        self.host.shutdown(TIMEOUT).await;
        let lines = std::fs::read_to_string(log.path().join("audit.jsonl")).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        // The start and the stop have lines, too.
        lines.filter(|line| line["operation"] != "start" && line["operation"] != "stop").collect()
    }

    /// Sends a request of the revision without sessions.
    async fn request(&self, user: &str, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}
        });
        let message = json!({ "jsonrpc": "2.0", "id": "an id", "method": method, "params": params });
        let request = Request::builder().method(Method::POST).uri("/mcp");
        let request = request.header(HOST, "localhost").header(ACCEPT, "application/json, text/event-stream");
        let request = request.header(CONTENT_TYPE, "application/json").header("mcp-protocol-version", "2026-07-28");
        let request = request.header("mcp-method", method);
        let request = match params["uri"].as_str() {
            Some(uri) => request.header("mcp-name", uri),
            None => request,
        };
        let mut request = request.body(Body::from(message.to_string())).unwrap();
        request.extensions_mut().insert(Principal::new(user));
        let response = timeout(TIMEOUT, self.routes.clone().oneshot(request)).await.unwrap().unwrap();
        let body = timeout(TIMEOUT, response.into_body().collect()).await.unwrap().unwrap();
        let response: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
        assert_eq!(response["id"], "an id");
        response
    }

    async fn read(&self, user: &str, path: &str) -> Value {
        self.request(user, "resources/read", json!({ "uri": format!("files:///{path}") })).await
    }

    /// Reads a file, and returns its version.
    async fn version(&self, path: &str) -> String {
        let read = self.read("ada", path).await;
        let text = read["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
        text.split('\n').next().unwrap().to_owned()
    }

    async fn list(&self, user: &str) -> Value {
        self.request(user, "resources/list", json!({})).await["result"].clone()
    }

    fn reads(&self) -> usize {
        self.files.reads.load(Ordering::SeqCst)
    }

    fn lists(&self) -> usize {
        self.files.lists.load(Ordering::SeqCst)
    }

    /// Increments the version.
    fn change(&self) {
        self.files.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until the given number of reads have begun.
    async fn wait_for_reads(&self, count: usize) {
        while self.reads() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn uris(listed: &Value) -> Vec<&str> {
    listed["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_index_of_a_directory_is_made_for_each_principal_and_is_never_that_of_another() {
    let server = Server::start(Files::default()).await;
    // From now on responses are looked up.
    server.version("a").await;
    for _ in 0..3 {
        for (user, expected) in [("ada", "a b forever large uncached"), ("bob", "b")] {
            let read = server.read(user, "dir").await;
            let text = read["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
            let link = |line: &str| Some(line.strip_prefix("- [A file](<files:///")?.split_once('>')?.0.to_owned());
            assert_eq!(text.lines().filter_map(link).collect::<Vec<_>>().join(" "), expected, "{text}");
            assert!(!text.contains("provider"), "{text}");
            assert_eq!(read["result"]["cacheScope"], "private");
        }
    }
}

#[tokio::test]
async fn a_response_with_a_time_to_live_is_read_once_and_the_same_afterwards_but_for_the_time_that_is_left() {
    let server = Server::start(Files::default()).await;
    for path in ["a", "large"] {
        let mut first = server.read("ada", path).await;
        server.read("ada", path).await;
        let reads = server.reads();
        server.change();
        let mut again = server.read("ada", path).await;
        assert_eq!(server.reads(), reads, "{path} is cached");
        let ttls = [&mut first, &mut again].map(|read| read["result"]["ttlMs"].take().as_u64().unwrap());
        assert!(
            ttls.iter().all(|ttl| (1..=600_000).contains(ttl)) && ttls.is_sorted_by(|one, next| one >= next),
            "{ttls:?}"
        );
        assert_eq!(first, again);
    }
}

#[tokio::test]
async fn a_response_is_held_for_an_hour_at_most() {
    let server = Server::start(Files::default()).await;
    let mut ttls = Vec::new();
    for _ in 0..4 {
        ttls.push(server.read("ada", "forever").await["result"]["ttlMs"].as_u64().unwrap());
    }
    assert_eq!(ttls[0], 3_600_000, "also of a response that is not cached");
    assert!(ttls.iter().all(|ttl| (1..=3_600_000).contains(ttl)), "{ttls:?}");
}

#[tokio::test]
async fn a_response_without_a_time_to_live_is_read_each_time() {
    let server = Server::start(Files::default()).await;
    for version in 0..4 {
        server.version("a").await;
        assert_eq!(server.version("uncached").await, version.to_string());
        server.change();
    }
}

#[tokio::test]
async fn what_was_cached_is_counted_and_recorded() {
    let log = tempfile::tempdir().unwrap();
    let server = Server::start_audited(Files::default(), &log).await;
    // The first read is not looked up, because times to live are not yet known.
    for path in ["a", "a", "a", "uncached"] {
        server.version(path).await;
    }
    let counts = server.host.plugins().into_iter().find(|plugin| plugin.name == "files").unwrap().cached_responses;
    assert_eq!((counts.hits, counts.misses), (1, 2));
    assert_eq!(server.recorded_as_cached(&log).await, [Value::Null, Value::Null, json!(true), Value::Null]);
}

#[tokio::test]
async fn a_listing_is_recorded_as_cached_if_all_that_it_lists_was() {
    let log = tempfile::tempdir().unwrap();
    let server = Server::start_audited(Files { lists_cacheable: true, ..Files::default() }, &log).await;
    // The first page of the provider is not looked up, the second one is stored.
    server.list("ada").await;
    server.list("ada").await;
    let lists = server.lists();
    server.list("ada").await;
    assert_eq!(server.lists(), lists);
    // Nothing is listed.
    server.list("eve").await;
    assert_eq!(server.recorded_as_cached(&log).await, [Value::Null, Value::Null, json!(true), Value::Null]);
}

#[tokio::test]
async fn the_cache_can_be_switched_off_for_all_and_for_a_plugin() {
    let off = Server::start_with(
        Files::default(),
        |config| config.server.response_cache = "0B".parse().unwrap(),
        |plugin| plugin,
    );
    let off_for_plugin = Server::start_with(Files::default(), |_| (), |plugin| plugin.response_cache(false));
    for server in [off.await, off_for_plugin.await] {
        for version in 0..4 {
            assert_eq!(server.version("a").await, version.to_string());
            server.change();
        }
    }
}

#[tokio::test]
async fn requests_for_a_response_that_is_being_fetched_wait_for_it() {
    let server = Server::start(Files { gate: Some(Semaphore::new(1)), ..Files::default() }).await;
    server.version("b").await;
    let all = join_all((0..50).map(|_| server.version("a")));
    let open = async {
        server.wait_for_reads(2).await;
        server.files.gate.as_ref().unwrap().add_permits(1);
    };
    let (versions, ()) = timeout(TIMEOUT, futures::future::join(all, open)).await.unwrap();
    assert_eq!((versions.len(), server.reads()), (50, 2));
}

#[tokio::test]
async fn a_request_that_is_cancelled_makes_nobody_wait_for_another() {
    let server = Server::start(Files { gate: Some(Semaphore::new(1)), ..Files::default() }).await;
    server.version("b").await;
    let mut cancelled = Box::pin(server.version("a"));
    while server.reads() < 2 {
        assert!(futures::poll!(&mut cancelled).is_pending());
        tokio::task::yield_now().await;
    }
    let mut waiting = Box::pin(server.version("a"));
    assert!(futures::poll!(&mut waiting).is_pending());
    let mut next = Box::pin(server.version("a"));
    assert!(futures::poll!(&mut next).is_pending());
    drop(cancelled);
    // Both requests make separate calls, so the first is answered although the later one never ends. The
    // call of the cancelled request may take a permit before it ends.
    server.files.gate.as_ref().unwrap().add_permits(2);
    assert_eq!(timeout(TIMEOUT, waiting).await.unwrap(), "0");
    drop(next);
}

#[tokio::test]
async fn what_a_principal_may_not_read_is_not_in_its_answer_whoever_asked_first() {
    let server = Server::start(Files::default()).await;
    let read = async |user| {
        let read = server.read(user, "both").await;
        let contents = read["result"]["contents"].as_array().unwrap().clone();
        contents.iter().map(|one| one["uri"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for _ in 0..3 {
        assert_eq!(read("ada").await, ["files:///a", "files:///b"]);
        assert_eq!(read("bob").await, ["files:///b"]);
        assert_eq!(server.read("bob", "a").await["error"]["code"], -32602);
        assert_eq!(server.read("eve", "both").await["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn a_page_of_a_listing_is_cached_if_all_on_it_have_a_time_to_live_and_filtered_for_each_principal() {
    let server = Server::start(Files { lists_cacheable: true, ..Files::default() }).await;
    let all = ["files:///a", "files:///b", "files:///forever", "files:///large"];
    let first = server.list("ada").await;
    for user in ["ada", "ada", "ada", "bob"] {
        server.list(user).await;
    }
    // Principals that see a part have separate pages, so the time of a fetch reveals nothing about
    // requests of others.
    let lists = server.lists();
    for _ in 0..3 {
        let listed = server.list("ada").await;
        assert_eq!(listed["resources"], first["resources"]);
        assert_eq!(uris(&listed), all);
        assert!((1..=600_000).contains(&listed["ttlMs"].as_u64().unwrap()), "{listed}");
        assert_eq!(uris(&server.list("bob").await), ["files:///b"]);
        assert!(uris(&server.list("eve").await).is_empty());
    }
    assert_eq!(server.lists(), lists);
}

#[tokio::test]
async fn how_long_a_hidden_resource_holds_does_not_show_in_a_listing() {
    let server = Server::start(Files { lists_cacheable: true, lists_short: true, ..Files::default() }).await;
    for user in ["ada", "ada", "bob", "ada"] {
        // `b` is valid for ten minutes, `a` for a minute.
        let ttl = server.list(user).await["ttlMs"].as_u64().unwrap();
        let range = if user == "bob" { 500_000..=600_000 } else { 1..=60_000 };
        assert!(range.contains(&ttl), "{user}: {ttl}");
    }
}

#[tokio::test]
async fn a_page_with_a_resource_without_a_time_to_live_is_listed_each_time() {
    let server = Server::start(Files::default()).await;
    for _ in 0..3 {
        server.list("ada").await;
    }
    let lists = server.lists();
    assert_eq!(server.list("ada").await["ttlMs"], 0);
    assert_eq!(server.lists(), lists + 1, "the first page is cached, the second is not");
}

#[tokio::test]
async fn after_a_notification_and_after_a_subscription_nothing_older_is_served() {
    let server = Server::start(Files::default()).await;
    for path in ["a", "b", "a", "b"] {
        assert_eq!(server.version(path).await, "0");
    }
    // This change is not notified.
    server.change();
    assert_eq!(server.version("a").await, "0");
    let subscriber = server.host.subscriber(&Principal::new("ada"));
    timeout(TIMEOUT, server.host.subscribe(&subscriber, "files:///a")).await.unwrap().unwrap();
    assert_eq!(server.version("a").await, "1");
    for version in 2..10 {
        // Another resource stays valid for its time to live.
        assert_eq!(server.version("b").await, "0");
        server.change();
        timeout(TIMEOUT, subscriber.next()).await.unwrap();
        assert_eq!(server.version("a").await, version.to_string());
    }
}

#[tokio::test]
async fn a_response_that_was_in_flight_across_a_change_is_not_cached() {
    let gate = Semaphore::new(2);
    let server = Server::start(Files { gate: Some(gate), ..Files::default() }).await;
    let gate = server.files.gate.as_ref().unwrap();
    server.version("a").await;
    server.version("b").await;
    let subscriber = server.host.subscriber(&Principal::new("ada"));
    timeout(TIMEOUT, server.host.subscribe(&subscriber, "files:///a")).await.unwrap().unwrap();
    let change = async {
        server.wait_for_reads(3).await;
        server.change();
        timeout(TIMEOUT, subscriber.next()).await.unwrap();
        gate.add_permits(1);
    };
    let (version, ()) = timeout(TIMEOUT, futures::future::join(server.version("a"), change)).await.unwrap();
    assert_eq!(version, "0", "it was read before the change");
    gate.add_permits(1);
    assert_eq!(server.version("a").await, "1");
}

#[tokio::test]
async fn the_facade_reads_and_lists_from_the_provider() {
    let server = Server::start(Files { lists_cacheable: true, ..Files::default() }).await;
    let ada = Principal::new("ada");
    for count in 1..4 {
        server.host.read(&ada, "files:///a").await.unwrap();
        server.host.list(&ada, ListRequest::default()).await.unwrap();
        assert_eq!((server.reads(), server.lists()), (count, 2 * count));
    }
}

#[tokio::test]
async fn the_audit_log_says_what_was_read_whether_or_not_it_was_cached() {
    let log = tempfile::tempdir().unwrap();
    let server = Server::start_audited(Files::default(), &log).await;
    // The first read is not looked up, because times to live are not yet known.
    for _ in 0..3 {
        let read = server.read("ada", "both").await;
        assert_eq!(read["result"]["contents"].as_array().unwrap().len(), 2);
    }
    let lines = server.recorded(&log).await;
    let returned: Vec<_> = lines.iter().map(|line| (line["cached"].clone(), line["returned"].clone())).collect();
    let both = json!(["files:///a", "files:///b"]);
    assert_eq!(returned, [(Value::Null, both.clone()), (Value::Null, both.clone()), (json!(true), both)]);
}
