//! A server over stdio for each subscriber.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures::future::join_all;
use mcp_host_tests::{RawStdio, Revision, WrittenConfig};
use mcp_resource_host::Update;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::SUBSCRIBERS;
use super::run::Run;
use super::seeds::seeds;
use super::transport::{StreamEvent, Transport, update_in};

struct StdioTransport {
    config: PathBuf,
    servers: Vec<Server>,
    listening: mpsc::UnboundedSender<ListenRequest>,
    listeners: JoinHandle<()>,
}

/// A listener on an additional server with the revision that has `subscriptions/listen`.
struct ListenRequest {
    uris: Vec<String>,
    heard: mpsc::UnboundedSender<StreamEvent>,
}

/// Serves listeners until no more are added.
async fn serve_listeners(mut wire: RawStdio, mut new: mpsc::UnboundedReceiver<ListenRequest>) {
    let mut listeners = BTreeMap::new();
    loop {
        tokio::select! {
            listening = new.recv() => {
                let Some(ListenRequest { uris, heard }) = listening else { break };
                let wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
                listeners.insert(wire.send_request("subscriptions/listen", wanted).await, heard);
            }
            // Cancel-safe: a line is read completely or not at all.
            line = wire.next_message() => {
                let message = line.expect("the server goes on");
                let id = message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].as_u64();
                if let Some((listener, heard)) = id.and_then(|id| listeners.get(&id)).zip(StreamEvent::from_message(&message)) {
                    // The receiver may have been dropped.
                    let _ = listener.send(heard);
                }
            }
        }
    }
    wire.end().await;
}

struct Server {
    wire: RawStdio,
    /// The number of the current or next generation.
    generation: u64,
}

impl Server {
    async fn start(config: PathBuf) -> Self {
        Self { wire: RawStdio::start_at(&config, &[], Revision::V_2025_11_25).await, generation: 1 }
    }

    async fn drain_updates(&mut self) -> Vec<Update> {
        self.wire.request("ping", json!({})).await.result();
        self.wire.take_notifications().iter().filter_map(update_in).collect()
    }

    async fn end(self) {
        self.wire.end().await;
    }
}

impl StdioTransport {
    async fn start(config: &WrittenConfig) -> Self {
        let config = config.path();
        let servers = join_all((0..SUBSCRIBERS).map(|_| Server::start(config.clone()))).await;
        let (listening, new) = mpsc::unbounded_channel();
        let wire = RawStdio::start_at(&config, &[], Revision::V_2026_07_28).await;
        Self { config, servers, listening, listeners: tokio::spawn(serve_listeners(wire, new)) }
    }

    async fn end(self) {
        join_all(self.servers.into_iter().map(Server::end)).await;
        drop(self.listening);
        self.listeners.await.unwrap();
    }
}

impl Transport for StdioTransport {
    const IS_LISTING_EFFECTIVE_AT_ONCE: bool = false;

    fn principal(_: usize) -> &'static str {
        "local"
    }

    async fn subscribe(&mut self, principal: usize, uri: &str) -> bool {
        let answer = self.servers[principal].wire.request("resources/subscribe", json!({ "uri": uri })).await;
        answer.message.get("result").is_some()
    }

    async fn unsubscribe(&mut self, principal: usize, uri: &str) -> Vec<Update> {
        let wire = &mut self.servers[principal].wire;
        wire.request("resources/unsubscribe", json!({ "uri": uri })).await;
        wire.take_notifications().iter().filter_map(update_in).collect()
    }

    async fn listen(&mut self, count: usize, uris: &[String]) -> Vec<mpsc::UnboundedReceiver<StreamEvent>> {
        let listen = |_| {
            let (heard, receiver) = mpsc::unbounded_channel();
            self.listening.send(ListenRequest { uris: uris.to_vec(), heard }).expect("they are served");
            receiver
        };
        (0..count).map(listen).collect()
    }

    async fn reconnect(&mut self, principal: usize) {
        let new = Server::start(self.config.clone()).await;
        std::mem::replace(&mut self.servers[principal], new).end().await;
    }

    async fn drain_updates(&mut self, whom: &[usize]) -> Vec<Vec<Update>> {
        let asked = self.servers.iter_mut().enumerate().filter(|(principal, _)| whom.contains(principal));
        join_all(asked.map(|(_, server)| server.drain_updates())).await
    }

    async fn wait_for_update(&mut self, principal: usize) -> Vec<Update> {
        let wire = &mut self.servers[principal].wire;
        let mut messages = wire.take_notifications();
        if messages.is_empty() {
            messages.push(wire.message().await.expect("the server goes on"));
        }
        messages.iter().filter_map(update_in).collect()
    }

    /// Each server detects the change of its config without a signal.
    fn reload(&mut self, _: &WrittenConfig) {
        self.servers.iter_mut().for_each(|server| server.generation += 1);
    }

    async fn wait_until_reloaded(&mut self) {
        for Server { wire, generation } in self.servers.iter().filter(|server| server.generation > 1) {
            wire.log_line(&format!("generation={generation} ")).await;
        }
    }
}

#[tokio::test]
async fn over_stdio_the_rule_holds_whatever_happens() {
    for seed in seeds(3) {
        let run = Run::new(seed);
        let mut transport = StdioTransport::start(&run.fixture.config).await;
        run.run(&mut transport, 40).await;
        transport.end().await;
    }
}
