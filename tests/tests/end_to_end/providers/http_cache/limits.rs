//! Sitemaps of thousands of pages, equivalent spellings of one address, and pages that are expensive to process.

use std::time::Instant;

use mcp_host_tests::{ConfigFile, MockOrigin, Plugin, Reply, StdioServer, component};
use rmcp::model::ErrorCode;

use super::{host_and_port, page_uri, plugin_config, web_plugin};

fn sitemap(origin: &MockOrigin, pages: usize) -> String {
    let urls: String =
        (0..pages).map(|n| format!("<url><loc>{}</loc></url>", origin.url(&format!("/p{n:05}")))).collect();
    format!("<?xml version='1.0'?><urlset>{urls}</urlset>")
}

#[tokio::test]
async fn a_sitemap_without_freshness_is_fetched_once_for_a_walk_and_all_of_it_is_listed() {
    let origin = MockOrigin::http().await;
    origin.serve("/sitemap.xml", Reply::ok("application/xml", sitemap(&origin, 9000)));
    let plugin = web_plugin(&[&origin])
        .config("sitemaps", vec![host_and_port(&origin)])
        .limit("http", toml::Table::from_iter([("rate".to_owned(), "3/m".into())]));
    let config = ConfigFile::new().plugin(plugin).page_size(100).write();
    let began = Instant::now();
    let server = StdioServer::start(&config).await;
    let pages = server.client().pages().await;
    assert!(pages.iter().all(|page| page.meta.as_ref().is_none_or(|meta| !meta.contains_key("mcp-host/missing"))));
    let uris: Vec<_> = pages.iter().flat_map(|page| &page.resources).map(|found| found.uri.as_str()).collect();
    let listed: Vec<_> = uris.iter().filter(|found| found.contains("/p")).collect();
    assert!(listed.len() == 9000 && listed.is_sorted(), "{} are listed", listed.len());
    // The host lists by itself, too, but no more often than the rate allows: immediately, then every 20 s.
    let most = 3 + usize::try_from(began.elapsed().as_secs() / 20).unwrap();
    assert!(origin.request_count("/sitemap.xml") <= most, "{}", origin.request_count("/sitemap.xml"));
    server.end().await;
}

#[tokio::test]
async fn without_a_bucket_a_listing_that_cannot_go_on_says_so() {
    let origin = MockOrigin::http().await;
    origin.serve("/sitemap.xml", Reply::ok("application/xml", sitemap(&origin, 900)));
    let plugin = Plugin::new("web", &component("http-cache"), "web://")
        .config("plain-http", vec![host_and_port(&origin)])
        .config("sitemaps", vec![host_and_port(&origin)])
        .origin(&origin.origin())
        .limit("http", toml::Table::from_iter([("rate".to_owned(), "3/m".into())]));
    let config = ConfigFile::new().plugin(plugin).page_size(100).write();
    let server = StdioServer::start(&config).await;
    let pages = server.client().pages().await;
    let count: usize = pages.iter().map(|page| page.resources.len()).sum();
    let is_missing =
        pages.iter().any(|page| page.meta.as_ref().is_some_and(|meta| meta.contains_key("mcp-host/missing")));
    let named = pages
        .iter()
        .flat_map(|page| &page.resources)
        .any(|found| found.meta.as_ref().is_some_and(|meta| meta.contains_key("http-cache/missing")));
    assert!(count < 900 && (is_missing || named), "{count} pages are listed");
    server.end().await;
}

