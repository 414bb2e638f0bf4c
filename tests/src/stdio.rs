//! A server that speaks over its standard streams, as desktop clients start it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::process::{Exit, KilledOnDrop, Process};
use crate::wire::{self, RpcResponse};
use crate::{Client, Output, Revision, TIMEOUT, WrittenConfig, host_command};

/// A server with the official client on its standard streams.
#[derive(Debug)]
pub struct StdioServer {
    process: Process,
    client: Client,
}

impl StdioServer {
    /// Starts a server and connects in the newest revision with sessions.
    pub async fn start(config: &WrittenConfig) -> Self {
        Self::start_in(config, Revision::LATEST_WITH_INITIALIZE).await
    }

    /// Starts a server and connects in that revision.
    pub async fn start_in(config: &WrittenConfig, revision: Revision) -> Self {
        let (mut process, stdin, stdout) = spawn(&config.path(), &[]);
        process.keep(config);
        process.wait_plugins_loaded().await;
        let client = Client::connect((stdout, stdin), revision).await;
        Self { process, client }
    }

    /// Its client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The peak resident memory of the server so far, in bytes.
    pub fn peak_rss(&self) -> u64 {
        self.process.peak_rss()
    }

    /// Waits for the first line of the log that contains that text.
    pub async fn log_line(&self, wanted: &str) -> String {
        self.process.stderr().wait_for_line(wanted).await
    }

    /// Closes its standard input, as a client that disconnects does, and waits for a clean exit.
    pub async fn end(self) -> Exit {
        self.client.close().await;
        self.process.wait_exit().await.assert_clean_exit()
    }
}

/// A server whose standard streams are written and read line by line.
#[derive(Debug)]
pub struct RawStdio {
    process: Process,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    revision: Revision,
    last_id: u64,
    /// Responses that arrived while another one was awaited.
    buffered: Vec<Value>,
}

impl RawStdio {
    /// Starts a server, without the handshake.
    pub fn uninitialized(config: &WrittenConfig, revision: Revision) -> Self {
        Self::uninitialized_at(&config.path(), &[], revision).keeping(config)
    }

    /// Keeps the files of its config while it runs.
    fn keeping(mut self, config: &WrittenConfig) -> Self {
        self.process.keep(config);
        self
    }

    fn uninitialized_at(config: &Path, options: &[&str], revision: Revision) -> Self {
        Self::uninitialized_with(host_command(), config, options, revision)
    }

    fn uninitialized_with(command: Command, config: &Path, options: &[&str], revision: Revision) -> Self {
        let (process, stdin, stdout) = spawn_with(command, config, options);
        let lines = BufReader::new(stdout).lines();
        Self { process, stdin: Some(stdin), lines, revision, last_id: 0, buffered: Vec::new() }
    }

    /// Starts a server whose standard error is returned to the caller instead of read, with the handshake.
    pub async fn start_with_raw_stderr(config: &WrittenConfig, revision: Revision) -> (Self, ChildStderr) {
        let mut command = host_command();
        command.args(["serve", "--stdio", "--config"]).arg(config.path());
        let (process, stdin, stdout, stderr) = Process::start_with_raw_stderr(command);
        let lines = BufReader::new(stdout).lines();
        let wire = Self { process, stdin: Some(stdin), lines, revision, last_id: 0, buffered: Vec::new() };
        (wire.keeping(config).initialize().await, stderr)
    }

    /// Starts a server, with the handshake if that revision has one.
    pub async fn start(config: &WrittenConfig, revision: Revision) -> Self {
        Self::uninitialized(config, revision).initialize_when_loaded().await
    }

    /// Starts a server by a command that makes it speak over its standard streams, with the handshake if that revision
    /// has one.
    pub async fn start_command(command: Command, revision: Revision) -> Self {
        let (process, stdin, stdout) = Process::start(command);
        let lines = BufReader::new(stdout).lines();
        let wire = Self { process, stdin: Some(stdin), lines, revision, last_id: 0, buffered: Vec::new() };
        wire.initialize_when_loaded().await
    }

    /// The same, with a config file at any path, and more options.
    pub async fn start_at(config: &Path, options: &[&str], revision: Revision) -> Self {
        Self::uninitialized_at(config, options, revision).initialize_when_loaded().await
    }

