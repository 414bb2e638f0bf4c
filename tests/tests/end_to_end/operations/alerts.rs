//! `examples/operations`: each alert fires, is documented, and uses existing metrics; the dashboard's queries have
//! results.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, PrometheusServer, debian_file};
use serde_json::Value;
use tokio::process::Command;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the rest of each line that starts with the prefix.
fn values<'a>(text: &'a str, prefix: &'a str) -> BTreeSet<&'a str> {
    text.lines().filter_map(|line| line.trim_start_matches(['-', ' ']).strip_prefix(prefix)).collect()
}

async fn promtool(arguments: &[&str]) {
    let mut promtool = Command::new(debian_file("usr/bin/promtool"));
    let output = promtool.args(arguments).current_dir(repository("examples/operations")).output().await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&text));
}

#[tokio::test]
async fn each_alert_fires_and_is_documented() {
    promtool(&["check", "config", "prometheus.yml"]).await;
    promtool(&["test", "rules", "alerts.test.yml"]).await;
    let (rules, tests) = (read("examples/operations/alerts.yml"), read("examples/operations/alerts.test.yml"));
    let alerts = values(&rules, "alert: ");
    assert!(!alerts.is_empty());
    assert_eq!(values(&tests, "alertname: "), alerts);
    let page = read("docs/operations.md");
    let documented = page.lines().filter_map(|line| line.strip_prefix("| `McpHost")?.split('`').next());
    assert_eq!(
        documented.map(|name| format!("McpHost{name}")).collect::<BTreeSet<_>>(),
        alerts.into_iter().map(str::to_owned).collect()
    );
}

/// Returns the names of metrics in a PromQL query.
fn metrics(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| ["mcp_", "process_"].iter().any(|prefix| word.starts_with(prefix)))
}

#[tokio::test]
async fn prometheus_evaluates_the_alerts_and_the_queries_of_the_dashboard() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.wasm");
    fs::write(&file, "no component").unwrap();
    let broken = Plugin::new("broken", &file, "broken:///");
    let config = ConfigFile::new().plugin(Plugin::sample("a")).plugin(broken).allow_all();
    let server = HttpServer::start(&config.append("\n[admin]\nlisten = \"127.0.0.1:0\"\n").write()).await;
    let line = server.log_line("administration at ").await;
    let target = line.rsplit_once("://").unwrap().1;
    let rules = read("examples/operations/alerts.yml");
    let list = rules.split_once("  rules:\n").unwrap().1;
    let prometheus = PrometheusServer::builder().target("mcp-host", target).rules(list).start().await;
    prometheus.wait_for("ALERTS{alertname=\"McpHostPluginNotServed\", plugin=\"broken\", state=\"failed\"}").await;

    let exposition = reqwest::get(format!("http://{target}/metrics")).await.unwrap().text().await.unwrap();
    let types = exposition.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let families: BTreeSet<_> = types.collect();
    let dashboard: Value = serde_json::from_str(&read("examples/operations/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let drawn: Vec<_> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let alerting = values(&rules, "expr: ");
    for query in drawn.iter().copied().chain(alerting) {
        for name in metrics(query) {
            let family = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(families.contains(family), "{family} of `{query}`");
        }
        let query = query.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$plugin", ".*");
        prometheus.api("query", &[("query", &query)]).await;
    }
    server.end().await;
}