#[tokio::test]
async fn a_sitemap_that_cannot_be_read_is_named_and_the_rest_is_listed() {
    let origin = MockOrigin::http().await;
    let xml = sitemap(&origin, 150);
    origin.serve("/sitemap.xml", Reply::ok("application/xml", &*xml));
    origin.serve("/broken.xml", Reply::ok("application/xml", &xml[..xml.len() / 3]));
    let sitemaps = ["/sitemap.xml", "/broken.xml", "/gone.xml"].map(|path| host_and_port(&origin) + path).to_vec();
    let config = ConfigFile::new().plugin(web_plugin(&[&origin]).config("sitemaps", sitemaps)).page_size(20).write();
    let server = StdioServer::start(&config).await;
    let resources = server.client().resources().await;
    assert_eq!(resources.iter().filter(|found| found.uri.contains("/p0")).count(), 150);
    let missing = |path: &str| {
        let found = resources.iter().find(|found| found.uri == page_uri(&origin, path))?;
        Some(found.meta.as_ref()?.get("http-cache/missing")?.as_str()?.to_owned())
    };
    assert!(
        missing("/broken.xml").unwrap().contains("it is truncated")
            || missing("/broken.xml").unwrap().contains("malformed")
    );
    assert!(missing("/gone.xml").unwrap().contains("cannot be fetched"));
    assert_eq!(missing("/sitemap.xml"), None);
    server.end().await;
}

#[tokio::test]
async fn one_spelling_of_an_origin_is_served_and_two_slashes_are_two() {
    let origin = MockOrigin::http().await;
    for path in ["/x", "/a?b=c", "/?b"] {
        origin.serve(path, Reply::ok("text/plain", path));
    }
    origin.serve("//x", Reply::ok("text/plain", "two"));
    let config = plugin_config(web_plugin(&[&origin]));
    let server = StdioServer::start(&config).await;
    let port = origin.port();
    for other in [
        format!("127.0.0.1.:{port}/x"),
        format!("127.0.0.1:0{port}/x"),
        format!("127.0.0.1:{port}"),
        format!("127.0.0.1:{port}?b"),
        format!("127.1:{port}/x"),
        format!("2130706433:{port}/x"),
        format!("me@127.0.0.1:{port}/x"),
    ] {
        let error = server.client().read_error(&format!("web://{other}")).await;
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{other}: {error:?}");
    }
    assert!(origin.requests().is_empty());
    assert_eq!(server.client().text(&page_uri(&origin, "/x")).await, "/x");
    assert_eq!(server.client().text(&page_uri(&origin, "//x")).await, "two");
    assert_eq!(origin.requests().iter().map(|request| request.path.as_str()).collect::<Vec<_>>(), ["/x", "//x"]);
    server.end().await;
}

#[tokio::test]
async fn a_freshness_beyond_all_numbers_is_a_long_one() {
    let origin = MockOrigin::http().await;
    origin.serve("/x", Reply::ok("text/plain", "x").cache_control("max-age=18446744073709551616"));
    let config = plugin_config(web_plugin(&[&origin]));
    let server = StdioServer::start(&config).await;
    for _ in 0..3 {
        assert_eq!(server.client().text(&page_uri(&origin, "/x")).await, "x");
    }
    assert_eq!(origin.request_count("/x"), 1);
    server.end().await;
}

#[tokio::test]
async fn pages_that_are_made_to_take_long_are_read_within_the_time_of_a_page() {
    let origin = MockOrigin::http().await;
    let many = |one: &dyn Fn(usize) -> String| (0..100_000).map(one).collect::<String>();
    let pages = [
        ("/attributes", format!("<p>words<i{}>more", many(&|n| format!(" a{n}")))),
        ("/head", format!("<meta{}><title>x</title><p>words", many(&|n| format!(" a{n}")))),
        ("/bodies", format!("{}<p>words", (0..50_000).map(|n| format!("<body a{n}>")).collect::<String>())),
        ("/links", format!("<base href='https://h/{}/'>{}words", "b".repeat(7000), "<a href=x>y</a> ".repeat(30_000))),
    ];
    for (path, html) in &pages {
        origin.serve(path, Reply::ok("text/html", &**html));
    }
    let config =
        plugin_config(web_plugin(&[&origin]).limit("cpu", "3s").limit("deadline", "20s").limit("memory", "192MiB"));
    let server = StdioServer::start(&config).await;
    for (path, _) in &pages {
        let contents =
            server.client().read(&page_uri(&origin, path)).await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
        let text = String::from_utf8(mcp_host_tests::content_bytes(&contents[0])).unwrap();
        assert!(text.contains("words"), "{path}");
    }
    server.end().await;
}
