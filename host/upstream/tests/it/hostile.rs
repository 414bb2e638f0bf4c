//! Upstreams that misbehave. Each of them ends in a failure of its own call, within bounds.
//!
//! | what an upstream does | test |
//! |---|---|
//! | lists pages without end: a cursor that comes again, pages without entries | `a_cursor_that_comes_again_ends_the_listing`, `one_call_passes_over_few_pages_without_entries` |
//! | names foreign URIs, and texts that are none | `a_uri_that_is_none_is_dropped_and_the_others_are_served` |
//! | names URIs of other users and of other prefixes | end to end, `what_a_rule_denies_is_not_told_wherever_an_upstream_names_it`; `an_exchanged_prefix_is_in_every_place` |
//! | lists two spellings of one resource | `two_spellings_of_one_uri_are_dropped` |
//! | lists templates without end | `all_templates_together_have_a_maximum_size` |
//! | sends lines of a gigabyte | `a_line_without_end_is_passed_over_and_harms_its_own_call_alone`; end to end, `a_line_of_a_gigabyte_takes_no_memory_and_leaves_others_alone` |
//! | sends bodies that are too long, of another type, or never end | `http.rs`: `an_answer_that_is_too_long_or_none_fails_its_call_alone`, `subscriptions_that_never_answer_leave_room_for_reads` |
//! | sends notifications by the million | `a_flood_of_notifications_ends_the_connection`; in the stream of an answer, `http.rs` |
//! | sends without end what is no message, or an answer to nothing | `a_flood_that_answers_no_call_ends_the_connection`; in event streams, `floods.rs`; end to end, `a_flood_of_a_program_is_logged_and_ends_its_connection` |
//! | sends bodies in chunks of one byte; has each connection flood, and break off a request | `floods.rs` |
//! | writes to standard error without end | `process.rs`, `standard_error_is_read_at_a_rate` |
//! | ends its event streams at once, and sets times to open them again | `floods.rs` |
//! | never answers, answers twice, without a request, or to another client | `an_upstream_that_answers_twice_or_never_or_something_else_harms_no_other_call`; `http.rs` |
//! | sends values that take a hundred times their text | `values_without_end_become_no_tree_and_harm_no_other_call` |
//! | the same in the handshake | `a_handshake_with_values_without_end_is_refused_with_the_limit` |
//! | dies in each state | `an_upstream_that_dies_in_whatever_state_is_started_again_and_serves` |
//! | comes back as something else: another revision, without resources | `an_upstream_that_comes_back_as_another_server_is_served_as_that` |
//! | asks the host itself: for samples, for input, with long ids | `an_upstream_that_asks_the_host_itself_learns_nothing`; `guard.rs`, `few_answers_to_requests_of_the_server_wait_until_they_are_sent` |
//! | breaks off the exchange of one request | `floods.rs`, `a_request_whose_exchange_breaks_off_does_not_end_the_connection_of_others` |
//! | redirects, refuses credentials, or ends sessions | `http.rs` |
//! | swaps its certificate | end to end, `a_server_with_a_certificate_of_somebody_else_is_told_nothing` |

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_host_model::provider::{Body, Failure, Provider};
use serde_json::{Value, json};

use super::scripted::{Reply, Scripted, page, stateless, text, with_session};

fn uri(message: &Value) -> &str {
    message["params"]["uri"].as_str().unwrap_or_default()
}

/// Follows a listing to its end, or to a failure.
async fn follow(provider: &dyn Provider) -> (usize, Result<(), Failure>) {
    let mut cursor = None;
    for pages in 0..100_000 {
        match provider.list(None, cursor.as_deref(), 100).await {
            Ok(page) if page.next_cursor.is_none() => return (pages + 1, Ok(())),
            Ok(page) => cursor = page.next_cursor,
            Err(failure) => return (pages, Err(failure)),
        }
    }
    panic!("the listing has no end");
}

