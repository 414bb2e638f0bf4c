//! The official conformance suite, in both kinds of lifecycle, against the ordinary binary.
//!
//! The guest `conformance` serves the resources that the suite requests, and the host's tools are on.
//! `tests/tests/conformance.toml` lists scenarios that do not apply to a server of resources, with the reasons. Each of
//! them must exist and must fail, so no exception outlives its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, TIMEOUT, WrittenConfig, client_program, fixture, node};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

fn config() -> WrittenConfig {
    ConfigFile::new()
        .server("name", "conformance")
        .server("advertise", vec!["prompts"])
        .server("tools", vec!["list", "read", "search", "context"])
        .plugin(Plugin::new("conformance", &fixture("conformance"), "test://").searched())
        .allow_all()
        .write()
}

/// The checks of a scenario by their names.
pub(crate) type Checks = BTreeMap<String, Check>;

/// The outcome of a check.
pub(crate) struct Check {
    /// `SUCCESS`, `FAILURE` or another outcome.
    pub(crate) status: String,
    /// The message of the suite.
    pub(crate) said: String,
}

/// Returns the checks of each scenario that the suite requires for a revision.
pub(crate) async fn run(revision: &str, url: &str) -> BTreeMap<String, Checks> {
    let results = tempfile::tempdir().expect("a folder for the results");
    let mut command = Command::new(node());
    command.arg(client_program("tools/node_modules/@modelcontextprotocol/conformance/dist/index.js"));
    command.args(["server", "--url", url, "--requirements", revision, "--output-dir"]).arg(results.path());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(TIMEOUT * 2, command.output()).await.expect("the suite ends").expect("the suite starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let folders = std::fs::read_dir(results.path()).expect("a folder of results");
    let scenarios: BTreeMap<_, _> = folders.map(|folder| scenario(&folder.expect("a folder").path())).collect();
    assert!(scenarios.contains_key("resources-read-text"), "the suite ran no scenarios: {said}");
    scenarios
}

/// Returns the name of a scenario and its checks, from a folder `server-NAME-TIME`.
fn scenario(folder: &Path) -> (String, Checks) {
    let name = folder.file_name().and_then(|name| name.to_str()).expect("names are text");
    let name = name.strip_prefix("server-").expect("it is of a server");
    let length = name.len() - "-2026-07-28T00-00-00-000Z".len();
    let checks = std::fs::read(folder.join("checks.json")).expect("every scenario has checks");
    let checks: Vec<Value> = serde_json::from_slice(&checks).expect("checks are JSON");
    let text = |value: &Value| value.as_str().expect("a check has a name and a status").to_owned();
    let checks = checks.iter().map(|check| {
        let said = format!("{} {}", check["errorMessage"], check["details"]);
        (text(&check["id"]), Check { status: text(&check["status"]), said })
    });
    (name[..length].to_owned(), checks.collect())
}

/// Reads the scenarios that do not apply, by revision.
fn not_applicable() -> BTreeMap<String, BTreeSet<String>> {
    let file: toml::Table = include_str!("../../conformance.toml").parse().expect("the file is TOML");
    let mut scenarios = BTreeMap::<_, BTreeSet<_>>::new();
    for entry in file["not-applicable"].as_array().expect("a list") {
        assert!(!entry["reason"].as_str().expect("a reason").is_empty());
        for (revision, names) in entry["scenarios"].as_table().expect("a table by revision") {
            for name in names.as_array().expect("a list") {
                let name = name.as_str().expect("a name").to_owned();
                let is_new = scenarios.entry(revision.clone()).or_default().insert(name.clone());
                assert!(is_new, "{name} has two reasons in {revision}");
            }
        }
    }
    scenarios
}

async fn conforms_to(revision: &str) {
    let config = config();
    let server = HttpServer::start(&config).await;
    let scenarios = run(revision, server.url()).await;
    server.end().await;
    let not_applicable = not_applicable().remove(revision).unwrap_or_default();
    let mut stale = not_applicable.clone();
    let mut problems = Vec::new();
    for (name, checks) in &scenarios {
        for (check, Check { said, .. }) in checks.iter().filter(|(_, check)| check.status == "FAILURE") {
            let check = format!("{name}/{check}");
            let is_excused = [name, &check].map(|name| (stale.remove(name), not_applicable.contains(name)).1);
            if is_excused == [false, false] {
                problems.push(format!("{check} fails: {said}"));
            }
        }
    }
    problems.extend(stale.iter().map(|name| format!("{name} is said not to apply, and passes or does not exist")));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test]
async fn the_official_suite_passes_with_sessions() {
    conforms_to("2025-11-25").await;
}

#[tokio::test]
async fn the_official_suite_passes_without_sessions() {
    conforms_to("2026-07-28").await;
}
