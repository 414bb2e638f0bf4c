//! Requests to origins: when they are sent, and with which headers.

use crate::harness::{Harness, header, ok};
use std::time::Duration;

const PAGE: &str = "h.example/page";
const URL: &str = "https://h.example/page";

#[test]
fn a_fresh_page_is_read_without_asking_and_a_stale_one_is_not() {
    let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
    assert_eq!(harness.read_one(PAGE).entry.ttl, Some(Duration::from_secs(60)));
    harness.serve(URL, ok(&[("content-type", "text/plain")], "two"));
    harness.advance(59);
    assert_eq!(harness.text(PAGE), "one");
    assert_eq!((harness.read_one(PAGE).entry.ttl, harness.request_count()), (Some(Duration::from_secs(1)), 1));
    harness.advance(1);
    assert_eq!(harness.text(PAGE), "two");
    assert_eq!(harness.request_count(), 2);
}

#[test]
fn a_stale_page_is_revalidated_and_a_304_makes_it_fresh_again() {
    let date = "Fri, 28 Feb 2025 23:59:59 GMT";
    let headers =
        [("content-type", "text/plain"), ("cache-control", "max-age=60"), ("etag", "\"1\""), ("last-modified", date)];
    let harness = Harness::with_page(&headers, "one");
    harness.read(PAGE).unwrap();
    harness.advance(61);
    assert_eq!(harness.text(PAGE), "one");
    let asked = &harness.requests()[1].headers;
    assert_eq!(header(asked, "if-none-match"), Some("\"1\""));
    assert_eq!(header(asked, "if-modified-since"), Some(date));
    harness.advance(59);
    assert_eq!((harness.text(PAGE).as_str(), harness.request_count()), ("one", 2));
}

#[test]
fn a_page_with_nothing_but_a_date_of_change_is_revalidated_by_it() {
    let date = "Fri, 28 Feb 2025 23:43:20 GMT";
    let harness = Harness::with_page(&[("content-type", "text/plain"), ("last-modified", date)], "one");
    // The page is 1,000 seconds old; its heuristic freshness is a tenth of its age.
    assert_eq!(harness.read_one(PAGE).entry.ttl, Some(Duration::from_secs(100)));
    harness.advance(101);
    harness.read(PAGE).unwrap();
    assert_eq!(header(&harness.requests()[1].headers, "if-modified-since"), Some(date));
}

#[test]
fn a_page_that_changed_replaces_what_was_kept() {
    let headers = |etag| [("content-type", "text/plain"), ("cache-control", "max-age=60"), ("etag", etag)];
    let harness = Harness::with_page(&headers("\"1\""), "one");
    harness.read(PAGE).unwrap();
    harness.serve(URL, ok(&headers("\"2\""), "two"));
    harness.advance(61);
    assert_eq!((harness.text(PAGE).as_str(), harness.text(PAGE).as_str(), harness.request_count()), ("two", "two", 2));
}

#[test]
fn what_may_not_be_kept_is_asked_for_every_time() {
    for control in ["no-store", "private, max-age=60", "Private", "max-age=60, No-Store"] {
        let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", control)], "one");
        harness.read(PAGE).unwrap();
        harness.read(PAGE).unwrap();
        assert_eq!((harness.request_count(), harness.keys()), (2, vec![]), "{control}");
    }
}

#[test]
fn a_page_that_may_no_longer_be_kept_is_forgotten() {
    let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
    harness.read(PAGE).unwrap();
    assert!(!harness.keys().is_empty());
    harness.serve(URL, ok(&[("content-type", "text/plain"), ("cache-control", "no-store")], "two"));
    harness.advance(61);
    harness.read(PAGE).unwrap();
    assert!(harness.keys().is_empty());
}

#[test]
fn no_cache_is_kept_and_revalidated_every_time() {
    let headers = [("content-type", "text/plain"), ("cache-control", "no-cache, max-age=60"), ("etag", "\"1\"")];
    let harness = Harness::with_page(&headers, "one");
    harness.read(PAGE).unwrap();
    assert_eq!(harness.read_one(PAGE).entry.ttl, Some(Duration::ZERO));
    assert_eq!(header(&harness.requests()[1].headers, "if-none-match"), Some("\"1\""));
}

