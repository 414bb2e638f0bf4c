//! Host memory that a guest allocates without a grant: it counts as the plugin's memory, and is released.

use mcp_host_tests::{ConfigFile, Plugin, StdioServer, fixture};

/// Kinds of host memory, and the prefix of the client's error when a guest allocates too much.
const RESOURCE_KINDS: [(&str, &str); 9] = [
    ("authorities", "ran out of memory"),
    ("bodies", "ran out of memory"),
    ("clones", "ran out of memory"),
    ("fields", "ran out of memory"),
    ("lists", "ran out of memory"),
    ("methods", "ran out of memory"),
    ("paths", "ran out of memory"),
    // A scheme has at most 64 bytes, so schemes never exceed the limit.
    ("schemes", ""),
    ("timers", "too many handles open"),
];

/// `limits.memory` of the guest.
const MEMORY: u64 = 8 << 20;

fn exhaust() -> Plugin {
    let limits = [("memory", "8MiB"), ("cpu", "30s"), ("deadline", "60s")];
    let plugin = Plugin::new("exhaust", &fixture("exhaust"), "exhaust://h/").limit("handles", 4096);
    limits.into_iter().fold(plugin, |plugin, (key, value)| plugin.limit(key, value))
}

#[tokio::test]
async fn what_the_host_keeps_for_a_guest_counts_as_its_memory_and_is_released() {
    let config = ConfigFile::new().plugin(exhaust()).plugin(Plugin::misbehaving("good")).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    assert_eq!(client.text("exhaust://h/good").await, "survived");
    let before = server.peak_rss();
    for (kind, reason) in RESOURCE_KINDS {
        let all = format!("exhaust://h/{kind}?count=3500&kib=30");
        match reason {
            "" => assert_eq!(client.text(&all).await, "survived", "{kind}"),
            reason => {
                let error = client.read_error(&all).await;
                assert!(error.message.contains(reason), "{kind}: {error:?}");
            }
        }
        assert_eq!(client.text("misbehaving://good/good").await, "good", "beside {kind}");
        let in_turn = client.text(&format!("exhaust://h/{kind}-in-turn?count=3500&kib=30")).await;
        assert_eq!(in_turn, "survived", "{kind}");
        let more = server.peak_rss() - before;
        assert!(more < 4 * MEMORY, "{kind}: {more} bytes");
    }
    server.end().await;
}

#[tokio::test]
async fn what_can_be_no_part_of_a_request_is_not_kept() {
    let roomy = exhaust().limit("memory", "256MiB");
    let server = StdioServer::start(&ConfigFile::new().plugin(roomy).write()).await;
    assert_eq!(server.client().text("exhaust://h/good").await, "survived");
    let before = server.peak_rss();
    for kind in ["authorities", "methods", "paths", "schemes"] {
        let read = server.client().text(&format!("exhaust://h/{kind}?count=20&kib=7000")).await;
        assert_eq!(read, "survived", "{kind}");
    }
    let more = server.peak_rss() - before;
    // The guest's own memory, and one allocation at a time.
    assert!(more < 100 << 20, "{more} bytes");
    server.end().await;
}
