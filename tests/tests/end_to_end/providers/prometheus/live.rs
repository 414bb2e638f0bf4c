//! A server that scrapes: an exporter from Debian, and one whose values a test sets.

use mcp_host_tests::{
    ConfigFile, MockOrigin, NodeExporter, PrometheusServer, RawStdio, Reply, Revision, StdioServer, run,
};
use serde_json::{Value, json};

use super::{assert_same_range, prometheus_plugin, read};

const RULES: &str = "  - alert: Cold
    expr: degrees < 10
    labels: {severity: page}
    annotations: {summary: It is cold.}
  - record: degrees:sum
    expr: sum(degrees)
";

/// Serves an exporter with one gauge.
fn degrees(origin: &MockOrigin, value: &str) {
    let text = format!("# HELP degrees Of the air.\n# TYPE degrees gauge\ndegrees{{at=\"door\"}} {value}\n");
    origin.serve("/metrics", Reply::ok("text/plain; version=0.0.4", text));
}

fn target(origin: &MockOrigin) -> String {
    format!("127.0.0.1:{}", origin.port())
}

#[tokio::test]
async fn what_is_scraped_from_an_exporter_is_served_as_the_api_has_it() {
    let exporter = NodeExporter::start().await;
    let prometheus = PrometheusServer::builder().target("node", &exporter.target()).start().await;
    // Samples older than a step, and older than the end of the range below.
    prometheus.wait_for("count_over_time(node_cpu_seconds_total[1m]) > 4").await;
    let saved = toml::toml! {
        load = { query = "node_load1", title = "Load", range = "3m" }
        memory = "node_memory_MemTotal_bytes"
    };
    let plugin = prometheus_plugin(prometheus.url()).config("queries", saved).config("refresh", "1s");
    let config = ConfigFile::new().plugin(plugin).write();
    let server = StdioServer::start(&config).await;
    let listed =
        ["alerts", "rules", "saved/load", "saved/memory", "targets"].map(|path| format!("prometheus:///{path}"));
    assert_eq!(server.client().uris().await, listed);

    let (rows, json) = read(&server, "prometheus:///saved/load").await;
    assert_eq!((json["query"].as_str(), json["step"].as_str()), (Some("node_load1"), Some("1s")));
    assert!(rows.len() > 1, "{rows:?}");
    // A sample scraped at this moment may be in only one of two results, so the range ends earlier.
    let now = prometheus.api("query", &[("query", "time()")]).await["result"][0].as_f64().unwrap();
    let uri = format!("prometheus:///series/node_cpu_seconds_total?range=1m&step=1s&end={:.0}", now - 2.0);
    let points = assert_same_range(&prometheus, &server, &uri).await;
    assert!(points > 0);
    let (_, json) = read(&server, "prometheus:///saved/memory").await;
    let expected = prometheus.api("query", &[("query", "node_memory_MemTotal_bytes")]).await;
    assert_eq!(json["result"][0]["value"][1], expected["result"][0]["value"][1]);

    let (rows, json) = read(&server, "prometheus:///metric/node_cpu_seconds_total").await;
    let metadata = prometheus.api("metadata", &[("metric", "node_cpu_seconds_total")]).await;
    let metadata = &metadata["node_cpu_seconds_total"][0];
    assert_eq!((&json["type"], &json["help"]), (&metadata["type"], &metadata["help"]));
    let series = prometheus.api("series", &[("match[]", "node_cpu_seconds_total")]).await;
    assert_eq!(json["series"], series.as_array().unwrap().len());
    let labels: Vec<&str> = rows[1..].iter().map(|row| row[0].as_str()).collect();
    assert_eq!(labels, ["cpu", "instance", "job", "mode"]);

    let (rows, _) = read(&server, "prometheus:///label/mode").await;
    let expected = prometheus.api("label/mode/values", &[]).await;
    assert_eq!(json!(rows[1..].concat()), expected);
    let (rows, json) = read(&server, "prometheus:///targets").await;
    assert_eq!((rows.len(), rows[1][2].as_str()), (2, "up"));
    assert_eq!(json["activeTargets"][0]["labels"]["job"], "node");
    server.end().await;
}

