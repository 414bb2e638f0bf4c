//! Search: the index of a running server, searches as resources, and tools.

mod context;
mod embeddings;
mod example;
mod faults;
mod index;
mod resources;
mod shared;
mod tools;

use std::time::Instant;

use mcp_host_tests::{ConfigFile, Folder, Output, Plugin, RawStdio, TIMEOUT, run};
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

/// A config whose plugin `f` serves this folder and is indexed for search.
fn searched(folder: &Folder) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::files("f", folder.path()).searched())
}

/// Returns the result of a search, read as a resource. A search that ended early is repeated: its limit is 200 ms,
/// which a busy machine may exceed.
pub(crate) async fn search(wire: &mut RawStdio, query: &str) -> Value {
    let uri = format!("search:///?q={}", query.replace(' ', "%20"));
    let began = Instant::now();
    loop {
        let answer = wire.request("resources/read", json!({ "uri": uri })).await;
        let result = serde_json::from_str(answer.result()["contents"][0]["text"].as_str().unwrap()).unwrap();
        if !is_cut_short(&result) {
            return result;
        }
        assert!(began.elapsed() < TIMEOUT, "{query}: {result}");
    }
}

/// Returns whether a result is partial although everything is indexed.
fn is_cut_short(result: &Value) -> bool {
    result["partial"] == true && !result["incomplete"].is_array()
}

/// Returns the output of the command `search` or `context`, repeated like a search.
async fn run_search(arguments: &[&str]) -> Output {
    let began = Instant::now();
    loop {
        let output = run(arguments).await.success();
        let is_cut_short = match serde_json::from_slice(&output.stdout) {
            Ok(result) => is_cut_short(&result),
            // The output for a selection without passages is empty.
            Err(_) => output.text().is_empty() || output.text().contains("cut short"),
        };
        if !is_cut_short {
            return output;
        }
        assert!(began.elapsed() < TIMEOUT, "{}", output.text());
    }
}

pub(crate) fn uris(result: &Value) -> Vec<String> {
    let results = result["results"].as_array().unwrap();
    results.iter().map(|one| one["uri"].as_str().unwrap().to_owned()).collect()
}

/// Waits until a search finds `count` resources, and returns the elapsed time.
pub(crate) async fn wait_until_found(wire: &mut RawStdio, query: &str, count: u64) -> Duration {
    let began = Instant::now();
    loop {
        let result = search(wire, query).await;
        if result["total"] == count && result["partial"] == false {
            return began.elapsed();
        }
        assert!(began.elapsed() < TIMEOUT, "{query}: {result}");
        sleep(Duration::from_millis(20)).await;
    }
}
