//! Streamable HTTP beyond what a client library does: endpoints, methods, invalid requests, disconnects.

mod attacks;
mod authentication;
mod client_certificates;
mod compression;
mod exposure;
mod host_and_origin;
mod limits;
mod oauth;
mod rate_limits;
mod secrets;
mod sessions;
mod tls;
mod unfinished_requests;
mod unread_bodies;

use mcp_host_tests::{ConfigFile, Connection, GitRepo, HttpServer, Plugin, Revision, TIMEOUT, WrittenConfig, run};
use reqwest::{Client, Method, StatusCode, Version};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Starts a server, and returns it with files that must exist while it runs.
async fn start() -> ((GitRepo, WrittenConfig), HttpServer) {
    let repo = GitRepo::with_files([("README.md", "hello")]);
    let config = ConfigFile::new().plugin(Plugin::git("repo", repo.path())).allow_all().write();
    let server = HttpServer::start(&config).await;
    ((repo, config), server)
}

#[tokio::test]
async fn the_health_of_the_server_can_be_asked() {
    let (_sources, server) = start().await;
    let health = reqwest::get(server.url_for("/healthz")).await.unwrap();
    assert_eq!((health.status(), health.text().await.unwrap().as_str()), (StatusCode::OK, "ok\n"));
    server.end().await;
}

