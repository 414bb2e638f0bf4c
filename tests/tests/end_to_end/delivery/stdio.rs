//! A client over stdio that does not read.

use mcp_host_tests::{Revision, StdioWire};
use rustix::process::Signal;
use serde_json::json;

use super::{BESIDE, BUDGET, LARGEST, config};

/// A server with many answers that nobody reads.
async fn unread() -> (mcp_host_tests::WrittenConfig, StdioWire) {
    let config = config().write();
    let mut server = StdioWire::start(&config, Revision::V_2025_11_25).await;
    // More than are taken at once: the last of them are not even read.
    for _ in 0..70 {
        server.ask("resources/read", json!({ "uri": "sizes:///text/1000000" })).await;
    }
    (config, server)
}

#[tokio::test]
async fn the_server_ends_with_its_input_although_nobody_reads_its_output() {
    let (_config, mut server) = unread().await;
    server.close();
    let ended = server.ended_unread().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("does not read its answers"), "{}", ended.log);
}

#[tokio::test]
async fn the_server_ends_by_a_signal_although_nobody_reads_its_output() {
    for signal in [Signal::TERM, Signal::INT] {
        let (_config, server) = unread().await;
        server.signal(signal);
        let ended = server.ended_unread().await;
        assert_eq!(ended.code, Some(1), "{}", ended.log);
    }
}

#[tokio::test]
async fn answers_that_nobody_reads_take_no_more_memory_than_the_budget() {
    let config = config().write();
    let mut server = StdioWire::start(&config, Revision::V_2025_11_25).await;
    for _ in 0..8 {
        server.ask("resources/read", json!({ "uri": LARGEST })).await;
    }
    let last = server.ask("resources/read", json!({ "uri": "sample://good/plain" })).await;
    // It waits behind what is written before it, so once it is there everything has been through.
    assert!(server.answer(last).await.result()["contents"].is_array());
    let peak = server.most_resident();
    assert!(peak < BUDGET + BESIDE, "{} MiB", peak >> 20);
    server.close();
    server.ended().await;
}
