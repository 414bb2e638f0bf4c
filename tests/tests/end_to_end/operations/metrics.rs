//! `/metrics`: the numbers match the events, in both formats, and no client input creates a series.

mod of_work;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{
    ConfigFile, HttpServer, Plugin, PrometheusServer, RawStdio, Revision, WrittenConfig, debian_file,
};
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

const REVISION: Revision = Revision::V_2026_07_28;
const ADMIN: &str = "\n[admin]\nlisten = \"127.0.0.1:0\"\n";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The samples of one scrape, in Prometheus's format.
struct Scrape(String);

impl Scrape {
    /// Scrapes the server whose log has this line.
    async fn of(line: &str) -> Self {
        let (content_type, text) = get(line, "text/plain").await;
        assert_eq!(content_type, PROMETHEUS);
        Self(text)
    }

    /// Returns the value of a series, written as in the scrape; 0 if there is none.
    fn value(&self, series: &str) -> f64 {
        let line = self.0.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Returns the series without their values.
    fn series(&self) -> BTreeSet<&str> {
        self.0.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' ').unwrap().0).collect()
    }
}

/// Returns the content type and the text of `/metrics`. The log line contains the address of the administration
/// listener.
async fn get(line: &str, accept: &str) -> (String, String) {
    let url = format!("{}/metrics", line.split_whitespace().last().unwrap());
    let response = reqwest::Client::new().get(url).header(ACCEPT, accept).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let content_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
    (content_type, response.text().await.unwrap())
}

async fn admin_line(server: &HttpServer) -> String {
    server.log_line("administration at ").await
}

fn sampled(more: &str) -> WrittenConfig {
    ConfigFile::new().plugin(Plugin::sample("a")).allow_all().append(&format!("{ADMIN}{more}")).write()
}

#[tokio::test]
async fn the_numbers_are_what_happened() {
    let plugins = ConfigFile::new().plugin(Plugin::sample("a")).plugin(Plugin::misbehaving("m")).allow_all();
    let config = plugins.append(ADMIN).write();
    let server = HttpServer::start(&config).await;
    let line = admin_line(&server).await;
    let before = Scrape::of(&line).await;
    assert_eq!(before.value("mcp_host_plugin_state{plugin=\"a\",state=\"ready\"}"), 1.0);
    assert_eq!(before.value("mcp_host_plugin_state{plugin=\"a\",state=\"failed\"}"), 0.0);
    assert_eq!(before.value("mcp_host_plugin_calls_total{plugin=\"a\",function=\"describe\",outcome=\"ok\"}"), 1.0);
    assert!(before.0.contains("mcp_host_build_info{version=\""), "{}", before.0);

    let mut client = server.uninitialized(REVISION);
    for _ in 0..3 {
        client.request("resources/read", json!({ "uri": "misbehaving://m/echo/x" })).await;
    }
    client.request("resources/read", json!({ "uri": "misbehaving://m/trap" })).await;
    client.request("resources/read", json!({ "uri": "nowhere://x" })).await;
    client.request("no/such/method", json!({})).await;
    let mut session = server.raw_client(Revision::V_2025_11_25).await;
    session.request("ping", json!({})).await;

    let after = Scrape::of(&line).await;
    let read = |outcome: &str| {
        let labels =
            format!("method=\"resources/read\",revision=\"2026-07-28\",transport=\"http\",outcome=\"{outcome}\"");
        after.value(&format!("mcp_host_requests_total{{{labels}}}"))
    };
    assert_eq!((read("ok"), read("internal"), read("not-found")), (3.0, 1.0, 1.0), "{}", after.0);
    let operation = "mcp_method_name=\"resources/read\",mcp_protocol_version=\"2026-07-28\",network_transport=\"tcp\"";
    assert_eq!(after.value(&format!("mcp_server_operation_duration_seconds_count{{{operation}}}")), 5.0);
    let unknown = "method=\"_OTHER\",revision=\"none\",transport=\"http\",outcome=\"method-not-found\"";
    assert_eq!(after.value(&format!("mcp_host_requests_total{{{unknown}}}")), 1.0, "{}", after.0);
    let call = |outcome: &str| {
        let labels = format!("plugin=\"m\",function=\"read\",outcome=\"{outcome}\"");
        after.value(&format!("mcp_host_plugin_calls_total{{{labels}}}"))
    };
    assert_eq!((call("ok"), call("trap")), (3.0, 1.0), "{}", after.0);
    assert_eq!(after.value("mcp_host_plugin_call_duration_seconds_count{plugin=\"m\"}"), 5.0);
    assert_eq!(after.value("mcp_host_plugin_faults_total{plugin=\"m\",kind=\"trap\"}"), 1.0);
    assert!(after.value("mcp_host_plugin_last_fault_timestamp_seconds{plugin=\"m\"}") > 1.7e9);
    assert!(after.value("mcp_host_plugin_cpu_seconds_total{plugin=\"m\"}") > 0.0);
    // `describe`, three calls that are answered, and one that is not.
    assert_eq!(after.value("mcp_host_plugin_instances_created_total{plugin=\"m\"}"), 5.0);
    assert_eq!(after.value("mcp_host_sessions{transport=\"http\"}"), 1.0);
    assert_eq!(after.value("mcp_host_generation{}"), 1.0);

    session.delete_session().await;
    // The connection may still refer to the session for a moment.
    let is_over = async |line: &str| {
        let scrape = Scrape::of(line).await;
        let ended = "mcp_protocol_version=\"2025-11-25\",network_transport=\"tcp\"";
        scrape.value("mcp_host_sessions{transport=\"http\"}") == 0.0
            && scrape.value(&format!("mcp_server_session_duration_seconds_count{{{ended}}}")) == 1.0
    };
    while !is_over(&line).await {
        tokio::task::yield_now().await;
    }
    server.end().await;
}

