//! Files out of the config's scope are not found, by any request.

use mcp_host_tests::{ConfigFile, DriveServer, Rule, StdioServer};
use rmcp::model::ErrorCode;
use serde_json::json;

use super::{drive_plugin, files, serve, texts};

#[tokio::test]
async fn what_is_outside_of_the_config_is_not_found() {
    let drive = DriveServer::start(files()).await;
    let server = serve(drive_plugin(&drive)).await;
    for path in [
        "file/outside",
        "file/outside?bytes=0-3",
        "file/outside/chunk/1",
        "folder/private",
        "folder/my-root",
        "folder/root",
        "file/old",
        "file/link",
        "file/F",
        "folder/plan",
        "file/none",
        "file/..%2Fabout",
    ] {
        let error = server.client().read_error(&format!("drive:///{path}")).await;
        assert!([ErrorCode(-32002), ErrorCode::INVALID_PARAMS].contains(&error.code), "{path}: {error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{path}: {error:?}");
    }
    let found = texts(&server, "drive:///search?q=travel").await;
    assert!(
        found[0].1.contains("](<drive:///file/plan>)") && found[0].1.contains("](<drive:///file/policy>)"),
        "{found:?}"
    );
    assert!(!found[0].1.contains("outside"), "{found:?}");
    for escape in
        ["x' or name contains 'out", "travel') or (trashed = false", "\\' or 'my-root' in parents or name = \\'"]
    {
        let found = texts(&server, &format!("drive:///search?q={}", encode(escape))).await;
        assert!(!found.iter().any(|(_, text)| text.contains("file/outside")), "{escape}: {found:?}");
    }
    let ids = server.client().complete("drive:///file/{id}{?bytes}", ("id", "out"), &[]).await.unwrap();
    assert_eq!(ids.values, Vec::<String>::new());
    let ids = server.client().complete("drive:///file/{id}{?bytes}", ("id", "Pla"), &[]).await.unwrap();
    assert_eq!(ids.values, ["plan"]);
    server.end().await;
    drive.requests();
}

#[tokio::test]
async fn shortcuts_lead_out_of_the_folders_if_the_config_says_so() {
    let mut drive = DriveServer::start(files()).await;
    let apps = super::APPS;
    for command in [
        json!({ "do": "create", "id": "more", "name": "More", "mimeType": format!("{apps}shortcut"), "parents": ["S"], "target": "private" }),
        json!({ "do": "create", "id": "loop", "name": "Loop", "mimeType": format!("{apps}shortcut"), "parents": ["S"], "target": "F" }),
        json!({ "do": "create", "id": "dead", "name": "Dead", "mimeType": format!("{apps}shortcut"), "parents": ["S"], "target": "none" }),
    ] {
        drive.command(command).await;
    }
    let server = serve(drive_plugin(&drive).config("follow-shortcuts", true)).await;
    let uris = server.client().uris().await;
    for uri in ["drive:///file/link", "drive:///file/outside"] {
        assert_eq!(uris.iter().filter(|listed| *listed == uri).count(), 1, "{uris:?}");
        assert_eq!(server.client().text(uri).await, "secret travel");
    }
    assert!(server.client().text("drive:///folder/private").await.contains("](<drive:///file/outside>)"));
    assert_eq!(server.client().read_error("drive:///file/dead").await.code, ErrorCode(-32002));
    server.end().await;
}

#[tokio::test]
async fn queries_of_the_config_are_scope_beside_the_folders() {
    let drive = DriveServer::start(files()).await;
    let plugin = drive_plugin(&drive)
        .config("folders", vec!["S"])
        .config("queries", vec!["name = 'outside.txt'", "name = 'Plan'"]);
    let server = serve(plugin).await;
    let mut uris = server.client().uris().await;
    uris.sort();
    let expected =
        ["file/empty", "file/outside", "file/photo", "file/plan", "folder/S"].map(|path| format!("drive:///{path}"));
    assert_eq!(uris, expected);
    assert_eq!(server.client().text("drive:///file/outside").await, "secret travel");
    assert_eq!(server.client().read_error("drive:///file/notes").await.code, ErrorCode(-32002));
    let found = texts(&server, "drive:///search?q=travel").await;
    assert!(found[0].1.contains("file/outside") && !found[0].1.contains("file/policy"), "{found:?}");
    server.end().await;
}

#[tokio::test]
async fn everything_that_the_account_can_read_is_served_if_the_config_says_so() {
    let drive = DriveServer::start(files()).await;
    let server = serve(drive_plugin(&drive).config("unlisted", true)).await;
    assert_eq!(server.client().text("drive:///file/outside").await, "secret travel");
    assert!(!server.client().uris().await.contains(&"drive:///file/outside".to_owned()));
    assert!(texts(&server, "drive:///search?q=secret").await[0].1.contains("file/outside"));
    assert_eq!(server.client().read_error("drive:///file/old").await.code, ErrorCode(-32002));
    server.end().await;
}

fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[tokio::test]
async fn indexes_and_searches_have_nothing_of_a_document_that_is_denied() {
    let drive = DriveServer::start(files()).await;
    let rule = Rule::for_principal("local").allow(["**"]).deny(["drive:///file/plan"]);
    let server = StdioServer::start(&ConfigFile::new().plugin(drive_plugin(&drive)).rule(rule).write()).await;
    for (uri, shown) in [("drive:///folder/S", "photo.jpg"), ("drive:///search?q=travel", "Policy")] {
        let text = server.client().text(uri).await;
        assert!(text.contains(shown) && !text.contains("lan"), "{uri}: {text}");
    }
    server.end().await;
}
