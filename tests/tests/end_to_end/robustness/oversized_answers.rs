//! Oversized answers: the host's work on them is part of the call, and is bounded with it.

use mcp_host_tests::{Client, ConfigFile, Plugin, RawStdio, Revision, Rule, StdioServer, fixture, run};
use rmcp::model::ErrorData;
use serde_json::{Value, json};

/// The process's peak memory apart from the plugin: the host, its engine and its threads.
const HOST_BASELINE: u64 = 100 << 20;

/// The guest with oversized answers, under the default limits. Limits on time are longer, because times depend on the
/// machine.
fn default_limits(name: &str) -> Plugin {
    let plugin = Plugin::new(name, &fixture("raw"), &format!("raw://{name}/"));
    plugin.limit("cpu", "30s").limit("deadline", "1m")
}

/// The same, with the maximum number of items.
fn max_items(name: &str) -> Plugin {
    default_limits(name).limit("response-items", 1_000_000)
}

fn assert_unavailable(error: &ErrorData, reason: &str) {
    assert!(error.message.contains(reason), "{error:?}");
    assert_eq!(error.data.as_ref().unwrap()["kind"], "unavailable", "{error:?}");
}

async fn assert_read_fails(client: &Client, uri: &str, reason: &str) {
    assert_unavailable(&client.read_error(uri).await, reason);
    assert_eq!(client.text("raw://good/good").await, "good", "after {uri}");
}

#[tokio::test]
async fn a_completion_is_not_expanded_beyond_the_length_of_a_uri() {
    let config = ConfigFile::new()
        .plugin(max_items("many").config("templates", "variables/2700").config("complete", "value/1000000"))
        .plugin(max_items("most").config("templates", "variables/64").config("complete", "value/8000000"))
        .plugin(max_items("values").config("complete", "values/500000"))
        .write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let templates: Vec<_> = client.templates().await.into_iter().map(|template| template.uri_template).collect();
    let most = format!("raw://most/{}", "{a}".repeat(64));
    assert!(templates.contains(&most), "{templates:?}");
    assert_eq!(templates.len(), 5, "a template of so many variables is left out: {templates:?}");
    let many = format!("raw://many/{}", "{a}".repeat(2700));
    let error = client.complete(&many, ("a", ""), &[]).await.unwrap_err();
    assert!(error.message.contains("more than 64 variables"), "{error:?}");
    let completed = client.complete(&most, ("a", ""), &[]).await.unwrap();
    assert_eq!(completed.values, ["short"], "what leads to no URI is not offered");
    let known = "y".repeat(8_000);
    let completed = client.complete("raw://values/good/{a}", ("a", ""), &[("b", &known)]).await.unwrap();
    assert_eq!((completed.values.len(), completed.has_more), (100, Some(true)));
    let completed = client.complete(&most, ("b", ""), &[("a", &known)]).await.unwrap();
    assert!(completed.values.is_empty(), "what a client knows is expanded no further, either");
    let peak = server.peak_rss();
    assert!(peak < HOST_BASELINE + (64 << 20), "{peak} bytes");
    server.end().await;
}

#[tokio::test]
async fn hints_that_are_wrong_cost_one_line_of_the_log_however_many_they_are() {
    let config = ConfigFile::new().plugin(max_items("bad")).plugin(max_items("good")).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    for (path, count) in [("sizes/600000", 599_999), ("icons/100000", 99_999)] {
        assert_eq!(client.text(&format!("raw://bad/{path}")).await, "good");
        let line = server.log_line(&format!("and {count} more")).await;
        assert!(line.len() < 1000, "{line}");
    }
    let log = server.end().await.log;
    assert_eq!(log.matches(" dropped: ").count(), 2, "{log}");
}

#[tokio::test]
async fn everything_that_there_can_be_many_of_counts_as_items() {
    let bad = |name: &str, list: &str| default_limits(name).config("list", list);
    let lists = ["sizes/100001", "icons/100001", "audience/100001", "objects/50001", "numbers/100001"];
    let plugins = lists.iter().enumerate().map(|(index, list)| bad(&format!("p{index}"), list));
    let config = plugins.fold(ConfigFile::new().plugin(default_limits("good")), ConfigFile::plugin).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let page = serde_json::to_value(client.page(None).await.unwrap()).unwrap();
    assert_eq!(page["resources"].as_array().unwrap().len(), 1, "the good one's: {page}");
    let missing = page["_meta"]["mcp-host/missing"].as_array().unwrap();
    assert_eq!(missing.len(), lists.len());
    for missing in missing {
        let reason =
            "its response has more than the 100000 items (icons, sizes, annotations and metadata among them) allowed";
        assert_eq!(missing["reason"], reason);
    }
    for list in lists {
        assert_read_fails(client, &format!("raw://good/{list}"), "more than the 100000 items").await;
    }
    server.end().await;
}

