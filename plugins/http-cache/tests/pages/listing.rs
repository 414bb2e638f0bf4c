//! Listing and completion.

use crate::harness::{Harness, ok, status};
use mcp_provider::{Argument, Failure, Provider};
use std::time::Duration;

const SEEDS: &str = r#"["https://z.example/", "h.example/page", "a.example"]"#;

fn sitemap(urls: &[&str]) -> http_cache_provider::Response {
    let urls: String = urls.iter().map(|url| format!("<url><loc>{url}</loc></url>")).collect();
    ok(&[("content-type", "application/xml"), ("cache-control", "max-age=60")], format!("<urlset>{urls}</urlset>"))
}

#[test]
fn what_is_kept_and_what_is_seeded_is_listed_once_in_order() {
    let headers = [("content-type", "text/html"), ("cache-control", "max-age=60")];
    let harness = Harness::with_page(&headers, "<title>Page</title>x").config("seeds", SEEDS);
    harness.serve("https://m.example/x", ok(&headers, "y"));
    assert_eq!(harness.paths(), ["a.example/", "h.example/page", "z.example/"]);
    assert_eq!(harness.request_count(), 0);
    harness.read("h.example/page").unwrap();
    harness.read("m.example/x").unwrap();
    assert_eq!(harness.paths(), ["a.example/", "h.example/page", "m.example/x", "z.example/"]);
    harness.advance(10);
    let entries = harness.list(100);
    let page = &entries[1];
    assert_eq!((page.name.as_str(), page.title.as_deref(), page.size), ("page", Some("Page"), Some(20)));
    assert_eq!((page.mime_type.as_deref(), page.ttl), (Some("text/html"), Some(Duration::from_secs(50))));
    assert!(page.subscribable && page.last_modified.is_some());
    assert_eq!((entries[0].name.as_str(), entries[0].mime_type.as_deref()), ("a.example", None));
    assert_eq!(harness.request_count(), 2);
}

