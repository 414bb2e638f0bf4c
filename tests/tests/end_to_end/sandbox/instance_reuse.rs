//! Instances: new for each call or reused, and the limits of their lifetime.

use mcp_host_tests::{ConfigFile, Plugin, RawStdio, Revision, StdioServer, WrittenConfig};
use serde_json::{Value, json};

/// The guest `misbehaving` with reused instances.
fn reusing(name: &str) -> Plugin {
    Plugin::misbehaving(name).instances("max-calls", 1000)
}

fn config(plugin: Plugin) -> WrittenConfig {
    ConfigFile::new().plugin(plugin).write()
}

/// Returns the number of calls of the responding instance, including this one.
async fn count_calls(server: &StdioServer, name: &str) -> u32 {
    server.client().text(&format!("misbehaving://{name}/count")).await.parse().unwrap()
}

/// Reads over raw stdio, which allows several reads in flight.
struct RawReads(RawStdio);

impl RawReads {
    async fn start(config: &WrittenConfig) -> Self {
        Self(RawStdio::start(config, Revision::V_2025_11_25).await)
    }

    async fn read(&mut self, uri: &str) -> Value {
        self.0.request("resources/read", json!({ "uri": uri })).await.message
    }

    async fn count_calls(&mut self) -> Value {
        self.read("misbehaving://a/count").await["result"]["contents"][0]["text"].clone()
    }

    /// Starts a slow read, and returns when the guest runs.
    async fn begin(&mut self, uri: &str) -> u64 {
        let id = self.0.send_request("resources/read", json!({ "uri": uri })).await;
        self.0.log_line(&format!("a slow read has begun: {}", uri.rsplit('/').next().unwrap())).await;
        id
    }

