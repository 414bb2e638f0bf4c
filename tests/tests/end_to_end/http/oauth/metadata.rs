//! Discovery by a client without a token: the challenge, and the metadata of the protected resource (RFC 9728).

use mcp_host_tests::{Revision, TIMEOUT};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{ResourceServer, jwks};

const SCOPES: &str = "scopes = [\"mcp:read\"]\noperation-scopes = { subscribe = [\"mcp:subscribe\"] }";

async fn start() -> ResourceServer {
    ResourceServer::start_with(|issuer| format!("{}\n{SCOPES}", jwks(issuer))).await
}

#[tokio::test]
async fn the_challenge_leads_to_the_metadata_and_names_the_scopes() {
    let resource = start().await;
    for revision in [Revision::V_2025_03_26, Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = resource.server.uninitialized(revision);
        let refused = wire.request_builder("resources/list", json!({})).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
        let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
        let metadata = resource.server.url_for("/.well-known/oauth-protected-resource/mcp");
        assert!(challenge.starts_with("Bearer "), "{challenge}");
        assert!(challenge.contains(&format!("resource_metadata=\"{metadata}\"")), "{challenge}");
        assert!(challenge.contains("scope=\"mcp:read\""), "{challenge}");
        assert!(!challenge.contains("error="), "no credentials are no error: {challenge}");
    }
    resource.server.end().await;
}

#[tokio::test]
async fn the_metadata_is_for_the_canonical_uri_whatever_the_host_header_says() {
    let resource = start().await;
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let mut hosts = vec!["localhost".to_owned(), "localhost:1".to_owned(), "[::1]:8080".to_owned()];
        hosts.push(resource.server.address().to_owned());
        for host in hosts {
            let found = Client::new().get(resource.server.url_for(path)).header("host", &host).send().await.unwrap();
            assert_eq!(found.status(), StatusCode::OK, "{path} of {host}");
            assert_eq!(found.headers()["content-type"], "application/json");
            let metadata: Value = found.json().await.unwrap();
            assert_eq!(metadata["resource"], resource.audience(), "{host}");
            assert_eq!(metadata["authorization_servers"], json!([resource.issuer.identifier()]));
            assert_eq!(metadata["bearer_methods_supported"], json!(["header"]));
            let scopes = metadata["scopes_supported"].as_array().unwrap();
            assert!(scopes.contains(&json!("mcp:read")), "{metadata}");
        }
        let foreign = Client::new().get(resource.server.url_for(path)).header("host", "evil.example");
        assert_eq!(foreign.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    }
    resource.server.end().await;
}

#[tokio::test]
async fn the_metadata_can_only_be_read_and_another_method_is_told_which_are_allowed() {
    let resource = start().await;
    let url = resource.server.url_for("/.well-known/oauth-protected-resource/mcp");
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let refused = Client::new().request(method.clone(), &url).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(refused.headers()["allow"], "GET, HEAD", "{method}");
    }
    assert_eq!(Client::new().head(&url).send().await.unwrap().status(), StatusCode::OK);
    resource.server.end().await;
}

#[tokio::test]
async fn an_issuer_is_announced_and_compared_as_it_is_written() {
    const WRITTEN: &str = "https://Login.Example.com:443";
    let resource = ResourceServer::start_with(|issuer| {
        format!("{}\n{}", jwks(issuer), super::issuer_entry("other", WRITTEN, &jwks(issuer)))
    })
    .await;
    let mut claims = resource.claims("alice");
    claims["iss"] = json!(WRITTEN);
    resource.assert_valid(&resource.issuer.sign(&claims)).await;
    for other in ["https://login.example.com", "https://login.example.com:443", "https://Login.Example.com"] {
        claims["iss"] = json!(other);
        resource.assert_invalid(&resource.issuer.sign(&claims), other).await;
    }
    let found = Client::new().get(resource.server.url_for("/.well-known/oauth-protected-resource")).send().await;
    let metadata: Value = found.unwrap().json().await.unwrap();
    assert_eq!(metadata["authorization_servers"], json!([resource.issuer.identifier(), WRITTEN]));
    resource.server.end().await;
}

#[tokio::test]
async fn an_invalid_token_is_told_from_a_missing_one() {
    let resource = start().await;
    resource.assert_invalid("nonsense", "no token of any issuer").await;
    let refused = resource.list("nonsense").await;
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
    assert!(challenge.contains("scope=\"mcp:read\"") && !challenge.contains("nonsense"), "{challenge}");
    resource.server.end().await;
}

/// Reads until the stream contains this text.
async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    while !text.contains(wanted) {
        let mut buffer = [0; 4096];
        let length = timeout(TIMEOUT, stream.read(&mut buffer)).await.expect("an answer in time").unwrap();
        assert_ne!(length, 0, "the connection was closed after: {text}");
        text += &String::from_utf8_lossy(&buffer[..length]);
    }
    text
}

#[tokio::test]
async fn a_client_that_sends_its_body_after_the_head_goes_on_with_its_connection_after_the_challenge() {
    let resource = start().await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/list" }).to_string();
    let host = resource.server.address();
    let mut connection = TcpStream::connect(host).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    // A server that does not wait for the body would have answered by now.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    connection.write_all(body.as_bytes()).await.unwrap();
    read_until(&mut connection, "credentials are required").await;
    let next = format!("GET /.well-known/oauth-protected-resource/mcp HTTP/1.1\r\nHost: {host}\r\n\r\n");
    connection.write_all(next.as_bytes()).await.unwrap();
    read_until(&mut connection, "authorization_servers").await;

    // If a client announces a longer body than the server waits for, the answer announces that the connection ends.
    let mut connection = TcpStream::connect(host).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let answer = read_until(&mut connection, "credentials are required").await;
    assert!(
        answer.starts_with("HTTP/1.1 401") && answer.to_lowercase().contains("\r\nconnection: close\r\n"),
        "{answer}"
    );
    resource.server.end().await;
}
