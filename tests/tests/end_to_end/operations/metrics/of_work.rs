//! Metrics of work other than answers: HTTP exchanges, buckets, loading, compilations, polls, bytes.

use std::fs;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, MockOrigin, Plugin, RawStdio, Reply, Revision, fixture};
use serde_json::json;

use super::{ADMIN, REVISION, Scrape, admin_line};

const WITH_SESSIONS: Revision = Revision::V_2025_11_25;

#[tokio::test]
async fn http_exchanges_are_counted_by_outcome() {
    let (origin, other) = (MockOrigin::http().await, MockOrigin::http().await);
    origin.serve("/page", Reply::ok("text/plain", "hello"));
    origin.serve("/error", Reply::status(503));
    origin.serve("/short", Reply::ok("text/plain", "hello").truncate_after(2));
    let by_name = format!("http://localhost:{}", other.port());
    let plugin = Plugin::new("web", &fixture("fetch"), "fetch://web/").limit("deadline", "60s");
    let plugin = plugin.origin(&origin.origin()).origin(&by_name);
    let config = ConfigFile::new().plugin(plugin).append(ADMIN).write();
    let mut wire = RawStdio::start(&config, WITH_SESSIONS).await;
    let line = wire.log_line("administration at ").await;
    let absent = origin.url("/absent");
    let (page, error, short) = (origin.url("/page"), origin.url("/error"), origin.url("/short"));
    for url in [&page, &error, &short, &absent, &absent, &by_name, &other.url("/")] {
        let url: String = url.bytes().map(|byte| format!("%{byte:02X}")).collect();
        wire.read(&format!("fetch://web/get?url={url}")).await.unwrap();
    }
    let scrape = Scrape::of(&line).await;
    let count = |outcome: &str| {
        scrape.value(&format!("mcp_host_plugin_http_exchanges_total{{plugin=\"web\",outcome=\"{outcome}\"}}"))
    };
    let outcomes = ["ok", "server-error", "client-error", "protocol", "refused-address", "refused-origin"].map(count);
    assert_eq!(outcomes, [1.0, 1.0, 2.0, 1.0, 1.0, 1.0], "{}", scrape.0);
    wire.end().await;
}

#[tokio::test]
async fn buckets_are_shown_against_their_quota_also_after_a_restart() {
    let plugin = Plugin::keyvalue("a").bucket_with_quota("pages", "1MiB", 10).bucket("other");
    let config = ConfigFile::new().plugin(plugin).append(ADMIN).write();
    let of = |scrape: &Scrape, family: &str, bucket: &str| {
        scrape.value(&format!("mcp_host_plugin_bucket_{family}{{plugin=\"a\",bucket=\"{bucket}\"}}"))
    };
    let mut wire = RawStdio::start(&config, WITH_SESSIONS).await;
    let line = wire.log_line("administration at ").await;
    let before = Scrape::of(&line).await;
    assert_eq!((of(&before, "keys", "pages"), of(&before, "keys_limit", "pages")), (0.0, 10.0));
    wire.read("keyvalue://a/set/pages/key?size=1000").await.unwrap();
    for _ in 0..2 {
        let scrape = Scrape::of(&wire.log_line("administration at ").await).await;
        assert_eq!((of(&scrape, "keys", "pages"), of(&scrape, "bytes", "pages")), (1.0, 1003.0), "{}", scrape.0);
        assert_eq!((of(&scrape, "bytes", "other"), of(&scrape, "limit_bytes", "pages")), (0.0, 1048576.0));
        wire.end().await;
        wire = RawStdio::start(&config, WITH_SESSIONS).await;
    }
    wire.end().await;
}

#[tokio::test]
async fn searches_are_counted_by_outcome_and_the_index_shows_when_it_was_current() {
    let folder = Folder::with_files([("a.md", "needle")]);
    let config = ConfigFile::new().plugin(Plugin::files("f", folder.path()).searched()).append(ADMIN).write();
    let mut wire = RawStdio::start(&config, WITH_SESSIONS).await;
    let line = wire.log_line("administration at ").await;
    let complete = |scrape: &Scrape| scrape.value("mcp_host_searches_total{outcome=\"ok\"}");
    let mut scrape = Scrape::of(&line).await;
    assert_eq!(complete(&scrape), 0.0);
    // Until the file is indexed, searches are partial.
    while complete(&scrape) == 0.0 {
        wire.read("search:///?q=needle").await.unwrap();
        scrape = Scrape::of(&line).await;
    }
    assert_eq!(complete(&scrape), 1.0, "{}", scrape.0);
    assert!(scrape.value("mcp_host_search_current_timestamp_seconds{plugin=\"f\"}") > 1.7e9, "{}", scrape.0);
    wire.end().await;
}