#[tokio::test]
async fn a_cursor_that_comes_again_ends_the_listing() {
    let server = with_session(|method, message| match method {
        "resources/list" => {
            let next = match message["params"]["cursor"].as_str() {
                Some("a") => "b",
                Some("b") => "c",
                _ => "a",
            };
            page(&["x:1"], Some(next))
        }
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let (pages, end) = follow(&*up).await;
    assert!(
        pages < 12 && matches!(&end, Err(Failure::Internal(text)) if text.contains("repeats a cursor")),
        "{pages} {end:?}"
    );
}

#[tokio::test]
async fn one_call_passes_over_few_pages_without_entries() {
    let count = AtomicUsize::new(0);
    let server = with_session(move |method, _| match method {
        "resources/list" => page(&[], Some(&count.fetch_add(1, Ordering::SeqCst).to_string())),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let page = up.list(None, None, 100).await.unwrap();
    assert!(page.entries.is_empty() && page.next_cursor.is_some());
    assert_eq!(server.count("resources/list"), 16);
}

#[tokio::test]
async fn a_uri_that_is_none_is_dropped_and_the_others_are_served() {
    let server = with_session(|method, message| match method {
        "resources/list" => {
            page(&["", "a", "/etc/passwd", "x:1", "x y:z", "x:#f", "x:%zz", &"x:".repeat(10_000)], None)
        }
        "resources/read" => Reply::Result(json!({ "contents": [{ "uri": "../x", "text": uri(message) }] })),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let entries = up.list(None, None, 100).await.unwrap().entries;
    assert_eq!(entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["x:1"]);
    assert!(matches!(up.read("x:1").await, Err(Failure::Internal(_))));
}

#[tokio::test]
async fn all_templates_together_have_a_maximum_size() {
    let count = AtomicUsize::new(0);
    let server = with_session(move |method, _| match method {
        "resources/templates/list" => {
            let number = count.fetch_add(1, Ordering::SeqCst);
            Reply::Result(json!({
                "resourceTemplates": [{ "uriTemplate": format!("x:{number}/{{id}}"), "name": "t", "description": "x".repeat(50_000) }],
                "nextCursor": number.to_string(),
            }))
        }
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("limits = { response-size = '256KiB' }").await;
    let failure = up.templates().await.unwrap_err();
    assert!(matches!(&failure, Failure::Internal(text) if text.contains("`limits.response-size`")), "{failure:?}");
    // 448 KiB.
    assert_eq!(server.count("resources/templates/list"), 10);
}

#[tokio::test]
async fn a_line_without_end_is_passed_over_and_harms_its_own_call_alone() {
    let is_hostile = AtomicUsize::new(0);
    let server = with_session(move |method, message| match method {
        "resources/read" if is_hostile.fetch_add(1, Ordering::SeqCst) == 0 => Reply::Lines(vec!["x".repeat(16 << 20)]),
        "resources/read" => text(uri(message), "1"),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("limits = { response-size = '64KiB' }").await;
    // Its call has no answer, and ends at its deadline.
    assert!(!tokio::time::timeout(Duration::from_millis(100), up.read("x:1")).await.is_ok_and(|read| read.is_ok()));
    wait_for(async || up.read("x:1").await.is_ok()).await;
    assert_eq!(server.starts.load(Ordering::SeqCst), 1, "a call waited for it");
}

#[tokio::test]
async fn a_flood_of_notifications_ends_the_connection() {
    let is_hostile = AtomicUsize::new(0);
    let server = with_session(move |method, message| match method {
        "resources/read" if is_hostile.fetch_add(1, Ordering::SeqCst) == 0 => {
            let line =
                json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "x:1" } });
            Reply::Lines(vec![line.to_string(); 1_000_000])
        }
        "resources/read" => text(uri(message), "1"),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    assert!(matches!(up.read("x:1").await, Err(Failure::Unavailable { .. })));
    wait_for(async || up.read("x:1").await.is_ok()).await;
    assert_eq!(server.starts.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_flood_that_answers_no_call_ends_the_connection() {
    let unasked = json!({ "jsonrpc": "2.0", "id": 4_000_000, "result": {} }).to_string();
    for flood in [
        vec![String::new(); 100_000],
        vec!["x".to_owned(); 100_000],
        vec![unasked; 100_000],
        vec!["x".repeat(64 << 20)],
    ] {
        let is_hostile = AtomicUsize::new(0);
        let server = with_session(move |method, message| match method {
            "resources/read" if is_hostile.fetch_add(1, Ordering::SeqCst) == 0 => {
                let own = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "contents": [{ "uri": "x:1", "text": "1" }] } });
                let mut lines = vec![own.to_string()];
                lines.extend(flood.iter().cloned());
                Reply::Lines(lines)
            }
            "resources/read" => text(uri(message), "1"),
            _ => Reply::Error(-32601, "?"),
        });
        let up = server.connect("limits = { response-size = '64KiB' }").await;
        assert!(up.read("x:1").await.is_ok());
        // The host notices it without a call.
        wait_for(async || server.starts.load(Ordering::SeqCst) == 2).await;
        wait_for(async || up.read("x:1").await.is_ok()).await;
        assert_eq!(server.starts.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test]
async fn an_upstream_that_answers_twice_or_never_or_something_else_harms_no_other_call() {
    let server = with_session(|method, message| match (method, uri(message)) {
        ("resources/read", "x:twice") => {
            let line = |text: &str| json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "contents": [{ "uri": "x:twice", "text": text }] } });
            Reply::Lines(vec![line("first").to_string(), line("second").to_string()])
        }
        ("resources/read", "x:never") => Reply::Silence,
        ("resources/read", "x:other") => Reply::Result(json!({ "tools": [] })),
        ("resources/read", "x:unasked") => {
            let unasked = json!({ "jsonrpc": "2.0", "id": 4_000_000, "result": {} }).to_string();
            let own = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "contents": [{ "uri": "x:unasked", "text": "" }] } });
            Reply::Lines(vec![unasked, "no JSON".to_owned(), own.to_string()])
        }
        ("resources/read", uri) => text(uri, "1"),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    assert!(up.read("x:twice").await.is_ok());
    assert!(tokio::time::timeout(Duration::from_millis(200), up.read("x:never")).await.is_err());
    assert!(up.read("x:other").await.is_err());
    assert!(up.read("x:unasked").await.is_ok());
    assert!(up.read("x:1").await.is_ok());
    assert_eq!(server.starts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_upstream_that_ends_while_it_is_asked_is_started_again() {
    let has_ended = AtomicUsize::new(0);
    let server = with_session(move |method, message| match method {
        "resources/read" if has_ended.fetch_add(1, Ordering::SeqCst) == 0 => Reply::End,
        "resources/read" => text(uri(message), "1"),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    assert!(matches!(up.read("x:1").await, Err(Failure::Unavailable { .. })));
    wait_for(async || up.read("x:1").await.is_ok()).await;
    assert_eq!(server.starts.load(Ordering::SeqCst), 2);
}

/// Waits until a condition holds, which is the only end but the test's own.
pub(crate) async fn wait_for(condition: impl AsyncFn() -> bool) {
    while !condition().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The text of that many objects, whose tree takes a hundred times its bytes.
fn objects(count: usize) -> String {
    format!("[{}]", vec![r#"{"":0}"#; count].join(","))
}

#[tokio::test]
async fn values_without_end_become_no_tree_and_harm_no_other_call() {
    let server = with_session(|method, message| {
        let id = &message["id"];
        let line = match (method, uri(message)) {
            ("resources/read", "x:more") => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"more":{},"contents":[]}}}}"#, objects(1_000_000))
            }
            ("resources/read", "x:error") => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no","data":{{"uri":{}}}}}}}"#,
                objects(1_000_000)
            ),
            ("resources/read", "x:items") => {
                let items = vec![r#"{"uri":"x:items","text":""}"#; 100_001].join(",");
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"contents":[{items}]}}}}"#)
            }
            ("resources/read", "x:notified") => {
                let update = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"x:1","_meta":{{"a":{}}}}}}}"#,
                    objects(1_000_000)
                );
                let own = json!({ "jsonrpc": "2.0", "id": id, "result": { "contents": [{ "uri": "x:notified", "text": "" }] } });
                return Reply::Lines(vec![update, own.to_string()]);
            }
            ("resources/read", uri) => return text(uri, "1"),
            _ => return Reply::Error(-32601, "?"),
        };
        Reply::Lines(vec![line])
    });
    let up = server.connect("limits = { response-size = '16MiB', response-items = 100_000 }").await;
    for path in ["x:more", "x:error"] {
        assert_eq!(up.read(path).await, Err(Failure::NotFound), "{path}");
    }
    let items = up.read("x:items").await;
    assert!(matches!(&items, Err(Failure::Internal(text)) if text.contains("limits.response-items")), "{items:?}");
    assert!(up.read("x:notified").await.is_ok() && up.read("x:1").await.is_ok());
    assert_eq!(server.starts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_handshake_with_values_without_end_is_refused_with_the_limit() {
    let server = Scripted::new(|message| match message["method"].as_str() {
        Some("server/discover") => Reply::Error(-32601, "?"),
        _ => {
            let (id, version) = (&message["id"], &message["params"]["protocolVersion"]);
            let more = objects(1_000_000);
            Reply::Lines(vec![format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":{version},"capabilities":{{}},"more":{more}}}}}"#
            )])
        }
    });
    let error = server.try_connect("limits = { response-size = '16MiB' }").await.err().unwrap();
    assert!(error.contains("a quarter of `limits.memory`"), "{error}");
}

