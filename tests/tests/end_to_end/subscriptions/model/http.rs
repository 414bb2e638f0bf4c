//! One server over HTTP, with a session for each subscriber.
//!
//! A session is notified on a stream, and gets responses on separate connections, so a response may overtake earlier
//! updates. A *barrier* is a resource to which only that session is subscribed: when the update of its change has
//! arrived, everything sent before has arrived.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use mcp_host_tests::{HttpServer, RawHttp, Revision, TIMEOUT, WrittenConfig};
use mcp_resource_host::Update;
use reqwest::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
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
    /// The number of the current or next generation.
    generation: u64,
    reconnect_count: usize,
}

struct Session {
    wire: RawHttp,
    barrier: Update,
    updates: mpsc::UnboundedReceiver<Update>,
    sender: mpsc::UnboundedSender<Update>,
    /// The id of the last event read.
    last_id: Arc<Mutex<Option<String>>>,
    /// The task that reads the stream.
    reading: JoinHandle<()>,
    /// Streams that are neither read nor closed: a newer stream took over.
    dead: Vec<Response>,
}

impl Session {
    async fn start(server: &HttpServer, principal: usize) -> Self {
        let mut wire = server.raw_client(Revision::V_2025_11_25).await;
        let (sender, told) = mpsc::unbounded_channel();
        let last_id = Arc::<Mutex<Option<String>>>::default();
        let stream = wire.event_stream().await;
        let reading = tokio::spawn(forward_session_events(stream, sender.clone(), last_id.clone()));
        let barrier = uri("barriers", &barrier_file(principal));
        wire.request("resources/subscribe", json!({ "uri": barrier })).await.result();
        Self { wire, barrier: Update::Resource(barrier), updates: told, sender, last_id, reading, dead: Vec::new() }
    }

    /// Loses the messages on the session's stream, and opens another one: with or without the id of the last event
    /// read, and with or without an unread stream in between.
    async fn disturb(&mut self, how: usize) {
        // Without this, an earlier update of the barrier might be repeated.
        let Update::Resource(barrier) = self.barrier.clone() else { unreachable!("it is a resource") };
        self.wire.request("resources/unsubscribe", json!({ "uri": barrier })).await.result();
        self.reading.abort();
        // The task may have been reading its last event.
        let _ = (&mut self.reading).await;
        let last_id = self.last_id.lock().unwrap().clone().filter(|_| how.is_multiple_of(2));
        if (how / 2).is_multiple_of(2) {
            self.dead.push(self.wire.resumed_event_stream(last_id.as_deref()).await);
        }
        let stream = self.wire.resumed_event_stream(last_id.as_deref()).await;
        self.reading = tokio::spawn(forward_session_events(stream, self.sender.clone(), self.last_id.clone()));
        self.wire.request("resources/subscribe", json!({ "uri": barrier })).await.result();
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

/// Forwards the updates of a session's stream, and stores the id of the last event.
async fn forward_session_events(
    mut events: Response,
    told: mpsc::UnboundedSender<Update>,
    last_id: Arc<Mutex<Option<String>>>,
) {
    let (mut text, mut id) = (String::new(), None);
    while let Ok(Some(chunk)) = events.chunk().await {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        while let Some((line, rest)) = text.split_once('\n') {
            if let Some(of_event) = line.strip_prefix("id:") {
                id = Some(of_event.trim().to_owned());
            }
            let message = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data.trim()).ok());
            if message.as_ref().and_then(update_in).is_some_and(|update| told.send(update).is_err()) {
                return;
            }
            if line.is_empty() && id.is_some() {
                *last_id.lock().unwrap() = id.take();
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

    /// The client ends every second session explicitly.
    async fn reconnect(&mut self, principal: usize) {
        let new = Session::start(&self.server, principal).await;
        let old = std::mem::replace(&mut self.sessions[principal], new);
        self.reconnect_count += 1;
        if self.reconnect_count.is_multiple_of(2) {
            old.wire.delete_session().await;
        }
    }

    async fn disturb(&mut self, principal: usize, how: usize) -> bool {
        self.sessions[principal].disturb(how).await;
        true
    }

    async fn restart(&mut self, config: &WrittenConfig) -> bool {
        let ended = std::mem::replace(&mut self.server, HttpServer::start(config).await);
        self.generation = 1;
        for (principal, session) in self.sessions.iter_mut().enumerate() {
            *session = Session::start(&self.server, principal).await;
        }
        ended.end().await;
        true
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

    /// The server detects the change of its config without a signal.
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
