//! The cost of a client's message, whatever its content: at most four times its size, and nothing is retained.
//!
//! The test compares the memory of the real process with the bytes sent, with a good request after each bad one.

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, RawHttp, RawStdio, Revision, TIMEOUT};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::proptest_config::with_cases;

const GOOD: &str = "sample://a/plain";
/// The memory of allocators, threads and connection buffers.
const OVERHEAD: u64 = 12 << 20;
/// The maximum size of a body, and of a line.
const MAX_BODY: usize = 4 << 20;
const MAX_LINE: usize = 16 << 20;
/// The placeholder of a value.
const PLACEHOLDER: &str = "@hole@";

fn config() -> ConfigFile {
    ConfigFile::new().server("extensions", vec!["sep-2093"]).plugin(Plugin::sample("a")).allow_all()
}

/// Values that cost more than their size suggests.
fn costly_values(size: usize) -> Vec<(&'static str, String)> {
    let list = |unit: &str| format!("[{}{unit}]", format!("{unit},").repeat(size / (unit.len() + 1)));
    let string = |unit: &str| format!("\"{}\"", unit.repeat(size / unit.len()));
    vec![
        ("objects", format!("{{\"x\":{{\"y\":{}}}}}", list("{\"\":0}"))),
        ("zeros", list("0")),
        ("empty strings", list("\"\"")),
        ("one member again and again", format!("{{{}\"\":0}}", "\"\":0,".repeat(size / 5))),
        ("deep objects", format!("{}0{}", "{\"\":".repeat(size / 5), "}".repeat(size / 5))),
        ("a string that is shown escaped", string("\u{7f}")),
        ("a string of escapes", string("\\u0001")),
        ("a long key of escapes", format!("{{{}:0}}", string("\\u0001"))),
    ]
}

/// Messages with a placeholder.
fn messages_with_placeholder(revision: &Revision) -> Vec<Value> {
    let meta = |params: Value| {
        let mut message = mcp_host_tests::request(revision, 7, "", params);
        message["params"].take()
    };
    let mut all = vec![
        ("ping", meta(json!({ "more": PLACEHOLDER }))),
        ("resources/read", meta(json!({ "uri": PLACEHOLDER }))),
        ("resources/read", meta(json!({ "uri": GOOD, "more": PLACEHOLDER }))),
        ("resources/list", meta(json!({ "cursor": PLACEHOLDER }))),
        ("completion/complete", meta(json!({ "ref": PLACEHOLDER }))),
        (
            "completion/complete",
            meta(json!({
                "ref": { "type": "ref/resource", "uri": "sample://a/item/{group}/{number}" },
                "argument": { "name": "group", "value": "" }, "context": { "arguments": PLACEHOLDER },
            })),
        ),
        ("nonsense", meta(json!({ "more": PLACEHOLDER }))),
    ];
    match revision.has_initialize() {
        true => all.extend([
            ("resources/subscribe", json!({ "uri": PLACEHOLDER })),
            ("logging/setLevel", json!({ "level": PLACEHOLDER })),
            ("resources/read", json!({ "uri": GOOD, "_meta": PLACEHOLDER })),
        ]),
        false => {
            let mut listen = meta(json!({ "notifications": { "resourceSubscriptions": PLACEHOLDER } }));
            listen["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("1999-12-31");
            let mut claims = meta(json!({}));
            claims["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!(PLACEHOLDER);
            all.extend([("subscriptions/listen", listen), ("server/discover", claims)]);
        }
    }
    let requests = all
        .into_iter()
        .map(|(method, params)| json!({ "jsonrpc": "2.0", "id": "b", "method": method, "params": params }));
    let others = [
        json!(PLACEHOLDER),
        json!([PLACEHOLDER]),
        json!({ "jsonrpc": "2.0", "id": PLACEHOLDER, "method": "ping" }),
        json!({ "jsonrpc": "2.0", "id": "b", "method": PLACEHOLDER }),
        json!({ "jsonrpc": "2.0", "id": "b", "result": PLACEHOLDER }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": PLACEHOLDER } }),
    ];
    requests.chain(others).collect()
}

fn fill_placeholder(message: &Value, value: &str) -> String {
    message.to_string().replace(&json!(PLACEHOLDER).to_string(), value)
}

fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": { "experimental": PLACEHOLDER },
        "clientInfo": { "name": "n", "version": "1", "more": PLACEHOLDER },
    }})
}

async fn assert_good_read(wire: &mut RawHttp) {
    let answer = wire.request("resources/read", json!({ "uri": GOOD })).await;
    assert!(answer.result()["contents"][0]["text"].is_string(), "{answer:?}");
}

/// Posts a text as a message, and reads the response.
async fn post(wire: &mut RawHttp, text: String) -> (StatusCode, usize) {
    let response = timeout(TIMEOUT, wire.request_builder("ping", json!({})).body(text).send()).await.unwrap().unwrap();
    (response.status(), timeout(TIMEOUT, response.bytes()).await.unwrap().unwrap().len())
}

