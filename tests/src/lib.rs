//! Harness of the end-to-end tests: the real binary, real components, real clients.
//!
//! A test writes a [`ConfigFile`], starts a server with it ([`StdioServer`] or [`HttpServer`]), sends requests as an
//! MCP client, and ends the server:
//!
//! ```no_run
//! # use mcp_host_tests::{ConfigFile, GitRepo, Plugin, StdioServer};
//! # async fn test() {
//! let repo = GitRepo::with_files([("README.md", "hello")]);
//! let config = ConfigFile::new().plugin(Plugin::git("demo", repo.path())).write();
//! let server = StdioServer::start(&config).await;
//! assert_eq!(server.client().text("git://demo/blob/HEAD/README.md").await, "hello");
//! server.end().await;
//! # }
//! ```
//!
//! Nothing outlives a test: a server that was not ended fails the test and is killed by its process id, and every file
//! is written to a temporary directory. Only compiled components stay, in `target/test-cache`. There are no sleeps: a
//! test waits for a condition, with a timeout of [`TIMEOUT`].
//!
//! Like any assertion, the harness fails by panicking.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a harness fails by panicking"
)]

mod artifacts;
mod authorization_server;
mod balancer;
mod changing_resources;
mod client;
mod collector;
mod command;
mod config;
mod connection;
mod dev;
mod drive;
mod embedding_endpoint;
mod example;
mod faulty_link;
mod folder;
mod git;
mod http;
mod large_catalog;
mod log;
mod nats;
mod origin;
mod postgresql;
mod process;
mod prometheus;
mod registry;
mod replicas;
mod reserved_port;
mod stdio;
mod template;
mod terminal;
mod token_issuer;
mod token_server;
mod wat_provider;
mod wire;

pub mod change_check;
pub mod sigstore;

pub use artifacts::{
    PROGRAM_VARIABLE, client_program, component, debian_file, fixture, host_binary, node, optional_client,
};
pub use authorization_server::{AuthorizationServer, TokenFormat};
pub use balancer::Balancer;
pub use client::{Client, content_bytes};
pub use collector::{CollectedSpan, CollectedTrace, Collector};
pub use command::{
    Output, has_user_namespaces, host_command, run, run_on_terminal, run_on_terminal_of, type_on_terminal,
};
pub use config::{ConfigFile, Plugin, Rule, WrittenConfig};
pub use connection::Connection;
pub use dev::{DevOnTerminal, DevProject, DevServer};
pub use drive::DriveServer;
pub use embedding_endpoint::EmbeddingEndpoint;
pub use example::HttpExample;
pub use faulty_link::{FaultyLink, LinkFault};
pub use folder::Folder;
pub use git::GitRepo;
pub use http::{HttpServer, RawHttp};
pub use large_catalog::LargeCatalog;
pub use nats::{NatsCluster, NatsServer};
pub use origin::{CertificateAuthority, CertifiedKey, EventSource, MockOrigin, RecordedRequest, Reply};
pub use postgresql::{Postgresql, PostgresqlOptions};
pub use process::{Exit, KilledOnDrop};
pub use prometheus::{NodeExporter, PrometheusBuilder, PrometheusServer};
pub use registry::{Registry, RegistryProject};
pub use replicas::{LEASE, Load, ReplicaSet};
pub use reserved_port::ReservedPort;
pub use rmcp::model::ProtocolVersion as Revision;
pub use stdio::{RawStdio, StdioServer};
pub use template::reserved_expansion;
pub use token_issuer::{SigningKey, TokenIssuer, sign_hs256, unix_time, unsigned_token};
pub use token_server::TokenServer;
pub use wat_provider::{ComponentFile, WatProvider};
pub use wire::{RpcResponse, initialize_params, initialized_notification, request};

/// The timeout of every wait: so long that only a hang reaches it, even while the largest component is compiled on a
/// busy machine.
pub const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(900);

/// The interval at which conditions without notification are polled.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(5);

/// The revisions that the host speaks, oldest first. All but the last begin with `initialize`.
pub const REVISIONS: [Revision; 5] = [
    Revision::V_2024_11_05,
    Revision::V_2025_03_26,
    Revision::V_2025_06_18,
    Revision::V_2025_11_25,
    Revision::V_2026_07_28,
];

/// Polls until the condition holds.
pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let looking = async {
        while !holds() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, looking).await.is_ok(), "it does not come to it that {what}");
}
