//! Graceful shutdown: requests in flight are answered first.

use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, HttpExample, HttpServer, Plugin, RawHttp, RawStdio, Revision};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The drain timeout for requests in flight.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
const SLOW_URI: &str = "misbehaving://slow/slow?ms=300";

fn slow_config() -> ConfigFile {
    let flooding = Plugin::misbehaving("slow").config("list", "flood-stdout");
    ConfigFile::new().plugin(flooding.limit("cpu", "30s").limit("deadline", "30s")).allow_all()
}

fn text(result: &Value) -> &Value {
    &result["contents"][0]["text"]
}

#[tokio::test]
async fn a_signal_ends_stdio_after_the_read_in_flight_was_answered() {
    let config = slow_config().write();
    for signal in [Signal::INT, Signal::TERM] {
        for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
            let mut wire = RawStdio::start(&config, revision).await;
            let slow = wire.send_request("resources/read", json!({ "uri": SLOW_URI })).await;
            wire.log_line("a slow read has begun").await;
            wire.signal(signal);
            wire.log_line("graceful shutdown").await;
            assert_eq!(text(wire.response_to(slow).await.result()), "slow");
            wire.wait_clean_exit().await;
        }
    }
}

#[tokio::test]
async fn the_end_of_input_ends_stdio_after_the_read_in_flight_was_answered() {
    let config = slow_config().write();
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = RawStdio::start(&config, revision).await;
        let slow = wire.send_request("resources/read", json!({ "uri": SLOW_URI })).await;
        wire.close_stdin();
        assert_eq!(text(wire.response_to(slow).await.result()), "slow");
        wire.wait_clean_exit().await;
    }
}

#[tokio::test]
async fn a_client_that_goes_away_before_it_says_hello_ends_stdio_in_order() {
    let config = slow_config().write();
    let wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    wire.end().await;
}

#[tokio::test]
async fn a_signal_ends_http_after_the_read_in_flight_was_answered() {
    let config = slow_config().write();
    for signal in [Signal::INT, Signal::TERM] {
        for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
            let server = HttpServer::start(&config).await;
            let mut wire = server.raw_client(revision).await;
            let slow = tokio::spawn(async move { wire.request("resources/read", json!({ "uri": SLOW_URI })).await });
            server.log_line("a slow read has begun").await;
            server.signal(signal);
            server.log_line("graceful shutdown").await;
            assert_eq!(text(slow.await.unwrap().result()), "slow");
            server.wait_clean_exit().await;
        }
    }
}

#[tokio::test]
async fn a_request_behind_the_one_in_flight_is_not_answered_any_more() {
    let config = slow_config().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.uninitialized(Revision::V_2026_07_28);
    let mut slow = |uri: &str| {
        let request = wire.request_builder("resources/read", json!({ "uri": uri })).build().unwrap();
        let mut text = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n".to_owned();
        for (name, value) in request.headers() {
            text.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
        let body = str::from_utf8(request.body().unwrap().as_bytes().unwrap()).unwrap();
        format!("{text}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    let (first, second) = (slow(SLOW_URI), slow("misbehaving://slow/slow?ms=301"));
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    connection.write_all(format!("{first}{second}").as_bytes()).await.unwrap();
    server.log_line("a slow read has begun").await;
    server.signal(Signal::TERM);
    let mut answered = Vec::new();
    // The connection ends. It may be reset, because the second request was not read.
    while connection.read_buf(&mut answered).await.is_ok_and(|read| read > 0) {}
    let answered = String::from_utf8(answered).unwrap();
    assert_eq!(answered.matches("HTTP/1.1 200 OK").count(), 1, "{answered}");
    assert!(answered.contains("connection: close\r\n") && answered.ends_with('}'), "{answered}");
    server.wait_clean_exit().await;
}

#[tokio::test]
async fn a_client_that_waits_for_notifications_does_not_keep_http_from_ending() {
    let config = slow_config().write();
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2025_11_25).await;
    client.ping().await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn connections_on_which_nothing_is_asked_do_not_keep_http_from_ending() {
    let config = slow_config().write();
    for begun in ["", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"] {
        let server = HttpServer::start(&config).await;
        let mut connection = TcpStream::connect(server.address()).await.unwrap();
        connection.write_all(begun.as_bytes()).await.unwrap();
        if !begun.is_empty() {
            connection.read_u8().await.unwrap();
        }
        server.end().await;
    }
}

#[tokio::test]
async fn a_request_that_never_comes_whole_does_not_keep_http_from_ending() {
    let config = slow_config().write();
    let server = HttpServer::start(&config).await;
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    connection.write_all(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n").await.unwrap();
    // After this answer, everything written before has been read.
    server.raw_client(Revision::V_2026_07_28).await.request("server/discover", json!({})).await.result();
    server.end().await;
}

#[tokio::test]
async fn a_request_whose_body_never_comes_whole_does_not_keep_http_from_ending() {
    let config = slow_config().write();
    let server = HttpServer::start(&config).await;
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n";
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut line = [0; "HTTP/1.1 100 Continue".len()];
    connection.read_exact(&mut line).await.unwrap();
    assert_eq!(line, *b"HTTP/1.1 100 Continue", "the server is waiting for the body");
    connection.write_all(b"{").await.unwrap();
    let signaled = Instant::now();
    server.end().await;
    assert!(signaled.elapsed() < DRAIN_TIMEOUT / 2, "{:?}", signaled.elapsed());
}

#[tokio::test]
async fn standard_output_carries_protocol_only_while_a_guest_floods_its_own() {
    let config = slow_config().write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for _ in 0..3 {
        // `RawStdio` fails on every line that is not a message.
        let listed = wire.request("resources/list", json!({})).await;
        assert_eq!(listed.result()["resources"][0]["uri"], "misbehaving://slow/good");
    }
    wire.end().await;
}

#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let config = ConfigFile::new().plugin(Plugin::misbehaving("slow").limit("deadline", "60s")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wire.send_request("resources/read", json!({ "uri": "misbehaving://slow/slow?ms=50000" })).await;
    wire.log_line("a slow read has begun").await;
    wire.signal(Signal::TERM);
    wire.log_line("a second signal terminates at once").await;
    wire.signal(Signal::TERM);
    assert_eq!(wire.wait_exit().await.code, Some(143));
}

#[tokio::test]
async fn an_application_that_embeds_the_host_ends_while_a_client_waits_for_notifications() {
    let application = HttpExample::start("embed-axum").await;
    let ada = RawHttp::start_with_token(application.url(), Revision::V_2025_11_25, "token-of-ada").await;
    let mut stream = ada.event_stream().await;
    application.end_by(Signal::INT).await;
    while stream.chunk().await.unwrap().is_some() {}
}