#[tokio::test]
async fn a_body_costs_at_most_four_times_its_size_whatever_it_says() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let values = costly_values(MAX_BODY - 4096);
    let revisions = [Revision::V_2025_03_26, Revision::V_2025_11_25, Revision::V_2026_07_28];
    for (first, revision) in revisions.into_iter().enumerate() {
        let mut wire = server.raw_client(revision.clone()).await;
        assert_good_read(&mut wire).await;
        let before = server.peak_rss();
        // Messages differ little between revisions.
        for (what, value) in values.iter().skip(first).step_by(3) {
            for message in messages_with_placeholder(&revision) {
                let (status, length) = post(&mut wire, fill_placeholder(&message, value)).await;
                assert!(length < 64 << 10, "{what} in {message}: {status}, {length} bytes come back");
                let peak = server.peak_rss();
                let most = before + 4 * MAX_BODY as u64 + OVERHEAD;
                assert!(peak < most, "{what} in {message}: {before} bytes before, {peak} then");
            }
            assert_good_read(&mut wire).await;
        }
    }
    server.end().await;
}

#[tokio::test]
async fn nothing_is_kept_of_what_a_client_says_of_itself() {
    const SESSIONS: usize = 40;
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let mut beside = server.raw_client(Revision::V_2025_11_25).await;
    let stranger = server.uninitialized(Revision::V_2025_11_25);
    let (_, value) = &costly_values(MAX_BODY / 2 - 4096)[0];
    let mut before = 0;
    for session in 0..SESSIONS {
        let text = fill_placeholder(&initialize(), value);
        let response = stranger.post(&initialize()).body(text).send().await.unwrap();
        assert!(response.headers().contains_key("mcp-session-id"), "{response:?}");
        drop(response.bytes().await);
        if session == 4 {
            before = server.rss();
        }
    }
    assert_good_read(&mut beside).await;
    let after = server.rss();
    assert!(after < before + 4 * MAX_BODY as u64 + OVERHEAD, "{before} bytes with few sessions, {after} with many");
    server.end().await;
}

#[tokio::test]
async fn a_line_costs_at_most_four_times_its_size_whatever_it_says() {
    let config = config().write();
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = RawStdio::start(&config, revision.clone()).await;
        wire.request("resources/read", json!({ "uri": GOOD })).await.result();
        let before = wire.peak_rss();
        let values = costly_values(MAX_LINE - 4096);
        for (at, message) in messages_with_placeholder(&revision).into_iter().enumerate() {
            // All messages were tested in bodies; here, only the line differs.
            let (what, value) = &values[at % values.len()];
            wire.send_line(&fill_placeholder(&message, value)).await;
            wire.request("resources/read", json!({ "uri": GOOD })).await.result();
            let peak = wire.peak_rss();
            let most = before + 4 * MAX_LINE as u64 + OVERHEAD;
            assert!(peak < most, "{what} in {message}: {before} bytes before, {peak} then");
        }
        wire.close_stdin();
        while wire.line().await.is_some() {}
        wire.wait_clean_exit().await;
    }
}

#[tokio::test]
async fn a_handshake_over_stdio_keeps_nothing_either() {
    let config = config().write();
    let mut wire = RawStdio::uninitialized(&config, Revision::V_2025_11_25);
    wire.send_line(&fill_placeholder(&initialize(), &costly_values(MAX_LINE / 2 - 4096)[0].1)).await;
    wire.response_to(1).await.result();
    wire.send(&mcp_host_tests::initialized_notification()).await;
    wire.request("resources/read", json!({ "uri": GOOD })).await.result();
    let (peak, kept) = (wire.peak_rss(), wire.rss());
    let mut other = RawStdio::start(&config, Revision::V_2025_11_25).await;
    other.request("resources/read", json!({ "uri": GOOD })).await.result();
    let plain = other.peak_rss();
    assert!(peak < plain + 4 * MAX_LINE as u64 + OVERHEAD, "{plain} bytes without it, {peak} with it");
    assert!(kept < plain + 2 * MAX_LINE as u64 + OVERHEAD, "{plain} bytes without it, {kept} are kept");
    for wire in [wire, other] {
        wire.end().await;
    }
}

#[tokio::test]
async fn a_message_of_many_resources_to_listen_to_is_acknowledged_in_part() {
    let config = config().write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let uris: Vec<_> = (0..200_000).map(|number| format!("sample://a/{number}")).collect();
    wire.send_request("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": uris } })).await;
    let acknowledged = wire.notification("notifications/subscriptions/acknowledged").await;
    let accepted = acknowledged["params"]["notifications"]["resourceSubscriptions"].as_array().unwrap();
    assert_eq!(accepted.len(), 1024);
    wire.end().await;
}

