//! Stored pages whose origin's grant is revoked.

use crate::harness::{Harness, ok, status};
use mcp_provider::{Argument, Failure};

const HEADERS: [(&str, &str); 2] = [("content-type", "text/html"), ("cache-control", "max-age=1000")];

/// Creates a harness with two origins with one page each, and a redirect from the first to the second; all are stored.
fn stored() -> Harness {
    let harness = Harness::new().config("seeds", r#"["a.example/page", "b.example/seed"]"#);
    harness.serve("https://a.example/page", ok(&HEADERS, "<title>A</title>x"));
    harness.serve("https://b.example/page", ok(&HEADERS, "<title>B</title>x"));
    harness.serve("https://b.example/seed", ok(&HEADERS, "<title>Seed</title>x"));
    harness.serve(
        "https://a.example/away",
        status(301, &[("location", "https://b.example/page"), ("cache-control", "max-age=1000")]),
    );
    for path in ["a.example/page", "b.example/page", "b.example/seed", "a.example/away"] {
        harness.read(path).unwrap();
    }
    harness
}

#[test]
fn a_fresh_page_of_an_origin_that_is_no_longer_granted_is_denied_and_so_is_a_redirect_to_it() {
    let harness = stored();
    harness.take_grant("https://b.example");
    for path in ["b.example/page", "a.example/away"] {
        assert!(matches!(harness.read(path), Err(Failure::Denied(_))), "{path}");
    }
    harness.read("a.example/page").unwrap();
    harness.give_grants();
    let requests = harness.request_count();
    harness.read("b.example/page").unwrap();
    assert_eq!(harness.request_count(), requests, "the page is still stored");
}

#[test]
fn a_stale_page_does_not_stand_in_for_an_origin_that_is_no_longer_granted() {
    let harness = stored();
    harness.advance(2000);
    harness.take_grant("https://b.example");
    assert!(matches!(harness.read("b.example/page"), Err(Failure::Denied(_))));
}

#[test]
fn listing_and_completion_have_no_stored_page_of_an_origin_that_is_not_granted() {
    let harness = stored();
    assert_eq!(harness.paths(), ["a.example/page", "b.example/page", "b.example/seed"]);
    harness.take_grant("https://b.example");
    assert_eq!(harness.paths(), ["a.example/page", "b.example/seed"]);
    let seed = harness.list(9).into_iter().find(|entry| entry.path == "b.example/seed").unwrap();
    assert_eq!((seed.title.as_deref().unwrap_or_default().contains("Seed"), seed.size), (false, None));
    let host = [Argument::new("host", "b.example")];
    assert_eq!(harness.complete(Argument::new("path", ""), &host).values, ["seed"]);
}

#[test]
fn a_subscriber_of_a_page_is_told_when_its_origin_is_no_longer_granted() {
    let harness = stored();
    let before = harness.changes(&["b.example/page"], None);
    harness.take_grant("https://b.example");
    harness.advance(2000);
    let after = harness.changes(&["b.example/page"], Some(&before.token));
    assert_eq!(after.changed, ["b.example/page"]);
}
