//! Backpressure: pending responses are bounded in bytes, a stalled response is ended, and one client does not use up
//! the room of others.

mod client_share;
mod page_size;
mod principal_share;
mod stdio;

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http_body_util::BodyExt;
use mcp_host_tests::{ConfigFile, Connection, HttpServer, Plugin, Revision, TIMEOUT, fixture, request, wait_until};
use reqwest::{RequestBuilder, StatusCode, Version};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};

const MIB: u64 = 1 << 20;

/// The default limit of pending bytes per connection.
const BUDGET: u64 = 64 * MIB;
/// The memory that a server uses in addition: its own, and the calls in flight, each with its guest's memory and the
/// copy of its response.
const OVERHEAD: u64 = 192 * MIB;

/// The guest with responses of any size, two at a time, and a good plugin.
fn config() -> ConfigFile {
    let sizes = Plugin::new("sizes", &fixture("sizes"), "sizes:///");
    let sizes =
        sizes.limit("memory", "256MiB").limit("concurrency", 2).limit("queue-timeout", "1m").limit("deadline", "1m");
    ConfigFile::new().plugin(sizes.limit("cpu", "1m")).plugin(Plugin::sample("good")).allow_all()
}

fn read(server: &HttpServer, uri: &str) -> RequestBuilder {
    server.uninitialized(Revision::V_2026_07_28).request_builder("resources/read", json!({ "uri": uri }))
}

/// A response of 16 MiB that becomes 96 MiB of JSON.
const LARGE_URI: &str = "sizes:///control/16777216";

async fn assert_good_plugin_answers(server: &HttpServer) {
    let mut connection = Connection::plain(server.address(), Version::HTTP_2).await;
    let answer = connection.send(read(server, "sample://good/plain")).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let answer: Value = serde_json::from_slice(answer.body()).unwrap();
    assert!(answer["result"]["contents"][0]["text"].is_string(), "{answer}");
}

#[tokio::test]
async fn answers_that_nobody_reads_take_no_more_memory_than_the_budget() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    assert_good_plugin_answers(&server).await;
    let connection = Connection::with_window(server.address(), 0).await;
    let mut answers: FuturesUnordered<_> =
        (0..30).map(|_| connection.start_request(read(&server, LARGE_URI))).collect();
    let mut unread = Vec::new();
    // The number of responses for which there is room; the others wait.
    while unread.len() < 3 {
        unread.push(timeout(TIMEOUT, answers.next()).await.unwrap().unwrap());
    }
    assert_good_plugin_answers(&server).await;
    let peak = server.peak_rss();
    assert!(peak < BUDGET + OVERHEAD, "{} MiB", peak / MIB);
    drop((answers, unread, connection));
    server.end().await;
}

#[tokio::test]
async fn results_of_tools_that_nobody_reads_take_no_more_memory_than_the_budget() {
    let config = config().server("tools", vec!["read"]).server("tool-structured-content", true).write();
    let server = HttpServer::start(&config).await;
    assert_good_plugin_answers(&server).await;
    let connection = Connection::with_window(server.address(), 0).await;
    let arguments = json!({ "uri": LARGE_URI, "max_bytes": 16 << 20 });
    let params = json!({ "name": "read_resource", "arguments": arguments });
    let call = || server.uninitialized(Revision::V_2026_07_28).request_builder("tools/call", params.clone());
    let mut answers: FuturesUnordered<_> = (0..30).map(|_| connection.start_request(call())).collect();
    // Each response holds its text twice. The others wait.
    let unread = timeout(TIMEOUT, answers.next()).await.unwrap().unwrap();
    assert_eq!(unread.status(), StatusCode::OK);
    assert_good_plugin_answers(&server).await;
    let peak = server.peak_rss();
    assert!(peak < BUDGET + OVERHEAD, "{} MiB", peak / MIB);
    drop((answers, unread, connection));
    server.end().await;
}

