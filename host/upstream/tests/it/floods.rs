//! Servers that send without end over HTTP, or make the host send without end. All of it happens without a call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use futures::StreamExt as _;
use mcp_host_model::provider::{Failure, Provider as _};
use serde_json::{Value, json};

use super::hostile::wait_for;
use super::http::{Server, json, status, with_session, with_subscriptions};
use super::scripted::acknowledged;

/// An event stream of these bytes.
fn events(bytes: impl Into<Body>) -> Response {
    Response::builder().header("content-type", "text/event-stream").body(bytes.into()).unwrap()
}

/// An event stream that repeats this text without end, after its beginning.
fn endless(beginning: String, text: &str) -> Response {
    let flood = text.repeat((64 << 10) / text.len());
    let pieces = futures::stream::iter([beginning]).chain(futures::stream::repeat(flood));
    events(Body::from_stream(pieces.map(Ok::<_, std::io::Error>)))
}

/// A server with sessions and subscriptions. `stream` answers GET.
fn answer(method: &Method, message: &Value, stream: impl Fn() -> Response) -> Response {
    match (method, message["method"].as_str().unwrap_or_default()) {
        (&Method::GET, _) => stream(),
        (_, "initialize") => json(
            message,
            json!({ "protocolVersion": "2025-06-18", "serverInfo": { "name": "flood", "version": "1" },
                "capabilities": { "resources": { "subscribe": true, "listChanged": true } } }),
        ),
        (_, "resources/subscribe") => json(message, json!({})),
        _ => with_session(method, message, |uri| json(message, json!({ "contents": [{ "uri": uri, "text": "1" }] }))),
    }
}

