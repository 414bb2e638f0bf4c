//! Extensions of MCP, switched on. Their exchanges are in the golden files.

mod access;
mod children;
mod consistency;

use mcp_host_tests::{ConfigFile, Folder, GitRepo, HttpServer, Plugin, REVISIONS, RawStdio, Revision, content_bytes};
use serde_json::{Value, json};

const SEP_2093: &str = "sep-2093";
const DIRECTORY_READ: &str = "sep-2640-directory-read";

fn create_sources() -> (GitRepo, Folder) {
    let repo = GitRepo::with_files([("README.md", "# Demo\n"), ("logo.png", "\u{89}PNG"), ("src/deep/main.rs", "x\n")]);
    let notes = Folder::with_files([
        ("a.md", "---\ntitle: First\ntags: [x]\n---\nOne.\n"),
        ("b.md", "Two.\n"),
        ("c/d.md", "---\ntags: [x, y]\n---\nThree.\n"),
    ]);
    (repo, notes)
}

/// A plugin of each shipped provider with listed resources, and the guest `sample`.
fn config_with_sources(repo: &GitRepo, notes: &Folder) -> ConfigFile {
    ConfigFile::new()
        .plugin(Plugin::git("repo", repo.path()))
        .plugin(Plugin::notes("diary", notes.path()))
        .plugin(Plugin::sample("a"))
}

fn with_extensions(extensions: &[&str], config: ConfigFile) -> ConfigFile {
    config.server("extensions", extensions.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
}

/// Returns all raw pages of a listing: the catalog, or the children of a resource.
async fn list_pages(wire: &mut RawStdio, below: Option<&str>) -> Vec<Value> {
    let mut pages: Vec<Value> = Vec::new();
    loop {
        let cursor = pages.last().map(|page| page["nextCursor"].clone());
        let answer = wire.request("resources/list", json!({ "uri": below, "cursor": cursor })).await;
        pages.push(answer.result().clone());
        assert!(pages.len() < 500, "the listing does not end");
        if pages.last().is_some_and(|page| page.get("nextCursor").is_none()) {
            return pages;
        }
    }
}

/// Returns all resources of a listing: the catalog, or the children of a resource.
async fn list_all(wire: &mut RawStdio, below: Option<&str>) -> Vec<Value> {
    let pages = list_pages(wire, below).await;
    pages.iter().flat_map(|page| page["resources"].as_array().unwrap().clone()).collect()
}

fn uri_of(resource: &Value) -> &str {
    resource["uri"].as_str().unwrap()
}

#[tokio::test]
async fn clients_that_know_nothing_of_extensions_are_served_all_the_same() {
    let (repo, notes) = create_sources();
    let plain = config_with_sources(&repo, &notes).page_size(3).allow_all().write();
    let extended =
        with_extensions(&[SEP_2093, DIRECTORY_READ], config_with_sources(&repo, &notes).page_size(3).allow_all())
            .write();
    let (plain, extended) = (HttpServer::start(&plain).await, HttpServer::start(&extended).await);
    for revision in REVISIONS {
        let (without, with) = (plain.client(revision.clone()).await, extended.client(revision.clone()).await);
        assert_eq!(with.resources().await, without.resources().await, "{revision}");
        for uri in with.uris().await.into_iter().chain(["sample://a/several".to_owned()]) {
            let contents = |contents: Vec<_>| contents.iter().map(content_bytes).collect::<Vec<_>>();
            let (with, without) = (with.read(&uri).await.unwrap(), without.read(&uri).await.unwrap());
            assert_eq!(contents(with), contents(without), "{uri} in {revision}");
        }
        let refused = [with.read_error("sample://a/nothing").await, without.read_error("sample://a/nothing").await];
        assert_eq!(refused[0], refused[1], "{revision}");
    }
    plain.end().await;
    extended.end().await;
}

#[tokio::test]
async fn an_extension_is_switched_on_and_off_while_the_server_runs() {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let below = json!({ "uri": "sample://a/collection" });
    let everything = wire.request("resources/list", json!({})).await;
    assert_eq!(wire.request("resources/list", below.clone()).await.result(), everything.result());
    assert_eq!(wire.request("resources/metadata", below.clone()).await.error_code(), -32601);

    config.replace(with_extensions(&[SEP_2093], ConfigFile::new().plugin(Plugin::sample("a"))));
    wire.log_line("generation=2").await;
    let children = wire.request("resources/list", below.clone()).await;
    assert_eq!(children.result()["resources"][0]["uri"], "sample://a/collection/000");
    assert_eq!(wire.request("resources/metadata", below.clone()).await.result()["resource"]["name"], "collection");

    config.replace(ConfigFile::new().plugin(Plugin::sample("a")));
    wire.log_line("generation=3").await;
    assert_eq!(wire.request("resources/list", below.clone()).await.result(), everything.result());
    assert_eq!(wire.request("resources/metadata", below).await.error_code(), -32601);
    wire.end().await;
}

#[tokio::test]
async fn a_batch_asks_extensions_too() {
    let config = with_extensions(&[SEP_2093], ConfigFile::new().plugin(Plugin::sample("a")).allow_all()).write();
    let of = |id: u64, method: &str, path: &str| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "uri": format!("sample://a/{path}") } });
    let batch = json!([
        of(1, "resources/list", "collection"),
        of(2, "resources/read", "plain"),
        of(3, "resources/metadata", "all")
    ]);
    let check = |answers: &[Value]| {
        let result = |id: u64| &answers.iter().find(|answer| answer["id"] == id).unwrap()["result"];
        assert_eq!(result(1)["resources"].as_array().unwrap().len(), 3, "{answers:?}");
        assert_eq!(result(2)["contents"][0]["name"], "plain", "{answers:?}");
        assert_eq!(result(3)["resource"]["capabilities"], json!({ "list": false, "subscribe": true }), "{answers:?}");
    };
    let mut wire = RawStdio::uninitialized(&config, Revision::V_2025_03_26);
    wire.request("initialize", mcp_host_tests::initialize_params(&Revision::V_2025_03_26)).await.result();
    wire.send(&mcp_host_tests::initialized_notification()).await;
    let batch_of_lines = json!([of(11, "resources/list", "collection")]);
    wire.send(&batch_of_lines).await;
    assert_eq!(wire.line().await.unwrap()[0]["result"]["resources"].as_array().unwrap().len(), 3);
    wire.send(&batch).await;
    check(wire.line().await.unwrap().as_array().unwrap());
    wire.end().await;

    let server = HttpServer::start(&config).await;
    let wire = server.raw_client(Revision::V_2025_03_26).await;
    let events = wire.post(&batch).send().await.unwrap().text().await.unwrap();
    let events = events.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let answers = events.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap());
    check(&answers.collect::<Vec<_>>());
    server.end().await;
}

