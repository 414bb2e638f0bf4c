//! The memory for the largest documents: the default of `limits.memory` suffices.

use mcp_host_tests::DriveServer;
use serde_json::{Value, json};

use super::{APPS, drive_plugin, files, meta, serve};

/// A document of nearly 10 MB, the maximum that Drive exports. It starts with repetitions of a text, up to the maximum
/// amount of parsed markup.
fn document(id: &str, text: &str, markup: usize) -> Value {
    let dense = format!("# A\n\n{}\n\n", text.repeat(99_000 / markup));
    let plain = "plain words ".repeat((9_900_000 - dense.len()) / 12);
    json!({ "do": "create", "id": id, "name": id, "mimeType": format!("{APPS}document"), "parents": ["F"], "content": dense + &plain })
}

#[tokio::test]
async fn the_largest_documents_are_read_within_the_default_limit_of_memory() {
    let mut drive = DriveServer::start(files()).await;
    let documents = [("emphasis", "*a* ", 2), ("lines", "a\n", 1), ("links", "[a](b) ", 2), ("code", "`a` ", 2)];
    for (id, text, markup) in documents {
        drive.command(document(id, text, markup)).await;
    }
    let stored = json!({ "do": "create", "id": "stored", "name": "stored.txt", "mimeType": "text/plain", "parents": ["F"], "content": "plain words\n", "repeat": 800_000 });
    drive.command(stored).await;
    let server = serve(drive_plugin(&drive).bucket("drive")).await;
    for (id, _, _) in documents {
        let uri = format!("drive:///file/{id}/chunk/1");
        assert!(server.client().read(&uri).await.is_ok(), "{id}");
        assert_eq!(meta(&server, &uri).await["drive/headings"], json!(["A"]), "{id}: it was divided by its headings");
        assert!(server.client().read(&format!("drive:///file/{id}")).await.is_ok(), "{id}");
    }
    assert_eq!(server.client().text("drive:///file/stored").await.len(), 8 << 20);
    server.end().await;
}
