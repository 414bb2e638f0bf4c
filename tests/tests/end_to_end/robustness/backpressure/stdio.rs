//! A client over stdio that does not read.

use mcp_host_tests::{RawStdio, Revision};
use rustix::process::Signal;
use serde_json::json;

use super::{BUDGET, LARGE_URI, OVERHEAD, config};

/// Starts a server with many unread responses.
async fn start_with_unread_output() -> (mcp_host_tests::WrittenConfig, RawStdio) {
    let config = config().write();
    let mut server = RawStdio::start(&config, Revision::V_2025_11_25).await;
    // More than are processed at the same time: the last ones are not even read.
    for _ in 0..70 {
        server.send_request("resources/read", json!({ "uri": "sizes:///text/1000000" })).await;
    }
    // After the first response, the next one is being written, and fills the pipe.
    assert!(server.message().await.is_some());
    (config, server)
}

#[tokio::test]
async fn the_server_ends_with_its_input_although_nobody_reads_its_output() {
    let (_config, mut server) = start_with_unread_output().await;
    server.close_stdin();
    let ended = server.wait_exit_unread().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("does not read its answers"), "{}", ended.log);
}

#[tokio::test]
async fn the_server_ends_by_a_signal_although_nobody_reads_its_output() {
    for signal in [Signal::TERM, Signal::INT] {
        let (_config, server) = start_with_unread_output().await;
        server.signal(signal);
        let ended = server.wait_exit_unread().await;
        assert_eq!(ended.code, Some(1), "{}", ended.log);
    }
}

#[tokio::test]
async fn answers_that_nobody_reads_take_no_more_memory_than_the_budget() {
    // A request waits for the memory of the previous ones, however busy the machine is.
    let config = config().http_limit("write-timeout", "10m").write();
    let mut server = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let mut asked = Vec::new();
    for _ in 0..5 {
        asked.push(server.send_request("resources/read", json!({ "uri": LARGE_URI })).await);
    }
    for id in asked {
        assert!(server.response_to(id).await.result()["contents"].is_array());
    }
    let peak = server.peak_rss();
    assert!(peak < BUDGET + OVERHEAD, "{} MiB", peak >> 20);
    server.end().await;
}
