//! Limits of HTTP clients, and rejections beyond them.

use mcp_host_tests::{ConfigFile, Connection, HttpServer, Plugin, RawHttp, Revision, TIMEOUT, host_command};
use reqwest::{RequestBuilder, StatusCode, Version};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

fn config() -> ConfigFile {
    ConfigFile::new().plugin(Plugin::sample("a")).allow_all()
}

fn uninitialized(server: &HttpServer) -> RawHttp {
    server.uninitialized(Revision::V_2026_07_28)
}

fn list_request(server: &HttpServer) -> RequestBuilder {
    uninitialized(server).request_builder("resources/list", json!({}))
}

/// Returns the bytes received on a connection that was closed by a limit. An error counts as the end.
async fn read_rest(mut connection: TcpStream) -> String {
    let mut rest = Vec::new();
    let _ = connection.read_to_end(&mut rest).await;
    String::from_utf8(rest).unwrap()
}

#[tokio::test]
async fn http2_is_spoken_to_those_who_begin_with_it() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let mut connection = Connection::plain(server.address(), Version::HTTP_2).await;
    for _ in 0..3 {
        let answer = connection.send(list_request(&server)).await;
        assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
    }
    server.end().await;
    connection.wait_closed().await;
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[high, middle, low, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// Returns whether the received frames contain a GOAWAY.
fn says_goaway(mut received: &[u8]) -> bool {
    while let Some((header, rest)) = received.split_at_checked(9) {
        let len = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        if header[3] == 7 {
            return true;
        }
        received = rest.get(usize::try_from(len).unwrap()..).unwrap_or_default();
    }
    false
}

#[tokio::test]
async fn a_client_that_floods_a_connection_with_frames_without_a_request_is_disconnected_and_others_are_served() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat();
    // The head of a request without an end, for DATA frames on its stream: `:method: POST`, `:scheme: http`, `:path:
    // /`.
    let open = frame(1, 4, 1, &[0x83, 0x86, 0x84]);
    let floods = [
        ("PING", Vec::new(), frame(6, 0, 0, &[0; 8])),
        ("acknowledged PING", Vec::new(), frame(6, 1, 0, &[0; 8])),
        ("SETTINGS", Vec::new(), frame(4, 0, 0, &[])),
        ("PRIORITY", Vec::new(), frame(2, 0, 1, &[0, 0, 0, 0, 1])),
        ("WINDOW_UPDATE", Vec::new(), frame(8, 0, 0, &[0, 0, 0, 1])),
        ("an unknown frame", Vec::new(), frame(77, 0, 0, &[])),
        ("empty DATA", open, frame(0, 0, 1, &[])),
    ];
    for (name, before, flood) in floods {
        let mut other = Connection::plain(server.address(), Version::HTTP_2).await;
        let (connection, preface) = (TcpStream::connect(server.address()).await.unwrap(), preface.clone());
        let (mut reading, mut writing) = connection.into_split();
        let sending = tokio::spawn(async move {
            if writing.write_all(&[preface, before].concat()).await.is_err() {
                return;
            }
            let many = flood.repeat(1000);
            // Writes until the server closes the connection.
            while writing.write_all(&many).await.is_ok() {}
        });
        let mut received = Vec::new();
        // An error ends the reading, too: the server may not read the rest of the input.
        let _ = tokio::time::timeout(TIMEOUT, reading.read_to_end(&mut received)).await.expect(name);
        assert!(says_goaway(&received), "{name}: {} bytes", received.len());
        drop(reading);
        sending.await.unwrap();
        let answer = other.send(list_request(&server)).await;
        assert_eq!(answer.status(), StatusCode::OK, "{name}");
    }
    server.end().await;
}

#[tokio::test]
async fn many_requests_over_one_connection_are_no_flood() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let mut connection = Connection::plain(server.address(), Version::HTTP_2).await;
    for _ in 0..2000 {
        let request = reqwest::Client::new().get(format!("http://{}/healthz", server.address()));
        assert_eq!(connection.send(request).await.status(), StatusCode::OK);
    }
    server.end().await;
}

#[tokio::test]
async fn the_answer_to_head_has_no_body_in_either_version() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    for version in VERSIONS {
        let mut connection = Connection::plain(server.address(), version).await;
        for path in ["mcp", "healthz", "nothing"] {
            let request = reqwest::Client::new().head(format!("http://{}/{path}", server.address()));
            let answer = connection.send(request).await;
            assert!(answer.body().is_empty(), "{version:?} {path}: {:?}", answer.body());
        }
    }
    server.end().await;
}

