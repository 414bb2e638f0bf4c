//! A server of NATS with JetStream on loopback, for one test.
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

use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::ReservedPort;
use crate::artifacts::client_program;
use crate::log::Log;

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
        let mut command = Command::new(client_program("nats/bin/nats-server"));
        command.args(["--addr", "127.0.0.1", "--port", &port.address().port().to_string(), "--jetstream"]);
        command.arg("--store_dir").arg(dir.path()).current_dir(dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("the server starts");
        let log = Log::new(process.stderr.take().expect("a pipe"));
        log.wait_for_line("Server is ready").await;
        process
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("nats://{}", self.port.address())
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
