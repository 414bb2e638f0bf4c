//! The provider `drive`, compared with the results of Google's client library on the same stand-in for Google Drive.

mod changes;
mod credentials;
mod failures;
mod memory;
mod scope;

use std::collections::BTreeSet;

use mcp_host_tests::{ConfigFile, DriveServer, Plugin, StdioServer};
use rmcp::model::{ErrorCode, ResourceContents};
use serde_json::{Value, json};

const APPS: &str = "application/vnd.google-apps.";

/// The text of a document whose sections are too large for one chunk.
const PLAN: &str =
    "# Plan\n\nWhat we do.\n\n## Travel\n\nExpenses are paid.\n\n## Budget\n\nNumbers are in the sheet.\n";

/// A folder `F` with a subfolder `S`, a shared drive, and files of each kind. `outside` is in none of them.
fn files() -> Vec<Value> {
    let create = |id: &str, name: &str, kind: &str, parent: &str, more: Value| {
        let kind = if kind.contains('/') { kind.to_owned() } else { format!("{APPS}{kind}") };
        let mut file = json!({ "do": "create", "id": id, "name": name, "mimeType": kind, "parents": [parent] });
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        file
    };
    let image = "\n[image1]: <data:image/png;base64,iVBORw0KGgo=>\n";
    let sheets = json!({ "Costs": [["item", "price"], ["train, first class", 12.5], [null, "x"]], "Notes": [["b"]] });
    vec![
        json!({ "do": "drive", "id": "0AShared", "name": "Company" }),
        create("F", "Team", "folder", "my-root", json!({})),
        create("S", "Specs", "folder", "F", json!({})),
        create(
            "plan",
            "Plan",
            "document",
            "S",
            json!({ "content": format!("{PLAN}{image}"), "description": "For 2027" }),
        ),
        create("costs", "Costs", "spreadsheet", "F", json!({ "content": sheets })),
        create("talk", "Talk", "presentation", "F", json!({ "content": "Slide one\n\nSlide two\n" })),
        create("logo", "Logo", "drawing", "F", json!({})),
        create("form", "Survey", "form", "F", json!({})),
        create("notes", "notes.md", "text/markdown", "F", json!({ "content": "# Notes\n\n日本語\n" })),
        create("photo", "photo.jpg", "image/jpeg", "S", json!({ "base64": "/9j/4AAQ" })),
        create("empty", "empty.txt", "text/plain", "S", json!({ "content": "" })),
        create("old", "old.txt", "text/plain", "F", json!({ "trashed": true, "content": "gone" })),
        create("policy", "Policy", "document", "0AShared", json!({ "content": "# Policy\n\nTravel is by train.\n" })),
        create("private", "Private", "folder", "my-root", json!({})),
        create("outside", "outside.txt", "text/plain", "private", json!({ "content": "secret travel" })),
        create("link", "Link", "shortcut", "F", json!({ "target": "outside" })),
    ]
}

/// The provider at `drive:///`, with the folder and the shared drive in scope.
fn drive_plugin(drive: &DriveServer) -> Plugin {
    drive.plugin().config("folders", vec!["F", "0AShared"])
}

async fn serve(plugin: Plugin) -> StdioServer {
    StdioServer::start(&ConfigFile::new().plugin(plugin).write()).await
}

/// Returns the texts of the contents of a resource, with their URIs.
async fn texts(server: &StdioServer, uri: &str) -> Vec<(String, String)> {
    let contents = server.client().read(uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
    let text = |contents: ResourceContents| match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => (uri, text),
        other => panic!("{other:?}"),
    };
    contents.into_iter().map(text).collect()
}