#[tokio::test]
async fn metadata_is_not_built_beyond_the_memory_of_its_plugin() {
    let bad = max_items("bad").limit("concurrency", 8);
    let config = ConfigFile::new().plugin(bad).plugin(default_limits("good")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let mut asked = Vec::new();
    for _ in 0..8 {
        let params = json!({ "uri": "raw://bad/objects/400000" });
        asked.push(wire.send_request("resources/read", params).await);
    }
    for id in asked {
        let answer = wire.response_to(id).await;
        assert!(answer.error()["message"].as_str().unwrap().contains("it ran out of memory"), "{answer:?}");
    }
    let peak = wire.peak_rss();
    assert!(peak < HOST_BASELINE + (64 << 20), "{peak} bytes");
    let good = wire.request("resources/read", json!({ "uri": "raw://good/objects/1000" })).await;
    assert_eq!(good.result()["contents"][0]["text"], "good");
    wire.end().await;
}

#[tokio::test]
async fn an_answer_counts_against_the_memory_of_its_plugin() {
    let tight = |name: &str| default_limits(name).limit("memory", "20MiB");
    let config = ConfigFile::new().plugin(tight("fresh")).plugin(tight("kept").instances("max-calls", 10)).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let size = 11 << 20;
    assert_eq!(client.bytes(&format!("raw://fresh/blob/{size}")).await.len(), size, "its instance is gone by then");
    assert_unavailable(&client.read_error(&format!("raw://kept/blob/{size}")).await, "it ran out of memory");
    assert_eq!(client.bytes(&format!("raw://kept/blob/{}", size / 4)).await.len(), size / 4);
    server.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_long_text_is_told_in_short() {
    let config = ConfigFile::new()
        .plugin(max_items("bad"))
        .plugin(max_items("long").config("list", "path/14000000"))
        .plugin(default_limits("good"))
        .write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let error = client.read_error("raw://bad/path/14000000").await;
    assert_eq!(error.data.unwrap()["kind"], "internal");
    assert_eq!(client.text("raw://bad/date/8000000").await, "good");
    assert_eq!(client.text("raw://bad/deep/8000").await, "good");
    assert_eq!(client.uris().await, ["raw://bad/good", "raw://good/good"]);
    let peak = server.peak_rss();
    assert!(peak < HOST_BASELINE + (64 << 20), "{peak} bytes");
    let log = server.end().await.log;
    for said in ["its path `", "an entry was left out: ", "last-modified of `", "meta of `"] {
        let line = log.lines().find(|line| line.contains(said));
        assert!(line.is_some_and(|line| line.len() < 1500), "{said}: {log}");
    }
}

/// Rules with so many globs that filtering an answer, which took milliseconds, takes seconds.
fn many_rules() -> Rule {
    Rule::for_principal("local").deny_globs((0..2000).map(|index| format!("**/secret-{index}/*")).collect())
}

#[tokio::test]
async fn a_read_is_answered_beside_answers_that_take_long_to_filter() {
    let slow = |name: &str| max_items(name).limit("cpu", "1m").limit("deadline", "1m");
    let config =
        ConfigFile::new().plugin(slow("a")).plugin(slow("b")).plugin(default_limits("good")).rule(many_rules()).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let read = |uri: &str| json!({ "uri": uri });
    wire.request("resources/read", read("raw://good/good")).await.result();
    let mut slow = Vec::new();
    for uri in ["raw://a/contents/5000", "raw://b/contents/5000"].repeat(2) {
        slow.push(wire.send_request("resources/read", read(uri)).await);
    }
    for _ in 0..10 {
        wire.request("resources/read", read("raw://good/good")).await.result();
    }
    let early = wire.buffered_responses().len();
    assert_eq!(early, 0, "good reads waited for those that take long");
    for id in slow {
        assert_eq!(wire.response_to(id).await.result()["contents"].as_array().unwrap().len(), 5000);
    }
    wire.end().await;
}

#[tokio::test]
async fn what_the_host_does_with_an_answer_counts_against_the_limits_on_time() {
    let frugal = max_items("frugal").limit("cpu", "30ms").limit("deadline", "1m");
    let hurried = max_items("hurried").limit("cpu", "1m").limit("deadline", "50ms");
    let config =
        ConfigFile::new().plugin(frugal).plugin(hurried).plugin(default_limits("good")).rule(many_rules()).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    // On a busy machine, the first calls of `describe` and `list` may exceed the deadline.
    while serde_json::to_value(client.page(None).await.unwrap()).unwrap()["_meta"]["mcp-host/missing"].is_array() {}
    assert_read_fails(client, "raw://frugal/contents/50000", "it used up its CPU time").await;
    let error = client.read_error("raw://hurried/contents/50000").await;
    // Other tests may use the processors for most of these 50 ms.
    assert!(["it took too long", "it is busy"].iter().any(|reason| error.message.contains(reason)), "{error:?}");
    server.end().await;
}

#[tokio::test]
async fn what_only_repeats_itself_is_kept_once() {
    let config = ConfigFile::new()
        .plugin(max_items("bad").config("list", "audience/900000").config("describe", "description/4000000"))
        .write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let listed = wire.request("resources/list", json!({})).await;
    assert_eq!(listed.result()["resources"][0]["annotations"], json!({ "audience": ["user"] }));
    wire.end().await;
    let checked = run(["check", "--json", "--config", config.path().to_str().unwrap()]).await;
    let description = checked.json()["plugins"][0]["provider"]["description"].clone();
    let Value::String(description) = description else { panic!("{}", checked.json()) };
    assert_eq!(description.len(), 65_536 + "…".len());
}