#[tokio::test]
async fn failures_to_load_and_compilations_are_counted() {
    let folder = Folder::with_files([("broken.wasm", "no component")]);
    let broken = Plugin::new("broken", &folder.path().join("broken.wasm"), "broken:///");
    let config = ConfigFile::new().plugin(broken).plugin(Plugin::sample("a")).append(ADMIN).write();
    let server = HttpServer::start(&config).await;
    let line = admin_line(&server).await;
    let scrape = Scrape::of(&line).await;
    let failure = "{plugin=\"broken\",reason=\"not-a-component\"}";
    assert_eq!(scrape.value(&format!("mcp_host_plugin_load_failures_total{failure}")), 1.0, "{}", scrape.0);
    assert!(scrape.value(&format!("mcp_host_plugin_last_load_failure_timestamp_seconds{failure}")) > 1.7e9);
    let running = scrape.value("mcp_host_compilations_running{}") + scrape.value("mcp_host_compilations_waiting{}");
    assert_eq!((running, scrape.value("mcp_host_compilations_limit{}") >= 1.0), (0.0, true));
    // The component was in the cache, or was compiled now.
    assert!(scrape.value("mcp_host_compilations_total{outcome=\"ok\"}") <= 1.0, "{}", scrape.0);
    // A new component that cannot be compiled.
    let file = folder.path().join("new.wasm");
    fs::write(&file, b"\0asm\x0d\0\x01\0\x01\x02\0\0").unwrap();
    config.replace(ConfigFile::new().plugin(Plugin::new("new", &file, "new:///")).append(ADMIN));
    server.log_line("reload failed").await;
    let after = Scrape::of(&line).await;
    assert!(after.value("mcp_host_compilations_total{outcome=\"failed\"}") >= 1.0, "{}", after.0);
    assert!(after.value("mcp_host_compilation_duration_seconds_count{}") >= 1.0, "{}", after.0);
    server.end().await;
}

#[tokio::test]
async fn polls_are_counted_by_cause_with_their_lag() {
    let folder = Folder::with_files([("state", "1")]);
    let config = ConfigFile::new().plugin(Plugin::watched("w", folder.path())).append(ADMIN).write();
    let mut wire = RawStdio::start(&config, WITH_SESSIONS).await;
    let line = wire.log_line("administration at ").await;
    let before = Scrape::of(&line).await;
    assert!(!before.0.contains("mcp_host_plugin_poll_lag_seconds{"), "{}", before.0);
    wire.subscribe("watched://w/one").await;
    folder.write("state", "2");
    wire.notification("notifications/resources/updated").await;
    let mut scrape = Scrape::of(&line).await;
    let polls = |scrape: &Scrape, cause: &str| {
        scrape.value(&format!("mcp_host_polls_total{{cause=\"{cause}\",outcome=\"ok\"}}"))
    };
    while ["subscription", "interval", "event"].iter().any(|cause| polls(&scrape, cause) == 0.0) {
        folder.write("state", "3");
        scrape = Scrape::of(&line).await;
    }
    for cause in ["subscription", "interval", "event"] {
        let lags = scrape.value(&format!("mcp_host_poll_lag_seconds_count{{cause=\"{cause}\"}}"));
        assert_eq!(lags, polls(&scrape, cause), "{cause}");
    }
    let debounced = scrape.value("mcp_host_poll_debounce_seconds_count{cause=\"event\"}");
    assert!(debounced >= polls(&scrape, "event"), "{}", scrape.0);
    // Each poll is delayed by 50 ms (debounce).
    let early = scrape.value("mcp_host_poll_debounce_seconds_bucket{le=\"0.02\",cause=\"event\"}");
    assert_eq!(early, 0.0, "{}", scrape.0);
    assert!(scrape.value("mcp_host_plugin_poll_lag_seconds{plugin=\"w\"}") > 0.0);
    wire.end().await;
}

#[tokio::test]
async fn bytes_are_counted_by_transport_and_the_time_to_the_first_one() {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).allow_all().append(ADMIN).write();
    let server = HttpServer::start(&config).await;
    let line = admin_line(&server).await;
    let before = Scrape::of(&line).await;
    assert_eq!(before.value("mcp_host_sent_bytes_total{transport=\"http\"}"), 0.0);
    let mut client = server.uninitialized(REVISION);
    let answer = client.request("resources/read", json!({ "uri": "sample://a/plain" })).await;
    assert!(answer.result()["contents"].is_array());
    let mut after = Scrape::of(&line).await;
    let sent = |scrape: &Scrape| scrape.value("mcp_host_sent_bytes_total{transport=\"http\"}");
    // The client may receive the bytes before they are counted.
    while sent(&after) < 100.0 {
        after = Scrape::of(&line).await;
    }
    assert!(sent(&after) < 10_000.0, "{}", after.0);
    assert_eq!(after.value("mcp_host_http_time_to_first_byte_seconds_count{}"), 1.0);
    server.end().await;

    let mut wire = RawStdio::start(&config, WITH_SESSIONS).await;
    let line = wire.log_line("administration at ").await;
    let read = wire.request("resources/read", json!({ "uri": "sample://a/plain" })).await;
    let least = read.result().to_string().len() as f64;
    while Scrape::of(&line).await.value("mcp_host_sent_bytes_total{transport=\"stdio\"}") <= least {}
    wire.end().await;
}