#[tokio::test]
async fn an_unknown_method_is_answered_with_those_that_there_are() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut posts = server.raw_client(revision.clone()).await;
        let mut lines = RawStdio::start(&config, revision.clone()).await;
        for method in ["x/y", "tasks/list", "skills/list", "tools/list", &"m".repeat(1000)] {
            for answer in [posts.request(method, json!({})).await, lines.request(method, json!({})).await] {
                let message = answer.error()["message"].as_str().unwrap();
                assert_eq!(answer.error_code(), -32601, "{message}");
                assert!(message.starts_with("method not found: `"), "{message}");
                assert!(message.contains("resources/templates/list, resources/read"), "{message}");
                assert_eq!(message.contains("initialize"), revision.has_initialize(), "{message}");
                assert!(message.len() < 500, "{message}");
            }
        }
        lines.end().await;
    }
    server.end().await;
}

#[tokio::test]
async fn a_session_that_is_deleted_meanwhile_is_not_found() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    for _ in 0..20 {
        let mut wire = server.raw_client(Revision::V_2025_11_25).await;
        let mut end = wire.request_builder("ping", json!({})).build().unwrap();
        *end.method_mut() = Method::DELETE;
        let subscribing = (0..20).map(|_| wire.request_builder("resources/subscribe", json!({ "uri": GOOD })).send());
        let subscribing: Vec<_> = subscribing.map(tokio::spawn).collect();
        assert_eq!(Client::new().execute(end).await.unwrap().status(), StatusCode::NO_CONTENT);
        for answer in subscribing {
            let status = timeout(TIMEOUT, answer).await.unwrap().unwrap().unwrap().status();
            assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&status), "{status}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_host_that_is_not_one_name_is_refused() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    for host in [
        "Host: evil.example@localhost",
        "Host: localhost@evil.example",
        "Host: localhost:80:80",
        "Host: localhost\r\nHost: localhost",
        "Host: localhost\r\nHost: evil.example",
        "Host:",
        "X: y",
    ] {
        let mut connection = TcpStream::connect(server.address()).await.unwrap();
        let head = format!("POST /mcp HTTP/1.1\r\n{host}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(TIMEOUT, connection.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{host}: {answer}");
    }
    server.end().await;
}

#[tokio::test]
async fn bodies_that_never_come_whole_leave_room_for_others() {
    let config =
        config().http_limit("body", "1MiB").http_limit("body-memory", "4MiB").http_limit("client-share", "1/1");
    // The timeout is long, so that no body is dropped on a slow machine.
    let config = config.http_limit("read-timeout", "10m").write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    let before = server.peak_rss();
    let send_unfinished = async || {
        let mut connection = TcpStream::connect(server.address()).await.unwrap();
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
            Accept: application/json, text/event-stream\r\nContent-Length: 1048576\r\n\r\n";
        connection.write_all(head.as_bytes()).await.unwrap();
        // A rejected connection may be closed before everything was sent.
        let _ = connection.write_all(&vec![b' '; (1 << 20) - 1]).await;
        connection
    };
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(send_unfinished().await);
    }
    let large = || fill_placeholder(&json!({ "x": PLACEHOLDER }), &costly_values(1 << 19)[1].1);
    // Bodies that compete for the last room may all be rejected.
    while post(&mut wire, large()).await.0 != StatusCode::SERVICE_UNAVAILABLE {
        open.push(send_unfinished().await);
    }
    assert_good_read(&mut wire).await;
    let peak = server.peak_rss();
    assert!(peak < before + (4 << 20) * 4 + OVERHEAD, "{before} bytes before, {peak} then");
    drop(open);
    while post(&mut wire, large()).await.0 == StatusCode::SERVICE_UNAVAILABLE {}
    server.end().await;
}

#[tokio::test]
async fn any_member_of_any_message_may_be_anything() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[\\PC]{0,20}".prop_map(Value::from),
        Just(json!("x".repeat(100_000)))
    ];
    let any = leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z/_]{0,8}", inner, 0..6).prop_map(|members| json!(members)),
        ]
    });
    for revision in [Revision::V_2025_06_18, Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = server.raw_client(revision.clone()).await;
        let mut lines = RawStdio::start(&config, revision.clone()).await;
        let mut runner = TestRunner::new(with_cases(64));
        for message in messages_with_placeholder(&revision) {
            let value = any.new_tree(&mut runner).unwrap().current().to_string();
            let text = fill_placeholder(&message, &value);
            let (status, length) = post(&mut wire, text.clone()).await;
            assert!(!status.is_server_error() && length < 64 << 10, "{status} to {text}");
            lines.send_line(&text).await;
        }
        assert_good_read(&mut wire).await;
        lines.request("resources/read", json!({ "uri": GOOD })).await.result();
        lines.close_stdin();
        while lines.line().await.is_some() {}
        lines.wait_clean_exit().await;
    }
    server.end().await;
}
