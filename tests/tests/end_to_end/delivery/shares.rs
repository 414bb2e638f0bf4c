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
