//! Access tokens that the host obtains with the key of a service account.

use mcp_host_tests::{ConfigFile, DriveServer, StdioServer};
use serde_json::json;

use super::files;

const FOLDERS: [&str; 2] = ["F", "0AShared"];

#[tokio::test]
async fn a_token_that_expires_in_mid_listing_is_replaced_and_the_listing_is_whole() {
    let mut drive = DriveServer::start(files()).await;
    let plugin = drive.plugin_with_key().config("folders", FOLDERS.to_vec());
    let server = StdioServer::start(&ConfigFile::new().plugin(plugin).page_size(3).write()).await;
    let (mut uris, mut cursor) = (Vec::new(), None);
    for page in 0.. {
        let listed = server.client().page(cursor.as_deref()).await.unwrap();
        uris.extend(listed.resources.into_iter().map(|resource| resource.uri));
        cursor = listed.next_cursor;
        if cursor.is_none() {
            break;
        }
        if page == 1 {
            drive.expire_tokens().await;
        }
    }
    for id in ["notes", "photo", "policy", "plan"] {
        assert!(uris.contains(&format!("drive:///file/{id}")), "{id}: {uris:?}");
    }
    assert_eq!(drive.count("POST /token 200"), 2, "{}", drive.requests());
    server.end().await;
}

#[tokio::test]
async fn a_key_that_is_revoked_makes_what_is_asked_for_unavailable() {
    let mut drive = DriveServer::start(files()).await;
    let plugin = drive.plugin_with_key().config("folders", FOLDERS.to_vec());
    let server = StdioServer::start(&ConfigFile::new().plugin(plugin).write()).await;
    assert!(server.client().text("drive:///file/notes").await.starts_with("# Notes"));
    drive.command(json!({ "do": "revoke" })).await;
    drive.expire_tokens().await;
    let error = server.client().read_error("drive:///file/talk").await;
    server.log_line("invalid_grant").await;
    let ended = server.end().await;
    assert!(!format!("{error:?} {}", ended.log).contains("PRIVATE KEY"), "{error:?}");
}

#[tokio::test]
async fn the_clock_of_the_token_endpoint_may_differ() {
    for seconds in [3000, -30] {
        let mut drive = DriveServer::start(files()).await;
        drive.command(json!({ "do": "clock", "seconds": seconds })).await;
        let plugin = drive.plugin_with_key().config("folders", FOLDERS.to_vec());
        let server = StdioServer::start(&ConfigFile::new().plugin(plugin).write()).await;
        assert!(server.client().text("drive:///file/notes").await.starts_with("# Notes"), "{seconds}");
        server.end().await;
    }
}