/// Where an upstream dies for the first time.
const STATES: [&str; 8] = [
    "server/discover",
    "initialize",
    "notifications/initialized",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "half a line",
];

#[tokio::test]
async fn an_upstream_that_dies_in_whatever_state_is_started_again_and_serves() {
    for state in STATES {
        let deaths = AtomicUsize::new(0);
        let living = with_session(|method, message| match method {
            "resources/list" => page(&["x:1"], None),
            "resources/templates/list" => Reply::Result(json!({ "resourceTemplates": [] })),
            "resources/read" => text(uri(message), "1"),
            _ => Reply::Result(json!({})),
        });
        let server = Scripted::new(move |message| {
            let method = message["method"].as_str().unwrap_or_default();
            let is_half = state == "half a line" && method == "resources/read";
            if (method == state || is_half) && deaths.fetch_add(1, Ordering::SeqCst) == 0 {
                return if is_half { Reply::Half(r#"{"jsonrpc":"2.0","id":"#.to_owned()) } else { Reply::End };
            }
            living.answer(message)
        });
        // In the handshake it is the host's start that is tried again.
        let up = loop {
            if let Ok(up) = server.try_connect("limits = { deadline = '2s' }").await {
                break up;
            }
        };
        let watched = vec!["x:1".to_owned()];
        wait_for(async || {
            up.list(None, None, 10).await.is_ok()
                && up.templates().await.is_ok()
                && up.read("x:1").await.is_ok()
                && up.changes(&watched, None).await.is_ok()
                && server.starts.load(Ordering::SeqCst) >= 2
        })
        .await;
    }
}

#[tokio::test]
async fn an_upstream_that_comes_back_as_another_server_is_served_as_that() {
    let without_sessions = stateless(|method, message| match method {
        "resources/list" => page(&["x:1"], None),
        "resources/read" => text(uri(message), "new"),
        _ => Reply::Error(-32601, "?"),
    });
    let lives = std::sync::Arc::new(AtomicUsize::new(0));
    let life = lives.clone();
    let with_sessions = with_session(|method, message| match method {
        "resources/list" => page(&["x:1"], None),
        "resources/read" => text(uri(message), "old"),
        _ => Reply::Result(json!({})),
    });
    let nothing = Scripted::new(|message| match message["method"].as_str().unwrap_or_default() {
        "server/discover" => Reply::Error(-32601, "?"),
        "initialize" => Reply::Result(json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "serverInfo": { "name": "nothing", "version": "1" } })),
        _ => Reply::Error(-32601, "?"),
    });
    let server = Scripted::new(move |message| match life.load(Ordering::SeqCst) {
        0 => with_sessions.answer(message),
        1 => without_sessions.answer(message),
        _ => nothing.answer(message),
    });
    let up = server.connect("").await;
    let is_read = async |expected: &str| {
        let read = up.read("x:1").await;
        read.is_ok_and(|contents| contents[0].body == Body::Text(expected.to_owned()))
    };
    assert!(is_read("old").await);
    for (life, expected) in [(1, "new"), (0, "old")] {
        lives.store(life, Ordering::SeqCst);
        server.end();
        wait_for(async || is_read(expected).await).await;
    }
    lives.store(2, Ordering::SeqCst);
    server.end();
    wait_for(async || up.list(None, None, 10).await.is_ok_and(|page| page.entries.is_empty())).await;
    assert!(up.read("x:1").await.is_err());
}

