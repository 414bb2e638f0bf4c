//! What is listed and completed.

use crate::world::{World, ok, status};
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
    let world = World::with_page(&headers, "<title>Page</title>x").config("seeds", SEEDS);
    world.serve("https://m.example/x", ok(&headers, "y"));
    assert_eq!(world.paths(), ["a.example/", "h.example/page", "z.example/"]);
    assert_eq!(world.count(), 0);
    world.read("h.example/page").unwrap();
    world.read("m.example/x").unwrap();
    assert_eq!(world.paths(), ["a.example/", "h.example/page", "m.example/x", "z.example/"]);
    world.pass(10);
    let entries = world.list(100);
    let page = &entries[1];
    assert_eq!((page.name.as_str(), page.title.as_deref(), page.size), ("page", Some("Page"), Some(20)));
    assert_eq!((page.mime_type.as_deref(), page.ttl), (Some("text/html"), Some(Duration::from_secs(50))));
    assert!(page.subscribable && page.last_modified.is_some());
    assert_eq!((entries[0].name.as_str(), entries[0].mime_type.as_deref()), ("a.example", None));
    assert_eq!(world.count(), 2);
}

#[test]
fn a_seed_that_leads_elsewhere_shows_what_is_kept_there() {
    let world =
        World::with_page(&[("content-type", "text/html"), ("cache-control", "max-age=60")], "<title>Page</title>");
    let world = world.config("seeds", r#"["h.example/old"]"#);
    world.serve("https://h.example/old", status(301, &[("location", "/page")]));
    world.read("h.example/old").unwrap();
    let titles: Vec<_> = world.list(9).into_iter().map(|entry| (entry.path, entry.title.unwrap())).collect();
    let expected = [("h.example/old", "Page"), ("h.example/page", "Page")];
    assert_eq!(titles, expected.map(|(path, title)| (path.to_owned(), title.to_owned())));
}

#[test]
fn nothing_is_listed_below_a_page_and_a_foreign_cursor_is_an_invalid_request() {
    let provider = World::new().provider();
    assert!(matches!(provider.list(Some("h.example/"), None, 9), Err(Failure::InvalidRequest(_))));
    assert!(matches!(provider.list(None, Some("foreign"), 9), Err(Failure::InvalidRequest(_))));
}

#[test]
fn the_pages_of_a_sitemap_are_listed_and_the_sitemap_is_fetched_when_it_is_due() {
    let world = World::new().config("sitemaps", r#"["h.example"]"#);
    let urls = ["https://h.example/b?x=1&amp;y=2", "https://h.example/a", "https://other.example/", "nonsense"];
    world.serve("https://h.example/sitemap.xml", sitemap(&urls));
    let expected = ["h.example/a", "h.example/b?x=1&y=2", "h.example/sitemap.xml"];
    assert_eq!(world.list(9).into_iter().map(|entry| entry.path).collect::<Vec<_>>(), expected[..2]);
    assert_eq!(world.paths(), expected);
    assert_eq!(world.count(), 1);
    world.pass(61);
    world.paths();
    assert!(world.count() > 1);
}

#[test]
fn an_index_leads_to_further_sitemaps_but_not_to_packed_ones_or_on_and_on() {
    let world = World::new().config("sitemaps", r#"["h.example/index.xml"]"#);
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
    world.serve("https://h.example/index.xml", index(&further));
    world.serve("https://h.example/1.xml", sitemap(&["https://h.example/a"]));
    assert_eq!(world.list(9).len(), 1);
    let urls: Vec<_> = world.requests().into_iter().map(|request| request.url).collect();
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
    let world = World::new().config("sitemaps", r#"["h.example/index.xml"]"#);
    let urls: String = (0..500).map(|n| format!("<sitemap><loc>https://h.example/{n}.xml</loc></sitemap>")).collect();
    world.serve("https://h.example/index.xml", ok(&[], format!("<sitemapindex>{urls}</sitemapindex>")));
    world.provider().list(None, None, 9).unwrap();
    assert_eq!(world.count(), 16);
}

#[test]
fn a_sitemap_that_cannot_be_had_leaves_the_rest_of_the_listing() {
    let world = World::new().config("sitemaps", r#"["h.example"]"#).config("seeds", SEEDS);
    world.down("https://h.example/sitemap.xml");
    assert_eq!(world.paths().len(), 3);
}

#[test]
fn hosts_and_paths_are_completed_with_what_is_listed() {
    let world = World::with_page(&[("cache-control", "max-age=60")], "x").config("seeds", SEEDS);
    world.serve("https://h.example/p?q=1", ok(&[], "y"));
    world.read("h.example/page").unwrap();
    world.read("h.example/p?q=1").unwrap();
    assert_eq!(world.complete(Argument::new("host", ""), &[]).values, ["a.example", "h.example", "z.example"]);
    assert_eq!(world.complete(Argument::new("host", "h"), &[]).values, ["h.example"]);
    let host = [Argument::new("host", "H.example")];
    assert_eq!(world.complete(Argument::new("path", "p"), &host).values, ["p?q=1", "page"]);
    assert_eq!(world.complete(Argument::new("path", "x"), &host).values, [""; 0]);
}
