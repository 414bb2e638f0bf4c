//! For every change in the folder, exactly the affected notes, folders and collections are notified.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision};
use serde_json::json;

/// The URI that is notified last in a batch: the last one in sort order.
const BARRIER: &str = "zz/barrier.md";
/// Notes, folders (the last one is the root), and a collection.
const SUBSCRIBED: [&str; 6] = ["a.md", "b.md", "sub", "sub/c.md", "", "tag"];

struct NotesWatcher<'a> {
    wire: RawStdio,
    folder: &'a Folder,
    barrier_count: usize,
}

impl NotesWatcher<'_> {
    /// Returns the notifications so far, by path, without the collection, which every change of the barrier affects.
    async fn drain_updates(&mut self) -> BTreeSet<String> {
        self.barrier_count += 1;
        // An atomic change, so that it is notified once.
        let aside = self.folder.write(".aside", "x".repeat(self.barrier_count));
        fs::rename(aside, self.folder.path().join(BARRIER)).unwrap();
        let mut told = BTreeSet::new();
        loop {
            let update = self.wire.notification("notifications/resources/updated").await;
            let path = update["params"]["uri"].as_str().unwrap().strip_prefix("notes://n/").unwrap().to_owned();
            match path.as_str() {
                BARRIER => return told,
                "tag" => {}
                _ => {
                    told.insert(path);
                }
            }
        }
    }
}

#[tokio::test]
async fn exactly_what_an_edit_concerns_is_told() {
    let folder = Folder::with_files([("a.md", "a"), ("b.md", "b"), ("sub/c.md", "c"), (BARRIER, "")]);
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let config = ConfigFile::new().plugin(Plugin::notes("n", folder.path()).set("watch-interval", "100ms")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for path in SUBSCRIBED.into_iter().chain([BARRIER]) {
        wire.request("resources/subscribe", json!({ "uri": format!("notes://n/{path}") })).await.result();
    }
    let mut watcher = NotesWatcher { wire, folder: &folder, barrier_count: 0 };
    let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>();

    assert_eq!(watcher.drain_updates().await, set(&[]), "nothing happened");
    folder.write("a.md", "edited");
    assert_eq!(watcher.drain_updates().await, set(&["a.md", ""]));
    folder.write("sub/c.md", "edited");
    assert_eq!(watcher.drain_updates().await, set(&["sub", "sub/c.md"]));
    folder.write("sub/new.md", "new");
    assert_eq!(watcher.drain_updates().await, set(&["sub"]), "one is new");
    folder.write(".hidden.md", "hidden");
    assert_eq!(watcher.drain_updates().await, set(&[]), "what is hidden is not there");
    fs::rename(path("b.md"), path("sub/d.md")).unwrap();
    assert_eq!(watcher.drain_updates().await, set(&["b.md", "sub", ""]), "one is renamed");
    fs::rename(path("sub/d.md"), path("b.md")).unwrap();
    assert_eq!(watcher.drain_updates().await, set(&["b.md", "sub", ""]), "and back");
    fs::remove_file(path("a.md")).unwrap();
    assert_eq!(watcher.drain_updates().await, set(&["a.md", ""]), "one is deleted");
    folder.write("a.md", "again");
    assert_eq!(watcher.drain_updates().await, set(&["a.md", ""]), "it is there again");
    fs::remove_dir_all(path("sub")).unwrap();
    assert_eq!(watcher.drain_updates().await, set(&["sub", "sub/c.md", ""]), "a folder is deleted");
    watcher.wire.end().await;
}