    /// Starts a server, with the handshake if that revision has one, without waiting for its plugins.
    pub async fn start_before_plugins_load(config: &WrittenConfig, revision: Revision) -> Self {
        Self::uninitialized(config, revision).initialize().await
    }

    /// The same in a user namespace with a limit on inotify watches.
    pub async fn start_with_inotify_limit(watches: usize, config: &WrittenConfig, revision: Revision) -> Self {
        let limit = format!("echo {watches} > /proc/sys/user/max_inotify_watches");
        Self::start_in_namespace(&limit, config, revision).await
    }

    /// The same with a disk of that size, which only the server sees, at the directory `disk` beside the config.
    pub async fn start_with_disk(size: &str, config: &WrittenConfig, revision: Revision) -> Self {
        Self::start_with_disk_at(&config.dir().join("disk"), size, config, revision).await
    }

    /// The same at that directory, which is created.
    pub async fn start_with_disk_at(directory: &Path, size: &str, config: &WrittenConfig, revision: Revision) -> Self {
        std::fs::create_dir(directory).expect("a directory to mount the disk at");
        let mount = format!("mount -t tmpfs -o size={size},mode=700 tmpfs '{}'", directory.display());
        Self::start_in_namespace(&mount, config, revision).await
    }

    /// Runs `mcp-host` with those arguments where the server runs.
    pub async fn run_in_namespace<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        let host = host_command();
        let mut command = Command::new("nsenter");
        command.args(["--user", "--mount", "--preserve-credentials", "--target", &self.process.id().to_string()]);
        command.arg(host.as_std().get_program()).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        inherit_environment(&mut command, &host);
        Output::of(&mut command).await
    }

    /// A path as the server sees it.
    pub fn path_in_namespace(&self, path: &Path) -> PathBuf {
        let path = path.strip_prefix("/").expect("it is absolute");
        Path::new("/proc").join(self.process.id().to_string()).join("root").join(path)
    }

    /// Starts a server in a user namespace and a mount namespace of its own, after a command of the shell.
    async fn start_in_namespace(setup: &str, config: &WrittenConfig, revision: Revision) -> Self {
        let host = host_command();
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        command.arg(format!("{setup} && exec \"$0\" \"$@\""));
        command.arg(host.as_std().get_program()).kill_on_drop(true);
        inherit_environment(&mut command, &host);
        Self::uninitialized_with(command, &config.path(), &[], revision).keeping(config).initialize_when_loaded().await
    }

    /// Performs the handshake once every plugin is loaded or has failed to load.
    async fn initialize_when_loaded(self) -> Self {
        self.process.wait_plugins_loaded().await;
        self.initialize().await
    }

    /// Performs the handshake, if the revision has one.
    async fn initialize(mut self) -> Self {
        if self.revision.has_initialize() {
            let answer = self.request("initialize", wire::initialize_params(&self.revision)).await;
            assert_eq!(answer.result()["protocolVersion"], self.revision.as_str());
            self.send(&wire::initialized_notification()).await;
        }
        self
    }

    /// Sends a request and waits for its response.
    pub async fn request(&mut self, method: &str, params: Value) -> RpcResponse {
        let id = self.send_request(method, params).await;
        self.response_to(id).await
    }

    /// Sends a request and returns its id.
    pub async fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let request = wire::request(&self.revision, self.last_id, method, params);
        self.send(&request).await;
        self.last_id
    }

    /// Waits for the response to that request. Other responses that arrive first are kept for later calls.
    pub async fn response_to(&mut self, id: u64) -> RpcResponse {
        if let Some(place) = self.buffered.iter().position(|message| message["id"] == id) {
            return RpcResponse { status: None, message: self.buffered.swap_remove(place) };
        }
        loop {
            let message = self.message().await.expect("an answer before the end");
            if message["id"] == id {
                return RpcResponse { status: None, message };
            }
            self.buffered.push(message);
        }
    }

    /// Messages that arrived while responses were awaited, and that are not responses.
    pub fn take_notifications(&mut self) -> Vec<Value> {
        self.buffered.extract_if(.., |message| message["method"].is_string()).collect()
    }

    /// Responses that arrived while others were awaited, and that have not been awaited yet.
    pub fn buffered_responses(&self) -> Vec<&Value> {
        self.buffered.iter().filter(|message| message["method"].is_null()).collect()
    }

    /// Reads a resource that is one text, and returns the text or the error.
    pub async fn read(&mut self, uri: &str) -> Result<String, Value> {
        let answer = self.request("resources/read", json!({ "uri": uri })).await;
        match answer.message["result"]["contents"][0]["text"].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(answer.message["error"].clone()),
        }
    }

    /// Subscribes to a resource, which must succeed.
    pub async fn subscribe(&mut self, uri: &str) {
        self.request("resources/subscribe", json!({ "uri": uri })).await.result();
    }

    /// Waits for the next notification of that method, or returns one that arrived before; others are skipped.
    pub async fn notification(&mut self, method: &str) -> Value {
        while !self.buffered.is_empty() {
            let message = self.buffered.remove(0);
            if message["method"] == method {
                return message;
            }
        }
        loop {
            let message = self.message().await.expect("a notification before the end");
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string()).await;
    }

    /// Sends a line, valid or not.
    pub async fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it is still open");
        stdin.write_all(format!("{line}\n").as_bytes()).await.expect("the server reads");
    }

    /// Returns the next message; none at the end. Everything on standard output must be a message.
    pub async fn message(&mut self) -> Option<Value> {
        let message = self.line().await?;
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        Some(message)
    }

    /// Returns the next message, without timeout; none at the end. Cancel-safe.
    pub async fn next_message(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.expect("a line of UTF-8")?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}")))
    }

    /// Returns the next line, a message or a batch; none at the end.
    pub async fn line(&mut self) -> Option<Value> {
        let line = timeout(TIMEOUT, self.lines.next_line()).await.expect("a line in time").expect("a line of UTF-8")?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}")))
    }

    /// Sends the server a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for the first line of the log that contains that text.
    pub async fn log_line(&self, wanted: &str) -> String {
        self.process.stderr().wait_for_line(wanted).await
    }

    /// The peak resident memory of the server so far, in bytes.
    pub fn peak_rss(&self) -> u64 {
        self.process.peak_rss()
    }

    /// The resident memory of the server, in bytes.
    pub fn rss(&self) -> u64 {
        self.process.rss()
    }

    /// The number of child processes of the server that still run.
    pub fn child_count(&self) -> usize {
        self.process.child_count()
    }

    /// Kills the child processes that the server has now when the result is dropped, also if they outlive the server.
    pub fn kill_children_on_drop(&self) -> KilledOnDrop {
        self.process.kill_children_on_drop()
    }

    /// A value of the status of each thread of the server.
    pub fn thread_statuses(&self, key: &str) -> Vec<String> {
        self.process.thread_statuses(key)
    }

    /// The log of the server so far.
    pub fn log(&self) -> String {
        self.process.stderr().snapshot()
    }

    /// The number of inotify watches of the server.
    pub fn inotify_watches(&self) -> usize {
        self.process.inotify_watches()
    }

    /// Closes the server's standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes the server's standard input, as a client that disconnects does, and waits for a clean exit.
    pub async fn end(mut self) -> Exit {
        self.close_stdin();
        self.wait_clean_exit().await
    }

    /// Reads the rest of standard output and waits for a clean exit.
    pub async fn wait_clean_exit(self) -> Exit {
        self.wait_exit().await.assert_clean_exit()
    }

    /// Waits for the exit without reading the rest of standard output.
    pub async fn wait_exit_unread(self) -> Exit {
        let Self { process, lines, .. } = self;
        let ended = process.wait_exit().await;
        drop(lines);
        ended
    }

    /// Reads the rest of standard output and waits for the exit, clean or not.
    pub async fn wait_exit(mut self) -> Exit {
        while self.message().await.is_some() {}
        self.process.wait_exit().await
    }
}

/// Gives a command of the system the environment of `mcp-host`.
pub(crate) fn inherit_environment(command: &mut Command, host: &Command) {
    let set = host.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(set).current_dir("/");
}

fn spawn(config: &Path, options: &[&str]) -> (Process, ChildStdin, ChildStdout) {
    spawn_with(host_command(), config, options)
}

fn spawn_with(mut command: Command, config: &Path, options: &[&str]) -> (Process, ChildStdin, ChildStdout) {
    command.args(["serve", "--stdio"]).args(options).arg("--config").arg(config);
    Process::start(command)
}