/// Returns the `_meta` of the first content of a resource.
async fn meta(server: &StdioServer, uri: &str) -> Value {
    let contents = server.client().read(uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
    serde_json::to_value(&contents[0]).unwrap()["_meta"].take()
}

#[tokio::test]
async fn what_is_listed_and_read_is_what_googles_own_client_finds() {
    let drive = DriveServer::start(files()).await;
    let server = serve(drive_plugin(&drive)).await;
    let mut found = serde_json::Map::new();
    for folder in ["F", "0AShared"] {
        let walked = drive.walk_with_googles_client(folder).await;
        found.extend(walked["files"].as_object().unwrap().clone());
    }
    // The form cannot be exported, and the shortcut leads out of the scope.
    found.remove("form");
    found.remove("link");
    let uris: BTreeSet<String> = server.client().uris().await.into_iter().collect();
    let expected: BTreeSet<String> = found.keys().map(|id| format!("drive:///file/{id}")).collect();
    let folders = ["F", "0AShared"].map(|id| format!("drive:///folder/{id}"));
    assert_eq!(uris, expected.into_iter().chain(folders).collect());
    for id in ["notes", "empty", "talk", "policy"] {
        let expected = found[id]["content"].as_str().unwrap().trim_start_matches('\u{feff}').replace("\r\n", "\n");
        assert_eq!(server.client().text(&format!("drive:///file/{id}")).await, expected, "{id}");
    }
    assert_eq!(server.client().bytes("drive:///file/photo").await, b"\xff\xd8\xff\xe0\x00\x10");
    assert!(server.client().bytes("drive:///file/logo").await.starts_with(b"\x89PNG"));
    let listed = server.client().resources().await;
    let plan = listed.iter().find(|resource| resource.uri == "drive:///file/plan").unwrap();
    let plan = serde_json::to_value(plan).unwrap();
    assert_eq!((&plan["title"], &plan["mimeType"]), (&json!("Plan"), &json!("text/markdown")));
    assert_eq!((&plan["description"], &plan["_meta"]["drive/folder"]), (&json!("For 2027"), &json!("Team/Specs")));
    let policy = listed.iter().find(|resource| resource.uri == "drive:///file/policy").unwrap();
    assert_eq!(serde_json::to_value(policy).unwrap()["_meta"]["drive/folder"], "Company");
    server.end().await;
    drive.requests();
}

#[tokio::test]
async fn a_document_is_exported_once_and_read_whole_and_in_chunks_by_its_headings() {
    let mut drive = DriveServer::start(files()).await;
    let server = serve(drive_plugin(&drive).bucket("drive").config("chunk-size", "500B")).await;
    assert_eq!(server.client().text("drive:///file/plan").await, format!("{PLAN}\n"));
    assert_eq!(meta(&server, "drive:///file/plan").await["drive/images-omitted"], 1);
    assert_eq!(server.client().text("drive:///file/plan/chunk/1").await, format!("{PLAN}\n"));
    let export = "files/plan/export";
    assert_eq!(drive.count(export), 1, "{}", drive.requests());
    // Each section is a chunk now.
    let section = |title: &str| format!("## {title}\n\n{}\n\n", "All of it. ".repeat(40));
    let text = ["# Plan\n\n".to_owned(), section("Travel"), section("Budget")].concat();
    drive.command(json!({ "do": "update", "id": "plan", "content": text })).await;
    let chunk = |n: usize| format!("drive:///file/plan/chunk/{n}");
    assert_eq!(server.client().text(&chunk(2)).await, section("Travel"));
    assert_eq!(server.client().text(&chunk(3)).await, section("Budget"));
    let of_budget = meta(&server, &chunk(3)).await;
    assert_eq!((&of_budget["drive/headings"], &of_budget["drive/chunks"]), (&json!(["Plan", "Budget"]), &json!(3)));
    assert_eq!(server.client().read_error(&chunk(4)).await.code, ErrorCode(-32002));
    assert_eq!(drive.count(export), 2, "{}", drive.requests());
    let numbers = server.client().complete("drive:///file/{id}/chunk/{n}", ("n", ""), &[("id", "plan")]).await.unwrap();
    assert_eq!(numbers.values, ["1", "2", "3"]);
    // A new section before the others changes their numbers, but not their ids.
    drive.command(json!({ "do": "update", "id": "plan", "content": text.replace("# Plan\n\n", &format!("# Plan\n\n{}", section("New"))) })).await;
    assert_eq!(meta(&server, &chunk(4)).await["drive/chunk-id"], of_budget["drive/chunk-id"]);
    server.end().await;
}

#[tokio::test]
async fn a_spreadsheet_is_csv_for_each_sheet() {
    let drive = DriveServer::start(files()).await;
    let server = serve(drive_plugin(&drive)).await;
    let (first, second) = ("drive:///file/costs/sheet/1".to_owned(), "drive:///file/costs/sheet/2".to_owned());
    let costs = "item,price\n\"train, first class\",12.5\n,x\n".to_owned();
    let expected = [(first.clone(), costs.clone()), (second, "b\n".to_owned())];
    assert_eq!(texts(&server, "drive:///file/costs").await, expected);
    assert_eq!(server.client().text(&first).await, costs);
    assert_eq!(server.client().read_error("drive:///file/costs/sheet/3").await.code, ErrorCode(-32002));
    assert_eq!(server.client().read_error("drive:///file/costs/chunk/1").await.code, ErrorCode::INVALID_PARAMS);
    server.end().await;
}

#[tokio::test]
async fn a_large_file_is_read_in_ranges() {
    let mut drive = DriveServer::start(files()).await;
    let create = json!({ "do": "create", "id": "big", "name": "big.txt", "parents": ["F"], "content": "日本語の本文\n", "repeat": 500_000 });
    drive.command(create).await;
    let text = "日本語の本文\n".repeat(500_000);
    let server = serve(drive_plugin(&drive).limit("memory", "256MiB")).await;
    let mut read = server.client().text("drive:///file/big").await;
    let mut of_part = meta(&server, "drive:///file/big").await;
    assert_eq!(of_part["drive/total-bytes"], json!(text.len()));
    while let Some(next) = of_part["drive/next-range"].as_str() {
        assert_eq!(next, format!("bytes={}-", read.len()));
        let uri = format!("drive:///file/big?{next}");
        read += &server.client().text(&uri).await;
        of_part = meta(&server, &uri).await;
    }
    assert!(read == text);
    assert!(drive.count("206 bytes=0-4194303") > 0, "{}", drive.requests());
    assert_eq!(server.client().text("drive:///file/big?bytes=0-8").await, "日本語");
    let error = server.client().read_error("drive:///file/big?bytes=99999999-").await;
    assert!(error.message.contains("the file has 9500000 bytes"), "{error:?}");
    server.end().await;
}

#[tokio::test]
async fn what_is_too_large_to_be_exported_is_had_in_a_smaller_format_or_refused_with_the_reason() {
    let mut drive = DriveServer::start(files()).await;
    let image = format!("[image1]: <data:image/png;base64,{}>", "A".repeat(11_000_000));
    drive.command(json!({ "do": "update", "id": "plan", "content": format!("# Plan\n\nshort\n{image}") })).await;
    drive.command(json!({ "do": "update", "id": "talk", "content": "long\n", "repeat": 3_000_000 })).await;
    let server = serve(drive_plugin(&drive)).await;
    assert_eq!(server.client().text("drive:///file/plan").await, "# Plan\n\nshort");
    assert_eq!(meta(&server, "drive:///file/plan").await["drive/too-large-for"], "text/markdown");
    let error = server.client().read_error("drive:///file/talk").await;
    assert!(error.message.contains("more than 10 MB"), "{error:?}");
    server.end().await;
}
