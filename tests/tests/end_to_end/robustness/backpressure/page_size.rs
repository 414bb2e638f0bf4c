//! The number of entries and bytes on a page.

use mcp_host_tests::{ConfigFile, Plugin, StdioServer, fixture};

/// Walks a listing of `count` resources, and returns the number of entries on each page.
async fn page_lengths(count: i64, config: ConfigFile) -> Vec<usize> {
    let sizes = Plugin::new("sizes", &fixture("sizes"), "sizes:///").config("count", count);
    let config = config.plugin(sizes).write();
    let server = StdioServer::start(&config).await;
    let pages = server.client().pages().await;
    let uris: Vec<_> = pages.iter().flat_map(|page| &page.resources).map(|resource| resource.uri.clone()).collect();
    let expected: Vec<_> = (0..count).map(|place| format!("sizes:///text/{place}")).collect();
    assert_eq!(uris, expected);
    server.end().await;
    pages.iter().map(|page| page.resources.len()).collect()
}

#[tokio::test]
async fn a_page_has_a_thousand_resources_unless_the_config_says_otherwise() {
    assert_eq!(page_lengths(2500, ConfigFile::new()).await, [1000, 1000, 500]);
}

#[tokio::test]
async fn a_page_ends_when_its_bytes_are_used_up() {
    let found = page_lengths(300, ConfigFile::new().server("page-bytes", "32KiB")).await;
    assert!(found.len() > 2 && found.iter().all(|page| (10..150).contains(page)), "{found:?}");
}

#[tokio::test]
async fn a_page_has_one_resource_however_large_it_is() {
    // Every entry exceeds the limit.
    let sizes =
        Plugin::new("large", &fixture("misbehaving"), "misbehaving://large/").config("list", "many").config("count", 5);
    let config = ConfigFile::new().server("page-bytes", "1KiB").plugin(sizes).write();
    let server = StdioServer::start(&config).await;
    let pages = server.client().pages().await;
    assert!(pages.iter().all(|page| !page.resources.is_empty()));
    assert_eq!(pages.iter().map(|page| page.resources.len()).sum::<usize>(), 5);
    server.end().await;
}