#[test]
fn a_seed_that_leads_elsewhere_shows_what_is_kept_there() {
    let harness =
        Harness::with_page(&[("content-type", "text/html"), ("cache-control", "max-age=60")], "<title>Page</title>");
    let harness = harness.config("seeds", r#"["h.example/old"]"#);
    harness.serve("https://h.example/old", status(301, &[("location", "/page")]));
    harness.read("h.example/old").unwrap();
    let titles: Vec<_> = harness.list(9).into_iter().map(|entry| (entry.path, entry.title.unwrap())).collect();
    let expected = [("h.example/old", "Page"), ("h.example/page", "Page")];
    assert_eq!(titles, expected.map(|(path, title)| (path.to_owned(), title.to_owned())));
}

#[test]
fn nothing_is_listed_below_a_page_and_a_foreign_cursor_is_an_invalid_request() {
    let provider = Harness::new().provider();
    assert!(matches!(provider.list(Some("h.example/"), None, 9), Err(Failure::InvalidRequest(_))));
    assert!(matches!(provider.list(None, Some("foreign"), 9), Err(Failure::InvalidRequest(_))));
}

#[test]
fn the_pages_of_a_sitemap_are_listed_and_the_sitemap_is_fetched_when_it_is_due() {
    let harness = Harness::new().config("sitemaps", r#"["h.example"]"#);
    let urls = ["https://h.example/b?x=1&amp;y=2", "https://h.example/a", "https://other.example/", "nonsense"];
    harness.serve("https://h.example/sitemap.xml", sitemap(&urls));
    let expected = ["h.example/a", "h.example/b?x=1&y=2", "h.example/sitemap.xml"];
    assert_eq!(harness.list(9).into_iter().map(|entry| entry.path).collect::<Vec<_>>(), expected[..2]);
    assert_eq!(harness.paths(), expected);
    assert_eq!(harness.request_count(), 1);
    harness.advance(61);
    harness.paths();
    assert!(harness.request_count() > 1);
}

#[test]
fn an_index_leads_to_further_sitemaps_but_not_to_packed_ones_or_on_and_on() {
    let harness = Harness::new().config("sitemaps", r#"["h.example/index.xml"]"#);
    let index = |urls: &[&str]| {
        let urls: String = urls.iter().map(|url| format!("<sitemap><loc>{url}</loc></sitemap>")).collect();
        ok(
            &[("content-type", "application/xml"), ("cache-control", "no-store")],
            format!("<sitemapindex>{urls}</sitemapindex>"),
        )
    };
    let further = [
        "https://h.example/1.xml",
        "https://h.example/2.xml.gz",
        "https://h.example/index.xml",
        "https://h.example/gone.xml",
    ];
    harness.serve("https://h.example/index.xml", index(&further));
    harness.serve("https://h.example/1.xml", sitemap(&["https://h.example/a"]));
    let listed = harness.list(9);
    let paths: Vec<_> = listed.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(paths, ["h.example/a", "h.example/gone.xml", "h.example/index.xml"]);
    assert!(missing(&listed[1]).contains("not found") && missing(&listed[2]).contains("compressed"));
    let urls: Vec<_> = harness.requests().into_iter().map(|request| request.url).collect();
    assert_eq!(
        urls,
        [
            "https://h.example/index.xml",
            "https://h.example/1.xml",
            "https://h.example/index.xml",
            "https://h.example/gone.xml"
        ]
    );
}

#[test]
fn a_site_with_very_many_sitemaps_is_read_within_bounds() {
    let harness = Harness::new().config("sitemaps", r#"["h.example/index.xml"]"#);
    let urls: String = (0..500).map(|n| format!("<sitemap><loc>https://h.example/{n}.xml</loc></sitemap>")).collect();
    harness.serve("https://h.example/index.xml", ok(&[], format!("<sitemapindex>{urls}</sitemapindex>")));
    harness.provider().list(None, None, 9).unwrap();
    assert_eq!(harness.request_count(), 16);
}

#[test]
fn a_sitemap_that_cannot_be_had_leaves_the_rest_of_the_listing() {
    let harness = Harness::new().config("sitemaps", r#"["h.example"]"#).config("seeds", SEEDS);
    harness.down("https://h.example/sitemap.xml");
    let listed = harness.list(2);
    assert_eq!(listed.len(), 4);
    assert_eq!(listed[2].path, "h.example/sitemap.xml");
    assert!(missing(&listed[2]).contains("refuses connections"), "{:?}", listed[2]);
    assert_eq!(harness.request_count(), 1, "what was missing when the walk began is not asked for again");
}

/// Creates a sitemap with a number of pages, without a freshness lifetime.
fn unfresh(pages: usize) -> http_cache_provider::Response {
    let urls: String = (0..pages).map(|n| format!("<url><loc>https://h.example/{n:05}</loc></url>")).collect();
    ok(&[("content-type", "application/xml")], format!("<urlset>{urls}</urlset>"))
}

#[test]
fn a_walk_fetches_a_sitemap_once_whatever_its_freshness() {
    let harness = Harness::new().config("sitemaps", r#"["h.example"]"#);
    harness.serve("https://h.example/sitemap.xml", unfresh(500));
    assert_eq!(harness.list(10).len(), 501);
    assert_eq!(harness.request_count(), 1);
    // Another walk sends requests again, and shares the stored snapshot. A walk over other pages does not affect it.
    let first = harness.provider().list(None, None, 10).unwrap();
    harness.serve("https://h.example/sitemap.xml", unfresh(50));
    assert_eq!(harness.list(10).len(), 51);
    assert_eq!(harness.request_count(), 3);
    let rest = harness.provider().list(None, first.next_cursor.as_deref(), 1000).unwrap();
    assert_eq!((rest.entries.len(), rest.next_cursor), (491, None));
    assert_eq!(harness.request_count(), 3);
    assert_eq!(harness.keys().iter().filter(|key| key.starts_with("t:")).count(), 2);
}

#[test]
fn snapshots_are_read_for_an_hour_and_few_are_kept() {
    let harness = Harness::new().config("sitemaps", r#"["h.example"]"#);
    for pages in 100..110 {
        harness.serve("https://h.example/sitemap.xml", unfresh(pages));
        harness.provider().list(None, None, 10).unwrap();
        harness.advance(1);
    }
    assert_eq!(harness.keys().iter().filter(|key| key.starts_with("t:") || key.starts_with("s:")).count(), 8);
    let first = harness.provider().list(None, None, 10).unwrap();
    let asked = harness.request_count();
    harness.advance(3599);
    harness.provider().list(None, first.next_cursor.as_deref(), 10).unwrap();
    assert_eq!(harness.request_count(), asked);
    harness.advance(2);
    let second = harness.provider().list(None, first.next_cursor.as_deref(), 10).unwrap();
    assert_eq!((harness.request_count(), second.entries.len()), (asked + 1, 10));
    assert_eq!(harness.keys().iter().filter(|key| key.starts_with("t:") || key.starts_with("s:")).count(), 2);
}

#[test]
fn a_walk_whose_snapshot_is_gone_goes_on_or_says_that_it_cannot() {
    for damage in ["damaged", "broken store", "no-store"] {
        let harness = Harness::new().config("sitemaps", r#"["h.example"]"#);
        let mut sitemap = unfresh(100);
        match damage {
            "broken store" => harness.break_store(),
            "no-store" => drop(sitemap.headers.insert("cache-control", "no-store".parse().unwrap())),
            _ => {}
        }
        harness.serve("https://h.example/sitemap.xml", sitemap.clone());
        let first = harness.provider().list(None, None, 10).unwrap();
        if damage == "damaged" {
            let pages = harness.keys().into_iter().find(|key| key.starts_with("t:")).unwrap();
            harness.damage(&pages, b"h.example/other\n");
        }
        let second = harness.provider().list(None, first.next_cursor.as_deref(), 10).unwrap();
        let expected: Vec<_> = (10..20).map(|n| format!("h.example/{n:05}")).collect();
        assert_eq!(second.entries.iter().map(|entry| entry.path.clone()).collect::<Vec<_>>(), expected, "{damage}");
        harness.respond_with("https://h.example/sitemap.xml", |_| Ok(status(429, &[("retry-after", "7")])));
        if damage == "damaged" {
            let pages = harness.keys().into_iter().find(|key| key.starts_with("t:")).unwrap();
            harness.damage(&pages, b"");
        }
        let third = harness.provider().list(None, second.next_cursor.as_deref(), 10);
        if damage == "damaged" {
            // The sitemap itself is stored, and served stale for a failing origin.
            assert_eq!(third.unwrap().entries.len(), 10);
        } else {
            let Err(Failure::Unavailable(retry)) = third else { panic!("{damage}: {third:?}") };
            assert_eq!(retry.after, Some(Duration::from_secs(7)), "{damage}");
            harness.serve("https://h.example/sitemap.xml", sitemap);
            let rest = harness.provider().list(None, second.next_cursor.as_deref(), 1000).unwrap();
            assert_eq!(rest.entries.len(), 80, "{damage}");
        }
    }
}

#[test]
fn a_sitemap_of_more_than_is_listed_says_so() {
    let harness = Harness::new().config("sitemaps", r#"["h.example"]"#);
    harness.serve("https://h.example/sitemap.xml", unfresh(50_010));
    let listed = harness.list(60_000);
    assert_eq!(listed.len(), 50_001);
    assert!(missing(&listed[50_000]).contains("10 of its URLs"), "{:?}", listed[50_000]);
}

/// Returns the missing part of a sitemap.
fn missing(entry: &mcp_provider::Entry) -> &str {
    entry.meta["http-cache/missing"].as_str().unwrap()
}

#[test]
fn the_template_says_which_schemes_there_are() {
    for (plain, says_http) in [("[]", false), (r#"["127.0.0.1:8080"]"#, true)] {
        let template = Harness::new().config("plain-http", plain).provider().templates().remove(0);
        let description = template.description.unwrap();
        assert!(description.contains("`https`"), "{description}");
        assert_eq!(description.contains("`http` for"), says_http, "{description}");
        assert!(!description.contains("127.0.0.1"), "{description}");
    }
}

#[test]
fn hosts_and_paths_are_completed_with_what_is_listed() {
    let harness = Harness::with_page(&[("cache-control", "max-age=60")], "x").config("seeds", SEEDS);
    harness.serve("https://h.example/p?q=1", ok(&[], "y"));
    harness.read("h.example/page").unwrap();
    harness.read("h.example/p?q=1").unwrap();
    assert_eq!(harness.complete(Argument::new("host", ""), &[]).values, ["a.example", "h.example", "z.example"]);
    assert_eq!(harness.complete(Argument::new("host", "h"), &[]).values, ["h.example"]);
    let host = [Argument::new("host", "H.example")];
    assert_eq!(harness.complete(Argument::new("path", "p"), &host).values, ["p?q=1", "page"]);
    assert_eq!(harness.complete(Argument::new("path", "x"), &host).values, [""; 0]);
}
