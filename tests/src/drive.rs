//! A stand-in for Google Drive, for one test, and Google's own client.
//!
//! ```no_run
//! # use mcp_host_tests::DriveServer;
//! # use serde_json::json;
//! # async fn test() {
//! let folder = "application/vnd.google-apps.folder";
//! let mut drive = DriveServer::start([
//!     json!({ "do": "create", "id": "F", "name": "Team", "mimeType": folder }),
//!     json!({ "do": "create", "id": "a", "name": "a.md", "mimeType": "text/markdown", "parents": ["F"], "content": "# A" }),
//! ])
//! .await;
//! let url = drive.url(); // http://127.0.0.1:PORT
//! drive.command(json!({ "do": "remove", "id": "a" })).await;
//! # }
//! ```
//!
//! `tests/clients/google/server.py` describes the program, its commands and the lines that it prints. Requests are
//! checked, and so are its answers, by the discovery document that Google's client ships.

use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;
use toml::Table;

use crate::TIMEOUT;
use crate::artifacts::{client_program, component, repo_root};
use crate::config::Plugin;
use crate::log::Log;

/// A running server. It ends when it is dropped.
#[derive(Debug)]
pub struct DriveServer {
    _process: Child,
    commands: ChildStdin,
    log: Log,
    url: String,
    folder: TempDir,
    done: usize,
}

impl DriveServer {
    /// An access token that is valid until [`expire_tokens`](Self::expire_tokens).
    pub const TOKEN: &str = "ya29.token-of-the-tests";

    /// Starts a server with what these commands create.
    pub async fn start(commands: impl IntoIterator<Item = Value>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let bearer = format!("Bearer {}", Self::TOKEN);
        std::fs::write(folder.path().join("authorization"), bearer).expect("the directory is writable");
        let options = json!({
            "key_file": folder.path().join("key.json"),
            "token": Self::TOKEN,
            "lifetime": 3600,
            "commands": commands.into_iter().collect::<Vec<_>>(),
        });
        let mut command = python("server.py");
        command.arg(options.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.kill_on_drop(true).spawn().expect("Python starts");
        let (commands, stdout) = (process.stdin.take().expect("a pipe"), process.stdout.take().expect("a pipe"));
        let log = Log::new(stdout);
        let line = log.wait_for_line("listening on ").await;
        let url = line.trim_start_matches("listening on ").to_owned();
        Self { _process: process, commands, log, url, folder, done: 0 }
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The provider at `drive:///`, which the host gives [`TOKEN`](Self::TOKEN).
    pub fn plugin(&self) -> Plugin {
        let file = Table::from_iter([("file".to_owned(), self.path("authorization").into())]);
        let headers = Table::from_iter([("Authorization".to_owned(), file.into())]);
        self.plugin_with("headers-from", headers)
    }

    /// The provider at `drive:///`, for which the host gets access tokens with the key of the service account.
    pub fn plugin_with_key(&self) -> Plugin {
        let file = Table::from_iter([("file".to_owned(), self.path("key.json").into())]);
        let scopes = vec!["https://www.googleapis.com/auth/drive.readonly"];
        let oauth =
            Table::from_iter([("service-account".to_owned(), file.into()), ("scopes".to_owned(), scopes.into())]);
        self.plugin_with("oauth", oauth)
    }

    fn plugin_with(&self, credential: &str, value: Table) -> Plugin {
        let grant =
            Table::from_iter([("origin".to_owned(), self.url.as_str().into()), (credential.to_owned(), value.into())]);
        let rate = Table::from_iter([("rate".to_owned(), "10000/m".into())]);
        Plugin::new("drive", &component("drive"), "drive:///")
            .http(grant.into())
            .config("url", self.url.as_str())
            .config("timeout", "10s")
            .limit("http", rate)
            .limit("cpu", "5s")
            .limit("deadline", "20s")
    }

    fn path(&self, file: &str) -> String {
        self.folder.path().join(file).to_str().expect("a path of a temporary directory is UTF-8").to_owned()
    }

    /// Executes a command.
    pub async fn command(&mut self, command: Value) {
        self.commands.write_all(format!("{command}\n").as_bytes()).await.expect("it reads its input");
        self.done += 1;
        self.log.wait_for_lines("done", self.done).await;
    }

    /// Lets all access tokens expire.
    pub async fn expire_tokens(&mut self) {
        self.command(json!({ "do": "expire", "what": "tokens" })).await;
    }

    /// The number of requests so far whose lines contain that text.
    pub fn count(&self, request: &str) -> usize {
        self.log.snapshot().lines().filter(|line| line.contains(request)).count()
    }

    /// The lines of all requests so far.
    ///
    /// # Panics
    ///
    /// One of its answers was not what the discovery document says.
    pub fn requests(&self) -> String {
        let log = self.log.snapshot();
        assert!(!log.contains("INVALID"), "{log}");
        log
    }

    /// Walks through the files below a folder with Google's own client; returns what it found.
    pub async fn walk_with_googles_client(&self, folder: &str) -> Value {
        let mut command = python("walk.py");
        command.arg(&self.url).arg(self.path("key.json")).arg(folder).kill_on_drop(true);
        let output = timeout(TIMEOUT, command.output()).await.expect("the client ends").expect("Python starts");
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), self.log.snapshot());
        serde_json::from_slice(&output.stdout).expect("the client prints JSON")
    }
}

fn python(program: &str) -> Command {
    let mut command = Command::new(client_program("google/bin/python"));
    // Its modules are sources of the repository, beside which nothing is written.
    command.arg("-B").arg(repo_root().join("tests/clients/google").join(program));
    command
}
