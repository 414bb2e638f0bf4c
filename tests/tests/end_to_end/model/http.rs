//! One server over HTTP, with a session for each subscriber.
//!
//! A session is told of changes on a stream, and answered on connections of their own, so that an answer may overtake what was
//! told before it. What has been sent is known by a *bell*: a resource of which only that session is told. When it is rung,
//! all that was sent before has arrived when the update for it has.

use std::fs;
use std::path::PathBuf;

use futures::future::join_all;
use mcp_host_tests::{Http, HttpWire, PATIENCE, Revision, WrittenConfig};
use mcp_resource_host::Update;
use reqwest::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::SUBSCRIBERS;
use super::chance::seeds;
use super::face::{Face, Heard, told_of};
use super::run::Run;
use super::world::{bell, bell_text, uri};

struct OverHttp {
    server: Http,
    /// Where the bells are.
    bells: PathBuf,
    /// How often one was rung.
    rung: usize,
    sessions: Vec<Session>,
    /// The number of the generation that serves, or will.
    generation: u64,
    left: usize,
}

struct Session {
    wire: HttpWire,
    bell: Update,
    told: mpsc::UnboundedReceiver<Update>,
}

impl Session {
    async fn start(server: &Http, who: usize) -> Self {
        let mut wire = server.wire(Revision::V_2025_11_25).await;
        let (sender, told) = mpsc::unbounded_channel();
        tokio::spawn(pass_on(wire.events().await, told_of, sender));
        let bell = uri("bells", &bell(who));
        wire.request("resources/subscribe", json!({ "uri": bell })).await.result();
        Self { wire, bell: Update::Resource(bell), told }
    }

    async fn next(&mut self) -> Update {
        self.told.recv().await.expect("the stream goes on")
    }
}

/// Passes on what a stream tells, for as long as somebody wants to know.
async fn pass_on<T>(mut events: Response, of: fn(&Value) -> Option<T>, told: mpsc::UnboundedSender<T>) {
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

impl OverHttp {
    async fn start(config: &WrittenConfig, bells: PathBuf) -> Self {
        let server = Http::start(config).await;
        let mut sessions = Vec::new();
        for who in 0..SUBSCRIBERS {
            sessions.push(Session::start(&server, who).await);
        }
        Self { server, bells, rung: 0, sessions, generation: 1, left: 0 }
    }

    fn ring(&mut self, who: usize) {
        self.rung += 1;
        let aside = self.bells.join(".mood/aside");
        fs::write(&aside, bell_text(self.rung)).unwrap();
        fs::rename(aside, self.bells.join(bell(who))).unwrap();
    }
}

impl Face for OverHttp {
    const LISTING_COUNTS: bool = false;

    fn principal(_: usize) -> &'static str {
        "anonymous"
    }

    async fn subscribe(&mut self, who: usize, uri: &str) -> bool {
        let answer = self.sessions[who].wire.request("resources/subscribe", json!({ "uri": uri })).await;
        answer.message.get("result").is_some()
    }

    async fn unsubscribe(&mut self, who: usize, uri: &str) -> Vec<Update> {
        self.sessions[who].wire.request("resources/unsubscribe", json!({ "uri": uri })).await;
        self.told(&[who]).await.remove(0)
    }

    async fn listen(&mut self, count: usize, uris: &[String]) -> Vec<mpsc::UnboundedReceiver<Heard>> {
        let wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
        let one = async |_| {
            let mut wire = self.server.stranger(Revision::V_2026_07_28);
            let request = wire.prepared("subscriptions/listen", wanted.clone());
            let stream = timeout(PATIENCE, request.send()).await.expect("in time").expect("a stream");
            let (sender, heard) = mpsc::unbounded_channel();
            tokio::spawn(pass_on(stream, Heard::of, sender));
            heard
        };
        join_all((0..count).map(one)).await
    }

    /// Every other one says that it goes away.
    async fn leave(&mut self, who: usize) {
        let new = Session::start(&self.server, who).await;
        let old = std::mem::replace(&mut self.sessions[who], new);
        self.left += 1;
        if self.left.is_multiple_of(2) {
            old.wire.leave().await;
        }
    }

    async fn told(&mut self, whom: &[usize]) -> Vec<Vec<Update>> {
        whom.iter().for_each(|who| self.ring(*who));
        let mut all = Vec::new();
        for who in whom {
            let (session, mut told) = (&mut self.sessions[*who], Vec::new());
            loop {
                let update = timeout(PATIENCE, session.next()).await.expect("the bell is heard");
                if update == session.bell {
                    break;
                }
                told.push(update);
            }
            all.push(told);
        }
        all
    }

    async fn wait(&mut self, who: usize) -> Vec<Update> {
        vec![self.sessions[who].next().await]
    }

    /// The server sees by itself that its config is another one.
    fn reload(&mut self, _: &WrittenConfig) {
        self.generation += 1;
    }

    async fn settle(&mut self) {
        if self.generation > 1 {
            self.server.log_line(&format!("generation={} ", self.generation)).await;
        }
    }
}

#[tokio::test]
async fn over_http_the_rule_holds_whatever_happens() {
    for seed in seeds(3) {
        let run = Run::new(seed);
        let mut face = OverHttp::start(&run.world.config, run.world.bells()).await;
        run.run(&mut face, 40).await;
        drop(face.sessions);
        face.server.end().await;
    }
}