#[test]
fn a_page_that_may_be_served_stale_while_it_is_revalidated_is_revalidated_first() {
    let headers =
        [("content-type", "text/plain"), ("cache-control", "max-age=1, stale-while-revalidate=60"), ("etag", "\"1\"")];
    let harness = Harness::with_page(&headers, "one");
    harness.read(PAGE).unwrap();
    harness.serve(URL, ok(&[("content-type", "text/plain")], "two"));
    harness.advance(2);
    assert_eq!(harness.text(PAGE), "two");
}

#[test]
fn a_page_varies_by_what_is_always_the_same_or_is_asked_for_every_time() {
    for (vary, requests) in [("Accept, User-Agent, Cookie", 1), ("*", 2)] {
        let headers = [("content-type", "text/plain"), ("cache-control", "max-age=60"), ("vary", vary)];
        let harness = Harness::with_page(&headers, "one");
        harness.read(PAGE).unwrap();
        harness.read(PAGE).unwrap();
        assert_eq!(harness.request_count(), requests, "{vary}");
    }
}

#[test]
fn pages_differ_by_their_queries() {
    let harness = Harness::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
    harness.serve("https://h.example/page?a", ok(&[("content-type", "text/plain")], "two"));
    assert_eq!((harness.text(PAGE).as_str(), harness.text("h.example/page?a").as_str()), ("one", "two"));
}

#[test]
fn a_304_about_another_page_leads_to_a_question_without_validators() {
    let harness = Harness::with_page(&[("content-type", "text/plain"), ("etag", "\"1\"")], "one");
    harness.read(PAGE).unwrap();
    harness.respond_with(URL, |request| {
        let is_conditional = request.headers.contains_key("if-none-match");
        Ok(if is_conditional {
            crate::harness::status(304, &[("etag", "\"9\"")])
        } else {
            ok(&[("content-type", "text/plain")], "two")
        })
    });
    assert_eq!((harness.text(PAGE).as_str(), harness.request_count()), ("two", 3));
}

#[test]
fn what_is_known_is_told_without_asking_and_what_is_not_by_its_headers() {
    let headers =
        [("content-type", "text/plain; charset=utf-8"), ("cache-control", "max-age=60"), ("content-length", "3")];
    let harness = Harness::with_page(&headers, "one");
    let entry = harness.stat(PAGE).unwrap();
    assert!(harness.requests()[0].is_head);
    assert_eq!((entry.mime_type.as_deref(), entry.size), (Some("text/plain"), Some(3)));
    assert!(harness.keys().is_empty());
    harness.read(PAGE).unwrap();
    harness.stat(PAGE).unwrap();
    assert_eq!(harness.request_count(), 2);
    harness.advance(61);
    harness.stat(PAGE).unwrap();
    assert!(!harness.requests()[2].is_head);
    assert_eq!(harness.text(PAGE), "one");
    assert_eq!(harness.request_count(), 3);
}

#[test]
fn an_origin_that_does_not_know_head_is_asked_for_the_page() {
    for code in [405, 501] {
        let harness = Harness::new();
        harness.respond_with(URL, move |request| {
            Ok(if request.is_head {
                crate::harness::status(code, &[])
            } else {
                ok(&[("content-type", "text/plain")], "one")
            })
        });
        assert_eq!((harness.stat(PAGE).unwrap().size, harness.request_count()), (Some(3), 2));
    }
}

#[test]
fn requests_say_who_asks_and_what_is_wanted() {
    let harness = Harness::with_page(&[("content-type", "text/plain")], "one");
    harness.read(PAGE).unwrap();
    let headers = &harness.requests()[0].headers;
    assert!(header(headers, "user-agent").unwrap().starts_with("mcp-host-http-cache/"));
    assert!(header(headers, "accept").unwrap().contains("text/html"));
    assert_eq!(header(headers, "accept-encoding"), Some("identity"));
}
