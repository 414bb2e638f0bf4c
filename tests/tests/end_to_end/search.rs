//! Search: the index of a running server, searches as resources, and tools.

mod context;
mod embeddings;
mod example;
mod faults;
mod index;
mod resources;
mod tools;

use std::time::Instant;

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, TIMEOUT};
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

/// A config whose plugin `f` serves that folder and is searched.
fn searched(folder: &Folder) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::files("f", folder.path()).searched())
}

/// The result of a search, as a resource.
async fn search(wire: &mut RawStdio, query: &str) -> Value {
    let uri = format!("search:///?q={}", query.replace(' ', "%20"));
    let answer = wire.request("resources/read", json!({ "uri": uri })).await;
    serde_json::from_str(answer.result()["contents"][0]["text"].as_str().unwrap()).unwrap()
}

fn uris(result: &Value) -> Vec<String> {
    let results = result["results"].as_array().unwrap();
    results.iter().map(|one| one["uri"].as_str().unwrap().to_owned()).collect()
}

/// Waits until a search finds so many resources, and returns the time that it took.
async fn wait_until_found(wire: &mut RawStdio, query: &str, count: u64) -> Duration {
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
