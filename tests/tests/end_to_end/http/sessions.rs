//! Sessions from their creation to their end, and the streams that keep them alive.

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, RawHttp, Revision, TIMEOUT};
use reqwest::{Client, Method, Response, StatusCode};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::timeout;

const REVISION: Revision = Revision::V_2025_11_25;

fn config() -> ConfigFile {
    ConfigFile::new().plugin(Plugin::sample("a")).allow_all()
}

/// Returns the status of a request in the session, which shows whether the session still exists.
async fn ping(wire: &mut RawHttp) -> StatusCode {
    wire.request_builder("ping", json!({})).send().await.unwrap().status()
}

/// Reads until a text has arrived.
async fn read_until(stream: &mut Response, wanted: &str) {
    let mut seen = String::new();
    while !seen.contains(wanted) {
        let chunk = timeout(TIMEOUT, stream.chunk()).await.unwrap().unwrap();
        seen.push_str(std::str::from_utf8(&chunk.expect("the stream goes on")).unwrap());
    }
}

#[tokio::test]
async fn a_session_ends_when_its_client_deletes_it() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(REVISION).await;
    let mut session = wire.request_builder("ping", json!({})).build().unwrap();
    *session.method_mut() = Method::DELETE;
    let deleted = Client::new().execute(session).await.unwrap();
    assert!(deleted.status().is_success(), "{}", deleted.status());
    assert_eq!(ping(&mut wire).await, StatusCode::NOT_FOUND);
    server.end().await;
}

#[tokio::test]
async fn a_session_that_was_never_opened_is_not_found() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(REVISION).await;
    let mut request = wire.request_builder("resources/list", json!({})).build().unwrap();
    request.headers_mut().insert("mcp-session-id", "00000000-0000-0000-0000-000000000000".parse().unwrap());
    assert_eq!(Client::new().execute(request).await.unwrap().status(), StatusCode::NOT_FOUND);
    server.end().await;
}

#[tokio::test]
async fn a_session_that_is_idle_ends_and_one_that_listens_is_never_idle() {
    let config = || config().http_limit("idle-timeout", "100ms").http("keep-alive", "100ms");
    let written = config().write();
    let server = HttpServer::start(&written).await;
    let mut listener = server.raw_client(REVISION).await;
    let mut events = listener.event_stream().await;
    let mut silent = server.raw_client(REVISION).await;
    written.replace(config().http_limit("session-idle-timeout", "100ms"));
    server.log_line("session ended: it was idle").await;
    assert_eq!(ping(&mut silent).await, StatusCode::NOT_FOUND);
    // Only comments arrive: no message was sent on this stream, which has been open for longer than the timeout.
    for _ in 0..5 {
        read_until(&mut events, ":").await;
    }
    assert_eq!(ping(&mut listener).await, StatusCode::OK);
    server.end().await;
}

#[tokio::test]
async fn a_quiet_subscriber_is_told_what_changes_after_longer_than_sessions_and_connections_may_be_idle() {
    let folder = Folder::with_files([("f", "text")]);
    let config = || {
        let config = ConfigFile::new().plugin(Plugin::faulty("m", folder.path())).allow_all();
        config.http_limit("idle-timeout", "100ms").http("keep-alive", "100ms")
    };
    let written = config().write();
    let server = HttpServer::start(&written).await;
    let mut wire = server.raw_client(REVISION).await;
    let mut events = wire.event_stream().await;
    wire.request("resources/subscribe", json!({ "uri": "faulty://m/f" })).await.result();
    let idle = server.raw_client(REVISION).await;
    written.replace(config().http_limit("session-idle-timeout", "100ms"));
    server.log_line("session ended: it was idle").await;
    drop(idle);
    folder.write("f", "changed");
    read_until(&mut events, "notifications/resources/updated").await;
    server.end().await;
}

#[tokio::test]
async fn one_session_too_many_ends_the_one_that_has_been_idle_for_longest() {
    let config = config().http_limit("sessions", 3).write();
    let server = HttpServer::start(&config).await;
    let mut first = server.raw_client(REVISION).await;
    let mut second = server.raw_client(REVISION).await;
    let mut third = server.raw_client(REVISION).await;
    assert_eq!(ping(&mut first).await, StatusCode::OK);
    let mut fourth = server.raw_client(REVISION).await;
    assert_eq!(ping(&mut second).await, StatusCode::NOT_FOUND);
    // The third one is used after the choice that ended the second one, so the next choice is the first one.
    assert_eq!(ping(&mut third).await, StatusCode::OK);
    let mut fifth = server.raw_client(REVISION).await;
    assert_eq!(ping(&mut first).await, StatusCode::NOT_FOUND);
    for other in [&mut third, &mut fourth, &mut fifth] {
        assert_eq!(ping(other).await, StatusCode::OK);
    }
    server.end().await;
}

#[tokio::test]
async fn while_all_sessions_are_in_use_there_is_no_new_one() {
    let config = config().http_limit("sessions", 1).write();
    let server = HttpServer::start(&config).await;
    let mut listener = server.raw_client(REVISION).await;
    let events = listener.event_stream().await;
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": mcp_host_tests::initialize_params(&REVISION),
    });
    let refused = server.uninitialized(REVISION).post(&hello).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(ping(&mut listener).await, StatusCode::OK);
    drop(events);
    server.end().await;
}

#[tokio::test]
async fn the_stream_of_a_session_ends_in_order_with_the_server() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(REVISION).await;
    let events = wire.event_stream().await;
    assert_eq!(ping(&mut wire).await, StatusCode::OK);
    server.signal(Signal::TERM);
    // A stream that is cut would be an error.
    timeout(TIMEOUT, events.bytes()).await.unwrap().unwrap();
    server.wait_clean_exit().await;
}
