//! What a client's message costs, whatever it says: at most four times its size, and nothing of it is kept.
//!
//! Measured as the memory of the real process against what was sent, with a good request beside each bad one.

use mcp_host_tests::{ConfigFile, Http, HttpWire, PATIENCE, Plugin, Revision, StdioWire};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::chance::cases;

const GOOD: &str = "sample://a/plain";
/// What allocators, threads and buffers of connections take beside.
const BESIDE: u64 = 12 << 20;
/// The largest body, and the longest line.
const BODY: usize = 4 << 20;
const LINE: usize = 16 << 20;
/// Stands where a value is to be put.
const HOLE: &str = "@hole@";

fn config() -> ConfigFile {
    ConfigFile::new().server("extensions", vec!["sep-2093"]).plugin(Plugin::sample("a")).open()
}

/// Values that cost more than they seem to.
fn values(size: usize) -> Vec<(&'static str, String)> {
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

/// Messages with a hole.
fn holes(revision: &Revision) -> Vec<Value> {
    let meta = |params: Value| {
        let mut message = mcp_host_tests::request(revision, 7, "", params);
        message["params"].take()
    };
    let mut all = vec![
        ("ping", meta(json!({ "more": HOLE }))),
        ("resources/read", meta(json!({ "uri": HOLE }))),
        ("resources/read", meta(json!({ "uri": GOOD, "more": HOLE }))),
        ("resources/list", meta(json!({ "cursor": HOLE }))),
        ("completion/complete", meta(json!({ "ref": HOLE }))),
        (
            "completion/complete",
            meta(json!({
                "ref": { "type": "ref/resource", "uri": "sample://a/item/{group}/{number}" },
                "argument": { "name": "group", "value": "" }, "context": { "arguments": HOLE },
            })),
        ),
        ("nonsense", meta(json!({ "more": HOLE }))),
    ];
    match revision.has_initialize() {
        true => all.extend([
            ("resources/subscribe", json!({ "uri": HOLE })),
            ("logging/setLevel", json!({ "level": HOLE })),
            ("resources/read", json!({ "uri": GOOD, "_meta": HOLE })),
        ]),
        false => {
            let mut listen = meta(json!({ "notifications": { "resourceSubscriptions": HOLE } }));
            listen["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("1999-12-31");
            let mut claims = meta(json!({}));
            claims["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!(HOLE);
            all.extend([("subscriptions/listen", listen), ("server/discover", claims)]);
        }
    }
    let requests = all
        .into_iter()
        .map(|(method, params)| json!({ "jsonrpc": "2.0", "id": "b", "method": method, "params": params }));
    let others = [
        json!(HOLE),
        json!([HOLE]),
        json!({ "jsonrpc": "2.0", "id": HOLE, "method": "ping" }),
        json!({ "jsonrpc": "2.0", "id": "b", "method": HOLE }),
        json!({ "jsonrpc": "2.0", "id": "b", "result": HOLE }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": HOLE } }),
    ];
    requests.chain(others).collect()
}

fn filled(message: &Value, value: &str) -> String {
    message.to_string().replace(&json!(HOLE).to_string(), value)
}

fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": { "experimental": HOLE },
        "clientInfo": { "name": "n", "version": "1", "more": HOLE },
    }})
}

async fn good(wire: &mut HttpWire) {
    let answer = wire.request("resources/read", json!({ "uri": GOOD })).await;
    assert!(answer.result()["contents"][0]["text"].is_string(), "{answer:?}");
}

/// Posts that text in place of a message, and reads what comes back.
async fn post(wire: &mut HttpWire, text: String) -> (StatusCode, usize) {
    let response = timeout(PATIENCE, wire.prepared("ping", json!({})).body(text).send()).await.unwrap().unwrap();
    (response.status(), timeout(PATIENCE, response.bytes()).await.unwrap().unwrap().len())
}

