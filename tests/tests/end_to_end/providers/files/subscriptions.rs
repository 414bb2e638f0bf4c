//! Whatever happens in the directory, exactly the affected files and directories are notified.

use std::collections::BTreeSet;
use std::fs;

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision};
use serde_json::json;

/// The path that is notified last in a batch: the last one in sort order.
const BARRIER: &str = "zz/barrier.md";
const SUBSCRIBED: [&str; 6] = ["a.md", "a.md?lines=1-2", "b.log", "sub", "sub/c.md", BARRIER];

async fn drain_updates(wire: &mut RawStdio, folder: &Folder, count: &mut usize) -> BTreeSet<String> {
    *count += 1;
    // An atomic change, so that it is notified once.
    let aside = folder.write(".aside", "x".repeat(*count));
    fs::rename(aside, folder.path().join(BARRIER)).unwrap();
    let mut told = BTreeSet::new();
    loop {
        let update = wire.notification("notifications/resources/updated").await;
        let path = update["params"]["uri"].as_str().unwrap().strip_prefix("files://f/").unwrap().to_owned();
        if path == BARRIER {
            return told;
        }
        told.insert(path);
    }
}

#[tokio::test]
async fn exactly_what_an_edit_concerns_is_told() {
    let folder =
        Folder::with_files([(".gitignore", ""), ("a.md", "a"), ("b.log", "b"), ("sub/c.md", "c"), (BARRIER, "")]);
    let config = ConfigFile::new().plugin(Plugin::files("f", folder.path()).set("watch-interval", "100ms")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for path in SUBSCRIBED {
        wire.request("resources/subscribe", json!({ "uri": format!("files://f/{path}") })).await.result();
    }
    let mut count = 0;
    let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>();

    assert_eq!(drain_updates(&mut wire, &folder, &mut count).await, set(&[]), "nothing happened");
    folder.write("a.md", "edited");
    assert_eq!(drain_updates(&mut wire, &folder, &mut count).await, set(&["a.md", "a.md?lines=1-2"]));
    folder.write("sub/new.md", "new");
    assert_eq!(drain_updates(&mut wire, &folder, &mut count).await, set(&["sub"]));
    folder.write("sub/.hidden", "hidden");
    assert_eq!(drain_updates(&mut wire, &folder, &mut count).await, set(&[]), "what is hidden is not there");
    folder.write(".gitignore", "*.log\n");
    assert_eq!(drain_updates(&mut wire, &folder, &mut count).await, set(&["b.log"]), "it is ignored now");
    folder.write("b.log", "edited while it is ignored");
    assert_eq!(drain_updates(&mut wire, &folder, &mut count).await, set(&[]));
    fs::remove_file(folder.path().join("sub/c.md")).unwrap();
    assert_eq!(drain_updates(&mut wire, &folder, &mut count).await, set(&["sub", "sub/c.md"]));
    wire.end().await;
}
