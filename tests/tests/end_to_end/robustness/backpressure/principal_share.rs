//! A principal at its limits, from any address, does not affect another principal.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mcp_host_tests::{
    ConfigFile, Connection, Folder, HttpServer, Plugin, RawHttp, Revision, RpcResponse, TIMEOUT, initialize_params,
    request,
};
use reqwest::{Response, StatusCode, Version};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::{assert_good_plugin_answers, config, read};

const CLIENT_ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))];
const SESSIONS: Revision = Revision::V_2025_11_25;
const STATELESS: Revision = Revision::V_2026_07_28;
/// The token of the greedy principal, which equals its name.
const GREEDY: &str = "ci";
/// The token of the other principal, which equals its name.
const OTHER: &str = "ops";

fn with_principals(config: ConfigFile) -> ConfigFile {
    config.principal(GREEDY, GREEDY).principal(OTHER, OTHER)
}

async fn send(request: reqwest::RequestBuilder, token: &str) -> Response {
    timeout(TIMEOUT, request.bearer_auth(token).send()).await.expect("an answer in time").expect("the server answers")
}

#[tokio::test]
async fn a_principal_does_not_take_all_streams_of_events() {
    let config = with_principals(config()).http_limit("streams", 4).write();
    let server = HttpServer::start(&config).await;
    let listen = async |from, token| {
        let mut wire = server.uninitialized(STATELESS).from_address(from);
        let filter = json!({ "notifications": { "resourcesListChanged": true } });
        send(wire.request_builder("subscriptions/listen", filter), token).await
    };
    let first = listen(CLIENT_ADDRESSES[0], GREEDY).await;
    assert_eq!(first.status(), StatusCode::OK);
    for address in CLIENT_ADDRESSES {
        assert_eq!(listen(address, GREEDY).await.status(), StatusCode::SERVICE_UNAVAILABLE, "it has a quarter");
    }
    assert_eq!(listen(CLIENT_ADDRESSES[0], OTHER).await.status(), StatusCode::OK);
    drop(first);
    server.end().await;
}

#[tokio::test]
async fn a_principal_does_not_take_all_sessions() {
    let config = with_principals(config()).http_limit("sessions", 4).write();
    let server = HttpServer::start(&config).await;
    let begin = async |from, token| {
        let wire = server.uninitialized(SESSIONS).from_address(from);
        send(wire.post(&request(&SESSIONS, 0, "initialize", initialize_params(&SESSIONS))), token).await.status()
    };
    let busy = RawHttp::start_with_token(server.url(), SESSIONS, GREEDY).await;
    let events = busy.event_stream().await;
    let other = RawHttp::start_with_token(server.url(), SESSIONS, OTHER).await;
    for address in CLIENT_ADDRESSES {
        assert_eq!(begin(address, GREEDY).await, StatusCode::SERVICE_UNAVAILABLE, "none of its own is idle");
    }
    let mut other = other;
    other.request("resources/list", json!({})).await.result();
    assert_eq!(begin(CLIENT_ADDRESSES[0], OTHER).await, StatusCode::OK, "its idle one gives way");
    drop(events);
    server.end().await;
}

/// Sends a body of 1 MiB without its last byte.
async fn send_unfinished_body(server: &HttpServer, from: IpAddr, token: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let server: SocketAddr = server.address().parse().unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: 1048576\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // A rejected connection may be closed before everything was sent.
    let _ = stream.write_all(&vec![b' '; (1 << 20) - 1]).await;
    stream
}

