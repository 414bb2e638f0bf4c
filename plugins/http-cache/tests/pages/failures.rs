//! Origins that fail, refuse, or answer nonsense.

use crate::world::{World, ok, status};
use mcp_provider::{Failure, Retry};
use serde_json::Value;
use std::time::Duration;

use http_cache_provider::Trouble;

const PAGE: &str = "h.example/page";
const URL: &str = "https://h.example/page";

fn is_stale(world: &World) -> bool {
    let entry = world.only(PAGE).entry;
    assert_eq!(entry.ttl == Some(Duration::ZERO), entry.meta.contains_key("http-cache/stale"));
    entry.meta.get("http-cache/stale") == Some(&Value::Bool(true))
}

fn unavailable(world: &World) -> Retry {
    match world.read(PAGE) {
        Err(Failure::Unavailable(retry)) => retry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stale_copy_stands_in_for_an_origin_that_is_down_and_says_so() {
    let world = World::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
    assert!(!is_stale(&world));
    world.down(URL);
    world.pass(100);
    assert!(is_stale(&world));
    assert_eq!(world.only(PAGE).entry.meta.get("http-cache/age"), Some(&Value::from(100)));
    assert_eq!(world.text(PAGE), "one");
    assert!(world.stat(PAGE).unwrap().meta.contains_key("http-cache/stale"));
}

#[test]
fn so_it_does_for_one_that_answers_5xx_or_wants_to_be_left_alone() {
    for code in [408, 429, 500, 502, 503, 504] {
        let world = World::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
        world.read(PAGE).unwrap();
        world.serve(URL, status(code, &[]));
        world.pass(61);
        assert!(is_stale(&world), "{code}");
    }
}

#[test]
fn without_a_copy_it_is_unavailable_for_as_long_as_the_origin_says() {
    let world = World::new();
    world.down(URL);
    assert_eq!(unavailable(&world).after, None);
    assert!(unavailable(&world).reason.contains("https://h.example/page: it refuses connections"));
    for (after, expected) in
        [("120", Some(120)), ("Sat, 01 Mar 2025 00:00:30 GMT", Some(30)), ("soon", None), ("9999999", Some(3600))]
    {
        for code in [429, 503] {
            world.serve(URL, status(code, &[("retry-after", after)]));
            assert_eq!(unavailable(&world).after, expected.map(Duration::from_secs), "{after}");
        }
    }
}

#[test]
fn a_copy_stands_in_no_longer_than_the_origin_or_the_config_says() {
    for (control, seconds) in [("max-age=10", 1010), ("max-age=10, stale-if-error=50", 60)] {
        let world = World::with_page(&[("content-type", "text/plain"), ("cache-control", control)], "one");
        let world = world.config("max-stale-seconds", "1000");
        world.read(PAGE).unwrap();
        world.down(URL);
        world.pass(seconds - 1);
        assert!(is_stale(&world), "{control}");
        world.pass(1);
        unavailable(&world);
    }
}

#[test]
fn a_copy_that_must_be_revalidated_never_stands_in() {
    for control in ["max-age=1, must-revalidate", "no-cache", "s-maxage=1", "max-age=1, proxy-revalidate"] {
        let world = World::with_page(&[("content-type", "text/plain"), ("cache-control", control)], "one");
        world.read(PAGE).unwrap();
        world.down(URL);
        world.pass(2);
        unavailable(&world);
    }
}

#[test]
fn an_origin_that_failed_is_left_alone_for_a_moment_and_then_asked_again() {
    let world = World::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
    world.read(PAGE).unwrap();
    world.serve(URL, status(503, &[("retry-after", "30")]));
    world.pass(61);
    assert!(is_stale(&world));
    world.serve(URL, ok(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "two"));
    world.pass(29);
    assert!(is_stale(&world));
    assert_eq!(world.count(), 2);
    world.pass(1);
    assert!(!is_stale(&world));
    assert_eq!((world.text(PAGE).as_str(), world.count()), ("two", 3));
}

#[test]
fn what_is_gone_is_not_found_and_its_copy_is_forgotten() {
    for code in [404, 410] {
        let world = World::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
        world.read(PAGE).unwrap();
        world.serve(URL, status(code, &[]));
        world.pass(61);
        assert_eq!(world.read(PAGE), Err(Failure::NotFound));
        assert_eq!((world.stat(PAGE), world.keys()), (Err(Failure::NotFound), vec![]));
    }
}

#[test]
fn what_the_origin_or_the_host_refuses_is_denied_and_no_copy_stands_in() {
    for code in [400, 401, 403, 407, 418, 451] {
        let world = World::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
        world.read(PAGE).unwrap();
        world.serve(URL, status(code, &[]));
        world.pass(61);
        assert!(matches!(world.read(PAGE), Err(Failure::Denied(_))), "{code}");
        world.down(URL);
        unavailable(&world);
    }
    let world = World::with_page(&[("content-type", "text/plain"), ("cache-control", "max-age=60")], "one");
    world.read(PAGE).unwrap();
    world.answer(URL, |_| Err(Trouble::Denied("the origin is not granted".to_owned())));
    world.pass(61);
    assert_eq!(world.read(PAGE), Err(Failure::denied("https://h.example/page: the origin is not granted")));
}

#[test]
fn a_page_that_is_too_large_is_denied() {
    let world = World::with_page(&[("content-type", "text/plain")], "12345").config("max-body-bytes", "4");
    assert!(matches!(world.read(PAGE), Err(Failure::Denied(reason)) if reason.contains("more than 4 bytes")));
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
        let world = World::new();
        world.answer(URL, move |_| Ok(response.clone()));
        unavailable(&world);
    }
}

#[test]
fn a_call_asks_no_longer_than_its_time() {
    let world = World::new().config("timeout-ms", "4000");
    for hop in 0..4 {
        world.serve(&format!("https://h.example/{hop}"), status(302, &[("location", &format!("/{}", hop + 1))]));
    }
    world.delay(2);
    let Err(Failure::Unavailable(retry)) = world.read("h.example/0") else { panic!() };
    assert!(retry.reason.contains("no time left"), "{retry:?}");
    assert_eq!(world.requests().iter().map(|request| request.timeout.as_secs()).collect::<Vec<_>>(), [4, 2]);
}

#[test]
fn a_path_that_is_no_address_is_an_invalid_request() {
    let world = World::new();
    for path in ["", "no host/", "me@h.example/", "h.example:x/"] {
        assert!(matches!(world.read(path), Err(Failure::InvalidRequest(_))), "{path}");
        assert!(matches!(world.stat(path), Err(Failure::InvalidRequest(_))), "{path}");
    }
    assert_eq!(world.count(), 0);
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
        let world = World::with_page(&[("content-type", "text/plain"), (name, value)], "one");
        for _ in 0..2 {
            assert_eq!(world.text(PAGE), "one", "{name}");
            world.pass(1_000_000);
        }
    }
}