#[tokio::test]
async fn an_answer_that_makes_no_progress_is_ended_and_its_memory_given_back() {
    let config = config().http_limit("write-timeout", "1s").write();
    let server = HttpServer::start(&config).await;
    assert_good_plugin_answers(&server).await;
    for window in [0, 1000] {
        let connection = Connection::with_window(server.address(), window).await;
        let begun: Vec<_> = (0..3).map(|_| tokio::spawn(connection.start_request(read(&server, LARGE_URI)))).collect();
        let mut ended = Vec::new();
        for answer in begun {
            let answer = timeout(TIMEOUT, answer).await.unwrap().unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            ended.push(answer.into_body());
        }
        for mut body in ended {
            let reset = async {
                // Data that arrived before the end are still read, which enlarges the window again.
                while let Some(Ok(_)) = body.frame().await {}
            };
            // A body that ended in order would have 96 MiB.
            timeout(TIMEOUT, reset).await.expect("the stream is reset");
        }
        assert_good_plugin_answers(&server).await;
    }
    wait_until("the memory is given back", || server.rss() < 100 * MIB).await;
    server.end().await;
}

#[tokio::test]
async fn a_client_of_http_1_that_reads_nothing_is_disconnected() {
    let config = config().http_limit("write-timeout", "4s").write();
    let server = HttpServer::start(&config).await;
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    let body = request(&Revision::V_2026_07_28, 1, "resources/read", json!({ "uri": LARGE_URI })).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Type: application/json\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: resources/read\r\nMcp-Name: {LARGE_URI}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all((head + &body).as_bytes()).await.unwrap();
    let mut status = [0; 12];
    connection.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    let client = connection.local_addr().unwrap();
    wait_until("the connection is closed", || !server.is_connected_to(client)).await;
    assert_good_plugin_answers(&server).await;
    server.end().await;
}

#[tokio::test]
async fn a_slow_reader_gets_its_answer() {
    let config = config().http_limit("write-timeout", "4s").write();
    let server = HttpServer::start(&config).await;
    let connection = Connection::with_window(server.address(), 2000).await;
    let answer = timeout(TIMEOUT, connection.start_request(read(&server, "sizes:///text/30000"))).await.unwrap();
    let (mut body, mut length) = (answer.into_body(), 0);
    // The response takes a multiple of the stall timeout, but never stalls for that long.
    let mut pace = interval(Duration::from_millis(600));
    while let Some(frame) = timeout(TIMEOUT, body.frame()).await.unwrap() {
        length += frame.expect("it goes on").data_ref().map_or(0, |data| data.len());
        pace.tick().await;
    }
    assert!(length > 30_000, "{length}");
    server.end().await;
}

#[tokio::test]
async fn a_fast_reader_of_many_large_answers_at_once_gets_them_all() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let connection = Connection::with_window(server.address(), 1 << 20).await;
    let begun: Vec<_> = (0..12)
        .map(|_| {
            let answer = connection.start_request(read(&server, "sizes:///text/16000000"));
            tokio::spawn(async move { answer.await.into_body().collect().await.expect("it is whole").to_bytes() })
        })
        .collect();
    for answer in begun {
        let answer = timeout(TIMEOUT, answer).await.unwrap().unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["result"]["contents"][0]["text"].as_str().unwrap_or_default().len(), 16_000_000);
    }
    let peak = server.peak_rss();
    assert!(peak < BUDGET + OVERHEAD, "{} MiB", peak / MIB);
    server.end().await;
}

#[tokio::test]
async fn an_answer_that_there_is_never_room_for_is_refused() {
    let config = config().http_limit("response-memory-per-connection", "1MiB").write();
    let server = HttpServer::start(&config).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut connection = Connection::plain(server.address(), version).await;
        let refused = connection.send(read(&server, "sizes:///text/2000000")).await;
        let refused: Value = serde_json::from_slice(refused.body()).unwrap();
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["data"]["kind"]),
            (&json!(-32603), &json!("unavailable"))
        );
        assert!(refused["error"]["message"].as_str().unwrap().contains("response-memory-per-connection"), "{refused}");
        let answer = connection.send(read(&server, "sizes:///text/500000")).await;
        assert!(answer.body().len() > 500_000);
    }
    server.end().await;
}
