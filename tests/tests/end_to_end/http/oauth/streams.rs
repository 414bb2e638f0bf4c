//! Streams end with the token that opened them.

use mcp_host_tests::{RawHttp, Revision, TIMEOUT, TokenIssuer, unix_time};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ResourceServer, jwks};

/// The lifetime of short-lived tokens in seconds: enough to open a stream on a slow machine.
const SOON: u64 = 10;

async fn start() -> ResourceServer {
    let entry = |issuer: &TokenIssuer| format!("{}\nclock-skew = \"0s\"", jwks(issuer));
    ResourceServer::start_with(entry).await
}

/// Returns a token of `alice` that expires after `seconds`, and its expiry time.
fn short_lived(resource: &ResourceServer, seconds: u64) -> (String, u64) {
    let (mut claims, expires) = (resource.claims("alice"), unix_time() + seconds);
    claims["exp"] = json!(expires);
    (resource.issuer.sign(&claims), expires)
}

/// Waits for the orderly end of a stream. A stream that is cut off is an error.
async fn rest(stream: Response) -> String {
    timeout(TIMEOUT, stream.text()).await.expect("it ends").expect("it ends in order")
}

/// Opens the stream of `subscriptions/listen` for a resource and for the listing.
async fn listen(resource: &ResourceServer, token: &str) -> Response {
    let notifications = json!({ "resourceSubscriptions": ["faulty://m/f"], "resourcesListChanged": true });
    resource.listen(token, notifications).await
}

#[tokio::test]
async fn a_listen_ends_when_its_token_expires() {
    let resource = start().await;
    let (token, expires) = short_lived(&resource, SOON);
    let others = listen(&resource, &resource.token("alice")).await;
    let events = rest(listen(&resource, &token).await).await;
    assert!((expires..expires + 20).contains(&unix_time()), "it ends at its expiry");
    assert!(events.contains("notifications/subscriptions/acknowledged"), "{events}");
    resource.assert_invalid(&token, "expired").await;
    drop(others);
    resource.server.end().await;
}

#[tokio::test]
async fn the_event_stream_of_a_session_ends_when_its_token_expires_and_the_session_goes_on_with_another() {
    let resource = start().await;
    let (token, expires) = short_lived(&resource, SOON);
    let mut session = resource.session(&token).await;
    let subscribed = session.request("resources/subscribe", json!({ "uri": "faulty://m/f" })).await;
    assert!(subscribed.message.get("result").is_some(), "{subscribed:?}");
    rest(session.event_stream().await).await;
    assert!((expires..expires + 20).contains(&unix_time()), "it ends at its expiry");

    let id = session.session_id().unwrap().to_owned();
    let refused = session.request_builder("resources/list", json!({})).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let renewed = resource.token("alice");
    let request = reqwest::Client::new()
        .get(resource.server.url())
        .header("accept", "text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .header("mcp-session-id", &id)
        .bearer_auth(&renewed);
    let mut events = request.send().await.unwrap();
    assert_eq!(events.status(), StatusCode::OK);
    resource.folder.write("f", "another text of f");
    let mut told = String::new();
    while !told.contains("notifications/resources/updated") {
        let chunk = timeout(TIMEOUT, events.chunk()).await.expect("the change is told").unwrap();
        told += &String::from_utf8_lossy(&chunk.expect("the stream goes on"));
    }
    drop(events);
    resource.server.end().await;
}

#[tokio::test]
async fn a_token_that_has_not_expired_keeps_its_streams_while_others_expire() {
    let resource = start().await;
    let (token, _) = short_lived(&resource, SOON);
    let alice = resource.session(&resource.token("alice")).await;
    let mut lasting = alice.event_stream().await;
    rest(listen(&resource, &token).await).await;
    let still =
        timeout(std::time::Duration::from_millis(300), async { while lasting.chunk().await.unwrap().is_some() {} });
    assert!(still.await.is_err(), "the stream of the other token is open");
    drop(lasting);
    resource.server.end().await;
}

#[tokio::test]
async fn a_request_in_flight_when_its_token_expires_is_answered() {
    let resource = ResourceServer::start_with_config(
        |issuer| format!("{}\nclock-skew = \"0s\"", jwks(issuer)),
        |config| {
            let slow = mcp_host_tests::Plugin::misbehaving("slow").limit("cpu", "30s").limit("deadline", "30s");
            config.plugin(slow).rule(mcp_host_tests::Rule::for_principal("corp/alice").allow(["misbehaving://slow/**"]))
        },
    )
    .await;
    let (token, _) = short_lived(&resource, 6);
    let mut wire: RawHttp = resource.server.uninitialized(super::REVISION);
    let slow = json!({ "uri": "misbehaving://slow/slow?ms=7000" });
    let answer = wire.request_builder("resources/read", slow).bearer_auth(&token).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["result"]["contents"][0]["text"], "slow");
    resource.assert_invalid(&token, "expired").await;
    resource.server.end().await;
}

/// A token of `alice` in the group `engineers`, which may use `g`, too.
fn of_engineers(resource: &ResourceServer) -> String {
    let mut claims = resource.claims("alice");
    claims["groups"] = json!(["engineers"]);
    resource.issuer.sign(&claims)
}

#[tokio::test]
async fn the_event_stream_of_a_session_ends_when_a_token_with_other_groups_continues_the_session() {
    let resource = start().await;
    let mut session = resource.session(&resource.token("alice")).await;
    let events = session.event_stream().await;
    let subscribe = session.request_builder("resources/subscribe", json!({ "uri": "faulty://m/g" }));
    let wider = subscribe.headers(bearer(&of_engineers(&resource))).send().await.unwrap().text().await.unwrap();
    assert!(wider.contains("\"result\""), "{wider}");
    resource.folder.write("g", "another text of g");
    let events = rest(events).await;
    assert!(!events.contains("faulty://m/g"), "the token that opened the stream may not see it: {events}");
    resource.server.end().await;
}

/// Replaces the credentials of a request.
fn bearer(token: &str) -> reqwest::header::HeaderMap {
    [(reqwest::header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap())].into_iter().collect()
}

#[tokio::test]
async fn a_stream_whose_request_was_begun_with_a_token_that_was_removed_meanwhile_is_not_opened() {
    let resource = start().await;
    let (token, _) = short_lived(&resource, 2);
    let filter = json!({ "notifications": { "resourcesListChanged": true } });
    let request = resource.server.uninitialized(Revision::V_2026_07_28).request_builder("subscriptions/listen", filter);
    let request = request.bearer_auth(&token).build().unwrap();
    let body = request.body().unwrap().as_bytes().unwrap().to_vec();
    let mut head =
        format!("POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n", resource.server.address(), body.len());
    for (name, value) in request.headers().iter().filter(|(name, _)| *name != "content-length") {
        head += &format!("{name}: {}\r\n", value.to_str().unwrap());
    }
    let mut connection = tokio::net::TcpStream::connect(resource.server.address()).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut connection, format!("{head}\r\n").as_bytes()).await.unwrap();
    resource.wait_until_invalid(&token).await;
    tokio::io::AsyncWriteExt::write_all(&mut connection, &body).await.unwrap();
    let mut answer = vec![0; 64];
    let read = timeout(TIMEOUT, tokio::io::AsyncReadExt::read(&mut connection, &mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    resource.server.end().await;
}