#[tokio::test]
async fn a_body_costs_at_most_four_times_its_size_whatever_it_says() {
    let config = config().write();
    let server = Http::start(&config).await;
    let values = values(BODY - 4096);
    let revisions = [Revision::V_2025_03_26, Revision::V_2025_11_25, Revision::V_2026_07_28];
    for (first, revision) in revisions.into_iter().enumerate() {
        let mut wire = server.wire(revision.clone()).await;
        good(&mut wire).await;
        let before = server.most_resident();
        // Messages differ little between revisions.
        for (what, value) in values.iter().skip(first).step_by(3) {
            for message in holes(&revision) {
                let (status, length) = post(&mut wire, filled(&message, value)).await;
                assert!(length < 64 << 10, "{what} in {message}: {status}, {length} bytes come back");
                let peak = server.most_resident();
                let most = before + 4 * BODY as u64 + BESIDE;
                assert!(peak < most, "{what} in {message}: {before} bytes before, {peak} then");
            }
            good(&mut wire).await;
        }
    }
    server.end().await;
}

#[tokio::test]
async fn nothing_is_kept_of_what_a_client_says_of_itself() {
    const SESSIONS: usize = 40;
    let config = config().write();
    let server = Http::start(&config).await;
    let mut beside = server.wire(Revision::V_2025_11_25).await;
    let stranger = server.stranger(Revision::V_2025_11_25);
    let (_, value) = &values(BODY / 2 - 4096)[0];
    let mut before = 0;
    for session in 0..SESSIONS {
        let text = filled(&initialize(), value);
        let response = stranger.post(&initialize()).body(text).send().await.unwrap();
        assert!(response.headers().contains_key("mcp-session-id"), "{response:?}");
        drop(response.bytes().await);
        if session == 4 {
            before = server.memory();
        }
    }
    good(&mut beside).await;
    let after = server.memory();
    assert!(after < before + 4 * BODY as u64 + BESIDE, "{before} bytes with few sessions, {after} with many");
    server.end().await;
}

#[tokio::test]
async fn a_line_costs_at_most_four_times_its_size_whatever_it_says() {
    let config = config().write();
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = StdioWire::start(&config, revision.clone()).await;
        wire.request("resources/read", json!({ "uri": GOOD })).await.result();
        let before = wire.most_resident();
        let values = values(LINE - 4096);
        for (at, message) in holes(&revision).into_iter().enumerate() {
            // All of them with bodies; here it is the line that is another.
            let (what, value) = &values[at % values.len()];
            wire.send_line(&filled(&message, value)).await;
            wire.request("resources/read", json!({ "uri": GOOD })).await.result();
            let peak = wire.most_resident();
            let most = before + 4 * LINE as u64 + BESIDE;
            assert!(peak < most, "{what} in {message}: {before} bytes before, {peak} then");
        }
        wire.close();
        while wire.line().await.is_some() {}
        wire.ended().await;
    }
}

#[tokio::test]
async fn a_handshake_over_stdio_keeps_nothing_either() {
    let config = config().write();
    let mut wire = StdioWire::stranger(&config, Revision::V_2025_11_25);
    wire.send_line(&filled(&initialize(), &values(LINE / 2 - 4096)[0].1)).await;
    wire.answer(1).await.result();
    wire.send(&mcp_host_tests::initialized()).await;
    wire.request("resources/read", json!({ "uri": GOOD })).await.result();
    let (peak, kept) = (wire.most_resident(), wire.memory());
    let mut other = StdioWire::start(&config, Revision::V_2025_11_25).await;
    other.request("resources/read", json!({ "uri": GOOD })).await.result();
    let plain = other.most_resident();
    assert!(peak < plain + 4 * LINE as u64 + BESIDE, "{plain} bytes without it, {peak} with it");
    assert!(kept < plain + 2 * LINE as u64 + BESIDE, "{plain} bytes without it, {kept} are kept");
    for mut wire in [wire, other] {
        wire.close();
        wire.ended().await;
    }
}

#[tokio::test]
async fn a_message_of_many_resources_to_listen_to_is_acknowledged_in_part() {
    let config = config().write();
    let mut wire = StdioWire::start(&config, Revision::V_2026_07_28).await;
    let uris: Vec<_> = (0..200_000).map(|number| format!("sample://a/{number}")).collect();
    wire.ask("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": uris } })).await;
    let acknowledged = wire.notification("notifications/subscriptions/acknowledged").await;
    let accepted = acknowledged["params"]["notifications"]["resourceSubscriptions"].as_array().unwrap();
    assert_eq!(accepted.len(), 1024);
    wire.close();
    wire.ended().await;
}

