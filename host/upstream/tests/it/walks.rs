//! Walks of a listing: pages that are read ahead, and pages in parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use mcp_host_model::provider::{Page, Provider};
use serde_json::{Value, json};

use super::hostile::wait_for;
use super::scripted::{Reply, Scripted, page, with_session};

/// The number of pages.
const PAGES: usize = 5;

/// Answers with a page whose entry has its number and the version.
fn numbered(message: &Value, version: usize) -> Reply {
    let number: usize = message["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
    let next = (number + 1).to_string();
    page(&[&format!("x:{number}/{version}")], Some(next.as_str()).filter(|_| number + 1 < PAGES))
}

fn server() -> Scripted {
    with_session(|method, message| match method {
        "resources/list" => numbered(message, 0),
        _ => Reply::Error(-32601, "?"),
    })
}

async fn next(up: &Arc<dyn Provider>, cursor: &Option<String>) -> (Vec<String>, Option<String>) {
    let Page { entries, next_cursor } = up.list(None, cursor.as_deref(), 100).await.unwrap();
    (entries.into_iter().map(|entry| entry.path).collect(), next_cursor)
}

#[tokio::test]
async fn the_next_page_is_asked_for_while_a_walk_goes_on_and_each_page_once() {
    let server = server();
    let up = server.connect("").await;
    let asked = || server.count("resources/list");
    let (first, cursor) = next(&up, &None).await;
    assert_eq!((first, asked()), (vec!["x:0/0".to_owned()], 1), "a client may take the first page alone");
    let (second, mut cursor) = next(&up, &cursor).await;
    assert_eq!(second, ["x:1/0"]);
    wait_for(async || asked() == 3).await;
    for number in 2..PAGES {
        let (paths, after) = next(&up, &cursor).await;
        assert_eq!(paths, [format!("x:{number}/0")]);
        wait_for(async || asked() == (number + 2).min(PAGES)).await;
        cursor = after;
    }
    assert_eq!((cursor, asked()), (None, PAGES));
}

#[tokio::test]
async fn two_walks_at_once_have_their_own_pages() {
    let server = server();
    let up = server.connect("").await;
    let (_, mut one) = next(&up, &None).await;
    let (_, mut other) = next(&up, &None).await;
    for number in 1..PAGES {
        let ((paths, after), (of_other, after_other)) = tokio::join!(next(&up, &one), next(&up, &other));
        assert_eq!((&paths, &of_other), (&vec![format!("x:{number}/0")], &paths));
        (one, other) = (after, after_other);
    }
    assert_eq!((one, other, server.count("resources/list")), (None, None, 2 * PAGES));
}

#[tokio::test]
async fn a_page_that_was_read_ahead_is_not_used_after_the_listing_has_changed() {
    let version = Arc::new(AtomicUsize::new(0));
    let now = version.clone();
    let server = with_session(move |method, message| match method {
        "resources/list" => numbered(message, now.load(Ordering::SeqCst)),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let (_, cursor) = next(&up, &None).await;
    let (_, cursor) = next(&up, &cursor).await;
    wait_for(async || server.count("resources/list") == 3).await;
    version.store(1, Ordering::SeqCst);
    server.notify("notifications/resources/list_changed", json!({}));
    up.changed().await;
    assert_eq!(next(&up, &cursor).await.0, ["x:2/1"]);
}

#[tokio::test]
async fn a_page_that_could_not_be_read_ahead_is_asked_for_by_the_call() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let made = attempts.clone();
    let server = with_session(move |method, message| match (method, message["params"]["cursor"].as_str()) {
        ("resources/list", Some("2")) if made.fetch_add(1, Ordering::SeqCst) == 0 => Reply::Error(-32603, "not now"),
        ("resources/list", _) => numbered(message, 0),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let (_, cursor) = next(&up, &None).await;
    let (_, cursor) = next(&up, &cursor).await;
    assert_eq!(next(&up, &cursor).await.0, ["x:2/0"]);
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_page_that_never_comes_is_cancelled_with_the_call_that_waits_for_it() {
    let server = with_session(|method, message| match (method, message["params"]["cursor"].as_str()) {
        ("resources/list", Some("2")) => Reply::Silence,
        ("resources/list", _) => numbered(message, 0),
        ("notifications/cancelled", _) => Reply::Silence,
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let (_, cursor) = next(&up, &None).await;
    let (_, cursor) = next(&up, &cursor).await;
    wait_for(async || server.count("resources/list") == 3).await;
    let mut waiting = Box::pin(next(&up, &cursor));
    assert!((&mut waiting).now_or_never().is_none(), "it waits");
    drop(waiting);
    wait_for(async || server.count("notifications/cancelled") == 1).await;
}

#[tokio::test]
async fn a_page_with_more_entries_than_a_call_can_use_is_asked_for_once() {
    let server = with_session(|method, message| match (method, message["params"]["cursor"].as_str()) {
        ("resources/list", None) => {
            let uris: Vec<_> = (0..10).map(|number| format!("x:{number}")).collect();
            page(&uris.iter().map(String::as_str).collect::<Vec<_>>(), Some("2"))
        }
        ("resources/list", Some(_)) => page(&["x:a", "x:b"], None),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let (mut cursor, mut paths, mut sizes) = (None, Vec::new(), Vec::new());
    loop {
        let page = up.list(None, cursor.as_deref(), 4).await.unwrap();
        sizes.push(page.entries.len());
        paths.extend(page.entries.into_iter().map(|entry| entry.path));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [4, 4, 2, 2]);
    assert_eq!(paths.len(), 12);
    assert_eq!(paths[9..], ["x:9", "x:a", "x:b"]);
    assert_eq!(server.count("resources/list"), 2);
}

#[tokio::test]
async fn a_part_that_is_not_kept_is_taken_of_the_page_again() {
    let server = with_session(|method, _| match method {
        "resources/list" => page(&["x:0", "x:1", "x:2"], None),
        _ => Reply::Error(-32601, "?"),
    });
    let up = server.connect("").await;
    let cursor = up.list(None, None, 1).await.unwrap().next_cursor;
    for _ in 0..2 {
        let page = up.list(None, cursor.as_deref(), 1).await.unwrap();
        assert_eq!(page.entries[0].path, "x:1");
    }
    assert_eq!(server.count("resources/list"), 2, "the first call has taken what was kept");
}
