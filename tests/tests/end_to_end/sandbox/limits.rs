//! Limits on the rate of calls and on the size of an answer: which requests are rejected, with which message, and that
//! this is logged once.

use std::time::Instant;

use mcp_host_tests::{Client, ConfigFile, Plugin, RawStdio, Revision, Rule, StdioServer};
use rmcp::model::{ErrorData, ListResourcesResult};
use serde_json::{Value, json};

fn assert_unavailable(error: &ErrorData, plugin: &str, reason: &str) {
    assert!(error.message.contains(reason), "{reason}: {error:?}");
    let data = error.data.as_ref().unwrap();
    assert_eq!((&data["kind"], &data["plugin"]), (&json!("unavailable"), &json!(plugin)), "{error:?}");
}

/// Returns the page's entry about the one missing plugin.
fn missing_plugin(page: &ListResourcesResult) -> Option<Value> {
    let page = serde_json::to_value(page).unwrap();
    let missing = page["_meta"]["mcp-host/missing"].as_array()?.clone();
    assert_eq!(missing.len(), 1, "{missing:?}");
    missing.into_iter().next()
}

/// Waits for the next response to a request other than `other_than`.
async fn next_response(wire: &mut RawStdio, other_than: u64) -> Value {
    loop {
        let message = wire.message().await.unwrap();
        if message["id"].is_u64() && message["id"] != other_than {
            return message;
        }
    }
}

#[tokio::test]
async fn a_call_that_finds_the_queue_full_is_refused_at_once_and_those_in_it_are_answered() {
    let narrow = Plugin::misbehaving("a").limit("concurrency", 1).limit("queue", 1).limit("queue-timeout", "1m");
    let config = ConfigFile::new().plugin(narrow.limit("deadline", "10m")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let slow = wire.send_request("resources/read", json!({ "uri": "misbehaving://a/slow?ms=600000" })).await;
    wire.log_line("a slow read has begun").await;
    for _ in 0..3 {
        wire.send_request("resources/read", json!({ "uri": "misbehaving://a/good" })).await;
    }
    // One of the requests waits until the slow read ends.
    let refused = [next_response(&mut wire, slow).await, next_response(&mut wire, slow).await];
    wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": slow } })).await;
    let answered = next_response(&mut wire, slow).await;
    assert_eq!(answered["result"]["contents"][0]["text"], "good", "{answered}");
    for error in refused.map(|mut response| response["error"].take()) {
        assert!(error["message"].as_str().is_some_and(|text| text.contains("its queue is full")), "{error}");
        assert_eq!(error["data"], json!({ "kind": "unavailable", "plugin": "a", "retryAfterMs": 1000 }));
    }
    wire.end().await;
}

#[tokio::test]
async fn calls_that_come_too_fast_are_refused_and_that_is_told_once() {
    let config = ConfigFile::new().plugin(Plugin::misbehaving("a").limit("rate", "1/h")).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("misbehaving://a/good").await, "good");
    let began = Instant::now();
    for _ in 0..20 {
        let error = server.client().read_error("misbehaving://a/good").await;
        assert_unavailable(&error, "a", "its rate limit is exceeded");
        let wait = error.data.unwrap()["retryAfterMs"].as_u64().unwrap();
        assert!(wait <= 3_600_000, "{wait}");
    }
    let log = server.end().await.log;
    let told = log.matches("rate limit exceeded (`limits.rate`)").count() as u64;
    // Logged once in ten seconds.
    let periods = began.elapsed().as_secs() / 10 + 1;
    assert!((1..=periods).contains(&told), "{told} times in {periods} periods:\n{log}");
}

