//! Storage, and its failures.

use crate::harness::{Harness, ok};

const PAGE: &str = "h.example/page";
const HEADERS: [(&str, &str); 2] = [("content-type", "text/plain"), ("cache-control", "max-age=60")];

#[test]
fn without_a_store_every_read_asks() {
    let harness = Harness::with_page(&HEADERS, "one").config("seeds", r#"["h.example/page"]"#);
    harness.break_store();
    assert_eq!((harness.text(PAGE).as_str(), harness.text(PAGE).as_str(), harness.request_count()), ("one", "one", 2));
    assert_eq!(harness.paths(), [PAGE]);
}

#[test]
fn what_is_damaged_or_of_another_version_is_fetched_again() {
    for (key, value) in [
        ("p:h.example/page", &b""[..]),
        ("p:h.example/page", b"{\"version\":999}"),
        ("b:h.example/page", b"another body"),
        ("b:h.example/page", b"\xff"),
    ] {
        let harness = Harness::with_page(&HEADERS, "one");
        harness.read(PAGE).unwrap();
        harness.damage(key, value);
        assert_eq!((harness.text(PAGE).as_str(), harness.request_count()), ("one", 2));
        assert_eq!((harness.text(PAGE).as_str(), harness.request_count()), ("one", 2));
        assert_eq!(harness.paths(), [PAGE]);
    }
}

#[test]
fn when_there_is_no_more_room_those_go_that_were_not_asked_about_for_longest() {
    let harness = Harness::new();
    harness.set_capacity(30_000);
    for page in 0..40 {
        harness.serve(&format!("https://h.example/{page}"), ok(&HEADERS, "x".repeat(1000)));
        assert_eq!(harness.text(&format!("h.example/{page}")).len(), 1000);
        harness.advance(1);
    }
    let stored = harness.paths();
    assert!((5..40).contains(&stored.len()), "{stored:?}");
    let first: u32 = 40 - u32::try_from(stored.len()).unwrap();
    for page in first..40 {
        assert!(stored.contains(&format!("h.example/{page}")), "{page} of {stored:?}");
    }
    let bodies = harness.keys().into_iter().filter(|key| key.starts_with("b:")).count();
    assert_eq!(bodies, stored.len());
}

#[test]
fn a_page_that_fits_nowhere_is_served_all_the_same_and_throws_little_out() {
    let harness = Harness::with_page(&HEADERS, &"x".repeat(50_000));
    harness.set_capacity(30_000);
    for page in 0..10 {
        harness.serve(&format!("https://h.example/{page}"), ok(&HEADERS, "x"));
        harness.read(&format!("h.example/{page}")).unwrap();
    }
    assert_eq!(harness.text(PAGE).len(), 50_000);
    assert!(!harness.paths().contains(&PAGE.to_owned()));
}

#[test]
fn an_address_that_is_too_long_for_a_key_is_served_and_not_kept() {
    let harness = Harness::new();
    let path = format!("h.example/{}", "x".repeat(2000));
    harness.serve(&format!("https://{path}"), ok(&HEADERS, "one"));
    assert_eq!(
        (harness.text(&path).as_str(), harness.text(&path).as_str(), harness.request_count()),
        ("one", "one", 2)
    );
    assert!(harness.keys().is_empty());
}

#[test]
fn nothing_of_cookies_or_credentials_is_kept() {
    let headers =
        [HEADERS[0], ("cache-control", "public, max-age=60"), ("set-cookie", "secret=1"), ("x-other", "secret")];
    let harness = Harness::with_page(&headers, "one");
    harness.read(PAGE).unwrap();
    assert_eq!(harness.keys().len(), 2);
    assert!(!harness.stored_text().contains("secret"));
}
