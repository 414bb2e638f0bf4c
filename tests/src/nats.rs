//! Servers of NATS with JetStream on loopback, for one test: one, or a cluster of three nodes.
//!
//! ```no_run
//! # use mcp_host_tests::NatsServer;
//! # async fn test() {
//! let mut server = NatsServer::start().await;
//! let url = server.url(); // nats://127.0.0.1:PORT
//! server.kill().await;
//! server.restart().await; // With what it has stored, at the same address.
//! # }
//! ```

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::artifacts::client_program;
use crate::faulty_link::{FaultyLink, LinkFault};
use crate::log::Log;
use crate::{CertifiedKey, ReservedPort};

/// The files of a server over TLS, in its directory.
const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";

/// A running server. It ends when it is dropped.
#[derive(Debug)]
pub struct NatsServer {
    process: Child,
    dir: TempDir,
    port: ReservedPort,
}

impl NatsServer {
    /// Starts it, and waits until it answers.
    pub async fn start() -> Self {
        let (dir, port) = (tempfile::tempdir().expect("a directory for the server"), ReservedPort::new());
        let process = Self::run(&dir, &port).await;
        Self { process, dir, port }
    }

    async fn run(dir: &TempDir, port: &ReservedPort) -> Child {
        Self::run_with(dir, port, true).await
    }

    async fn run_with(dir: &TempDir, port: &ReservedPort, has_jetstream: bool) -> Child {
        let mut command = Command::new(client_program("nats/bin/nats-server"));
        command.args(["--addr", "127.0.0.1", "--port", &port.address().port().to_string()]);
        if has_jetstream {
            command.arg("--jetstream");
        }
        if dir.path().join(CERTIFICATE).exists() {
            command.args(["--tls", "--tlscert", CERTIFICATE, "--tlskey", KEY]);
        }
        command.arg("--store_dir").arg(dir.path()).current_dir(dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("the server starts");
        let log = Log::new(process.stderr.take().expect("a pipe"));
        log.wait_for_line("Server is ready").await;
        process
    }

    /// Starts a server without JetStream.
    pub async fn start_without_jetstream() -> Self {
        let (dir, port) = (tempfile::tempdir().expect("a directory for the server"), ReservedPort::new());
        let process = Self::run_with(&dir, &port, false).await;
        Self { process, dir, port }
    }

    /// Starts a server over TLS with that certificate.
    pub async fn start_with_certificate(certificate: &CertifiedKey) -> Self {
        let (dir, port) = (tempfile::tempdir().expect("a directory for the server"), ReservedPort::new());
        write_certificate(&dir, certificate);
        let process = Self::run(&dir, &port).await;
        Self { process, dir, port }
    }

    /// Sets the certificate of a server over TLS, which it uses from its next start.
    pub fn set_certificate(&self, certificate: &CertifiedKey) {
        write_certificate(&self.dir, certificate);
    }

    /// Its address.
    pub fn url(&self) -> String {
        let scheme = if self.dir.path().join(CERTIFICATE).exists() { "tls" } else { "nats" };
        format!("{scheme}://{}", self.port.address())
    }

    /// The number of messages in a stream of JetStream.
    pub async fn messages_of(&self, stream: &str) -> u64 {
        let answer = self.request(&format!("$JS.API.STREAM.INFO.{stream}"), "").await;
        answer["state"]["messages"].as_u64().expect("a number of messages")
    }

    /// The subjects of the messages in a stream of JetStream.
    pub async fn subjects_of(&self, stream: &str) -> Vec<String> {
        let answer = self.request(&format!("$JS.API.STREAM.INFO.{stream}"), "{\"subjects_filter\":\">\"}").await;
        let subjects = answer["state"]["subjects"].as_object().cloned().unwrap_or_default();
        subjects.into_iter().map(|(subject, _)| subject).collect()
    }

    /// Creates a stream of JetStream.
    pub async fn create_stream(&self, config: &Value) {
        let name = config["name"].as_str().expect("a stream has a name");
        let answer = self.request(&format!("$JS.API.STREAM.CREATE.{name}"), &config.to_string()).await;
        assert!(answer["error"].is_null(), "{answer}");
    }

    /// The response of JetStream to a request.
    async fn request(&self, subject: &str, body: &str) -> Value {
        let mut connection = TcpStream::connect(self.port.address()).await.expect("it listens");
        let sent = format!(
            "CONNECT {{\"verbose\":false}}\r\nSUB answers 1\r\nPUB {subject} answers {}\r\n{body}\r\n",
            body.len()
        );
        connection.write_all(sent.as_bytes()).await.expect("it reads");
        let mut lines = BufReader::new(connection).lines();
        while let Some(line) = lines.next_line().await.expect("it answers") {
            if line.starts_with('{') {
                return serde_json::from_str(&line).expect("JSON");
            }
        }
        panic!("the server has closed the connection");
    }

    /// Publishes messages, as any client can that may connect. Returns when the server has received them.
    pub async fn publish<'a>(&self, messages: impl IntoIterator<Item = (&'a str, Vec<u8>)>) {
        let mut stream = TcpStream::connect(self.port.address()).await.expect("it listens");
        let mut sent = b"CONNECT {\"verbose\":false}\r\n".to_vec();
        for (subject, message) in messages {
            sent.extend(format!("PUB {subject} {}\r\n", message.len()).bytes());
            sent.extend(message);
            sent.extend(b"\r\n");
        }
        sent.extend(b"PING\r\n");
        stream.write_all(&sent).await.expect("it reads");
        let mut lines = BufReader::new(stream).lines();
        while let Some(line) = lines.next_line().await.expect("it answers") {
            assert!(!line.starts_with("-ERR"), "{line}");
            if line == "PONG" {
                return;
            }
        }
        panic!("the server has closed the connection");
    }

    /// Kills it.
    pub async fn kill(&mut self) {
        self.process.kill().await.expect("it can be killed");
    }

    /// Starts it again, with what it has stored.
    pub async fn restart(&mut self) {
        self.process = Self::run(&self.dir, &self.port).await;
    }
}