#[tokio::test]
async fn a_flood_in_a_stream_of_notifications_ends_the_connection_which_is_opened_again_with_back_off() {
    for flood in [
        ":\n\n",
        "\n",
        "\r",
        "event: ping\ndata: x\n\n",
        "id: x\n\n",
        "data: [\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n",
    ] {
        let server =
            Server::start(move |method, message| answer(method, message, || endless(String::new(), flood))).await;
        let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
        wait_for(async || server.count("initialize") >= 2).await;
        // A subscriber asks again and again, which does not shorten the back-off.
        let began = Instant::now();
        let (before, watched) = (server.count("initialize"), vec!["x:1".to_owned()]);
        let mut reason = None;
        for _ in 0..100 {
            if up.changes(&watched, None).await.is_err() {
                reason = up.outage().map(|outage| outage.reason).or(reason);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // A busy machine takes longer.
        let more = server.count("initialize") - before;
        assert!(more <= 3 + began.elapsed().as_secs() as usize, "{flood:?}: {more}");
        assert!(reason.is_some_and(|reason| reason.contains("not answers to requests")), "{flood:?}");
    }
}

#[tokio::test]
async fn a_flood_in_a_stream_of_subscriptions_ends_the_connection() {
    for flood in [":\n\n", "event: ping\ndata: x\n\n"] {
        let server = Server::start(move |_, message| with_subscriptions(message, |first| endless(first, flood))).await;
        let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
        let watched = vec!["x:1".to_owned()];
        let mut reason = None;
        while reason.is_none() {
            if up.changes(&watched, None).await.is_err() {
                reason = up.outage().map(|outage| outage.reason);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(reason.is_some_and(|reason| reason.contains("not answers to requests")), "{flood:?}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_at_once_is_opened_again_after_a_second_or_more() {
    // The last line is not valid, so that the stream has an error.
    for end in ["retry: 0\nid: 1\ndata: \n\n", "id: 1\ndata: \n\nx\n"] {
        let server = Server::start(move |method, message| answer(method, message, || events(end))).await;
        let _up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
        wait_for(async || server.count("GET") >= 1).await;
        let (began, before) = (Instant::now(), server.count("GET"));
        tokio::time::sleep(Duration::from_secs(2)).await;
        let more = server.count("GET") - before;
        assert!(more <= 1 + began.elapsed().as_secs() as usize, "{end:?}: {more}");
        wait_for(async || server.count("GET") > before).await;
        assert_eq!(server.count("initialize"), 1, "the connection is kept");
    }
}

#[tokio::test]
async fn streams_of_answers_with_few_other_events_are_no_flood() {
    let server = Server::start(|method, message| match message["method"].as_str() {
        Some("resources/read") => {
            let uri = &message["params"]["uri"];
            let contents = json!({ "contents": [{ "uri": uri, "text": "x".repeat(100_000) }] });
            let own = json!({ "jsonrpc": "2.0", "id": message["id"], "result": contents });
            events(format!("id: 1\ndata: \n\n: ping\n\ndata: {own}\n\n"))
        }
        _ => answer(method, message, || status(405, "")),
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
    // 30 MB of answers.
    for _ in 0..300 {
        assert!(up.read("x:1").await.is_ok());
    }
    assert_eq!((server.count("initialize"), up.outage()), (1, None));
}

#[tokio::test]
async fn the_status_of_a_failed_request_and_the_time_to_retry_reach_the_client() {
    let failure = |message: &Value| {
        let uri = message["params"]["uri"].as_str().unwrap_or_default();
        let (code, retry_after) = uri.trim_start_matches("x:").split_once('-').unwrap();
        let mut response = status(code.parse().unwrap(), "");
        if !retry_after.is_empty() {
            response.headers_mut().insert("retry-after", retry_after.parse().unwrap());
        }
        response
    };
    let sessions = Server::start(move |method, message| match message["method"].as_str() {
        Some("resources/read") => failure(message),
        _ => answer(method, message, || status(405, "")),
    })
    .await;
    let stateless = Server::start(move |_, message| match message["method"].as_str() {
        Some("resources/read") => failure(message),
        _ => json(
            message,
            json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "public",
                "capabilities": { "resources": {} } }),
        ),
    })
    .await;
    for server in [sessions, stateless] {
        let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
        for (path, status, seconds) in [
            ("x:503-5", 503, Some(5)),
            ("x:429-0", 429, Some(1)),
            ("x:429-99999999999999999999", 429, Some(300)),
            ("x:503-", 503, None),
            ("x:500-5", 500, None),
            ("x:502-", 502, None),
        ] {
            let reason = format!("the upstream responded with status {status}");
            let retry_after = seconds.map(Duration::from_secs);
            assert_eq!(up.read(path).await, Err(Failure::Unavailable { reason, retry_after }), "{path}");
        }
    }
}

#[tokio::test]
async fn a_body_in_chunks_of_one_byte_fails_its_call_alone() {
    let endless = || {
        let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(" "));
        Response::builder().header("content-type", "application/json").body(Body::from_stream(chunks)).unwrap()
    };
    let read = move |message: &Value| match message["params"]["uri"].as_str() {
        Some("x:chunks") => endless(),
        uri => json(message, json!({ "contents": [{ "uri": uri, "text": "1" }] })),
    };
    let sessions = Server::start(move |method, message| match message["method"].as_str() {
        Some("resources/read") => read(message),
        _ => answer(method, message, || status(405, "")),
    });
    let stateless = Server::start(move |_, message| match message["method"].as_str() {
        Some("resources/read") => read(message),
        _ => json(
            message,
            json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "public",
                "capabilities": { "resources": {} } }),
        ),
    });
    for server in [sessions.await, stateless.await] {
        let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
        assert!(up.read("x:chunks").await.is_err());
        wait_for(async || up.read("x:1").await.is_ok()).await;
    }
}

/// A response that breaks off.
fn broken() -> Response {
    let body = Body::from_stream(futures::stream::iter([Ok("{"), Err(std::io::Error::other("broken"))]));
    Response::builder().header("content-type", "application/json").body(body).unwrap()
}

/// The acknowledgement of a subscription, in a stream that does not end.
fn listening(message: &Value) -> Response {
    let first = Ok::<_, std::io::Error>(format!("data: {}\n\n", acknowledged(message)));
    events(Body::from_stream(futures::stream::iter([first]).chain(futures::stream::pending())))
}

#[tokio::test]
async fn a_request_whose_exchange_breaks_off_does_not_end_the_connection_of_others() {
    let read = move |message: &Value| match message["params"]["uri"].as_str() {
        Some("x:broken") => broken(),
        uri => json(message, json!({ "resultType": "complete", "contents": [{ "uri": uri, "text": "1" }] })),
    };
    let pending = || events(Body::from_stream(futures::stream::pending::<Result<&str, std::io::Error>>()));
    let sessions = Server::start(move |method, message| match message["method"].as_str() {
        Some("resources/read") => read(message),
        Some("ping") => json(message, json!({})),
        _ => answer(method, message, pending),
    });
    let stateless = Server::start(move |_, message| match message["method"].as_str() {
        Some("resources/read") => read(message),
        Some("subscriptions/listen") => listening(message),
        _ => json(
            message,
            json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "public",
                "capabilities": { "resources": { "subscribe": true } } }),
        ),
    });
    let watched = vec!["x:1".to_owned()];
    for (server, subscribing) in [(sessions.await, "resources/subscribe"), (stateless.await, "subscriptions/listen")] {
        let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
        wait_for(async || up.changes(&watched, None).await.is_ok() && server.count(subscribing) >= 1).await;
        let before = server.count(subscribing);
        for _ in 0..5 {
            let failed = up.read("x:broken").await;
            assert!(matches!(failed, Err(Failure::Unavailable { .. })), "{failed:?}");
            assert!(up.read("x:1").await.is_ok() && up.changes(&watched, None).await.is_ok());
        }
        // The connection was checked instead.
        wait_for(async || server.count("ping") >= 1 || server.count("server/discover") >= 2).await;
        assert!(server.count("initialize") <= 1 && server.count(subscribing) == before, "{subscribing}");
        assert_eq!(up.outage(), None);
    }
}

#[tokio::test]
async fn an_event_of_notifications_is_short_also_if_it_does_not_end() {
    let unfinished = || {
        events(Body::from_stream(
            futures::stream::iter([Ok::<_, std::io::Error>(format!("data: {}", "x".repeat(1 << 20)))])
                .chain(futures::stream::pending()),
        ))
    };
    let server = Server::start(move |method, message| answer(method, message, unfinished)).await;
    let _up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
    // The stream is ended, and opened again.
    wait_for(async || server.count("GET") >= 2).await;
}

#[tokio::test]
async fn a_server_that_breaks_off_each_exchange_is_unreachable_at_once() {
    let mut is_at_once = false;
    // A busy machine may be late.
    for _ in 0..5 {
        let is_broken = Arc::new(AtomicBool::new(false));
        let breaks = is_broken.clone();
        let server = Server::start(move |method, message| match breaks.load(Ordering::SeqCst) {
            true => broken(),
            false => answer(method, message, || status(405, "")),
        })
        .await;
        let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
        assert!(up.read("x:1").await.is_ok());
        is_broken.store(true, Ordering::SeqCst);
        assert!(up.read("x:1").await.is_err());
        // Before the next health check of a silent connection.
        let unreachable = wait_for(async || up.outage().is_some());
        is_at_once = tokio::time::timeout(Duration::from_secs(5), unreachable).await.is_ok();
        if is_at_once {
            break;
        }
    }
    assert!(is_at_once);
}

#[tokio::test]
async fn a_health_check_without_an_answer_is_cancelled() {
    // The ids of the check, and of the request that was cancelled.
    let ids = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let received = ids.clone();
    let server = Server::start(move |method, message| match message["method"].as_str() {
        Some("resources/read") => broken(),
        Some("ping") => {
            received.lock().unwrap().0.push(message["id"].clone());
            events(Body::from_stream(futures::stream::pending::<Result<&str, std::io::Error>>()))
        }
        Some("notifications/cancelled") => {
            received.lock().unwrap().1.push(message["params"]["requestId"].clone());
            status(202, "")
        }
        _ => answer(method, message, || status(405, "")),
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
    assert!(up.read("x:1").await.is_err());
    // After the timeout of the check.
    let cancelled = wait_for(async || !ids.lock().unwrap().1.is_empty());
    assert!(tokio::time::timeout(Duration::from_secs(60), cancelled).await.is_ok());
    let (sent, cancelled) = ids.lock().unwrap().clone();
    assert_eq!(sent[0], cancelled[0]);
}

#[tokio::test]
async fn a_flood_that_a_failed_request_cuts_short_has_back_off_too() {
    // Less than a burst, for each connection.
    let flood = || events(format!(":{}\n\n", "x".repeat(100 << 10)).repeat(120));
    let server = Server::start(move |method, message| match (method, message["method"].as_str()) {
        (_, Some("resources/read")) => status(404, ""),
        _ => answer(method, message, flood),
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
    wait_for(async || {
        let _ = up.read("x:1").await;
        up.outage().is_some_and(|outage| outage.reason.contains("16 MiB at once"))
    })
    .await;
    let before = server.count("initialize");
    for _ in 0..100 {
        let _ = up.read("x:1").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Each delay is twice the one before, so there are few attempts even if these requests take minutes.
    assert!(server.count("initialize") - before <= 30, "{}", server.count("initialize") - before);
}
