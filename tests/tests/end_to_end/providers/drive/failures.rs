//! Expiring credentials, quotas, interrupted transfers, and servers that are not Drive.

use std::time::Duration;

use mcp_host_tests::{ConfigFile, DriveServer, MockOrigin, Reply, StdioServer};
use rmcp::model::ErrorCode;
use serde_json::{Value, json};

use super::{APPS, drive_plugin, files, serve};

/// Makes the next requests for a path fail.
fn fail(path: &str, count: u32, status: u16, reason: &str, retry_after: Option<u32>) -> Value {
    let mut fail = json!({ "do": "fail", "path": path, "count": count, "status": status, "reason": reason });
    if let Some(seconds) = retry_after {
        fail["retry_after"] = seconds.into();
    }
    fail
}

#[tokio::test]
async fn requests_that_drive_refuses_for_a_moment_are_repeated_and_others_are_told_with_their_reason() {
    let mut drive = DriveServer::start(files()).await;
    let server = serve(drive_plugin(&drive).config("refresh", "1ms")).await;
    let (uri, path) = ("drive:///file/notes", "/drive/v3/files/notes");
    let text = server.client().text(uri).await;
    for refusal in [
        fail(path, 2, 403, "userRateLimitExceeded", None),
        fail(path, 1, 403, "rateLimitExceeded", None),
        fail(path, 1, 429, "rateLimitExceeded", Some(1)),
        fail(path, 2, 503, "backendError", None),
    ] {
        drive.command(refusal).await;
        assert_eq!(server.client().text(uri).await, text);
    }
    for (refusal, expected) in [
        (fail(path, 1, 429, "rateLimitExceeded", Some(60)), "too many requests to Drive"),
        (fail(path, 3, 500, "backendError", None), "Drive is not ready"),
        (fail(path, 1, 403, "dailyLimitExceeded", None), "the quota of Drive is used up"),
        (fail(path, 1, 403, "insufficientFilePermissions", None), "Drive denies access (insufficientFilePermissions)"),
        (fail(path, 1, 403, "accessNotConfigured", None), "the Drive API is not enabled"),
        (fail(path, 1, 302, "", None), "status 302"),
    ] {
        drive.command(refusal).await;
        let error = server.client().read_error(uri).await;
        assert!(error.message.contains(expected), "{expected}: {error:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_listing_whose_page_tokens_expire_goes_on() {
    let mut drive = DriveServer::start(files()).await;
    for n in 0..30 {
        let create = json!({ "do": "create", "id": format!("n{n:02}"), "name": format!("{n:02}.txt"), "parents": ["F"], "content": "x" });
        drive.command(create).await;
    }
    let config = ConfigFile::new().plugin(drive_plugin(&drive)).page_size(7).write();
    let server = StdioServer::start(&config).await;
    let (mut uris, mut cursor) = (Vec::new(), None);
    for page in 0.. {
        let listed = server.client().page(cursor.as_deref()).await.unwrap();
        uris.extend(listed.resources.into_iter().map(|resource| resource.uri));
        cursor = listed.next_cursor;
        if cursor.is_none() {
            break;
        }
        if page == 2 {
            drive.command(json!({ "do": "expire", "what": "pages" })).await;
        }
    }
    uris.sort();
    uris.dedup();
    for n in 0..30 {
        assert!(uris.contains(&format!("drive:///file/n{n:02}")), "{n}: {uris:?}");
    }
    server.end().await;
    drive.requests();
}

#[tokio::test]
async fn a_static_token_that_expires_in_mid_listing_is_told() {
    let mut drive = DriveServer::start(files()).await;
    let config = ConfigFile::new().plugin(drive_plugin(&drive)).page_size(3).write();
    let server = StdioServer::start(&config).await;
    let first = server.client().page(None).await.unwrap();
    drive.expire_tokens().await;
    let error = server.client().read_error("drive:///file/notes").await;
    assert!(error.message.contains("has expired or was revoked"), "{error:?}");
    assert!(!format!("{error:?}").contains(DriveServer::TOKEN));
    let rest = server.client().page(first.next_cursor.as_deref()).await;
    assert!(!format!("{rest:?}").contains(DriveServer::TOKEN), "{rest:?}");
    server.end().await;
}

#[tokio::test]
async fn a_transfer_that_breaks_goes_on_behind_the_last_byte() {
    let mut drive = DriveServer::start(files()).await;
    let content = "0123456789abcdef\n".repeat(100_000);
    let create = json!({ "do": "create", "id": "long", "name": "long.txt", "parents": ["F"], "content": content });
    drive.command(create).await;
    let server = serve(drive_plugin(&drive)).await;
    // The first request for the path reads the metadata.
    drive.command(json!({ "do": "fail", "path": "/drive/v3/files/long", "count": 2, "break": 700_000 })).await;
    assert_eq!(server.client().text("drive:///file/long").await, content);
    assert_eq!(drive.count("/files/long?alt=media"), 2, "{}", drive.requests());
    server.end().await;
}

#[tokio::test]
async fn a_size_that_is_a_lie_is_told() {
    let mut drive = DriveServer::start(files()).await;
    let server = serve(drive_plugin(&drive)).await;
    for size in [5, 1000, 9_000_000_000_000_000_u64] {
        drive.command(json!({ "do": "update", "id": "notes", "size": size })).await;
        let error = server.client().read_error("drive:///file/notes").await;
        assert!(error.message.contains("has not the size that Drive says"), "{error:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn servers_that_lie_or_never_end_are_refused_with_a_message_and_the_next_one_is_read() {
    let drive = DriveServer::start(files()).await;
    let origin = MockOrigin::http().await;
    let plugin = drive_plugin(&drive).origin(&origin.origin()).config("url", origin.origin()).config("timeout", "4s");
    let server = serve(plugin).await;
    let root = "/drive/v3/files/F";
    for (reply, expected) in [
        (Reply::endless(), ""),
        (Reply::drip(Duration::from_millis(10)), ""),
        (Reply::silent(), "did not respond in time"),
        (Reply::ok("application/json", "{}"), "not what its API says"),
        (Reply::ok("application/json", "[["), "not what its API says"),
        (Reply::ok("text/html", "<html>"), "not what its API says"),
        (Reply::ok("application/json", r#"{"id":"../x","name":"x","mimeType":"x/y"}"#), "not what its API says"),
    ] {
        origin.serve_any_query(root, reply);
        let error = server.client().read_error("drive:///folder/F").await;
        assert!(error.message.contains(expected), "{expected}: {error:?}");
        assert_ne!(error.code, ErrorCode(-32002), "{error:?}");
    }
    let folder = format!(r#"{{"id":"F","name":"Team","mimeType":"{APPS}folder"}}"#);
    origin.serve_any_query(root, Reply::ok("application/json", folder));
    origin.serve_any_query("/drive/v3/files", Reply::ok("application/json", r#"{"files":[]}"#));
    assert_eq!(server.client().text("drive:///folder/F").await, "# Team\n\nThere are no entries.\n");
    server.end().await;
}