#[tokio::test]
async fn requests_that_other_sites_make_are_refused() {
    let (_sources, server) = start().await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = server.raw_client(revision).await;
        for (header, value) in [
            ("origin", "https://evil.example"),
            ("origin", "http://localhost.evil.example"),
            ("origin", "null"),
            ("host", "evil.example"),
            ("host", "localhost.evil.example:80"),
        ] {
            let request = wire.request_builder("resources/list", json!({})).header(header, value);
            let status = request.send().await.unwrap().status();
            assert_eq!(status, StatusCode::FORBIDDEN, "{header}: {value}");
        }
        for origin in [server.url_for(""), "http://localhost:3000".to_owned()] {
            let request = wire.request_builder("resources/list", json!({})).header("origin", &origin);
            assert_eq!(request.send().await.unwrap().status(), StatusCode::OK, "{origin}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn other_paths_and_methods_have_their_status() {
    let (_sources, server) = start().await;
    let client = Client::new();
    for (method, path, status) in [
        (Method::GET, "/", StatusCode::NOT_FOUND),
        (Method::POST, "/", StatusCode::NOT_FOUND),
        (Method::GET, "/mcp/", StatusCode::NOT_FOUND),
        (Method::GET, "/mcp", StatusCode::BAD_REQUEST),
        (Method::DELETE, "/mcp", StatusCode::BAD_REQUEST),
        (Method::POST, "/healthz", StatusCode::METHOD_NOT_ALLOWED),
        (Method::PUT, "/mcp", StatusCode::METHOD_NOT_ALLOWED),
        (Method::PATCH, "/mcp", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let found = client.request(method.clone(), server.url_for(path)).send().await.unwrap().status();
        assert_eq!(found, status, "{method} {path}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_method_that_is_not_allowed_is_answered_with_those_that_are() {
    let (_sources, server) = start().await;
    for (revision, method, allowed) in [
        (Revision::V_2025_11_25, Method::PUT, "GET, POST, DELETE"),
        (Revision::V_2025_11_25, Method::OPTIONS, "GET, POST, DELETE"),
        (Revision::V_2026_07_28, Method::GET, "POST"),
        (Revision::V_2026_07_28, Method::DELETE, "POST"),
    ] {
        let mut request = server.uninitialized(revision).request_builder("resources/list", json!({})).build().unwrap();
        *request.method_mut() = method.clone();
        let refused = Client::new().execute(request).await.unwrap();
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(refused.headers()["allow"], allowed, "{method}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_client_that_accepts_everything_accepts_what_there_is() {
    let (_sources, server) = start().await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = server.raw_client(revision).await;
        for (accepted, status) in [
            (Some("*/*"), StatusCode::OK),
            (Some("application/*;q=0.5, text/*"), StatusCode::OK),
            (None, StatusCode::OK),
            (Some("application/json"), StatusCode::NOT_ACCEPTABLE),
            (Some("*/*, text/event-stream;q=0"), StatusCode::NOT_ACCEPTABLE),
            (Some("text/html"), StatusCode::NOT_ACCEPTABLE),
        ] {
            let mut request = wire.request_builder("resources/list", json!({})).build().unwrap();
            request.headers_mut().remove("accept");
            if let Some(accepted) = accepted {
                request.headers_mut().insert("accept", accepted.parse().unwrap());
            }
            // A client library would send a default header here.
            let mut connection = Connection::plain(server.address(), Version::HTTP_11).await;
            let request = reqwest::RequestBuilder::from_parts(Client::new(), request);
            assert_eq!(connection.send(request).await.status(), status, "{accepted:?}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_body_of_another_type_or_coding_is_refused_in_every_revision() {
    let (_sources, server) = start().await;
    for revision in [Revision::V_2025_03_26, Revision::V_2025_06_18, Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = server.raw_client(revision).await;
        for content_type in ["text/plain", "application/jsonl", "application/x-www-form-urlencoded"] {
            let mut request = wire.request_builder("resources/list", json!({})).build().unwrap();
            request.headers_mut().insert("content-type", content_type.parse().unwrap());
            let refused = Client::new().execute(request).await.unwrap();
            assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{content_type}");
        }
        // The declaration decides, even if the bytes are JSON.
        let mut request = wire.request_builder("resources/list", json!({})).build().unwrap();
        request.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        let refused = Client::new().execute(request).await.unwrap();
        assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(refused.headers()["accept-encoding"], "identity");
    }
    server.end().await;
}

#[tokio::test]
async fn bodies_that_are_no_messages_are_refused_and_the_server_goes_on() {
    let (_sources, server) = start().await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    for body in ["", "not JSON", "[]", "[1]", "null", "{}", "\u{0}"] {
        let status = wire.request_builder("resources/list", json!({})).body(body).send().await.unwrap().status();
        assert!(status.is_client_error(), "{body:?}: {status}");
    }
    let large = wire.request_builder("resources/list", json!({})).body(" ".repeat(8 << 20)).send().await;
    assert!(large.is_err() || large.is_ok_and(|large| large.status().is_client_error()));
    assert_eq!(wire.request("resources/list", json!({})).await.status, Some(200));
    server.end().await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error_at_once() {
    let (_sources, server) = start().await;
    let by_option = ConfigFile::new().write();
    let by_config = ConfigFile::new().server("http", server.address()).write();
    for (config, option, setting) in
        [(&by_option, Some(["--http", server.address()]), "--http"), (&by_config, None, "server.http")]
    {
        let path = config.path();
        let arguments = ["serve", "--config", path.to_str().unwrap()].into_iter().chain(option.into_iter().flatten());
        let refused = run(arguments).await;
        assert_eq!(refused.code(), 1);
        for part in ["cannot listen on", "port 0", &format!("`{setting}`")] {
            assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_its_request() {
    let slow =
        Plugin::misbehaving("slow").limit("deadline", "60s").limit("concurrency", 1).limit("queue-timeout", "30s");
    let config = ConfigFile::new().plugin(slow).allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    let request = wire.request_builder("resources/read", json!({ "uri": "misbehaving://slow/slow?ms=50000" }));
    let asking = tokio::spawn(request.send());
    server.log_line("a slow read has begun").await;
    asking.abort();
    // The concurrency limit is one call, so this succeeds only because the first call was ended.
    let read = wire.request("resources/read", json!({ "uri": "misbehaving://slow/good" })).await;
    assert_eq!(read.result()["contents"][0]["text"], "good");
    server.end().await;
}

/// Sends a request, closes the sending half of the connection, and returns everything that the server sends until it
/// closes the connection.
async fn send_and_half_close(server: &HttpServer, target: &str, host: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": { "_meta": meta } }).to_string();
    let request = format!(
        "POST {target} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: resources/list\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    connection.shutdown().await.unwrap();
    let mut answer = Vec::new();
    timeout(TIMEOUT, connection.read_to_end(&mut answer)).await.expect("it is closed in time").unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_client_that_has_ended_its_sending_is_answered() {
    let (_sources, server) = start().await;
    let answer = send_and_half_close(&server, "/mcp", server.address()).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"resources\":["), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn of_an_absolute_target_and_another_host_the_target_counts() {
    let (_sources, server) = start().await;
    let (own, evil) = (format!("http://{}/mcp", server.address()), "http://evil.example/mcp");
    for (target, host, status) in [
        (own.as_str(), "evil.example", "200"),
        (evil, server.address(), "403"),
        (&own, "evil.example@localhost", "400"),
    ] {
        let answer = send_and_half_close(&server, target, host).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {host}: {answer}");
    }
    server.end().await;
}

#[tokio::test]
async fn many_requests_at_once_are_all_answered() {
    let (_sources, server) = start().await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    let requests: Vec<_> = (0..100)
        .map(|_| wire.request_builder("resources/read", json!({ "uri": "git://repo/blob/main/README.md" })))
        .map(|request| tokio::spawn(async move { request.send().await.unwrap().status() }))
        .collect();
    for request in requests {
        assert_eq!(request.await.unwrap(), StatusCode::OK);
    }
    server.end().await;
}
