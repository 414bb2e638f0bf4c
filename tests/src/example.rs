//! A program of `examples/` that serves MCP over HTTP.

use rustix::process::Signal;
use tokio::process::Command;

use crate::artifacts;
use crate::log::Log;
use crate::process::{Exit, Process};

/// A running example.
#[derive(Debug)]
pub struct HttpExample {
    process: Process,
    url: String,
}

impl HttpExample {
    /// Starts `examples/NAME.rs` on an ephemeral port, its only argument, and waits until it prints its URL.
    pub async fn start(name: &str) -> Self {
        let mut command = Command::new(artifacts::example(name));
        command.arg("127.0.0.1:0").env_clear().current_dir("/");
        let (process, _, stdout) = Process::start(command);
        let line = Log::new(stdout).wait_for_line("http://").await;
        let url = line.split_whitespace().find(|word| word.contains("://")).expect("the line has the URL");
        Self { process, url: url.to_owned() }
    }

    /// The URL of its MCP endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends it a signal, and waits for a clean exit.
    pub async fn end_by(self, signal: Signal) -> Exit {
        self.process.signal(signal);
        self.process.wait_exit().await.assert_clean_exit()
    }
}