#[tokio::test]
async fn members_of_batches_and_requests_of_unknown_sessions_are_counted() {
    let server = HttpServer::start(&sampled("")).await;
    let line = admin_line(&server).await;
    let session = server.raw_client(Revision::V_2025_03_26).await;
    let id = session.session_id().unwrap().to_owned();
    let ping = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" });
    let read = json!({ "jsonrpc": "2.0", "id": 8, "method": "resources/read", "params": { "uri": "sample://a/x" } });
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9 } });
    let batch = json!([5, { "jsonrpc": "2.0" }, ping, notification]);
    let send = async |session: &str, body: &serde_json::Value| {
        let request = reqwest::Client::new().post(server.url()).header("Mcp-Session-Id", session);
        let request = request.header(ACCEPT, "application/json, text/event-stream").json(body);
        request.send().await.unwrap().text().await.unwrap()
    };
    send(&id, &batch).await;
    send("0123", &read).await;
    send("0123", &json!([ping, read, notification])).await;
    let scrape = Scrape::of(&line).await;
    let count = |method: &str, revision: &str, outcome: &str| {
        let labels = format!("method=\"{method}\",revision=\"{revision}\",transport=\"http\",outcome=\"{outcome}\"");
        scrape.value(&format!("mcp_host_requests_total{{{labels}}}"))
    };
    assert_eq!(count("_OTHER", "none", "invalid-request"), 2.0, "{}", scrape.0);
    assert_eq!(count("ping", "2025-03-26", "ok"), 1.0, "{}", scrape.0);
    assert_eq!(
        (count("resources/read", "none", "invalid-request"), count("ping", "none", "invalid-request")),
        (2.0, 1.0)
    );
    server.end().await;
}

#[tokio::test]
async fn reloads_are_counted_by_outcome() {
    let config = sampled("");
    let server = HttpServer::start(&config).await;
    let line = admin_line(&server).await;
    config.replace(ConfigFile::new().plugin(Plugin::sample("b")).allow_all().append(ADMIN));
    server.log_line("generation=2").await;
    let scrape = Scrape::of(&line).await;
    assert_eq!(scrape.value("mcp_host_reloads_total{outcome=\"ok\"}"), 1.0);
    assert!(!scrape.0.contains("plugin=\"a\""), "{}", scrape.0);
    config.replace_text("no = \"config\"");
    server.signal(Signal::HUP);
    server.log_line("reload failed").await;
    assert!(Scrape::of(&line).await.value("mcp_host_reloads_total{outcome=\"failed\"}") >= 1.0);
    server.end().await;
}

