//! MCP over a pair of streams other than standard input and output.

use std::sync::Arc;

use mcp_host_server::{ServeError, serve_io};
use mcp_resource_host::Host;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::Config;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::TIMEOUT;

/// A client at the other end, and the serving task.
struct Client {
    answers: Lines<BufReader<ReadHalf<DuplexStream>>>,
    requests: WriteHalf<DuplexStream>,
    serving: JoinHandle<Result<(), ServeError>>,
    shutdown: CancellationToken,
}

impl Client {
    fn connect(host: &Arc<Host>, principal: &str) -> Self {
        Self::connect_as(host, Principal::new(principal))
    }

    fn connect_as(host: &Arc<Host>, principal: Principal) -> Self {
        let (client, server) = tokio::io::duplex(1024);
        let (reader, writer) = tokio::io::split(server);
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(serve_io(host.clone(), reader, writer, principal, shutdown.clone()));
        let (answers, requests) = tokio::io::split(client);
        Self { answers: BufReader::new(answers).lines(), requests, serving, shutdown }
    }

    async fn send(&mut self, message: &Value) {
        self.requests.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let line = timeout(TIMEOUT, self.answers.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn open_session(&mut self) {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        assert_eq!(self.request(0, "initialize", params).await["result"]["protocolVersion"], "2025-11-25");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    async fn end(self) -> Result<(), ServeError> {
        timeout(TIMEOUT, self.serving).await.unwrap().unwrap()
    }
}

async fn start() -> (Arc<Host>, TempDir) {
    start_with(Config::new()).await
}

async fn start_with(mut config: Config) -> (Arc<Host>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    config.server.cache = Some(dir.path().join("cache"));
    config.server.state = Some(dir.path().join("state"));
    (Arc::new(Host::start(config).await.unwrap()), dir)
}

#[tokio::test]
async fn several_clients_are_served_at_once_until_they_close_their_ends() {
    let (host, _dir) = start().await;
    let mut clients = ["ada", "bob"].map(|principal| Client::connect(&host, principal));
    for client in &mut clients {
        client.open_session().await;
        assert_eq!(client.request(1, "resources/list", json!({})).await["result"]["resources"], json!([]));
    }
    for mut client in clients {
        client.requests.shutdown().await.unwrap();
        client.end().await.unwrap();
    }
}

#[tokio::test]
async fn serving_ends_when_it_is_shut_down() {
    let (host, _dir) = start().await;
    let mut client = Client::connect(&host, "ada");
    client.open_session().await;
    client.shutdown.cancel();
    client.end().await.unwrap();
}

#[tokio::test]
async fn a_principal_has_one_rate_over_all_its_connections_and_whoever_started_the_host_has_none() {
    let mut config = Config::new();
    config.http.limits.client_rate = "3/h".parse().unwrap();
    let (host, _dir) = start_with(config).await;
    let connections = ["ada", "ada", "bob"].map(|principal| Client::connect(&host, principal));
    let mut results = Vec::new();
    for (mut client, requests) in connections.into_iter().zip([2, 2, 3]) {
        for id in 0..requests {
            results.push(client.request(id, "ping", json!({})).await);
        }
    }
    let rejected = results.remove(3);
    assert_eq!((&rejected["id"], &rejected["error"]["code"]), (&json!(1), &json!(-32603)), "{rejected}");
    assert!(rejected["error"]["data"]["retryAfterMs"].as_u64().unwrap() > 1000, "{rejected}");
    assert!(results.iter().all(|answer| answer.get("result").is_some()), "{results:?}");
    let mut local = Client::connect_as(&host, Principal::LOCAL);
    for id in 0..10 {
        assert!(local.request(id, "ping", json!({})).await.get("result").is_some());
    }
}