#[tokio::test]
async fn what_an_extension_answers_can_be_cancelled() {
    let slow =
        Plugin::misbehaving("slow").limit("deadline", "60s").limit("concurrency", 1).limit("queue-timeout", "30s");
    let config = with_extensions(&[SEP_2093], ConfigFile::new().plugin(slow)).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let id = wire.send_request("resources/metadata", json!({ "uri": "misbehaving://slow/slow?ms=50000" })).await;
    wire.log_line("a slow read has begun").await;
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    wire.send(&cancelled).await;
    // The concurrency limit is one call, so this succeeds only because the first call was ended.
    let read = wire.request("resources/read", json!({ "uri": "misbehaving://slow/good" })).await;
    assert_eq!(read.result()["contents"][0]["text"], "good");
    wire.end().await;
}

#[tokio::test]
async fn directories_are_read_with_what_the_other_extension_says_of_resources() {
    let config = with_extensions(&[SEP_2093, DIRECTORY_READ], ConfigFile::new().plugin(Plugin::sample("a"))).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let collection = json!({ "uri": "sample://a/collection" });
    let [listed, read] = [
        wire.request("resources/list", collection.clone()).await,
        wire.request("resources/directory/read", collection).await,
    ];
    assert_eq!(listed.result(), read.result());
    assert_eq!(read.result()["resources"][0]["capabilities"], json!({ "list": false, "subscribe": false }));
    wire.end().await;
}