#[tokio::test]
async fn an_answer_with_too_many_items_is_refused_whatever_they_are() {
    let few =
        |name: &str| Plugin::misbehaving(name).limit("response-items", 10).config("list", "many").config("count", 11);
    let config = ConfigFile::new().plugin(few("a")).plugin(few("b").limit("response-items", 1)).page_size(100).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    assert_eq!(client.read("misbehaving://a/contents?n=10").await.unwrap().len(), 10);
    assert_unavailable(
        &client.read_error("misbehaving://a/contents?n=11").await,
        "a",
        "more than the 10 contents allowed",
    );
    let completed = client.complete("misbehaving://a/echo/{+path}", ("path", ""), &[]).await.unwrap_err();
    assert_unavailable(&completed, "a", "more than the 10 completions allowed");
    let page = serde_json::to_value(client.page(None).await.unwrap()).unwrap();
    let reasons =
        ["its response has more than the 10 entries allowed", "its response has more than the 1 entries allowed"];
    let missing =
        ["a", "b"].into_iter().zip(reasons).map(|(plugin, reason)| json!({ "plugin": plugin, "reason": reason }));
    assert_eq!(page["_meta"]["mcp-host/missing"], missing.collect::<Value>());
    let templates = client.peer().list_resource_templates(None).await.unwrap();
    assert_eq!(templates.resource_templates.len(), 2, "those of the one whose templates are few enough");
    let log = server.end().await.log;
    assert!(log.contains("the response has 11 entries, more than `limits.response-items` (1)"), "{log}");
}

/// Walks the listing of a plugin between two good ones. Returns the number of its resources, the number of the others,
/// and all reports of a missing plugin.
async fn walk_listing(client: &Client) -> (usize, usize, Vec<Value>) {
    let pages = client.pages().await;
    let uris = || pages.iter().flat_map(|page| &page.resources).map(|resource| &resource.uri);
    let bad = uris().filter(|uri| uri.starts_with("misbehaving://bad/")).count();
    (bad, uris().count() - bad, pages.iter().filter_map(missing_plugin).collect())
}

fn between_good_ones(bad: Plugin) -> ConfigFile {
    let good = |name: &str| Plugin::misbehaving(name).config("list", "many").config("count", 3);
    ConfigFile::new().plugin(good("a")).plugin(bad).plugin(good("z"))
}

#[tokio::test]
async fn a_listing_that_never_ends_does_not_keep_the_plugins_behind_it_out_of_reach() {
    for (list, listed, reason) in [
        ("endless", 30, "its listing has more than the 30 entries allowed; the rest is omitted"),
        ("endless-empty", 0, "too many consecutive pages of its listing are empty"),
    ] {
        let bad = Plugin::misbehaving("bad").config("list", list).limit("listing-items", 30);
        let server = StdioServer::start(&between_good_ones(bad).page_size(7).write()).await;
        let (bad, good, missing) = walk_listing(server.client()).await;
        assert_eq!((bad, good), (listed, 6), "{list}");
        assert_eq!(missing, [json!({ "plugin": "bad", "reason": reason })]);
        server.end().await;
    }
}

#[tokio::test]
async fn an_honest_listing_is_whole_however_small_its_pages_are() {
    let long = Plugin::misbehaving("bad").config("list", "many").config("count", 300).limit("listing-items", 300);
    let server = StdioServer::start(&between_good_ones(long).page_size(1).write()).await;
    assert_eq!(walk_listing(server.client()).await, (300, 6, Vec::new()));
    server.end().await;
}

#[tokio::test]
async fn hidden_entries_do_not_count_towards_the_length_of_a_listing() {
    let long = Plugin::misbehaving("bad").config("list", "many").config("count", 300).limit("listing-items", 100);
    let visible = ["misbehaving://bad/item-0003", "misbehaving://bad/item-0299"];
    let rule = Rule::for_principal("local").allow(visible);
    let server = StdioServer::start(&ConfigFile::new().plugin(long).rule(rule).page_size(50).write()).await;
    let pages = server.client().pages().await;
    let uris: Vec<_> = pages.iter().flat_map(|page| &page.resources).map(|resource| resource.uri.as_str()).collect();
    assert_eq!(uris, visible);
    assert!(pages.iter().all(|page| page.meta.is_none()), "{pages:?}");
    server.end().await;
}
