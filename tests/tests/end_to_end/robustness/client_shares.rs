//! Fairness between clients of the same plugin: one client's failing requests affect only itself, and its calls leave
//! permits, queue places and memory for others.

use std::net::{IpAddr, Ipv4Addr};

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, RawHttp, Revision};
use serde_json::json;
use tokio::task::JoinSet;

const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// The number of concurrent readers of a failing resource, of one client.
const READERS: usize = 4;
/// The number of another client's reads in the meantime.
const READS: usize = 100;

fn greedy(server: &HttpServer) -> RawHttp {
    server.uninitialized(Revision::V_2026_07_28).from_address(GREEDY)
}

/// Reads a resource of the plugin, and returns its text or the message of the error.
async fn read(client: &mut RawHttp, path: &str) -> Result<String, String> {
    let answer = client.request("resources/read", json!({ "uri": format!("misbehaving://a/{path}") })).await;
    match answer.message.get("error") {
        Some(error) => Err(error["message"].as_str().unwrap().to_owned()),
        None => Ok(answer.result()["contents"][0]["text"].as_str().unwrap().to_owned()),
    }
}

#[tokio::test]
async fn what_makes_a_plugin_fail_is_refused_to_the_client_that_reads_it_and_others_notice_nothing() {
    for path in ["grow", "trap"] {
        let config = ConfigFile::new().plugin(Plugin::misbehaving("a")).allow_all().write();
        let server = HttpServer::start(&config).await;
        let mut readers = JoinSet::new();
        for _ in 0..READERS {
            let mut client = greedy(&server);
            readers.spawn(async move {
                loop {
                    let refused = read(&mut client, path).await.unwrap_err();
                    if refused.contains("it failed with this request several times, and would probably fail again; such requests are refused for") {
                        return refused;
                    }
                }
            });
        }
        let mut other = server.uninitialized(Revision::V_2026_07_28);
        for number in 0..READS {
            assert_eq!(read(&mut other, "good").await.as_deref(), Ok("good"), "read {number} beside {path}");
        }
        while let Some(refused) = readers.join_next().await {
            refused.unwrap();
        }
        // The failures are not counted for another client's same request, and other requests of this client are
        // answered.
        let failure = read(&mut other, path).await.unwrap_err();
        assert!(!failure.contains("several times"), "{failure}");
        assert_eq!(read(&mut greedy(&server), "good").await.as_deref(), Ok("good"));
        let log = server.end().await.log;
        assert!(!log.contains("circuit breaker opened"), "{log}");
    }
}

#[tokio::test]
async fn a_client_that_sends_more_than_a_plugin_can_take_leaves_permits_and_places_for_others() {
    let plugin = Plugin::misbehaving("a").limit("deadline", "10m").limit("queue-timeout", "1m");
    let server = HttpServer::start(&ConfigFile::new().plugin(plugin).allow_all().write()).await;
    let mut calls = JoinSet::new();
    // Half of the 8 permits, half of the 64 queue places, and one more.
    for _ in 0..4 + 32 + 1 {
        let mut client = greedy(&server);
        calls.spawn(async move { read(&mut client, "slow?ms=600000").await });
    }
    let refused = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(refused.contains("too many of your requests wait for it"), "{refused}");
    server.log_lines("a slow read has begun", 4).await;
    let mut other = server.uninitialized(Revision::V_2026_07_28);
    for number in 0..READS {
        assert_eq!(read(&mut other, "good").await.as_deref(), Ok("good"), "read {number}");
    }
    calls.shutdown().await;
    server.end().await;
}
