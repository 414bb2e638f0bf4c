//! `mcp-host watch`: updates on the command line.

use std::process::Stdio as Pipe;

use mcp_host_tests::{Plugin, Rule, TIMEOUT, WrittenConfig, component, host_command, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use super::{LISTING, UPDATED, notes_config};

/// The command, while it watches.
struct WatchCommand {
    child: Child,
    printed: Lines<BufReader<ChildStdout>>,
}

impl WatchCommand {
    async fn start(config: &WrittenConfig, arguments: &[&str]) -> Self {
        let mut command = host_command();
        command.arg("watch").args(arguments).arg("--config").arg(config.path());
        let mut child = command.stdout(Pipe::piped()).stderr(Pipe::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        while !next_line(&mut said).await.contains("watching") {}
        let printed = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, printed }
    }

    async fn line(&mut self) -> String {
        next_line(&mut self.printed).await
    }

    async fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// Interrupts the command, as users do, which is not a failure.
    async fn interrupt(mut self) {
        let id = Pid::from_raw(self.child.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(id, Signal::INT).unwrap();
        assert!(timeout(TIMEOUT, self.child.wait()).await.unwrap().unwrap().success());
        assert_eq!(self.printed.next_line().await.unwrap(), None);
    }
}

async fn next_line(lines: &mut Lines<BufReader<impl AsyncRead + Unpin>>) -> String {
    timeout(TIMEOUT, lines.next_line()).await.unwrap().unwrap().expect("a line before the end")
}

#[tokio::test]
async fn updates_are_printed_as_json_lines_as_they_come_until_it_is_interrupted() {
    let (folder, config) = notes_config();
    let config = config.write();
    let mut watch = WatchCommand::start(&config, &["notes://n/a.md", "notes://n/b.md", "--json"]).await;
    for (file, content) in [("a.md", "changed"), ("b.md", "changed"), ("a.md", "changed again")] {
        folder.write(file, content);
        let uri = format!("notes://n/{file}");
        assert_eq!(watch.json().await, json!({ "method": UPDATED, "params": { "uri": uri } }));
    }
    watch.interrupt().await;
}

#[tokio::test]
async fn updates_are_printed_as_text_as_they_come_until_it_is_interrupted() {
    let (folder, config) = notes_config();
    let config = config.write();
    let mut watch = WatchCommand::start(&config, &["notes://n/a.md"]).await;
    for content in ["changed", "changed again"] {
        folder.write("a.md", content);
        assert_eq!(watch.line().await, "updated notes://n/a.md");
    }
    watch.interrupt().await;
}

#[tokio::test]
async fn that_the_listing_changed_is_printed_for_who_asks_for_it() {
    let (folder, config) = notes_config();
    let config = config.write();
    for (more, expected) in
        [(None, "listing changed".to_owned()), (Some("--json"), json!({ "method": LISTING }).to_string())]
    {
        let arguments: Vec<_> = ["--listing"].into_iter().chain(more).collect();
        let mut watch = WatchCommand::start(&config, &arguments).await;
        folder.write(format!("new{}.md", more.unwrap_or_default()), "new");
        assert_eq!(watch.line().await, expected);
        watch.interrupt().await;
    }
}

#[tokio::test]
async fn what_cannot_be_watched_is_an_error_that_says_why() {
    let (_folder, config) = notes_config();
    let hello = Plugin::new("hello", &component("hello"), "hello:///");
    let config = config.plugin(hello).rule(Rule::for_principal("local").deny(["**/secret/**"])).write();
    let path = config.path();
    for (uri, expected) in [
        ("hello:///world", "hello:///world cannot be subscribed to"),
        ("notes://n/none.md", "notes://n/none.md"),
        ("notes://n/secret/c.md", "notes://n/secret/c.md"),
        ("other:///", "other:///"),
        ("no uri", "the URI does not begin with a scheme"),
    ] {
        // A watchable resource does not compensate for the failure.
        let output = run(["watch", "notes://n/a.md", uri, "--json", "--config", path.to_str().unwrap()]).await;
        assert_eq!((output.code(), output.text().as_str()), (1, ""), "{uri}: {}", output.stderr);
        let error = output.stderr.lines().find(|line| line.starts_with("error: "));
        assert!(error.is_some_and(|error| error.contains(expected)), "{uri}: {}", output.stderr);
    }
}
