//! A server over stdio for each subscriber.

use std::path::PathBuf;

use futures::future::join_all;
use mcp_host_tests::{Revision, StdioWire, WrittenConfig};
use mcp_resource_host::Update;
use serde_json::{Value, json};

use super::SUBSCRIBERS;
use super::chance::seeds;
use super::face::Face;
use super::run::Run;

/// What a notification tells, if it tells of a change.
pub(super) fn told_of(message: &Value) -> Option<Update> {
    match message["method"].as_str()? {
        "notifications/resources/updated" => Some(Update::Resource(message["params"]["uri"].as_str()?.to_owned())),
        "notifications/resources/list_changed" => Some(Update::Listing),
        _ => None,
    }
}

struct OverStdio {
    config: PathBuf,
    servers: Vec<Server>,
}

struct Server {
    wire: StdioWire,
    /// The number of the generation that serves, or will.
    generation: u64,
}

impl Server {
    async fn start(config: PathBuf) -> Self {
        Self { wire: StdioWire::start_at(&config, &[], Revision::V_2025_11_25).await, generation: 1 }
    }

    async fn told(&mut self) -> Vec<Update> {
        self.wire.request("ping", json!({})).await.result();
        self.wire.early().iter().filter_map(told_of).collect()
    }

    async fn end(mut self) {
        self.wire.close();
        self.wire.ended().await;
    }
}

impl OverStdio {
    async fn start(config: &WrittenConfig) -> Self {
        let config = config.path();
        let servers = join_all((0..SUBSCRIBERS).map(|_| Server::start(config.clone()))).await;
        Self { config, servers }
    }

    async fn end(self) {
        join_all(self.servers.into_iter().map(Server::end)).await;
    }
}

impl Face for OverStdio {
    const LISTING_COUNTS: bool = false;

    fn principal(_: usize) -> &'static str {
        "local"
    }

    async fn subscribe(&mut self, who: usize, uri: &str) -> bool {
        let answer = self.servers[who].wire.request("resources/subscribe", json!({ "uri": uri })).await;
        answer.message.get("result").is_some()
    }

    async fn unsubscribe(&mut self, who: usize, uri: &str) -> Vec<Update> {
        let wire = &mut self.servers[who].wire;
        wire.request("resources/unsubscribe", json!({ "uri": uri })).await;
        wire.early().iter().filter_map(told_of).collect()
    }

    async fn leave(&mut self, who: usize) {
        let new = Server::start(self.config.clone()).await;
        std::mem::replace(&mut self.servers[who], new).end().await;
    }

    async fn told(&mut self, whom: &[usize]) -> Vec<Vec<Update>> {
        let asked = self.servers.iter_mut().enumerate().filter(|(who, _)| whom.contains(who));
        join_all(asked.map(|(_, server)| server.told())).await
    }

    async fn wait(&mut self, who: usize) -> Vec<Update> {
        let wire = &mut self.servers[who].wire;
        let mut messages = wire.early();
        if messages.is_empty() {
            messages.push(wire.message().await.expect("the server goes on"));
        }
        messages.iter().filter_map(told_of).collect()
    }

    /// Each sees by itself that the config is another one.
    fn reload(&mut self, _: &WrittenConfig) {
        self.servers.iter_mut().for_each(|server| server.generation += 1);
    }

    async fn settle(&mut self) {
        for Server { wire, generation } in self.servers.iter().filter(|server| server.generation > 1) {
            wire.log_line(&format!("generation={generation} ")).await;
        }
    }
}

#[tokio::test]
async fn over_stdio_the_rule_holds_whatever_happens() {
    for seed in seeds(3) {
        let run = Run::new(seed);
        let mut face = OverStdio::start(&run.world.config).await;
        run.run(&mut face, 40).await;
        face.end().await;
    }
}