/// Writes a certificate and its key into the directory of a server.
fn write_certificate(dir: &TempDir, certificate: &CertifiedKey) {
    for (name, pem) in [(CERTIFICATE, certificate.pem()), (KEY, certificate.key_pem())] {
        std::fs::write(dir.path().join(name), pem).expect("the certificate can be written");
    }
}

/// The number of nodes of a cluster.
const NODES: usize = 3;

/// A cluster of three nodes. It ends when it is dropped.
#[derive(Debug)]
pub struct NatsCluster {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    /// None while it is killed.
    process: Option<Child>,
    dir: TempDir,
    port: ReservedPort,
    /// The link that clients connect to.
    link: FaultyLink,
    route: ReservedPort,
    monitor: ReservedPort,
}

impl NatsCluster {
    /// Starts it, and waits until each node answers.
    pub async fn start() -> Self {
        let mut cluster = Self { nodes: Vec::new() };
        for _ in 0..NODES {
            let port = ReservedPort::new();
            cluster.nodes.push(Node {
                process: None,
                dir: tempfile::tempdir().expect("a directory for the server"),
                link: FaultyLink::start(port.address()).await,
                port,
                route: ReservedPort::new(),
                monitor: ReservedPort::new(),
            });
        }
        for index in 0..NODES {
            cluster.restart(index).await;
        }
        cluster
    }

    /// The addresses of the links in front of the nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("nats://{}", node.link.address())).collect()
    }

    /// Sets the fault of the links of all nodes, in both directions.
    pub fn set_links(&self, fault: LinkFault) {
        self.nodes.iter().for_each(|node| node.link.set(fault));
    }

    /// Starts a node that was killed, with what it has stored, and waits until it answers.
    pub async fn restart(&mut self, index: usize) {
        let routes: Vec<_> = self.nodes.iter().map(|node| format!("nats://{}", node.route.address())).collect();
        let node = &mut self.nodes[index];
        let mut command = Command::new(client_program("nats/bin/nats-server"));
        command.args(["--addr", "127.0.0.1", "--port", &node.port.address().port().to_string(), "--jetstream"]);
        command.args(["--name", &format!("n{index}"), "--cluster_name", "test", "--cluster", &routes[index]]);
        // When connected clients learn of the other nodes, they get the addresses of links, too.
        command.args(["--client_advertise", &node.link.address().to_string()]);
        command.args(["--routes", &routes.join(","), "--http_port", &node.monitor.address().port().to_string()]);
        command.arg("--store_dir").arg(node.dir.path()).current_dir(node.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("the server starts");
        let log = Log::new(process.stderr.take().expect("a pipe"));
        log.wait_for_line("Server is ready").await;
        node.process = Some(process);
    }

    /// Kills a node (`kill -9`).
    pub async fn kill(&mut self, index: usize) {
        let process = self.nodes[index].process.as_mut().expect("it runs");
        process.kill().await.expect("it can be killed");
        self.nodes[index].process = None;
    }

    /// Sends a node a signal.
    pub fn signal(&self, index: usize, signal: Signal) {
        let id = self.nodes[index].process.as_ref().and_then(Child::id).expect("it runs");
        let id = i32::try_from(id).ok().and_then(Pid::from_raw).expect("the id of a process");
        kill_process(id, signal).expect("it can be signalled");
    }

    /// The node that leads the stream of the records; none while there is no leader, or no stream.
    pub async fn leader(&self) -> Option<usize> {
        // A node that stands still does not answer.
        let client = reqwest::Client::builder().timeout(Duration::from_secs(2)).no_proxy().build().expect("a client");
        for node in self.nodes.iter().filter(|node| node.process.is_some()) {
            let url = format!("http://{}/jsz?accounts=true&streams=true", node.monitor.address());
            let Ok(answer) = client.get(url).send().await else { continue };
            let Ok(answer) = answer.json::<Value>().await else { continue };
            let of_list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
            let streams =
                of_list(&answer, "account_details").into_iter().flat_map(|one| of_list(&one, "stream_detail"));
            let mut leaders =
                streams.filter_map(|stream| stream["cluster"]["leader"].as_str()?.strip_prefix('n')?.parse().ok());
            if let Some(leader) = leaders.find(|index: &usize| self.nodes[*index].process.is_some()) {
                return Some(leader);
            }
        }
        None
    }
}
