//! The circuit breaker: a plugin that keeps failing is suspended, probed, and resumed.

use mcp_host_tests::{Client, ConfigFile, Folder, Plugin, RawStdio, Revision, StdioServer, TIMEOUT};
use rmcp::model::ErrorData;
use serde_json::{Value, json};

/// The number of consecutive failures that open the circuit breaker.
const FAILURES: usize = 5;

/// A plugin that traps in every call while the folder has a file `broken`, and a good plugin.
fn config_with_switch() -> (Folder, ConfigFile) {
    let folder = Folder::with_files([("switch", "off")]);
    let plugin = Plugin::misbehaving("faulty").dir(folder.path(), "/switch");
    (folder, ConfigFile::new().plugin(plugin).plugin(Plugin::misbehaving("other")))
}

fn repair(folder: &Folder) {
    std::fs::remove_file(folder.path().join("broken")).unwrap();
}

fn kind(error: &ErrorData) -> &str {
    error.data.as_ref().unwrap()["kind"].as_str().unwrap()
}

/// Reads until the plugin is suspended, and returns that error. The host's own calls fail and count, too.
async fn read_until_suspended(client: &Client) -> ErrorData {
    for _ in 0..=FAILURES {
        let refused = client.read_error("misbehaving://faulty/good").await;
        if kind(&refused) == "unavailable" {
            return refused;
        }
        assert_eq!(kind(&refused), "internal");
    }
    panic!("it is not set aside after {FAILURES} failures")
}

#[tokio::test]
async fn a_plugin_that_keeps_failing_is_set_aside_and_comes_back_by_itself() {
    let (folder, config) = config_with_switch();
    let server = StdioServer::start(&config.write()).await;
    let client = server.client();
    folder.write("broken", "");
    let refused = read_until_suspended(client).await;
    assert!(refused.message.contains("its circuit breaker is open after repeated failures; retry in"), "{refused:?}");
    let wait = refused.data.unwrap()["retryAfterMs"].as_u64().unwrap();
    assert!((1..=1100).contains(&wait), "{wait}");
    assert!(server.log_line("circuit breaker opened").await.contains("faulty"));

    let page = serde_json::to_value(client.page(None).await.unwrap()).unwrap();
    let missing = &page["_meta"]["mcp-host/missing"];
    assert_eq!((missing.as_array().unwrap().len(), &missing[0]["plugin"]), (1, &json!("faulty")));
    assert!(missing[0]["reason"].as_str().unwrap().contains("circuit breaker is open"), "{missing}");
    assert!(missing[0]["retryAfterMs"].as_u64().is_some_and(|wait| wait > 0), "{missing}");
    assert_eq!(client.text("misbehaving://other/good").await, "good");

    repair(&folder);
    let is_back = async { while client.read("misbehaving://faulty/good").await.is_err() {} };
    tokio::time::timeout(TIMEOUT, is_back).await.expect("it comes back");
    assert!(server.log_line("circuit breaker closed").await.contains("faulty"));
    assert_eq!(missing_plugins(client).await, Value::Null);
    server.end().await;
}

async fn missing_plugins(client: &Client) -> Value {
    serde_json::to_value(client.page(None).await.unwrap()).unwrap()["_meta"]["mcp-host/missing"].clone()
}

#[tokio::test]
async fn a_client_that_asks_for_nothing_but_what_traps_has_nobody_set_aside() {
    let (_folder, config) = config_with_switch();
    let server = StdioServer::start(&config.write()).await;
    // The provider answered other calls, so the failures are attributed to this request.
    let mut failures = 0;
    let refused = loop {
        let error = server.client().read_error("misbehaving://faulty/trap").await;
        if kind(&error) != "internal" {
            break error;
        }
        failures += 1;
        assert!(failures <= FAILURES, "it is still sent to the provider");
    };
    assert!(failures >= 3, "one failure is no pattern");
    assert!(
        refused.message.contains(
            "it failed with this request several times, and would probably fail again; such requests are refused for"
        ),
        "{refused:?}"
    );
    assert_eq!(kind(&refused), "unavailable");
    // Each is a different request.
    for number in 0..FAILURES {
        let other = format!("misbehaving://faulty/contents?n=10000{number}1");
        assert!(!server.client().read_error(&other).await.message.contains("several times"));
    }
    assert_eq!(server.client().text("misbehaving://faulty/good").await, "good");
    assert_eq!(missing_plugins(server.client()).await, Value::Null);
    let log = server.end().await.log;
    assert!(!log.contains("circuit breaker opened"), "{log}");
}

#[tokio::test]
async fn answers_that_say_no_are_no_failures() {
    let (_folder, config) = config_with_switch();
    let server = StdioServer::start(&config.write()).await;
    for _ in 0..FAILURES * 2 {
        assert_eq!(kind(&server.client().read_error("misbehaving://faulty/internal").await), "internal");
    }
    for _ in 0..FAILURES * 2 {
        assert_eq!(kind(&server.client().read_error("misbehaving://faulty/unavailable").await), "unavailable");
    }
    let log = server.end().await.log;
    assert!(!log.contains("circuit breaker opened"), "{log}");
}

#[tokio::test]
async fn what_changes_while_a_plugin_is_set_aside_is_told_when_it_is_back() {
    let (folder, config) = config_with_switch();
    let mut wire = RawStdio::start(&config.write(), Revision::V_2025_11_25).await;
    wire.request("resources/subscribe", json!({ "uri": "misbehaving://faulty/switch" })).await.result();
    folder.write("broken", "");
    for _ in 0..FAILURES {
        wire.request("resources/read", json!({ "uri": "misbehaving://faulty/good" })).await.error();
    }
    wire.request("resources/read", json!({ "uri": "misbehaving://faulty/good" })).await.error();
    wire.log_line("circuit breaker opened").await;
    folder.write("switch", "on");
    repair(&folder);
    loop {
        let message = wire.message().await.expect("a notification before the end");
        if message["method"] == "notifications/resources/updated" {
            assert_eq!(message["params"]["uri"], "misbehaving://faulty/switch");
            break;
        }
    }
    wire.end().await;
}