#[tokio::test]
async fn alerts_and_rules_are_those_of_the_server() {
    let exporter = MockOrigin::http().await;
    degrees(&exporter, "5");
    let prometheus = PrometheusServer::builder().target("door", &target(&exporter)).rules(RULES).start().await;
    prometheus.wait_for("ALERTS{alertstate=\"firing\"} and on() degrees:sum").await;
    let config = ConfigFile::new().plugin(prometheus_plugin(prometheus.url())).write();
    let server = StdioServer::start(&config).await;
    let (rows, json) = read(&server, "prometheus:///alerts").await;
    assert_eq!((rows[1][0].as_str(), rows[1][1].as_str(), rows[1][5].as_str()), ("Cold", "firing", "It is cold."));
    let expected = prometheus.api("alerts", &[]).await;
    assert_eq!(json["alerts"], expected["alerts"]);
    let (rows, _) = read(&server, "prometheus:///rules").await;
    let names: Vec<_> = rows[1..].iter().map(|row| (row[1].as_str(), row[2].as_str(), row[4].as_str())).collect();
    assert_eq!(names, [("Cold", "alerting", "ok"), ("degrees:sum", "recording", "ok")]);
    server.end().await;
}

/// Waits for the next update, and returns its URI.
async fn updated(wire: &mut RawStdio) -> Value {
    wire.notification("notifications/resources/updated").await["params"]["uri"].clone()
}

#[tokio::test]
async fn a_subscriber_of_a_saved_query_and_of_alerts_is_told_when_they_change() {
    let exporter = MockOrigin::http().await;
    degrees(&exporter, "20");
    let prometheus = PrometheusServer::builder().target("door", &target(&exporter)).rules(RULES).start().await;
    prometheus.wait_for("degrees:sum == 20").await;
    let plugin = prometheus_plugin(prometheus.url())
        .config("refresh", "1s")
        .config("queries", toml::toml! { degrees = "degrees" })
        .set("watch-interval", "1s");
    let config = ConfigFile::new().plugin(plugin).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wire.request("resources/subscribe", json!({ "uri": "prometheus:///saved/degrees" })).await.result();
    degrees(&exporter, "21");
    loop {
        assert_eq!(updated(&mut wire).await, "prometheus:///saved/degrees");
        let answer = wire.request("resources/read", json!({ "uri": "prometheus:///saved/degrees" })).await;
        let table = answer.result()["contents"][0]["text"].as_str().unwrap().to_owned();
        // The first sample may have arrived after the subscription.
        if table.ends_with(",21\n") {
            break;
        }
        assert!(table.ends_with(",20\n"), "{table}");
    }
    wire.request("resources/unsubscribe", json!({ "uri": "prometheus:///saved/degrees" })).await.result();
    wire.request("resources/subscribe", json!({ "uri": "prometheus:///alerts" })).await.result();
    degrees(&exporter, "5");
    while updated(&mut wire).await != "prometheus:///alerts" {}
    wire.end().await;
}

#[tokio::test]
async fn check_has_the_server_parse_saved_queries() {
    let server = PrometheusServer::builder().start().await;
    let queries: toml::Value = toml::toml! {
        broken = "sum(rate(up[5m])"
        good = "up"
        "of a / range" = { query = "rate(up[1h])", range = "1h" }
        unknown = { query = "nonsense(up)" }
    }
    .into();
    let config = ConfigFile::new().plugin(prometheus_plugin(server.url()).config("queries", queries)).write();
    let path = config.path();
    let warnings = async |more: &[&str]| {
        let arguments = ["check", "--json", "--config", path.to_str().unwrap()];
        let report = run(arguments.iter().chain(more).copied()).await.success().json();
        let warnings = report["plugins"][0]["warnings"].as_array().unwrap().clone();
        warnings.into_iter().map(|warning| warning.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let found = warnings(&[]).await;
    let [broken, unknown] = found.as_slice() else { panic!("{found:?}") };
    assert!(broken.contains("`broken` is refused") && broken.contains("parse error"), "{broken}");
    assert!(unknown.contains("`unknown` is refused") && unknown.contains("nonsense"), "{unknown}");
    assert_eq!(run(["check", "--strict", "--config", path.to_str().unwrap()]).await.code(), 1);
    assert_eq!(warnings(&["--offline"]).await, Vec::<String>::new());
    drop(server);
    let down = warnings(&[]).await;
    assert!(down.iter().any(|warning| warning.contains("could not be tried, and 3 after it")), "{down:?}");
}
