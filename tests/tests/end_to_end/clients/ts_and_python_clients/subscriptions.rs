//! The official clients subscribe, and are notified across reloads of the config and of a component file.

use std::fs;
use std::path::Path;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, WrittenConfig, fixture};
use serde_json::json;

use super::watcher::ClientWatcher;
use super::{over_stdio, program};

/// The watched resources: the files of a folder, served by a component in another folder.
struct WatchFixture {
    files: Folder,
    components: Folder,
    config: WrittenConfig,
}

impl WatchFixture {
    fn new() -> Self {
        let files = Folder::with_files([("a", "0"), ("b", "0"), (".faults/none", "")]);
        let components = Folder::with_files([("x.wasm", fs::read(fixture("faulty")).unwrap())]);
        let config = component_config(&components.path().join("x.wasm"), files.path(), "old ").write();
        Self { files, components, config }
    }

    /// Edits a file without changing its entry in the listing.
    fn edit(&self, file: &str, digit: u8) {
        let aside = self.files.write(".faults/aside", digit.to_string());
        fs::rename(aside, self.files.path().join(file)).unwrap();
    }

    /// Changes the plugin's config.
    fn reconfigure(&self) {
        self.config.replace(component_config(&self.component(), self.files.path(), "new "));
    }

    /// Replaces the component by an equivalent one with an additional custom section.
    fn replace_component(&self) {
        let bytes = [fs::read(self.component()).unwrap(), b"\x00\x05\x04note".to_vec()].concat();
        let aside = self.components.write("aside", bytes);
        fs::rename(aside, self.component()).unwrap();
    }

    fn component(&self) -> std::path::PathBuf {
        self.components.path().join("x.wasm")
    }
}

fn component_config(component: &Path, files: &Path, prefix: &str) -> ConfigFile {
    let plugin = Plugin::new("x", component, "faulty://x/").dir(files, "/data").set("watch-interval", "100ms");
    ConfigFile::new().plugin(plugin.config("prefix", prefix)).allow_all()
}

const A: &str = "faulty://x/a";
const B: &str = "faulty://x/b";

async fn assert_told_of_changes(mut watcher: ClientWatcher, stateless: bool, watched: &WatchFixture) {
    watcher.subscribe(A).await;
    if stateless {
        assert_eq!(watcher.next_updated().await, A, "a stream tells of each resource when it counts");
    }
    watched.edit("a", 1);
    assert_eq!(watcher.next_updated().await, A);
    assert_eq!(watcher.text(A).await, "old 1");
    watched.files.write("new", "");
    assert_eq!(watcher.next_event("listChanged").await, json!(true));

    watched.reconfigure();
    assert_eq!(watcher.next_updated().await, A, "another config");
    assert_eq!(watcher.text(A).await, "new 1");
    watched.edit("a", 2);
    assert_eq!(watcher.next_updated().await, A);
    watched.replace_component();
    assert_eq!(watcher.next_updated().await, A, "another component");
    watched.edit("a", 3);
    assert_eq!(watcher.next_updated().await, A);
    assert_eq!(watcher.text(A).await, "new 3");

    watcher.subscribe(B).await;
    if stateless {
        assert_eq!(watcher.next_updated().await, B);
    }
    watcher.unsubscribe(A).await;
    watched.edit("a", 4);
    watched.edit("b", 4);
    assert_eq!(watcher.next_updated().await, B);
    watcher.end().await;
}

async fn watch_over_both(language: &str) {
    for stateless in [false, true] {
        let flag = stateless.then_some("--stateless");
        let watched = WatchFixture::new();
        let mut command = program(language, "watch");
        over_stdio(command.args(flag), &watched.config);
        assert_told_of_changes(ClientWatcher::start(command), stateless, &watched).await;

        let watched = WatchFixture::new();
        let server = HttpServer::start(&watched.config).await;
        let mut command = program(language, "watch");
        command.args(flag).args(["http", server.url()]);
        assert_told_of_changes(ClientWatcher::start(command), stateless, &watched).await;
        server.end().await;
    }
}

#[tokio::test]
async fn the_typescript_client_goes_on_to_be_told_across_reloads() {
    watch_over_both("typescript").await;
}

#[tokio::test]
async fn the_python_client_goes_on_to_be_told_across_reloads() {
    watch_over_both("python").await;
}
