//! Subscriptions and readings.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_host_model::provider::Provider;
use serde_json::{Value, json};

use super::hostile::wait_for;
use super::scripted::{Reply, Scripted, acknowledged, page, stateless, text, with_session};

fn watched(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

fn subscribing(method: &str, message: &Value) -> Reply {
    match method {
        "resources/list" => page(&["x:a%2Cb"], None),
        "resources/subscribe" | "resources/unsubscribe" => Reply::Result(json!({})),
        "resources/read" => text(message["params"]["uri"].as_str().unwrap_or_default(), ""),
        _ => Reply::Error(-32601, "?"),
    }
}

#[tokio::test]
async fn a_resource_is_subscribed_to_once_by_its_spelling_and_its_update_is_told() {
    let server = with_session(subscribing);
    let up = server.connect("").await;
    up.list(None, None, 1).await.unwrap();
    let all = watched(&["x:a,b", "x:c"]);
    let start = up.changes(&all, None).await.unwrap().token;
    let start = up.changes(&all, Some(&start)).await.unwrap();
    assert!(start.changed.is_empty());
    let calls = server.calls.lock().clone();
    let subscribed =
        calls.iter().filter(|(method, _)| method == "resources/subscribe").map(|(_, params)| &params["uri"]);
    let subscribed: Vec<_> = subscribed.collect();
    assert_eq!(subscribed.len(), 2);
    assert!(subscribed.contains(&&json!("x:a%2Cb")) && subscribed.contains(&&json!("x:c")));

    server.notify("notifications/resources/updated", json!({ "uri": "x:a%2Cb" }));
    up.changed().await;
    let changes = up.changes(&all, Some(&start.token)).await.unwrap();
    assert_eq!((changes.changed, changes.listing_changed), (watched(&["x:a,b"]), false));
    server.notify("notifications/resources/list_changed", json!({}));
    up.changed().await;
    assert!(up.changes(&all, Some(&changes.token)).await.unwrap().listing_changed);
}

#[tokio::test]
async fn after_a_connection_was_lost_everything_is_subscribed_to_again_and_has_changed_once() {
    let server = with_session(subscribing);
    let up = server.connect("").await;
    let all = watched(&["x:1", "x:2"]);
    let start = up.changes(&all, None).await.unwrap();
    server.end();
    up.changed().await;
    wait_for(async || up.changes(&all, Some(&start.token)).await.is_ok_and(|changes| changes.changed == all)).await;
    let after = up.changes(&all, Some(&start.token)).await.unwrap().token;
    assert!(up.changes(&all, Some(&after)).await.unwrap().changed.is_empty());
    assert_eq!((server.count("resources/subscribe"), server.starts.load(Ordering::SeqCst)), (4, 2));
}

/// A server without sessions that acknowledges each stream.
fn listening() -> (Scripted, Arc<AtomicUsize>) {
    let streams = Arc::new(AtomicUsize::new(0));
    let opened = streams.clone();
    let server = stateless(move |method, message| match method {
        "subscriptions/listen" => {
            opened.fetch_add(1, Ordering::SeqCst);
            Reply::Lines(vec![acknowledged(message).to_string()])
        }
        "notifications/cancelled" => Reply::Silence,
        _ => subscribing(method, message),
    });
    (server, streams)
}

#[tokio::test]
async fn a_stream_is_open_for_all_and_replaced_when_another_resource_is_watched() {
    let (server, streams) = listening();
    let up = server.connect("").await;
    let (one, both) = (watched(&["x:1"]), watched(&["x:1", "x:2"]));
    let start = up.changes(&one, None).await.unwrap().token;
    up.changes(&one, Some(&start)).await.unwrap();
    assert_eq!(streams.load(Ordering::SeqCst), 1);
    let start = up.changes(&both, Some(&start)).await.unwrap();
    assert!(start.changed.is_empty());
    assert_eq!(streams.load(Ordering::SeqCst), 2);
    let listens: Vec<_> =
        server.calls.lock().iter().filter(|(method, _)| method == "subscriptions/listen").cloned().collect();
    let uris = listens[1].1["notifications"]["resourceSubscriptions"].as_array().unwrap();
    assert_eq!(uris.len(), 2);

    // The id of a stream is that of its request, which the client counts.
    for id in 0..10 {
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
        server.notify("notifications/resources/updated", json!({ "uri": "x:2", "_meta": meta }));
    }
    up.changed().await;
    wait_for(async || up.changes(&both, Some(&start.token)).await.is_ok_and(|changes| changes.changed == ["x:2"]))
        .await;
}

#[tokio::test]
async fn what_cannot_be_subscribed_to_is_read_again() {
    let version = Arc::new(AtomicUsize::new(0));
    let now = version.clone();
    let server = Scripted::new(move |message| match message["method"].as_str().unwrap_or_default() {
        "server/discover" => Reply::Error(-32601, "?"),
        "initialize" => Reply::Result(json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": {} },
            "serverInfo": { "name": "scripted", "version": "1" } })),
        "notifications/initialized" => Reply::Silence,
        "resources/list" => page(&["x:1"], None),
        "resources/read" => text("x:1", &now.load(Ordering::SeqCst).to_string()),
        _ => Reply::Error(-32601, "?"),
    });
    assert!(!server.connect("").await.describe().watches);
    let up = server.connect("poll = true").await;
    assert!(up.describe().watches && up.stat("x:1").await.unwrap().subscribable);
    let all = watched(&["x:1"]);
    let start = up.changes(&all, None).await.unwrap();
    assert!(up.changes(&all, Some(&start.token)).await.unwrap().changed.is_empty());
    version.store(1, Ordering::SeqCst);
    assert_eq!(up.changes(&all, Some(&start.token)).await.unwrap().changed, all);
    assert_eq!(server.count("resources/subscribe"), 0);
}

