//! Log messages of guests: bounded before they are processed, and escaped.

use std::time::Instant;

use mcp_host_tests::{ConfigFile, Plugin, StdioServer, fixture};

fn exhaust(log: &str) -> Plugin {
    let limits = [("log", log), ("memory", "256MiB"), ("cpu", "5s"), ("deadline", "60s")];
    let plugin = Plugin::new("exhaust", &fixture("exhaust"), "exhaust://h/");
    limits.into_iter().fold(plugin, |plugin, (key, value)| plugin.limit(key, value))
}

async fn start(log: &str) -> StdioServer {
    StdioServer::start(&ConfigFile::new().plugin(exhaust(log)).plugin(Plugin::misbehaving("good")).write()).await
}

#[tokio::test]
async fn ten_million_line_feeds_cost_no_more_than_the_allowance() {
    for log in ["64KiB/m", "16MiB/m"] {
        let server = start(log).await;
        assert_eq!(server.client().text("exhaust://h/line-feeds?count=10000000").await, "survived", "{log}");
        assert_eq!(server.client().text("misbehaving://good/good").await, "good");
        let log = server.end().await.log;
        assert!(log.contains("lines are being dropped"), "{log}");
        assert!(log.lines().count() < 100, "{log}");
    }
}

#[tokio::test]
async fn what_is_logged_at_a_level_that_nobody_wants_costs_nothing() {
    let server = start("8KiB/m").await;
    assert_eq!(server.client().text("exhaust://h/whisper?count=1000").await, "survived");
    let log = server.end().await.log;
    assert!(log.contains("heard") && !log.contains("dropped"), "{log}");
}

#[tokio::test]
async fn that_lines_are_dropped_is_told_once_in_ten_seconds() {
    let server = start("8KiB/m").await;
    let began = Instant::now();
    for _ in 0..5 {
        assert_eq!(server.client().text("exhaust://h/noise?count=500").await, "survived");
    }
    let log = server.end().await.log;
    let told = log.matches("lines are being dropped").count() as u64;
    let periods = began.elapsed().as_secs() / 10 + 1;
    assert!((1..=periods).contains(&told), "{told} times in {periods} periods:\n{log}");
}

#[tokio::test]
async fn nothing_in_a_line_deceives_whoever_reads_it() {
    let server = start("64KiB/m").await;
    server.client().text("exhaust://h/deception").await;
    let line = server.log_line("safe").await;
    assert!(line.contains(r"safe\u{202e}txt.exe\u{2028}\u{85}\u{2066}forged"), "{line}");
    server.end().await;
}
