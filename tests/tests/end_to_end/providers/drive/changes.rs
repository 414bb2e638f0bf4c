//! Subscriptions: edits, removals, moves, and new folders.

use mcp_host_tests::{ConfigFile, DriveServer, RawStdio, Revision};
use serde_json::json;

use super::{drive_plugin, files};

const UPDATED: &str = "notifications/resources/updated";

#[tokio::test]
async fn edits_and_removals_are_told() {
    let mut drive = DriveServer::start(files()).await;
    let plugin = drive_plugin(&drive).bucket("drive").config("refresh", "1s");
    let config = ConfigFile::new().plugin(plugin).write();
    let mut client = RawStdio::start(&config, Revision::V_2025_11_25).await;
    client.subscribe("drive:///file/plan/chunk/1").await;
    drive.command(json!({ "do": "update", "id": "plan", "content": "# New\n" })).await;
    let update = client.notification(UPDATED).await;
    assert_eq!(update["params"]["uri"], "drive:///file/plan/chunk/1");
    assert_eq!(client.read("drive:///file/plan/chunk/1").await, Ok("# New\n".to_owned()));
    client.subscribe("drive:///file/notes").await;
    drive.command(json!({ "do": "remove", "id": "notes" })).await;
    let update = client.notification(UPDATED).await;
    assert_eq!(update["params"]["uri"], "drive:///file/notes");
    assert_eq!(client.read("drive:///file/notes").await.unwrap_err()["code"], -32002);
    client.end().await;
    drive.requests();
}

#[tokio::test]
async fn a_file_that_was_moved_into_a_new_folder_is_served_at_once_and_one_that_was_moved_out_no_longer() {
    let mut drive = DriveServer::start(files()).await;
    let plugin = drive_plugin(&drive).bucket("drive").config("refresh", "1s");
    let config = ConfigFile::new().plugin(plugin).write();
    let mut client = RawStdio::start(&config, Revision::V_2025_11_25).await;
    client.subscribe("drive:///folder/S").await;
    assert!(client.read("drive:///file/outside").await.is_err());
    let folder = format!("{}folder", super::APPS);
    drive.command(json!({ "do": "create", "id": "N", "name": "New", "mimeType": folder, "parents": ["S"] })).await;
    drive.command(json!({ "do": "update", "id": "outside", "parents": ["N"] })).await;
    drive.command(json!({ "do": "update", "id": "photo", "parents": ["private"] })).await;
    client.notification(UPDATED).await;
    // The changes may arrive in two notifications. The tree is rebuilt after the first one or after `refresh`.
    while !client.read("drive:///folder/S").await.unwrap().contains("](<drive:///folder/N>)") {
        client.notification(UPDATED).await;
    }
    assert_eq!(client.read("drive:///file/outside").await, Ok("secret travel".to_owned()));
    assert!(client.read("drive:///file/photo").await.is_err());
    client.end().await;
}
