//! HAProxy on loopback in front of replicas: each request goes to the next healthy replica. With stickiness, requests
//! of a session go to the replica where the session began.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{ReservedPort, TIMEOUT};

/// Where Debian has it.
const PROGRAM: &str = "/usr/sbin/haproxy";

/// Sends the requests of a session to the replica that opened it.
const STICKINESS: &str = "  stick-table type string len 64 size 100k expire 1h\n  \
    stick match req.hdr(mcp-session-id)\n  stick store-response res.hdr(mcp-session-id)\n";

/// The time for the answer to a health check: a busy replica counts as healthy, as no client opens its streams again. A
/// killed one refuses the connection of the check, and is found in less than a second all the same.
const PATIENCE: &str = "  timeout check 1m\n";

/// A balancer. It ends when it is dropped.
#[derive(Debug)]
pub struct Balancer {
    _process: Child,
    _dir: TempDir,
    port: ReservedPort,
}

impl Balancer {
    /// Starts it in front of servers at those addresses, and waits until it accepts connections.
    ///
    /// # Panics
    ///
    /// HAProxy is not installed.
    pub async fn start(addresses: impl IntoIterator<Item = String>) -> Self {
        Self::start_with(addresses, STICKINESS).await
    }

    /// The same, without stickiness, and with time for the answers to its health checks.
    ///
    /// # Panics
    ///
    /// HAProxy is not installed.
    pub async fn start_without_stickiness(addresses: impl IntoIterator<Item = String>) -> Self {
        Self::start_with(addresses, PATIENCE).await
    }

    async fn start_with(addresses: impl IntoIterator<Item = String>, options: &str) -> Self {
        assert!(Path::new(PROGRAM).is_file(), "there is no {PROGRAM}: run `cargo xtask debian`");
        let (dir, port) = (tempfile::tempdir().expect("a directory for the balancer"), ReservedPort::new());
        let mut config = format!(
            "global\n  maxconn 8192\n\
             defaults\n  mode http\n  timeout connect 2s\n  timeout client 1h\n  timeout server 1h\n  retries 3\n  option redispatch\n\
             frontend mcp\n  bind {}\n  default_backend replicas\n\
             backend replicas\n  balance roundrobin\n{options}  option httpchk\n  \
             http-check send meth GET uri /healthz ver HTTP/1.1 hdr Host 127.0.0.1\n  \
             default-server check inter 300ms fall 2 rise 1 on-marked-down shutdown-sessions\n",
            port.address()
        );
        for (index, address) in addresses.into_iter().enumerate() {
            let _ = writeln!(config, "  server r{index} {address}");
        }
        let file = dir.path().join("haproxy.cfg");
        std::fs::write(&file, config).expect("the config can be written");
        let mut command = Command::new(PROGRAM);
        command
            .arg("-db")
            .arg("-q")
            .arg("-f")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.kill_on_drop(true).spawn().expect("the balancer starts");
        let connecting = async {
            while tokio::net::TcpStream::connect(port.address()).await.is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, connecting).await.expect("the balancer accepts connections");
        Self { _process: process, _dir: dir, port }
    }

    /// The URL of the MCP endpoint behind it.
    pub fn mcp_url(&self) -> String {
        self.port.mcp_url()
    }
}