    async fn end(self) {
        self.0.end().await;
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_call_unless_its_plugin_keeps_instances() {
    let config = ConfigFile::new().plugin(Plugin::misbehaving("fresh")).plugin(reusing("kept")).write();
    let server = StdioServer::start(&config).await;
    for expected in 1..=3 {
        assert_eq!(count_calls(&server, "fresh").await, 1);
        assert_eq!(count_calls(&server, "kept").await, expected);
    }
    server.end().await;
}

#[tokio::test]
async fn an_instance_serves_no_more_calls_than_it_may() {
    let server =
        StdioServer::start(&config(Plugin::misbehaving("a").instances("max-calls", 2).instances("max-idle", 1))).await;
    // The host's own calls, to describe and to watch the plugin, count as well.
    let mut counts = Vec::new();
    for _ in 0..8 {
        counts.push(count_calls(&server, "a").await);
    }
    assert_eq!(counts.iter().max(), Some(&2), "{counts:?}");
    server.end().await;
}

#[tokio::test]
async fn an_instance_survives_every_answer_that_the_contract_has() {
    let server = StdioServer::start(&config(reusing("a"))).await;
    assert_eq!(count_calls(&server, "a").await, 1);
    for path in ["absent", "invalid", "denied", "internal", "unavailable"] {
        server.client().read_error(&format!("misbehaving://a/{path}")).await;
    }
    assert_eq!(count_calls(&server, "a").await, 2);
    server.end().await;
}

#[tokio::test]
async fn an_instance_ends_with_a_call_that_gave_no_answer() {
    let limited = |name: &str, key: &str, value: &str| reusing(name).limit(key, value);
    let config = ConfigFile::new()
        .plugin(reusing("a"))
        .plugin(limited("cpu", "cpu", "50ms"))
        .plugin(limited("deadline", "deadline", "5s"))
        .plugin(limited("memory", "memory", "8MiB"))
        .plugin(limited("reply", "response-size", "1MiB"))
        .plugin(reusing("items").limit("response-items", 2))
        .write();
    let server = StdioServer::start(&config).await;
    for (name, path) in [
        ("a", "trap"),
        ("a", "panic"),
        ("a", "recurse"),
        ("a", "nothing"),
        ("a", "foreign"),
        ("cpu", "loop"),
        ("deadline", "sleep"),
        ("memory", "grow"),
        ("reply", "large"),
        ("items", "contents?n=3"),
    ] {
        let before = count_calls(&server, name).await;
        assert_eq!(count_calls(&server, name).await, before + 1, "before {path}");
        server.client().read_error(&format!("misbehaving://{name}/{path}")).await;
        assert_eq!(count_calls(&server, name).await, 1, "after {path}");
    }
    server.end().await;
}

#[tokio::test]
async fn an_instance_ends_with_a_call_that_its_client_cancels() {
    let mut reads = RawReads::start(&config(reusing("a").limit("concurrency", 1).limit("queue-timeout", "30s"))).await;
    assert_eq!(reads.count_calls().await, "1");
    let id = reads.begin("misbehaving://a/slow?ms=60000").await;
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    reads.0.send(&cancelled).await;
    // The permit is available immediately, for a new instance.
    assert_eq!(reads.count_calls().await, "1");
    assert_eq!(reads.count_calls().await, "2");
    reads.end().await;
}

#[tokio::test]
async fn an_instance_that_nobody_needs_ends() {
    let config = ConfigFile::new()
        .plugin(reusing("a").instances("idle-timeout", "50ms"))
        .plugin(Plugin::misbehaving("clock"))
        .write();
    let server = StdioServer::start(&config).await;
    count_calls(&server, "a").await;
    server.client().text("misbehaving://clock/slow?ms=100").await;
    assert_eq!(count_calls(&server, "a").await, 1);
    server.end().await;
}

#[tokio::test]
async fn an_instance_that_holds_more_than_its_share_of_the_memory_ends() {
    // Each instance may use 8 MiB.
    let server = StdioServer::start(&config(reusing("a").limit("memory", "32MiB").instances("max-idle", 4))).await;
    for (mib, expected) in [(1, 2), (2, 3), (8, 1)] {
        let before = count_calls(&server, "a").await;
        server.client().text(&format!("misbehaving://a/allocate?mib={mib}")).await;
        let after = count_calls(&server, "a").await;
        assert_eq!(after, if expected == 1 { 1 } else { before + 1 }, "{mib} MiB more");
    }
    server.end().await;
}

#[tokio::test]
async fn an_idle_instance_gives_way_when_a_call_needs_its_memory() {
    // Two instances with a limit of 10 MiB each, both using 9.
    let mut reads = RawReads::start(&config(reusing("a").limit("memory", "20MiB").instances("max-idle", 2))).await;
    let allocate = "misbehaving://a/allocate?mib=8";
    assert_eq!(reads.read(allocate).await["result"]["contents"][0]["text"], "allocated");
    let slow = reads.begin("misbehaving://a/slow?ms=500").await;
    assert_eq!(reads.read(allocate).await["result"]["contents"][0]["text"], "allocated", "in another instance");
    reads.0.response_to(slow).await.result();
    // 2 MiB are left: the idle instance holds 9 while this call uses the other one.
    assert_eq!(reads.read(allocate).await["result"]["contents"][0]["text"], "allocated");
    reads.end().await;
}

#[tokio::test]
async fn idle_instances_give_way_when_another_plugin_needs_a_seat() {
    // The engine has as many slots as the instances here, all reused. Calls of four plugins may use a fifth of the
    // slots each, so the last calls wait for the first.
    let many = |name: &str| {
        let plugin = reusing(name).instances("max-idle", 64).limit("concurrency", 64).limit("memory", "512MiB");
        plugin.limit("log", "1MiB/m").limit("deadline", "60s").limit("cpu", "30s").limit("queue-timeout", "60s")
    };
    let names = ["a", "b", "c", "d"];
    let config = names.into_iter().fold(ConfigFile::new(), |config, name| config.plugin(many(name)));
    let mut reads =
        RawReads::start(&config.plugin(Plugin::misbehaving("other").limit("queue-timeout", "30s")).write()).await;
    let mut under_way = Vec::new();
    for name in names {
        for n in 0..64 {
            let uri = format!("misbehaving://{name}/slow?ms={}", 1000 + n);
            under_way.push(reads.0.send_request("resources/read", json!({ "uri": uri })).await);
        }
    }
    for id in under_way {
        reads.0.response_to(id).await.result();
    }
    for _ in 0..3 {
        let text = reads.read("misbehaving://other/good").await["result"]["contents"][0]["text"].clone();
        assert_eq!(text, "good");
    }
    reads.end().await;
}
