//! Large and hostile directories, with the default limits.

use std::fs::File;

use mcp_host_tests::{Folder, StdioServer};
use rmcp::model::ErrorCode;

use super::{files_config, meta};

#[tokio::test]
async fn ten_thousand_files_are_listed_whole_page_by_page() {
    let files = (0..10_000).map(|n| (format!("{:02}/f{n:05}.txt", n % 7), "text\n"));
    let folder = Folder::with_files(files);
    let config = files_config(folder.path()).page_size(1000).write();
    let server = StdioServer::start(&config).await;
    let pages = server.client().pages().await;
    let uris: Vec<_> = pages.iter().flat_map(|page| &page.resources).map(|file| file.uri.as_str()).collect();
    assert!(uris.len() == 10_000 && uris.is_sorted(), "{}", uris.len());
    assert!(pages.iter().all(|page| page.meta.as_ref().is_none_or(|meta| !meta.contains_key("mcp-host/missing"))));
    server.end().await;
}

#[tokio::test]
async fn a_sparse_file_of_two_gigabytes_is_read_by_parts_within_the_default_memory() {
    let folder = Folder::with_files([("a.bin", "begin")]);
    File::options().write(true).open(folder.path().join("a.bin")).unwrap().set_len(2 << 30).unwrap();
    folder.write("wide.txt", "x".repeat(3 << 20));
    let config = files_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let head = server.client().read("files://f/a.bin").await.unwrap();
    assert_eq!(meta(&head[0], "files/next-range").as_deref(), Some("bytes=1048576-"));
    assert_eq!(server.client().bytes("files://f/a.bin?bytes=0-4").await, b"begin");
    assert_eq!(server.client().bytes("files://f/a.bin?bytes=-3").await, b"\0\0\0");
    let line = server.client().read("files://f/wide.txt").await.unwrap();
    assert_eq!(meta(&line[0], "files/next-range").as_deref(), Some("bytes=1048576-"));
    server.end().await;
}

#[tokio::test]
async fn links_in_loops_and_out_of_the_directory_end_no_listing_and_give_nothing_away() {
    let outside = Folder::with_files([("secret.md", "# Secret")]);
    let folder = Folder::with_files([("a.md", "A"), ("sub/b.md", "B")]);
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    folder.symlink("absolute.md", outside.path().join("secret.md"));
    folder.symlink("relative.md", format!("../{name}/secret.md"));
    folder.symlink("away", outside.path());
    folder.symlink("loop", "loop");
    folder.symlink("sub/up", "..");
    folder.symlink("good.md", "sub/b.md");
    let config = files_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().uris().await, ["files://f/a.md", "files://f/good.md", "files://f/sub/b.md"]);
    assert_eq!(server.client().text("files://f/sub/up/sub/b.md").await, "B");
    for path in ["absolute.md", "relative.md", "away/secret.md", "loop"] {
        let error = server.client().read_error(&format!("files://f/{path}")).await;
        let said = serde_json::to_string(&error).unwrap();
        assert!(!said.contains("Secret") && !said.contains(name), "{path}: {said}");
    }
    assert_eq!(server.client().read_error("files://f/loop").await.code, ErrorCode(-32002));
    server.end().await;
}
