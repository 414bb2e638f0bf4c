//! The official clients subscribe, and are notified across reloads of the config and of a component file.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, TIMEOUT, WrittenConfig, fixture};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{over_stdio, program};

/// The program `watch` of both clients.
struct ClientWatcher {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    /// Notifications that arrived while responses were awaited.
    buffered: Vec<Value>,
}

impl ClientWatcher {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, stdout: BufReader::new(stdout).lines(), buffered: Vec::new() }
    }

    async fn next_line(&mut self) -> Value {
        let line = timeout(TIMEOUT, self.stdout.next_line()).await.expect("it says something in time").unwrap();
        serde_json::from_str(&line.expect("it says something before its end")).unwrap()
    }

    /// Makes the client perform an action on a resource; returns its report.
    async fn command(&mut self, command: &str, uri: &str, done: &str) -> Value {
        self.stdin.write_all(format!("{command} {uri}\n").as_bytes()).await.unwrap();
        loop {
            let said = self.next_line().await;
            if said.get(done).is_some() {
                assert_eq!(said[done], uri);
                return said;
            }
            self.buffered.push(said);
        }
    }

    async fn subscribe(&mut self, uri: &str) {
        self.command("subscribe", uri, "subscribed").await;
    }

    /// Unsubscribes. Notifications from before are dropped.
    async fn unsubscribe(&mut self, uri: &str) {
        self.command("unsubscribe", uri, "unsubscribed").await;
        self.buffered.clear();
    }

    async fn text(&mut self, uri: &str) -> String {
        self.command("read", uri, "read").await["text"].as_str().unwrap().to_owned()
    }

    /// Waits for a notification with that key; others are skipped.
    async fn next_event(&mut self, key: &str) -> Value {
        loop {
            let told = if self.buffered.is_empty() { self.next_line().await } else { self.buffered.remove(0) };
            if let Some(value) = told.get(key) {
                return value.clone();
            }
        }
    }

    async fn next_updated(&mut self) -> String {
        self.next_event("updated").await.as_str().unwrap().to_owned()
    }

    async fn end(mut self) {
        drop(self.stdin);
        // Notifications that arrive meanwhile are irrelevant.
        while timeout(TIMEOUT, self.stdout.next_line()).await.unwrap().unwrap().is_some() {}
        assert!(timeout(TIMEOUT, self.child.wait()).await.expect("it ends").unwrap().success());
    }
}

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

    /// Edits a file without a change of its entry in the listing.
    fn edit(&self, file: &str, digit: u8) {
        let aside = self.files.write(".faults/aside", digit.to_string());
        fs::rename(aside, self.files.path().join(file)).unwrap();
    }

    /// Changes the config of the plugin.
    fn reconfigure(&self) {
        self.config.replace(component_config(&self.component(), self.files.path(), "new "));
    }

    /// Replaces the component by one that behaves the same: it has one more custom section.
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
