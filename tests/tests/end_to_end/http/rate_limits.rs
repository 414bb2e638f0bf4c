//! Rate limits of clients: 429, `Retry-After`, and the identity of a client.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, RawHttp, Revision, TIMEOUT};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

const REVISION: Revision = Revision::V_2026_07_28;
const OTHER_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

fn config() -> ConfigFile {
    ConfigFile::new().plugin(Plugin::sample("a")).allow_all()
}

/// The principals `ci` and `ops`. Their tokens equal their names.
fn config_with_principals() -> ConfigFile {
    config().principal("ci", "ci").principal("ops", "ops")
}

async fn send(request: RequestBuilder) -> Response {
    timeout(TIMEOUT, request.send()).await.expect("an answer in time").expect("the server answers")
}

/// Sends a request for a listing with a token.
async fn list(server: &HttpServer, token: Option<&str>) -> Response {
    list_from(server.uninitialized(REVISION), token).await
}

async fn list_from(mut wire: RawHttp, token: Option<&str>) -> Response {
    let request = wire.request_builder("resources/list", json!({}));
    send(match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    })
    .await
}

/// Asserts that `number` requests are answered, and the next one is rejected. Returns the error.
async fn assert_burst(server: &HttpServer, token: Option<&str>, number: usize) -> Value {
    for count in 0..number {
        assert_eq!(list(server, token).await.status(), StatusCode::OK, "{token:?} {count}");
    }
    let rejected = list(server, token).await;
    assert_eq!(rejected.status(), StatusCode::TOO_MANY_REQUESTS, "{token:?}");
    let seconds: u64 = rejected.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    let error: Value = rejected.json().await.unwrap();
    assert_eq!((&error["error"]["code"], &error["error"]["data"]["kind"]), (&json!(-32603), &json!("unavailable")));
    assert_eq!(error.get("id"), None, "the body has not been read");
    let millis = error["error"]["data"]["retryAfterMs"].as_u64().unwrap();
    assert!((millis..=millis + 1000).contains(&(seconds * 1000)), "{seconds} s, {millis} ms");
    error["error"].clone()
}

#[tokio::test]
async fn a_client_beyond_its_rate_is_told_when_to_try_again_and_others_are_answered() {
    let written = config().http_limit("client-rate", "3/h").write();
    let server = HttpServer::start(&written).await;
    let error = assert_burst(&server, None, 3).await;
    assert!(error["message"].as_str().unwrap().contains("`http.limits.client-rate`"), "{error}");
    server.log_line("too many requests of this client").await;
    assert_eq!(list_from(server.uninitialized(REVISION).from_address(OTHER_ADDRESS), None).await.status(), 200);
    assert_eq!(reqwest::get(server.url_for("/healthz")).await.unwrap().status(), StatusCode::OK, "it is no request");

    written.replace(config().http_limit("client-rate", "4/h"));
    server.log_line("http=true").await;
    assert_burst(&server, None, 4).await;
    server.end().await;
}

#[tokio::test]
async fn a_principal_is_one_client_at_every_address_and_others_at_its_address_have_rates_of_their_own() {
    let config = config_with_principals().http_limit("client-rate", "3/h").write();
    let server = HttpServer::start(&config).await;
    let elsewhere = || server.uninitialized(REVISION).from_address(OTHER_ADDRESS);
    assert_eq!(list_from(elsewhere(), Some("ci")).await.status(), StatusCode::OK);
    assert_burst(&server, Some("ci"), 2).await;
    assert_eq!(list_from(elsewhere(), Some("ci")).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_burst(&server, Some("ops"), 3).await;
    assert_burst(&server, None, 3).await;
    server.end().await;
}

#[tokio::test]
async fn all_together_have_a_rate_of_which_no_principal_gets_more_than_its_share() {
    let config = config_with_principals().http_limit("rate", "5/h").http_limit("principal-share", "2/5").write();
    let server = HttpServer::start(&config).await;
    assert_burst(&server, Some("ci"), 2).await;
    assert_burst(&server, Some("ops"), 2).await;
    let error = assert_burst(&server, None, 1).await;
    assert!(error["message"].as_str().unwrap().contains("`http.limits.rate`"), "{error}");
    server.end().await;
}

#[tokio::test]
async fn a_batch_counts_as_its_messages() {
    let config = config().http_limit("client-rate", "6/h").write();
    let server = HttpServer::start(&config).await;
    let ping = |id| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    // The handshake has two messages.
    let wire = server.raw_client(Revision::V_2025_03_26).await;
    let batch = |number| wire.post(&json!((0..number).map(ping).collect::<Vec<_>>()));
    assert_eq!(send(batch(3)).await.status(), StatusCode::OK);
    let rejected = send(batch(2)).await;
    assert_eq!(rejected.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(rejected.headers().contains_key("retry-after"));
    server.end().await;
}

#[tokio::test]
async fn tokens_are_guessed_at_a_bounded_rate_and_valid_ones_of_that_address_stay_valid() {
    let config = config_with_principals().http_limit("failed-authentications", "3/h").write();
    let server = HttpServer::start(&config).await;
    for _ in 0..3 {
        let guessed = list(&server, Some("guess")).await;
        assert_eq!(guessed.status(), StatusCode::UNAUTHORIZED);
        let challenge = guessed.headers()["www-authenticate"].to_str().unwrap();
        assert!(challenge.starts_with("Bearer error=\"invalid_token\""), "{challenge}");
    }
    let guessed = list(&server, Some("guess")).await;
    assert_eq!(guessed.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(guessed.headers().contains_key("retry-after"));
    assert_eq!(list(&server, Some("ci")).await.status(), StatusCode::OK);
    assert_eq!(list(&server, None).await.status(), StatusCode::OK);
    let elsewhere = server.uninitialized(REVISION).from_address(OTHER_ADDRESS);
    assert_eq!(list_from(elsewhere, Some("guess")).await.status(), StatusCode::UNAUTHORIZED);
    let log = server.end().await.log;
    assert!(!log.contains("guess"), "{log}");
}

#[tokio::test]
async fn a_limit_that_is_exceeded_often_does_not_hide_another_in_the_log() {
    let config = config_with_principals();
    let config = config.http_limit("failed-authentications", "1/h").http_limit("client-rate", "1/h").write();
    let server = HttpServer::start(&config).await;
    let began = Instant::now();
    for _ in 0..5 {
        list(&server, Some("guess")).await;
    }
    for _ in 0..5 {
        list(&server, Some("ci")).await;
    }
    for key in ["http.limits.failed-authentications", "http.limits.client-rate"] {
        let line = server.log_line(key).await;
        assert!(line.contains("WARN") && line.contains("a request is rejected"), "{line}");
    }
    let log = server.end().await.log;
    let told = log.matches("a request is rejected").count() as u64;
    // Each reason is logged once in ten seconds.
    let most = 2 * (began.elapsed().as_secs() / 10 + 1);
    assert!((2..=most).contains(&told), "{told} of {most}: {log}");
}
