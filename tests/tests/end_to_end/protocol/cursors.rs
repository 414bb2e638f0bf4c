//! Cursors: every page size gives the same listing, and a cursor is valid only for its listing.

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, Revision, StdioServer, WrittenConfig, run};
use rmcp::model::ErrorCode;

/// Three plugins of 7, 0 and 5 resources, and one whose listing fails.
fn four_plugins(page_size: i64) -> ConfigFile {
    let many = |name: &str, count: i64| Plugin::misbehaving(name).config("list", "many").config("count", count);
    ConfigFile::new()
        .page_size(page_size)
        .plugin(many("a", 7))
        .plugin(many("b", 0))
        .plugin(Plugin::misbehaving("c").config("list", "trap"))
        .plugin(many("d", 5))
        .allow_all()
}

fn all_uris() -> Vec<String> {
    let of = |name: &'static str, count| (0..count).map(move |n| format!("misbehaving://{name}/item-{n:04}"));
    of("a", 7).chain(of("d", 5)).collect()
}

/// Returns the cursor of the first page, as the command line prints it.
async fn first_cursor(config: &WrittenConfig, arguments: &[&str]) -> String {
    let path = config.path();
    let config = ["--config", path.to_str().unwrap()];
    let page = run([&["list", "--json"], arguments, config.as_slice()].concat()).await.success().json();
    page["nextCursor"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_page_size_gives_the_whole_listing_once() {
    for size in [1, 2, 3, 5, 7, 12, 13, 1000] {
        let config = four_plugins(size).write();
        let server = StdioServer::start(&config).await;
        let pages = server.client().pages().await;
        assert!(pages.iter().all(|page| page.resources.len() as i64 <= size), "pages of {size}");
        let missing = pages.iter().filter(|page| page.meta.is_some()).count();
        assert_eq!(missing, 1, "the plugin that fails is named where its entries would stand, in pages of {size}");
        let uris: Vec<_> = pages.into_iter().flat_map(|page| page.resources).map(|resource| resource.uri).collect();
        assert_eq!(uris, all_uris(), "pages of {size}");
        server.end().await;
    }
}

#[tokio::test]
async fn a_cursor_outlives_the_server_that_gave_it() {
    let config = four_plugins(4).write();
    let server = StdioServer::start(&config).await;
    let cursor = server.client().page(None).await.unwrap().next_cursor.unwrap();
    server.end().await;
    let server = StdioServer::start(&config).await;
    let page = server.client().page(Some(&cursor)).await.unwrap();
    assert_eq!(page.resources[0].uri, "misbehaving://a/item-0004");
    server.end().await;
}

#[tokio::test]
async fn a_cursor_of_another_host_is_invalid() {
    let cursor = first_cursor(&four_plugins(4).write(), &[]).await;
    let config = four_plugins(4).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().page(Some(&cursor)).await.unwrap_err().code, ErrorCode::INVALID_PARAMS);
    server.end().await;
}

#[tokio::test]
async fn hosts_that_share_a_key_go_on_with_each_others_listings() {
    let key = "0123456789abcdef".repeat(4);
    let config = || {
        let config = four_plugins(4).append("\n[server.cursor-key]\nfile = \"key\"\n").write();
        std::fs::write(config.dir().join("key"), &key).unwrap();
        config
    };
    let cursor = first_cursor(&config(), &[]).await;
    let config = config();
    let server = StdioServer::start(&config).await;
    let page = server.client().page(Some(&cursor)).await.unwrap();
    assert_eq!(page.resources[0].uri, "misbehaving://a/item-0004");
    server.end().await;
}

#[tokio::test]
async fn a_cursor_is_good_for_its_own_principal_only() {
    let config = four_plugins(4).write();
    let of_local = first_cursor(&config, &[]).await;
    let of_anonymous = first_cursor(&config, &["--as", "anonymous"]).await;
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2025_11_25).await;
    assert!(client.page(Some(&of_anonymous)).await.is_ok());
    assert_eq!(client.page(Some(&of_local)).await.unwrap_err().code, ErrorCode::INVALID_PARAMS);
    server.end().await;
}

#[tokio::test]
async fn a_cursor_is_good_for_its_own_kind_of_listing_only() {
    // Each `misbehaving` has two templates, so a page with one is not the last.
    let config = four_plugins(1).write();
    let of_templates = first_cursor(&config, &["--templates"]).await;
    let of_resources = first_cursor(&config, &[]).await;
    let server = StdioServer::start(&config).await;
    let client = server.client();
    assert_eq!(client.page(Some(&of_templates)).await.unwrap_err().code, ErrorCode::INVALID_PARAMS);
    assert!(client.page(Some(&of_resources)).await.is_ok());
    server.end().await;
}

#[tokio::test]
async fn a_cursor_that_was_tampered_with_is_invalid_and_does_no_harm() {
    let config = four_plugins(4).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let cursor = client.page(None).await.unwrap().next_cursor.unwrap();
    let last = if cursor.ends_with('A') { 'B' } else { 'A' };
    let forged = [
        format!("{}{last}", &cursor[..cursor.len() - 1]),
        format!("{cursor}AAAA"),
        cursor[1..].to_owned(),
        cursor.to_uppercase(),
        format!("{cursor}="),
        "x".repeat(100_000),
        "\u{0}".to_owned(),
        "ページ".to_owned(),
    ];
    for forged in forged {
        let error = client.page(Some(&forged)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{forged:.80}");
        assert!(error.message.contains("cursor"), "{}", error.message);
    }
    assert_eq!(client.page(Some(&cursor)).await.unwrap().resources.len(), 4);
    server.end().await;
}

#[tokio::test]
async fn an_empty_cursor_is_invalid_as_no_page_ever_gave_it() {
    let config = four_plugins(4).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().page(Some("")).await.unwrap_err().code, ErrorCode::INVALID_PARAMS);
    server.end().await;
}

#[tokio::test]
async fn a_cursor_does_not_show_what_is_in_it() {
    let cursor = first_cursor(&four_plugins(4).write(), &[]).await;
    let again = first_cursor(&four_plugins(4).write(), &[]).await;
    assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{cursor}");
    assert!(!cursor.contains("item") && cursor != again);
}
