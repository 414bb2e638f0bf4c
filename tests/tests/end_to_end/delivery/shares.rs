//! One client takes its share, and others have room.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mcp_host_tests::{Http, HttpWire, PATIENCE, Revision, hello, request};
use reqwest::{Response, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::config;

/// Two addresses of this machine.
const CLIENTS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))];

/// A connection from that address, if the server takes it.
async fn connection(server: &Http, from: IpAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let server: SocketAddr = server.address().parse().unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    // One that is closed at once may already be reset.
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let answered = timeout(PATIENCE, stream.read_u8()).await.expect("it is answered or closed");
    answered.is_ok().then_some(stream)
}

#[tokio::test]
async fn one_address_does_not_take_all_connections() {
    let config = config().http_limit("connections", 16).write();
    let server = Http::start(&config).await;
    let mut open = Vec::new();
    for _ in 0..15 {
        open.push(connection(&server, CLIENTS[0]).await.expect("it is within its share"));
    }
    assert!(connection(&server, CLIENTS[0]).await.is_none(), "it has its share");
    server.log_line("its client has its share").await;
    assert!(connection(&server, CLIENTS[1]).await.is_some(), "there is room for others");
    drop(open);
    server.end().await;
}

async fn sent(request: reqwest::RequestBuilder) -> Response {
    timeout(PATIENCE, request.send()).await.expect("an answer in time").expect("the server answers")
}

#[tokio::test]
async fn one_address_does_not_take_all_streams_of_events() {
    let config = config().http_limit("streams", 2).http_limit("client-share", "1/2").write();
    let server = Http::start(&config).await;
    let listen = async |from| {
        let mut wire = server.stranger(Revision::V_2026_07_28).from_address(from);
        let filter = json!({ "notifications": { "resourcesListChanged": true } });
        sent(wire.prepared("subscriptions/listen", filter)).await
    };
    let first = listen(CLIENTS[0]).await;
    assert_eq!(first.status(), StatusCode::OK);
    let refused = listen(CLIENTS[0]).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(listen(CLIENTS[1]).await.status(), StatusCode::OK);
    drop(first);
    server.end().await;
}

#[tokio::test]
async fn streams_that_are_open_do_not_keep_requests_from_being_answered() {
    let config = config().http_limit("streams", 1).write();
    let server = Http::start(&config).await;
    let revision = || Revision::V_2025_11_25;
    let mut first = HttpWire::start(server.url(), revision()).await;
    let events = first.events().await;
    let mut second = HttpWire::start(server.url(), revision()).await;
    for wire in [&mut first, &mut second] {
        wire.request("ping", json!({})).await.result();
        let subscribing = sent(wire.prepared("resources/subscribe", json!({ "uri": "sample://good/plain" }))).await;
        assert_eq!(subscribing.status(), StatusCode::OK, "what it says does not matter");
        wire.request("resources/list", json!({})).await.result();
        let listing = sent(wire.prepared("tools/list", json!({}))).await;
        assert_ne!(listing.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    let mut stranger = server.stranger(Revision::V_2026_07_28);
    let filter = json!({ "notifications": { "resourcesListChanged": true } });
    let refused = sent(stranger.prepared("subscriptions/listen", filter)).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(events);
    server.end().await;
}

/// A body of 1 MiB that lacks its last byte, from that address.
async fn unfinished(server: &Http, from: IpAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let server: SocketAddr = server.address().parse().unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    let head =
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // One that is refused may be closed before all of it was sent.
    let _ = stream.write_all(&vec![b' '; (1 << 20) - 1]).await;
    stream
}

#[tokio::test]
async fn one_address_does_not_take_all_room_for_bodies() {
    let config = config().http_limit("body", "1MiB").http_limit("body-memory", "4MiB").http_limit("client-share", "1/2");
    // Whatever else the machine does, no body is given up meanwhile.
    let config = config.http_limit("read-timeout", "10m").write();
    let server = Http::start(&config).await;
    let large = async |from| {
        let wire = server.stranger(Revision::V_2026_07_28).from_address(from);
        let mut message = request(&Revision::V_2026_07_28, 1, "resources/list", json!({}));
        message["params"]["more"] = json!("x".repeat(900 << 10));
        sent(wire.post(&message)).await.status()
    };
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(unfinished(&server, CLIENTS[0]).await);
    }
    while large(CLIENTS[0]).await != StatusCode::SERVICE_UNAVAILABLE {}
    assert_eq!(large(CLIENTS[1]).await, StatusCode::OK, "there is room for others");
    let mut small = server.stranger(Revision::V_2026_07_28);
    small.request("resources/list", json!({})).await.result();
    drop(open);
    server.end().await;
}

#[tokio::test]
async fn one_address_does_not_take_all_sessions() {
    let config = config().http_limit("sessions", 2).http_limit("client-share", "1/2").write();
    let server = Http::start(&config).await;
    let revision = Revision::V_2025_11_25;
    let begin = async |from| {
        let wire = server.stranger(Revision::V_2025_11_25).from_address(from);
        let first = request(&Revision::V_2025_11_25, 0, "initialize", hello(&Revision::V_2025_11_25));
        sent(wire.post(&first)).await
    };
    let busy = HttpWire::start(server.url(), revision).await;
    let events = busy.events().await;
    assert_eq!(begin(CLIENTS[0]).await.status(), StatusCode::SERVICE_UNAVAILABLE, "none of its own is idle");
    assert_eq!(begin(CLIENTS[1]).await.status(), StatusCode::OK);
    assert_eq!(begin(CLIENTS[1]).await.status(), StatusCode::OK, "its idle one gives way");
    drop(events);
    server.end().await;
}
