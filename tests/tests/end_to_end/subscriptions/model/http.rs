//! One server over HTTP, with a session for each subscriber.
//!
//! A session is notified on a stream, and gets responses on connections of their own, so that a response may overtake
//! updates from before it. A *barrier* is a resource that only that session is subscribed to: when the update for its
//! change has arrived, so has everything that was sent before.

use std::fs;
use std::path::PathBuf;

use futures::future::join_all;
use mcp_host_tests::{HttpServer, RawHttp, Revision, TIMEOUT, WrittenConfig};
use mcp_resource_host::Update;
use reqwest::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::SUBSCRIBERS;
use super::fixture::{barrier_file, barrier_text, uri};
use super::run::Run;
use super::seeds::seeds;
use super::transport::{StreamEvent, Transport, update_in};

struct HttpTransport {
    server: HttpServer,
    /// The folder of the barriers.
    barriers: PathBuf,
    /// The number of changes of barriers.
    barrier_count: usize,
    sessions: Vec<Session>,
    /// The number of the generation that is served, or will be.
    generation: u64,
    reconnect_count: usize,
}

struct Session {
    wire: RawHttp,
    barrier: Update,
    updates: mpsc::UnboundedReceiver<Update>,
}

impl Session {
    async fn start(server: &HttpServer, principal: usize) -> Self {
        let mut wire = server.raw_client(Revision::V_2025_11_25).await;
        let (sender, told) = mpsc::unbounded_channel();
        tokio::spawn(forward_events(wire.event_stream().await, update_in, sender));
        let barrier = uri("barriers", &barrier_file(principal));
        wire.request("resources/subscribe", json!({ "uri": barrier })).await.result();
        Self { wire, barrier: Update::Resource(barrier), updates: told }
    }

    async fn next(&mut self) -> Update {
        self.updates.recv().await.expect("the stream goes on")
    }
}

/// Forwards the updates of a stream until the receiver is dropped.
async fn forward_events<T>(mut events: Response, of: fn(&Value) -> Option<T>, told: mpsc::UnboundedSender<T>) {
    let mut text = String::new();
    while let Ok(Some(chunk)) = events.chunk().await {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        while let Some((line, rest)) = text.split_once('\n') {
            let message = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data.trim()).ok());
            if message.as_ref().and_then(of).is_some_and(|update| told.send(update).is_err()) {
                return;
            }
            text = rest.to_owned();
        }
    }
}

impl HttpTransport {
    async fn start(config: &WrittenConfig, barriers: PathBuf) -> Self {
        let server = HttpServer::start(config).await;
        let mut sessions = Vec::new();
        for principal in 0..SUBSCRIBERS {
            sessions.push(Session::start(&server, principal).await);
        }
        Self { server, barriers, barrier_count: 0, sessions, generation: 1, reconnect_count: 0 }
    }

    fn touch_barrier(&mut self, principal: usize) {
        self.barrier_count += 1;
        let aside = self.barriers.join(".faults/aside");
        fs::write(&aside, barrier_text(self.barrier_count)).unwrap();
        fs::rename(aside, self.barriers.join(barrier_file(principal))).unwrap();
    }
}

impl Transport for HttpTransport {
    const IS_LISTING_EFFECTIVE_AT_ONCE: bool = false;

    fn principal(_: usize) -> &'static str {
        "anonymous"
    }

    async fn subscribe(&mut self, principal: usize, uri: &str) -> bool {
        let answer = self.sessions[principal].wire.request("resources/subscribe", json!({ "uri": uri })).await;
        answer.message.get("result").is_some()
    }

    async fn unsubscribe(&mut self, principal: usize, uri: &str) -> Vec<Update> {
        self.sessions[principal].wire.request("resources/unsubscribe", json!({ "uri": uri })).await;
        self.drain_updates(&[principal]).await.remove(0)
    }

    async fn listen(&mut self, count: usize, uris: &[String]) -> Vec<mpsc::UnboundedReceiver<StreamEvent>> {
        let wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
        let one = async |_| {
            let mut wire = self.server.uninitialized(Revision::V_2026_07_28);
            let request = wire.request_builder("subscriptions/listen", wanted.clone());
            let stream = timeout(TIMEOUT, request.send()).await.expect("in time").expect("a stream");
            let (sender, heard) = mpsc::unbounded_channel();
            tokio::spawn(forward_events(stream, StreamEvent::from_message, sender));
            heard
        };
        join_all((0..count).map(one)).await
    }

    /// Every other session is ended by the client.
    async fn reconnect(&mut self, principal: usize) {
        let new = Session::start(&self.server, principal).await;
        let old = std::mem::replace(&mut self.sessions[principal], new);
        self.reconnect_count += 1;
        if self.reconnect_count.is_multiple_of(2) {
            old.wire.delete_session().await;
        }
    }

    async fn drain_updates(&mut self, whom: &[usize]) -> Vec<Vec<Update>> {
        whom.iter().for_each(|principal| self.touch_barrier(*principal));
        let mut all = Vec::new();
        for principal in whom {
            let (session, mut told) = (&mut self.sessions[*principal], Vec::new());
            loop {
                let update = timeout(TIMEOUT, session.next()).await.expect("an update of the barrier");
                if update == session.barrier {
                    break;
                }
                told.push(update);
            }
            all.push(told);
        }
        all
    }

    async fn wait_for_update(&mut self, principal: usize) -> Vec<Update> {
        vec![self.sessions[principal].next().await]
    }

    /// The server detects by itself that its config changed.
    fn reload(&mut self, _: &WrittenConfig) {
        self.generation += 1;
    }

    async fn wait_until_reloaded(&mut self) {
        if self.generation > 1 {
            self.server.log_line(&format!("generation={} ", self.generation)).await;
        }
    }
}

#[tokio::test]
async fn over_http_the_rule_holds_whatever_happens() {
    for seed in seeds(3) {
        let run = Run::new(seed);
        let mut transport = HttpTransport::start(&run.fixture.config, run.fixture.barriers()).await;
        run.run(&mut transport, 40).await;
        drop(transport.sessions);
        transport.server.end().await;
    }
}
