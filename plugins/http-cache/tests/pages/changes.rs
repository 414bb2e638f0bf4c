//! Change detection.

use crate::harness::{Harness, ok, status};
use std::time::Duration;

const PAGE: &str = "h.example/page";
const URL: &str = "https://h.example/page";

fn page(etag: &str, body: &str) -> http_cache_provider::Response {
    ok(&[("content-type", "text/plain"), ("cache-control", "max-age=100"), ("etag", etag)], body)
}

fn sample() -> Harness {
    let harness = Harness::new();
    harness.serve(URL, page("\"1\"", "one"));
    harness
}

#[test]
fn a_watched_page_is_asked_for_when_its_freshness_is_over_and_no_sooner() {
    let harness = sample();
    let start = harness.changes(&[PAGE], None);
    assert!(start.changed.is_empty() && !start.listing_changed);
    assert_eq!(harness.request_count(), 1);
    harness.serve(URL, page("\"2\"", "two"));
    let mut token = start.token;
    for _ in 0..9 {
        harness.advance(11);
        let round = harness.changes(&[PAGE], Some(&token));
        assert!(round.changed.is_empty());
        token = round.token;
    }
    assert_eq!(harness.request_count(), 1);
    harness.advance(11);
    let round = harness.changes(&[PAGE], Some(&token));
    assert_eq!((round.changed.as_slice(), harness.request_count()), (&[PAGE.to_owned()][..], 2));
    assert!(harness.changes(&[PAGE], Some(&round.token)).changed.is_empty());
}

#[test]
fn a_page_that_is_confirmed_or_comes_back_the_same_has_not_changed() {
    for etag in ["\"1\"", "\"2\""] {
        let harness = sample();
        let start = harness.changes(&[PAGE], None);
        harness.serve(URL, page(etag, "one"));
        harness.advance(101);
        assert!(harness.changes(&[PAGE], Some(&start.token)).changed.is_empty());
        assert_eq!(harness.request_count(), 2);
    }
}

#[test]
fn a_page_without_freshness_is_asked_for_as_often_as_the_config_says() {
    let harness = Harness::with_page(&[("content-type", "text/plain")], "one").config("check-seconds", "30");
    let start = harness.changes(&[PAGE], None);
    harness.advance(29);
    let round = harness.changes(&[PAGE], Some(&start.token));
    assert_eq!(harness.request_count(), 1);
    harness.advance(1);
    harness.changes(&[PAGE], Some(&round.token));
    assert_eq!(harness.request_count(), 2);
}

#[test]
fn a_page_that_goes_away_or_is_refused_has_changed_and_so_has_one_that_comes_back() {
    for code in [404, 403] {
        let harness = sample();
        let start = harness.changes(&[PAGE], None);
        harness.serve(URL, status(code, &[]));
        harness.advance(101);
        let gone = harness.changes(&[PAGE], Some(&start.token));
        assert_eq!(gone.changed, [PAGE], "{code}");
        harness.advance(61);
        let still = harness.changes(&[PAGE], Some(&gone.token));
        assert!(still.changed.is_empty());
        harness.serve(URL, page("\"1\"", "one"));
        harness.advance(61);
        assert_eq!(harness.changes(&[PAGE], Some(&still.token)).changed, [PAGE]);
    }
}

#[test]
fn an_origin_that_fails_changes_nothing_and_is_left_alone_for_as_long_as_it_says() {
    let harness = sample();
    let start = harness.changes(&[PAGE], None);
    harness.serve(URL, status(503, &[("retry-after", "300")]));
    harness.advance(101);
    let down = harness.changes(&[PAGE], Some(&start.token));
    assert!(down.changed.is_empty());
    harness.advance(200);
    let still = harness.changes(&[PAGE], Some(&down.token));
    assert_eq!(harness.request_count(), 2);
    harness.serve(URL, page("\"2\"", "two"));
    harness.advance(100);
    assert_eq!(harness.changes(&[PAGE], Some(&still.token)).changed, [PAGE]);
}

#[test]
fn a_page_that_somebody_read_meanwhile_is_not_asked_for_twice_and_has_changed_all_the_same() {
    let harness = sample();
    let start = harness.changes(&[PAGE], None);
    harness.serve(URL, page("\"2\"", "two"));
    harness.advance(101);
    harness.read(PAGE).unwrap();
    assert_eq!(harness.changes(&[PAGE], Some(&start.token)).changed, [PAGE]);
    assert_eq!(harness.request_count(), 2);
}

#[test]
fn without_a_store_the_token_alone_tells() {
    let harness = sample();
    harness.break_store();
    let start = harness.changes(&[PAGE], None);
    harness.advance(101);
    let same = harness.changes(&[PAGE], Some(&start.token));
    assert!(same.changed.is_empty());
    harness.serve(URL, page("\"2\"", "two"));
    harness.advance(101);
    assert_eq!(harness.changes(&[PAGE], Some(&same.token)).changed, [PAGE]);
}

#[test]
fn one_round_asks_a_few_and_the_next_the_others() {
    let harness = Harness::new();
    let paths: Vec<String> = (0..20).map(|n| format!("h.example/{n}")).collect();
    for path in &paths {
        harness.serve(&format!("https://{path}"), page("\"1\"", "one"));
    }
    let watched: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut round = harness.changes(&watched, None);
    assert_eq!(harness.request_count(), 8);
    assert!(round.poll_after.unwrap() <= Duration::from_secs(10));
    for _ in 0..2 {
        round = harness.changes(&watched, Some(&round.token));
    }
    assert_eq!(harness.request_count(), 20);
    assert!(harness.changes(&watched, Some(&round.token)).changed.is_empty());
}

#[test]
fn the_listing_has_changed_when_something_new_is_kept() {
    let harness = sample();
    let start = harness.changes(&[], None);
    assert!(!harness.changes(&[], Some(&start.token)).listing_changed);
    harness.read(PAGE).unwrap();
    let round = harness.changes(&[], Some(&start.token));
    assert!(round.listing_changed);
    assert!(!harness.changes(&[], Some(&round.token)).listing_changed);
}

#[test]
fn a_token_that_is_not_understood_means_that_all_has_changed() {
    let harness = sample();
    for token in ["", "h1", "rubbish"] {
        let round = harness.changes(&[PAGE], Some(token));
        assert_eq!(round.changed, [PAGE]);
        assert!(round.listing_changed);
    }
}

#[test]
fn what_is_no_address_never_changes() {
    let harness = Harness::new();
    let start = harness.changes(&["no address/"], None);
    harness.advance(1000);
    assert!(harness.changes(&["no address/"], Some(&start.token)).changed.is_empty());
}

#[test]
fn very_many_pages_are_told_together_and_the_token_stays_small() {
    let harness = sample();
    harness.read(PAGE).unwrap();
    let paths: Vec<String> = (0..5000).map(|n| format!("h.example/{n}")).collect();
    let watched: Vec<&str> = paths.iter().map(String::as_str).chain([PAGE]).collect();
    let start = harness.changes(&watched, None);
    assert!(start.token.len() < 100);
    let same = harness.changes(&watched, Some(&start.token));
    assert!(same.changed.is_empty());
    harness.serve(URL, page("\"2\"", "two"));
    harness.advance(101);
    assert_eq!(harness.changes(&watched, Some(&same.token)).changed.len(), 5001);
}