#[tokio::test]
async fn a_principal_does_not_take_all_room_for_bodies() {
    let config = with_principals(config()).http_limit("body", "1MiB").http_limit("body-memory", "8MiB");
    // The timeout is long, so that no body is dropped on a slow machine.
    let config = config.http_limit("read-timeout", "10m").write();
    let server = HttpServer::start(&config).await;
    let large = async |token| {
        let mut message = request(&STATELESS, 1, "resources/list", json!({}));
        message["params"]["more"] = json!("x".repeat(900 << 10));
        send(server.uninitialized(STATELESS).post(&message), token).await.status()
    };
    let mut open = Vec::new();
    while large(GREEDY).await != StatusCode::SERVICE_UNAVAILABLE {
        for address in CLIENT_ADDRESSES {
            open.push(send_unfinished_body(&server, address, GREEDY).await);
        }
    }
    for _ in 0..3 {
        assert_eq!(large(OTHER).await, StatusCode::OK);
    }
    drop(open);
    server.end().await;
}

#[tokio::test]
async fn a_principal_does_not_take_all_room_for_answers() {
    let config = with_principals(config()).http_limit("response-memory", "16MiB").http_limit("write-timeout", "10m");
    let config = config.write();
    let server = HttpServer::start(&config).await;
    assert_good_plugin_answers(&server).await;
    let one_mib = |token| read(&server, "sizes:///text/1000000").bearer_auth(token);
    let connection = Connection::with_window(server.address(), 0).await;
    let answers: Vec<_> = (0..24).map(|_| tokio::spawn(connection.start_request(one_mib(GREEDY)))).collect();
    // The answers for which there is room have begun, and are not read.
    wait_for_answers(&answers, 2).await;
    for _ in 0..8 {
        let mut other = Connection::plain(server.address(), Version::HTTP_2).await;
        let answer = other.send(one_mib(OTHER)).await;
        let answer: Value = serde_json::from_slice(answer.body()).unwrap();
        assert!(answer["result"]["contents"].is_array(), "{answer}");
    }
    assert!(answers.iter().filter(|answer| answer.is_finished()).count() < 6, "it has 4 MiB");
    let mut refused = Connection::plain(server.address(), Version::HTTP_11).await;
    let refused = refused.send(read(&server, "sizes:///text/5000000").bearer_auth(OTHER)).await;
    let refused: Value = serde_json::from_slice(refused.body()).unwrap();
    assert!(refused["error"]["message"].as_str().unwrap().contains("`http.limits.principal-share`"), "{refused}");
    for answer in answers {
        answer.abort();
    }
    drop(connection);
    server.end().await;
}

/// Waits until `number` answers have begun.
async fn wait_for_answers<T>(answers: &[tokio::task::JoinHandle<T>], number: usize) {
    mcp_host_tests::wait_until("answers have begun", || {
        answers.iter().filter(|answer| answer.is_finished()).count() >= number
    })
    .await;
}

#[tokio::test]
async fn a_principal_does_not_take_all_room_for_subscriptions() {
    let names: Vec<String> = (0..60).map(|number| format!("f{number}")).collect();
    let folder = Folder::with_files(names.iter().map(|name| (name.as_str(), "text")).collect::<Vec<_>>());
    let config = ConfigFile::new().plugin(Plugin::watched("m", folder.path())).allow_all();
    let config = with_principals(config).http_limit("subscription-memory", "64KiB").write();
    let server = HttpServer::start(&config).await;
    let subscribe = async |wire: &mut RawHttp, name: &str| -> RpcResponse {
        wire.request("resources/subscribe", json!({ "uri": format!("watched://m/{name}") })).await
    };
    let mut sessions = Vec::new();
    let mut refused = None;
    for half in names.chunks(30) {
        let mut wire = RawHttp::start_with_token(server.url(), SESSIONS, GREEDY).await;
        for name in half {
            let answer = subscribe(&mut wire, name).await;
            if answer.message.get("error").is_some() {
                refused = Some(answer);
                break;
            }
        }
        sessions.push(wire);
    }
    let refused = refused.expect("a quarter of 64 KiB are about 35 subscriptions");
    assert!(refused.error()["message"].as_str().unwrap().contains("your share"), "{refused:?}");
    let mut other = RawHttp::start_with_token(server.url(), SESSIONS, OTHER).await;
    for name in &names[..20] {
        subscribe(&mut other, name).await.result();
    }
    server.end().await;
}