#[tokio::test]
async fn answers_are_sent_at_once() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(connection.read_u8().await.is_ok(), "the server has taken the connection");
    assert!(server.has_nodelay(connection.local_addr().unwrap()));
    server.end().await;
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let config = config().http_limit("body", "2KiB").write();
    let server = HttpServer::start(&config).await;
    for version in VERSIONS {
        for (length, status) in [(2048, StatusCode::BAD_REQUEST), (2049, StatusCode::PAYLOAD_TOO_LARGE)] {
            let mut connection = Connection::plain(server.address(), version).await;
            let answer = connection.send(list_request(&server).body(" ".repeat(length))).await;
            assert_eq!(answer.status(), status, "{version:?} {length}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let config = config().http_limit("headers", "8KiB").write();
    let server = HttpServer::start(&config).await;
    for version in VERSIONS {
        const TOO_LARGE: StatusCode = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        for (length, status) in [(4 << 10, StatusCode::OK), (9 << 10, TOO_LARGE), (12 << 10, TOO_LARGE)] {
            let mut connection = Connection::plain(server.address(), version).await;
            let answer = connection.send(list_request(&server).header("x-large", "x".repeat(length))).await;
            assert_eq!(answer.status(), status, "{version:?} {length}");
            if (version, status) == (Version::HTTP_2, TOO_LARGE) {
                // The protocol library's response has no body, and is followed by a reset of the stream.
                let text = String::from_utf8_lossy(answer.body());
                assert!(text.contains("`http.limits.headers`"), "{length}: {text}");
            }
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_head_of_too_many_fields_is_refused() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    for version in VERSIONS {
        for (fields, status) in [(80, StatusCode::OK), (101, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)] {
            let mut connection = Connection::plain(server.address(), version).await;
            let request =
                (0..fields).fold(list_request(&server), |request, field| request.header(format!("x-{field}"), "x"));
            assert_eq!(connection.send(request).await.status(), status, "{version:?} {fields}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_request_that_does_not_come_is_not_waited_for() {
    let config = config().http_limit("read-timeout", "3s").write();
    let server = HttpServer::start(&config).await;
    // Three beginnings: nothing, the preface of HTTP/2, the start of a request.
    for begun in ["", "PRI * HTTP/2.0\r\n", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut connection = TcpStream::connect(server.address()).await.unwrap();
        connection.write_all(begun.as_bytes()).await.unwrap();
        assert_eq!(read_rest(connection).await, "", "{begun:?}");
    }
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n";
    connection.write_all(format!("{head}{{").as_bytes()).await.unwrap();
    let answer = read_rest(connection).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_asked_any_more_is_closed() {
    let config = config().http_limit("idle-timeout", "100ms").write();
    let server = HttpServer::start(&config).await;
    for version in VERSIONS {
        let mut connection = Connection::plain(server.address(), version).await;
        assert_eq!(connection.send(list_request(&server)).await.status(), StatusCode::OK);
        connection.wait_closed().await;
    }
    server.end().await;
}

#[tokio::test]
async fn connections_beyond_as_many_as_there_may_be_wait_for_their_turn() {
    let config = config().http_limit("connections", 1).write();
    let server = HttpServer::start(&config).await;
    let mut first = Connection::plain(server.address(), Version::HTTP_11).await;
    assert_eq!(first.send(list_request(&server)).await.status(), StatusCode::OK);
    let mut second = Connection::plain(server.address(), Version::HTTP_11).await;
    let request = list_request(&server);
    let waiting = tokio::spawn(async move { second.send(request).await.status() });
    server.log_line("others wait").await;
    assert_eq!(first.send(list_request(&server)).await.status(), StatusCode::OK);
    assert!(!waiting.is_finished());
    drop(first);
    assert_eq!(waiting.await.unwrap(), StatusCode::OK);
    server.end().await;
}

#[tokio::test]
async fn fewer_descriptors_than_connections_are_warned_of_at_the_start() {
    for (connections, is_warned) in [(300, true), (200, false)] {
        let config = config().http_limit("connections", connections).write();
        let command = host_command();
        let command = command.as_std();
        let mut limited = Command::new("/bin/sh");
        limited.args(["-c", "ulimit -n 256 && exec \"$@\"", "sh"]).arg(command.get_program());
        limited.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(config.path());
        limited.current_dir("/").env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let server = HttpServer::start_command(limited).await;
        let log = server.end().await.log;
        let warnings = log.lines().filter(|line| line.contains("`http.limits.connections` is above the limit"));
        assert_eq!(warnings.count(), usize::from(is_warned), "{log}");
    }
}
