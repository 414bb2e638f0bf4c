//! The official clients, wrapped by a program that executes commands and prints notifications.

use std::process::Stdio;

use mcp_host_tests::TIMEOUT;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// The program `watch` of both clients.
pub(crate) struct ClientWatcher {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    /// Notifications that arrived while a response was awaited.
    buffered: Vec<Value>,
}

impl ClientWatcher {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, stdout: BufReader::new(stdout).lines(), buffered: Vec::new() }
    }

    async fn next_line(&mut self) -> Value {
        let line = timeout(TIMEOUT, self.stdout.next_line()).await.expect("it says something in time").unwrap();
        serde_json::from_str(&line.expect("it says something before its end")).unwrap()
    }

    /// Makes the client perform an action on a resource. Returns its report.
    async fn command(&mut self, command: &str, uri: &str, done: &str) -> Value {
        let said = self.execute(&format!("{command} {uri}"), done).await;
        assert_eq!(said[done], uri);
        said
    }

    /// Makes the client execute a command. Returns its report, which has the key `done`.
    async fn execute(&mut self, command: &str, done: &str) -> Value {
        self.stdin.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        loop {
            let said = self.next_line().await;
            if said.get(done).is_some() {
                return said;
            }
            self.buffered.push(said);
        }
    }

    /// Subscribes. A client with one stream per resource subscribes again after the stream ended.
    pub(crate) async fn subscribe(&mut self, uri: &str) {
        self.command("subscribe", uri, "subscribed").await;
    }

    /// Unsubscribes. Earlier notifications are dropped.
    pub(crate) async fn unsubscribe(&mut self, uri: &str) {
        self.command("unsubscribe", uri, "unsubscribed").await;
        self.buffered.clear();
    }

    /// Returns the URIs of the first page.
    pub(crate) async fn list(&mut self) -> Vec<String> {
        let listed = self.execute("list", "listed").await["listed"].clone();
        serde_json::from_value(listed).unwrap()
    }

    pub(crate) async fn text(&mut self, uri: &str) -> String {
        self.command("read", uri, "read").await["text"].as_str().unwrap().to_owned()
    }

    /// Waits for a notification with this key. Others are skipped.
    pub(crate) async fn next_event(&mut self, key: &str) -> Value {
        loop {
            let told = if self.buffered.is_empty() { self.next_line().await } else { self.buffered.remove(0) };
            if let Some(value) = told.get(key) {
                return value.clone();
            }
        }
    }

    pub(crate) async fn next_updated(&mut self) -> String {
        self.next_event("updated").await.as_str().unwrap().to_owned()
    }

    pub(crate) async fn end(mut self) {
        drop(self.stdin);
        // Notifications that arrive in the meantime are irrelevant.
        while timeout(TIMEOUT, self.stdout.next_line()).await.unwrap().unwrap().is_some() {}
        assert!(timeout(TIMEOUT, self.child.wait()).await.expect("it ends").unwrap().success());
    }
}