#[tokio::test]
async fn an_unknown_method_is_answered_with_those_that_there_are() {
    let config = config().write();
    let server = Http::start(&config).await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut posts = server.wire(revision.clone()).await;
        let mut lines = StdioWire::start(&config, revision.clone()).await;
        for method in ["x/y", "tasks/list", "skills/list", "tools/list", &"m".repeat(1000)] {
            for answer in [posts.request(method, json!({})).await, lines.request(method, json!({})).await] {
                let message = answer.error()["message"].as_str().unwrap();
                assert_eq!(answer.code(), -32601, "{message}");
                assert!(message.starts_with("method not found: `"), "{message}");
                assert!(message.contains("resources/templates/list, resources/read"), "{message}");
                assert_eq!(message.contains("initialize"), revision.has_initialize(), "{message}");
                assert!(message.len() < 500, "{message}");
            }
        }
        lines.close();
        lines.ended().await;
    }
    server.end().await;
}

#[tokio::test]
async fn a_session_that_is_deleted_meanwhile_is_not_found() {
    let config = config().write();
    let server = Http::start(&config).await;
    for _ in 0..20 {
        let mut wire = server.wire(Revision::V_2025_11_25).await;
        let mut end = wire.prepared("ping", json!({})).build().unwrap();
        *end.method_mut() = Method::DELETE;
        let subscribing = (0..20).map(|_| wire.prepared("resources/subscribe", json!({ "uri": GOOD })).send());
        let subscribing: Vec<_> = subscribing.map(tokio::spawn).collect();
        assert_eq!(Client::new().execute(end).await.unwrap().status(), StatusCode::NO_CONTENT);
        for answer in subscribing {
            let status = timeout(PATIENCE, answer).await.unwrap().unwrap().unwrap().status();
            assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&status), "{status}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_host_that_is_not_one_name_is_refused() {
    let config = config().write();
    let server = Http::start(&config).await;
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
        timeout(PATIENCE, connection.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{host}: {answer}");
    }
    server.end().await;
}

#[tokio::test]
async fn bodies_that_never_come_whole_leave_room_for_others() {
    let config = config().http_limit("body", "1MiB").http_limit("body-memory", "4MiB").http_limit("client-share", "1/1");
    // Whatever else the machine does, no body is given up meanwhile.
    let config = config.http_limit("read-timeout", "10m").write();
    let server = Http::start(&config).await;
    let mut wire = server.wire(Revision::V_2026_07_28).await;
    let before = server.most_resident();
    let mut open = Vec::new();
    for _ in 0..32 {
        let mut connection = TcpStream::connect(server.address()).await.unwrap();
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
            Accept: application/json, text/event-stream\r\nContent-Length: 1048576\r\n\r\n";
        connection.write_all(head.as_bytes()).await.unwrap();
        // One that is refused may be closed before all of it was sent.
        let _ = connection.write_all(&vec![b' '; (1 << 20) - 1]).await;
        open.push(connection);
    }
    let large = || filled(&json!({ "x": HOLE }), &values(1 << 19)[1].1);
    while post(&mut wire, large()).await.0 != StatusCode::SERVICE_UNAVAILABLE {}
    good(&mut wire).await;
    let peak = server.most_resident();
    assert!(peak < before + (4 << 20) * 4 + BESIDE, "{before} bytes before, {peak} then");
    drop(open);
    while post(&mut wire, large()).await.0 == StatusCode::SERVICE_UNAVAILABLE {}
    server.end().await;
}

#[tokio::test]
async fn any_member_of_any_message_may_be_anything() {
    let config = config().write();
    let server = Http::start(&config).await;
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
        let mut wire = server.wire(revision.clone()).await;
        let mut lines = StdioWire::start(&config, revision.clone()).await;
        let mut runner = TestRunner::new(cases(64));
        for message in holes(&revision) {
            let value = any.new_tree(&mut runner).unwrap().current().to_string();
            let text = filled(&message, &value);
            let (status, length) = post(&mut wire, text.clone()).await;
            assert!(!status.is_server_error() && length < 64 << 10, "{status} to {text}");
            lines.send_line(&text).await;
        }
        good(&mut wire).await;
        lines.request("resources/read", json!({ "uri": GOOD })).await.result();
        lines.close();
        while lines.line().await.is_some() {}
        lines.ended().await;
    }
    server.end().await;
}
