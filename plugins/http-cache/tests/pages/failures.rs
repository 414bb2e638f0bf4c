//! Origins that fail, deny, or send invalid responses.

use crate::harness::{Harness, ok, status};
use mcp_provider::{Failure, Retry};
use serde_json::Value;
use std::time::Duration;

use http_cache_provider::FetchError;

const PAGE: &str = "h.example/page";
const URL: &str = "https://h.example/page";

fn is_stale(harness: &Harness) -> bool {
    let entry = harness.read_one(PAGE).entry;
    assert_eq!(entry.ttl == Some(Duration::ZERO), entry.meta.contains_key("http-cache/stale"));
    entry.meta.get("http-cache/stale") == Some(&Value::Bool(true))
}

fn unavailable(harness: &Harness) -> Retry {
    match harness.read(PAGE) {
        Err(Failure::Unavailable(retry)) => retry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stale_copy_stands_in_for_an_origin_that_is_down_and_says_so() {
    let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
    assert!(!is_stale(&harness));
    harness.down(URL);
    harness.advance(100);
    assert!(is_stale(&harness));
    assert_eq!(harness.read_one(PAGE).entry.meta.get("http-cache/age"), Some(&Value::from(100)));
    assert_eq!(harness.text(PAGE), "one");
    assert!(harness.stat(PAGE).unwrap().meta.contains_key("http-cache/stale"));
}

#[test]
fn so_it_does_for_one_that_answers_5xx_or_wants_to_be_left_alone() {
    for code in [408, 429, 500, 502, 503, 504] {
        let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
        harness.read(PAGE).unwrap();
        harness.serve(URL, status(code, &[]));
        harness.advance(61);
        assert!(is_stale(&harness), "{code}");
    }
}

#[test]
fn without_a_copy_it_is_unavailable_for_as_long_as_the_origin_says() {
    let harness = Harness::new();
    harness.down(URL);
    assert_eq!(unavailable(&harness).after, None);
    assert!(unavailable(&harness).reason.contains("https://h.example/page: it refuses connections"));
    for (after, expected) in
        [("120", Some(120)), ("Sat, 01 Mar 2025 00:00:30 GMT", Some(30)), ("soon", None), ("9999999", Some(3600))]
    {
        for code in [429, 503] {
            harness.serve(URL, status(code, &[("retry-after", after)]));
            assert_eq!(unavailable(&harness).after, expected.map(Duration::from_secs), "{after}");
        }
    }
}

#[test]
fn a_copy_stands_in_no_longer_than_the_origin_or_the_config_says() {
    for (control, seconds) in [("max-age=10", 1010), ("max-age=10, stale-if-error=50", 60)] {
        let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", control)], "one");
        let harness = harness.config("max-stale-seconds", "1000");
        harness.read(PAGE).unwrap();
        harness.down(URL);
        harness.advance(seconds - 1);
        assert!(is_stale(&harness), "{control}");
        harness.advance(1);
        unavailable(&harness);
    }
}

#[test]
fn a_copy_that_must_be_revalidated_never_stands_in() {
    for control in ["max-age=1, must-revalidate", "no-cache", "s-maxage=1", "max-age=1, proxy-revalidate"] {
        let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", control)], "one");
        harness.read(PAGE).unwrap();
        harness.down(URL);
        harness.advance(2);
        unavailable(&harness);
    }
}

#[test]
fn an_origin_that_failed_is_left_alone_for_a_moment_and_then_asked_again() {
    let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
    harness.read(PAGE).unwrap();
    harness.serve(URL, status(503, &[("retry-after", "30")]));
    harness.advance(61);
    assert!(is_stale(&harness));
    harness.serve(URL, ok(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "two"));
    harness.advance(29);
    assert!(is_stale(&harness));
    assert_eq!(harness.request_count(), 2);
    harness.advance(1);
    assert!(!is_stale(&harness));
    assert_eq!((harness.text(PAGE).as_str(), harness.request_count()), ("two", 3));
}

#[test]
fn what_is_gone_is_not_found_and_its_copy_is_forgotten() {
    for code in [404, 410] {
        let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
        harness.read(PAGE).unwrap();
        harness.serve(URL, status(code, &[]));
        harness.advance(61);
        assert_eq!(harness.read(PAGE), Err(Failure::NotFound));
        assert_eq!((harness.stat(PAGE), harness.keys()), (Err(Failure::NotFound), vec![]));
    }
}

#[test]
fn what_the_origin_or_the_host_refuses_is_denied_and_no_copy_stands_in() {
    for code in [400, 401, 403, 407, 418, 451] {
        let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
        harness.read(PAGE).unwrap();
        harness.serve(URL, status(code, &[]));
        harness.advance(61);
        assert!(matches!(harness.read(PAGE), Err(Failure::Denied(_))), "{code}");
        harness.down(URL);
        unavailable(&harness);
    }
    let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
    harness.read(PAGE).unwrap();
    harness.respond_with(URL, |_| Err(FetchError::Denied("the origin is not granted".to_owned())));
    harness.advance(61);
    assert_eq!(harness.read(PAGE), Err(Failure::denied("https://h.example/page: the origin is not granted")));
}

#[test]
fn a_page_that_is_too_large_is_denied() {
    let harness = Harness::with_page(&[("content-type", "text/plain")], "12345").config("max-body-bytes", "4");
    assert!(matches!(harness.read(PAGE), Err(Failure::Denied(reason)) if reason.contains("exceeds 4 bytes")));
}

#[test]
fn answers_that_make_no_sense_are_unavailable() {
    for response in [
        status(304, &[]),
        status(206, &[]),
        status(100, &[]),
        status(302, &[]),
        status(999, &[]),
        ok(&[("content-encoding", "gzip")], "packed"),
    ] {
        let harness = Harness::new();
        harness.respond_with(URL, move |_| Ok(response.clone()));
        unavailable(&harness);
    }
}

#[test]
fn a_call_asks_no_longer_than_its_time() {
    let harness = Harness::new().config("timeout-ms", "4000");
    for hop in 0..4 {
        harness.serve(&format!("https://h.example/{hop}"), status(302, &[("location", &format!("/{}", hop + 1))]));
    }
    harness.delay(2);
    let Err(Failure::Unavailable(retry)) = harness.read("h.example/0") else { panic!() };
    assert!(retry.reason.contains("deadline of the call"), "{retry:?}");
    assert_eq!(harness.requests().iter().map(|request| request.timeout.as_secs()).collect::<Vec<_>>(), [4, 2]);
}

#[test]
fn a_path_that_is_no_address_is_an_invalid_request() {
    let harness = Harness::new();
    for path in ["", "no host/", "me@h.example/", "h.example:x/"] {
        assert!(matches!(harness.read(path), Err(Failure::InvalidRequest(_))), "{path}");
        assert!(matches!(harness.stat(path), Err(Failure::InvalidRequest(_))), "{path}");
    }
    assert_eq!(harness.request_count(), 0);
}

#[test]
fn headers_of_any_kind_break_nothing() {
    let huge = "9".repeat(30);
    for (name, value) in [
        ("age", huge.as_str()),
        ("cache-control", "max-age=99999999999999999999"),
        ("date", "\u{e9}"),
        ("expires", "-1"),
    ] {
        let harness = Harness::with_page(&[("content-type", "text/plain"), (name, value)], "one");
        for _ in 0..2 {
            assert_eq!(harness.text(PAGE), "one", "{name}");
            harness.advance(1_000_000);
        }
    }
}