#[tokio::test]
async fn an_upstream_that_asks_the_host_itself_learns_nothing() {
    let answers = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let received = answers.clone();
    let living = with_session(|method, message| match method {
        "resources/read" => {
            let asked = |id: Value, method: &str| {
                json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {
                "messages": [], "maxTokens": 1, "message": "your password?", "requestedSchema": { "type": "object", "properties": {} } } })
            };
            let own = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "contents": [{ "uri": "x:1", "text": "1" }] } });
            let lines = [
                asked(json!(1), "roots/list"),
                asked(json!(2), "sampling/createMessage"),
                asked(json!(3), "elicitation/create"),
                asked(json!("x".repeat(100_000)), "ping"),
                own,
            ];
            Reply::Lines(lines.iter().map(Value::to_string).collect())
        }
        _ => Reply::Result(json!({})),
    });
    let server = Scripted::new(move |message| {
        if message["method"].is_null() {
            received.lock().push(message.clone());
            return Reply::Silence;
        }
        living.answer(message)
    });
    let up = server.connect("").await;
    assert!(up.read("x:1").await.is_ok());
    wait_for(async || answers.lock().len() >= 3).await;
    for answer in &*answers.lock() {
        let is_empty_list = answer["result"]["roots"].as_array().is_some_and(Vec::is_empty);
        let is_declined = answer["result"] == json!({ "action": "decline" });
        assert!(answer["error"].is_object() || is_empty_list || is_declined, "{answer}");
        assert!(answer.to_string().len() < 4096);
    }
    assert!(up.read("x:1").await.is_ok());
    assert_eq!(server.starts.load(Ordering::SeqCst), 1);
}