#[tokio::test]
async fn promtool_and_prometheus_accept_what_is_written() {
    let server = HttpServer::start(&sampled("")).await;
    let line = admin_line(&server).await;
    server.uninitialized(REVISION).request("resources/list", json!({})).await;
    let (content_type, text) = get(&line, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5").await;
    assert_eq!(content_type, OPENMETRICS);
    assert!(text.ends_with("# EOF\n"));
    let mut promtool = Command::new(debian_file("usr/bin/promtool"));
    let piped = promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut checking = piped.spawn().unwrap();
    checking.stdin.take().unwrap().write_all(Scrape::of(&line).await.0.as_bytes()).await.unwrap();
    let checked = checking.wait_with_output().await.unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    // Prometheus requests OpenMetrics.
    let target = line.rsplit_once("://").unwrap().1;
    let prometheus = PrometheusServer::builder().target("mcp-host", target).start().await;
    prometheus
        .wait_for("mcp_host_plugin_calls_total{plugin=\"a\", function=\"list-entries\", outcome=\"ok\"} == 1")
        .await;
    prometheus.wait_for("mcp_server_operation_duration_seconds_bucket{le=\"+Inf\"} == 1").await;
    server.end().await;
}

#[tokio::test]
async fn what_clients_send_makes_no_series() {
    const NAMES: usize = 10_000;
    let config = ConfigFile::new().plugin(Plugin::sample("a")).server("tools", vec!["read"]).allow_all().append(ADMIN);
    let mut wire = RawStdio::start(&config.write(), Revision::V_2025_11_25).await;
    let line = wire.log_line("administration at ").await;
    // Sends a request of each kind.
    let send = async |wire: &mut RawStdio, number: usize| {
        for (method, params) in [
            ("resources/read".to_owned(), json!({ "uri": format!("sample://a/nothing{number}") })),
            ("resources/read".to_owned(), json!({ "uri": format!("nowhere{number}://x") })),
            ("tools/call".to_owned(), json!({ "name": format!("tool{number}") })),
            (format!("no/such/method{number}"), json!({})),
        ] {
            wire.request(&method, params).await;
        }
    };
    send(&mut wire, 0).await;
    let before = Scrape::of(&line).await;
    for number in 1..=NAMES / 4 {
        send(&mut wire, number).await;
    }
    let after = Scrape::of(&line).await;
    let more: Vec<_> = after.series().difference(&before.series()).copied().map(str::to_owned).collect();
    assert_eq!(more, [""; 0]);
    let unknown = "method=\"_OTHER\",revision=\"2025-11-25\",transport=\"stdio\",outcome=\"method-not-found\"";
    assert_eq!(after.value(&format!("mcp_host_requests_total{{{unknown}}}")), (NAMES / 4 + 1) as f64);
    wire.end().await;
}

#[tokio::test]
async fn a_scrape_of_100_plugins_has_at_most_1_mib() {
    let plugins = (0..100).map(|number| Plugin::sample(&format!("p{number}")));
    let config = plugins.fold(ConfigFile::new(), ConfigFile::plugin).allow_all().append(ADMIN).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let line = wire.log_line("administration at ").await;
    for number in 0..100 {
        wire.read(&format!("sample://p{number}/plain")).await.unwrap();
        wire.request("resources/read", json!({ "uri": format!("sample://p{number}/nothing") })).await;
    }
    wire.request("resources/templates/list", json!({})).await;
    let mut cursor = json!(null);
    loop {
        let page = wire.request("resources/list", json!({ "cursor": cursor })).await;
        cursor = page.result()["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let scrape = Scrape::of(&line).await;
    let calls = |function: &str| scrape.0.matches(&format!("function=\"{function}\",outcome=\"ok\"")).count();
    assert_eq!((calls("read"), calls("list-entries")), (100, 100));
    assert!(scrape.0.len() <= 1 << 20, "{} bytes", scrape.0.len());
    wire.end().await;
}

#[tokio::test]
async fn tokens_that_are_not_accepted_are_counted_by_reason_only() {
    let principal = "\n[[principal]]\nname = \"ci\"\ntoken-sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"\n";
    let server = HttpServer::start(&sampled(principal)).await;
    let line = admin_line(&server).await;
    let mut client = server.uninitialized(REVISION);
    let mut rejected = 0;
    for number in 0..200 {
        let request = client.request_builder("resources/list", json!({})).bearer_auth(format!("token{number}"));
        rejected += usize::from(request.send().await.unwrap().status() == StatusCode::UNAUTHORIZED);
    }
    let scrape = Scrape::of(&line).await;
    let failures =
        scrape.series().into_iter().filter(|series| series.starts_with("mcp_host_authentication_failures_total"));
    let failures: Vec<_> = failures.collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(rejected > 0);
    assert!(scrape.value(failures[0]) >= rejected as f64);
    server.end().await;
}

#[tokio::test]
async fn the_documentation_has_the_families_that_are_written() {
    // No process listens at the collector's address.
    let server = HttpServer::start(&sampled("\n[telemetry]\notlp = \"http://127.0.0.1:9\"\n")).await;
    let (_, text) = get(&admin_line(&server).await, "text/plain").await;
    let written: BTreeSet<_> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<_> =
        rows.filter(|name| ["mcp_", "process_"].iter().any(|prefix| name.starts_with(prefix))).collect();
    assert_eq!(written, documented);
    server.end().await;
}
