//! The official conformance suite has the same outcomes against a server as through the host against this server, in
//! scenarios about resources.
//!
//! The server uses the official SDK for Python, which has both kinds of lifecycle. The host replaces its prefix by a
//! mount of the same text, so the suite requests the same URIs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};

use mcp_host_tests::{ConfigFile, HttpServer, ReservedPort, client_program, wait_until};

use crate::protocol::conformance::{Checks, run};

/// A server over HTTP, which ends on drop.
struct Server(Child);

impl Server {
    async fn start(port: &ReservedPort) -> Self {
        let address = port.address();
        let mut command = std::process::Command::new(client_program("python/bin/python"));
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/servers/conformance.py"));
        command.arg(address.port().to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the server listens", || std::net::TcpStream::connect(address).is_ok()).await;
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// Returns whether a scenario is about resources: their listings, contents, templates, completions, subscriptions and
/// caching.
fn is_of_resources(scenario: &str) -> bool {
    scenario.starts_with("resources-")
        || ["sep-2164-resource-not-found", "completion-complete", "caching"].contains(&scenario)
}

/// The outcomes of the checks about resources.
fn outcomes(scenarios: &BTreeMap<String, Checks>) -> BTreeMap<String, &str> {
    let of_resources = scenarios.iter().filter(|(name, _)| is_of_resources(name));
    let checks = of_resources.flat_map(|(name, checks)| {
        checks.iter().map(move |(id, check)| (format!("{name}/{id}"), check.status.as_str()))
    });
    checks.collect()
}

async fn behaves_as_directly(revision: &str, least: usize) {
    let port = ReservedPort::new();
    let _upstream = Server::start(&port).await;
    let text = format!(
        "[[upstream]]\nname = 'conformance'\nurl = '{}'\nmount = 'test://'\nprefix = 'test://'\n",
        port.mcp_url()
    );
    // The scenarios about completion and caching request prompts, too.
    let config = ConfigFile::new()
        .server("advertise", vec!["prompts"])
        .server("tools", vec!["list", "read"])
        .append(&text)
        .allow_all()
        .write();
    let host = HttpServer::start(&config).await;
    let (direct, through) = (run(revision, &port.mcp_url()).await, run(revision, host.url()).await);
    let (expected, found) = (outcomes(&direct), outcomes(&through));
    assert!(expected.len() >= least, "{expected:?}");
    let said = |check: &str| {
        let (scenario, id) = check.split_once('/').unwrap();
        through.get(scenario).and_then(|checks| checks.get(id)).map(|check| check.said.clone())
    };
    let names = expected.keys().chain(found.keys());
    let differences: Vec<_> = names
        .filter(|name| expected.get(*name) != found.get(*name))
        .map(|name| {
            format!(
                "{name}: {:?} directly, {:?} through the host: {:?}",
                expected.get(name),
                found.get(name),
                said(name)
            )
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(expected.values().all(|status| *status != "FAILURE"), "{expected:?}");
    host.end().await;
}

#[tokio::test]
async fn the_suite_has_the_same_outcomes_through_the_host_with_sessions() {
    behaves_as_directly("2025-11-25", 7).await;
}

#[tokio::test]
async fn the_suite_has_the_same_outcomes_through_the_host_without_sessions() {
    behaves_as_directly("2026-07-28", 7).await;
}
