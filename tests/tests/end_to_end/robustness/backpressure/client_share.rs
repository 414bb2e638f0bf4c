//! A client is limited to its share, and others have room.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mcp_host_tests::{HttpServer, RawHttp, Revision, TIMEOUT, initialize_params, request};
use reqwest::{Response, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::config;

/// Two loopback addresses.
const CLIENT_ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))];

/// Connects from an address; `None` if the server rejects the connection.
async fn connection(server: &HttpServer, from: IpAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let server: SocketAddr = server.address().parse().unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    // A connection that is closed immediately may already be reset.
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let answered = timeout(TIMEOUT, stream.read_u8()).await.expect("it is answered or closed");
    answered.is_ok().then_some(stream)
}

#[tokio::test]
async fn one_address_does_not_take_all_connections() {
    let config = config().http_limit("connections", 16).write();
    let server = HttpServer::start(&config).await;
    let mut open = Vec::new();
    for _ in 0..15 {
        open.push(connection(&server, CLIENT_ADDRESSES[0]).await.expect("it is within its share"));
    }
    assert!(connection(&server, CLIENT_ADDRESSES[0]).await.is_none(), "it has its share");
    server.log_line("its client has its share").await;
    assert!(connection(&server, CLIENT_ADDRESSES[1]).await.is_some(), "there is room for others");
    drop(open);
    server.end().await;
}

async fn send(request: reqwest::RequestBuilder) -> Response {
    timeout(TIMEOUT, request.send()).await.expect("an answer in time").expect("the server answers")
}

#[tokio::test]
async fn one_address_does_not_take_all_streams_of_events() {
    let config = config().http_limit("streams", 2).http_limit("client-share", "1/2").write();
    let server = HttpServer::start(&config).await;
    let listen = async |from| {
        let mut wire = server.uninitialized(Revision::V_2026_07_28).from_address(from);
        let filter = json!({ "notifications": { "resourcesListChanged": true } });
        send(wire.request_builder("subscriptions/listen", filter)).await
    };
    let first = listen(CLIENT_ADDRESSES[0]).await;
    assert_eq!(first.status(), StatusCode::OK);
    let refused = listen(CLIENT_ADDRESSES[0]).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(listen(CLIENT_ADDRESSES[1]).await.status(), StatusCode::OK);
    drop(first);
    server.end().await;
}

#[tokio::test]
async fn streams_that_are_open_do_not_keep_requests_from_being_answered() {
    let config = config().http_limit("streams", 1).write();
    let server = HttpServer::start(&config).await;
    let revision = || Revision::V_2025_11_25;
    let mut first = RawHttp::start(server.url(), revision()).await;
    let events = first.event_stream().await;
    let mut second = RawHttp::start(server.url(), revision()).await;
    for wire in [&mut first, &mut second] {
        wire.request("ping", json!({})).await.result();
        let subscribing =
            send(wire.request_builder("resources/subscribe", json!({ "uri": "sample://good/plain" }))).await;
        assert_eq!(subscribing.status(), StatusCode::OK, "what it says does not matter");
        wire.request("resources/list", json!({})).await.result();
        let listing = send(wire.request_builder("tools/list", json!({}))).await;
        assert_ne!(listing.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    let mut stranger = server.uninitialized(Revision::V_2026_07_28);
    let filter = json!({ "notifications": { "resourcesListChanged": true } });
    let refused = send(stranger.request_builder("subscriptions/listen", filter)).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(events);
    server.end().await;
}

/// Sends a body of 1 MiB without its last byte, from an address.
async fn send_unfinished_body(server: &HttpServer, from: IpAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let server: SocketAddr = server.address().parse().unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    let head =
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // A rejected connection may be closed before everything was sent.
    let _ = stream.write_all(&vec![b' '; (1 << 20) - 1]).await;
    stream
}

#[tokio::test]
async fn one_address_does_not_take_all_room_for_bodies() {
    let config =
        config().http_limit("body", "1MiB").http_limit("body-memory", "4MiB").http_limit("client-share", "1/2");
    // The timeout is long, so that no body is dropped on a slow machine.
    let config = config.http_limit("read-timeout", "10m").write();
    let server = HttpServer::start(&config).await;
    let large = async |from| {
        let wire = server.uninitialized(Revision::V_2026_07_28).from_address(from);
        let mut message = request(&Revision::V_2026_07_28, 1, "resources/list", json!({}));
        message["params"]["more"] = json!("x".repeat(900 << 10));
        send(wire.post(&message)).await.status()
    };
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(send_unfinished_body(&server, CLIENT_ADDRESSES[0]).await);
    }
    // Bodies that compete for the last room may all be rejected.
    while large(CLIENT_ADDRESSES[0]).await != StatusCode::SERVICE_UNAVAILABLE {
        open.push(send_unfinished_body(&server, CLIENT_ADDRESSES[0]).await);
    }
    assert_eq!(large(CLIENT_ADDRESSES[1]).await, StatusCode::OK, "there is room for others");
    let mut small = server.uninitialized(Revision::V_2026_07_28);
    small.request("resources/list", json!({})).await.result();
    drop(open);
    server.end().await;
}

#[tokio::test]
async fn one_address_does_not_take_all_sessions() {
    let config = config().http_limit("sessions", 2).http_limit("client-share", "1/2").write();
    let server = HttpServer::start(&config).await;
    let revision = Revision::V_2025_11_25;
    let begin = async |from| {
        let wire = server.uninitialized(Revision::V_2025_11_25).from_address(from);
        let first = request(&Revision::V_2025_11_25, 0, "initialize", initialize_params(&Revision::V_2025_11_25));
        send(wire.post(&first)).await
    };
    let busy = RawHttp::start(server.url(), revision).await;
    let events = busy.event_stream().await;
    assert_eq!(begin(CLIENT_ADDRESSES[0]).await.status(), StatusCode::SERVICE_UNAVAILABLE, "none of its own is idle");
    assert_eq!(begin(CLIENT_ADDRESSES[1]).await.status(), StatusCode::OK);
    assert_eq!(begin(CLIENT_ADDRESSES[1]).await.status(), StatusCode::OK, "its idle one gives way");
    drop(events);
    server.end().await;
}