/// Keys with a short deadline, so that what never answers ends soon.
const SHORT: &str = "limits = { deadline = '400ms' }";

#[tokio::test]
async fn a_resource_whose_subscription_never_answers_or_is_refused_leaves_the_others_subscribed() {
    let server = with_session(|method, message| match (method, message["params"]["uri"].as_str()) {
        ("resources/subscribe", Some("x:never")) => Reply::Silence,
        ("resources/subscribe", Some("x:refused")) => Reply::Error(-32603, "no"),
        ("notifications/cancelled", _) => Reply::Silence,
        _ => subscribing(method, message),
    });
    let up = server.connect(SHORT).await;
    let all = watched(&["x:1", "x:never", "x:refused", "x:2"]);
    let start = up.changes(&all, None).await.unwrap().token;
    for _ in 0..2 {
        server.notify("notifications/resources/updated", json!({ "uri": "x:1" }));
        up.changed().await;
        let changes = async || up.changes(&all, Some(&start)).await.unwrap();
        wait_for(async || changes().await.changed == ["x:1"]).await;
    }
}

#[tokio::test]
async fn a_subscription_that_was_refused_is_tried_again_and_its_resource_has_changed_once() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let made = attempts.clone();
    let server = with_session(move |method, message| match (method, message["params"]["uri"].as_str()) {
        ("resources/subscribe", Some("x:later")) if made.fetch_add(1, Ordering::SeqCst) == 0 => {
            Reply::Error(-32603, "not yet")
        }
        _ => subscribing(method, message),
    });
    let up = server.connect(SHORT).await;
    let all = watched(&["x:1", "x:later"]);
    let start = up.changes(&all, None).await.unwrap().token;
    wait_for(async || up.changes(&all, Some(&start)).await.unwrap().changed == ["x:later"]).await;
    let after = up.changes(&all, Some(&start)).await.unwrap().token;
    assert!(up.changes(&all, Some(&after)).await.unwrap().changed.is_empty());
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_resource_that_no_stream_is_opened_for_leaves_the_others_in_a_stream() {
    for answers in [true, false] {
        let (listening, _) = listening();
        let server = Scripted::new(move |message| {
            let uris = &message["params"]["notifications"]["resourceSubscriptions"];
            let is_bad = uris.as_array().is_some_and(|uris| uris.contains(&json!("x:bad")));
            match (is_bad, answers) {
                (true, true) => Reply::Error(-32602, "no such resource"),
                (true, false) => Reply::Silence,
                _ => listening.answer(message),
            }
        });
        let up = server.connect(SHORT).await;
        let all = watched(&["x:1", "x:bad", "x:2"]);
        let start = up.changes(&all, None).await.unwrap().token;
        let told = async || {
            // The id of a stream is that of its request, which the client counts.
            for id in 0..10 {
                let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
                server.notify("notifications/resources/updated", json!({ "uri": "x:2", "_meta": meta }));
            }
            let changed = up.changes(&all, Some(&start)).await.unwrap().changed;
            changed.contains(&"x:2".to_owned())
        };
        wait_for(told).await;
    }
}

#[tokio::test]
async fn a_reading_that_never_ends_or_fails_leaves_the_others_polled() {
    let version = Arc::new(AtomicUsize::new(0));
    let now = version.clone();
    let server = Scripted::new(move |message| {
        match (message["method"].as_str().unwrap_or_default(), message["params"]["uri"].as_str()) {
            ("server/discover", _) => Reply::Error(-32601, "?"),
            ("initialize", _) => {
                Reply::Result(json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": {} },
                "serverInfo": { "name": "scripted", "version": "1" } }))
            }
            ("notifications/initialized" | "notifications/cancelled", _) => Reply::Silence,
            ("resources/list", _) => page(&["x:1"], None),
            ("resources/read", Some("x:never")) => Reply::Silence,
            ("resources/read", Some("x:broken")) => Reply::Error(-32603, "boom"),
            ("resources/read", Some(uri)) => text(uri, &now.load(Ordering::SeqCst).to_string()),
            _ => Reply::Error(-32601, "?"),
        }
    });
    let up = server.connect(&format!("poll = true\n{SHORT}")).await;
    let all = watched(&["x:1", "x:never", "x:broken", "x:never2", "x:2"]);
    let mut token = up.changes(&all, None).await.unwrap().token;
    for edit in 1..4 {
        version.store(edit, Ordering::SeqCst);
        let mut changed = Vec::new();
        while changed.len() < 3 {
            let changes = up.changes(&all, Some(&token)).await.unwrap();
            changed.extend(changes.changed);
            token = changes.token;
        }
        changed.sort();
        assert_eq!(changed, ["x:1", "x:2", "x:never2"]);
    }
}
