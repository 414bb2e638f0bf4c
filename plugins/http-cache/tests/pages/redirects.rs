//! Redirects.

use crate::harness::{Harness, ok, status};
use http_cache_provider::FetchError;
use mcp_provider::Failure;
use serde_json::Value;
use std::time::Duration;

fn redirect(to: &str) -> http_cache_provider::Response {
    status(301, &[("location", to), ("cache-control", "max-age=60")])
}

fn page() -> http_cache_provider::Response {
    ok(&[("content-type", "text/plain"), ("cache-control", "max-age=1000")], "one")
}

#[test]
fn a_page_is_served_where_it_was_asked_for_and_says_where_it_is() {
    let harness = Harness::new();
    harness.serve("https://h.example/a", redirect("/b?c=d#e"));
    harness.serve("https://h.example/b?c=d", page());
    let entry = harness.read_one("h.example/a").entry;
    assert_eq!((entry.path.as_str(), entry.name.as_str()), ("h.example/a", "a"));
    assert_eq!(entry.meta.get("http-cache/url"), Some(&Value::from("https://h.example/b?c=d")));
    // The page is fresh while both responses are.
    assert_eq!(entry.ttl, Some(Duration::from_secs(60)));
}

#[test]
fn the_query_of_a_redirect_target_is_in_no_message() {
    for code in [403, 503] {
        let harness = Harness::new();
        harness.serve("https://h.example/a", redirect("/b?signature=hunter2"));
        harness.serve("https://h.example/b?signature=hunter2", status(code, &[]));
        let failure = harness.read("h.example/a").unwrap_err().to_string();
        assert!(failure.contains("https://h.example/b?…") && !failure.contains("hunter2"), "{failure}");
    }
}

#[test]
fn redirects_are_kept_by_the_same_rules() {
    let harness = Harness::new();
    harness.serve("https://h.example/a", redirect("/b"));
    harness.serve("https://h.example/b", page());
    harness.read("h.example/a").unwrap();
    harness.read("h.example/a").unwrap();
    assert_eq!(harness.request_count(), 2);
    harness.advance(61);
    harness.serve("https://h.example/a", page());
    let entry = harness.read_one("h.example/a").entry;
    assert_eq!(
        (harness.request_count(), entry.meta.get("http-cache/url")),
        (3, Some(&Value::from("https://h.example/a")))
    );
    assert_eq!(harness.keys(), ["b:h.example/a", "b:h.example/b", "p:h.example/a", "p:h.example/b"]);
}

#[test]
fn a_redirect_that_was_not_to_be_kept_is_followed_anew() {
    let harness = Harness::new();
    harness.serve("https://h.example/a", status(307, &[("location", "/b"), ("cache-control", "no-store")]));
    harness.serve("https://h.example/b", page());
    harness.read("h.example/a").unwrap();
    harness.read("h.example/a").unwrap();
    assert_eq!(harness.request_count(), 3);
}

#[test]
fn five_redirects_are_followed_and_no_more() {
    let harness = Harness::new();
    for hop in 0..6 {
        harness.serve(&format!("https://h.example/{hop}"), redirect(&format!("/{}", hop + 1)));
    }
    harness.serve("https://h.example/6", page());
    assert_eq!(harness.read_one("h.example/1").as_text(), Some("one"));
    assert!(
        matches!(harness.read("h.example/0"), Err(Failure::Unavailable(retry)) if retry.reason.contains("more than 5"))
    );
}

#[test]
fn a_circle_ends_with_a_word_about_it() {
    let harness = Harness::new();
    harness.serve("https://h.example/a", redirect("/b"));
    harness.serve("https://h.example/b", redirect("https://h.example/a"));
    assert!(
        matches!(harness.read("h.example/a"), Err(Failure::Unavailable(retry)) if retry.reason.contains("redirect loop"))
    );
    harness.serve("https://h.example/self", redirect("http://h.example/self"));
    assert!(
        matches!(harness.read("h.example/self"), Err(Failure::Unavailable(retry)) if retry.reason.contains("redirect loop"))
    );
}

#[test]
fn a_redirect_never_leads_away_from_https_or_from_the_web() {
    let harness = Harness::new();
    harness.serve("https://h.example/a", redirect("http://other.example/b"));
    harness.serve("https://other.example/b", page());
    assert_eq!(harness.read_one("h.example/a").as_text(), Some("one"));
    for place in ["file:///etc/passwd", "ftp://h.example/", "https://me:secret@h.example/", "http://"] {
        harness.serve("https://h.example/x", redirect(place));
        assert!(matches!(harness.read("h.example/x"), Err(Failure::Unavailable(_))), "{place}");
        harness.advance(61);
    }
}

#[test]
fn a_redirect_to_an_origin_that_is_not_granted_is_denied_and_says_how_it_came_to_that() {
    let harness = Harness::new();
    harness.serve("https://h.example/a", redirect("https://secret.example/"));
    harness.respond_with("https://secret.example/", |_| Err(FetchError::Denied("it is not granted".to_owned())));
    let Err(Failure::Denied(reason)) = harness.read("h.example/a") else { panic!() };
    assert_eq!(reason, "https://h.example/a redirects: https://secret.example/: it is not granted");
}

#[test]
fn a_host_of_the_config_is_spoken_to_without_tls() {
    let harness = Harness::new().config("plain-http", r#"["127.0.0.1:8080"]"#);
    harness.serve("http://127.0.0.1:8080/a", page());
    assert_eq!(harness.read_one("127.0.0.1:8080/a").as_text(), Some("one"));
    assert_eq!(harness.read("127.0.0.1:8081/a"), Err(Failure::NotFound));
    assert_eq!(harness.requests()[1].url, "https://127.0.0.1:8081/a");
}
