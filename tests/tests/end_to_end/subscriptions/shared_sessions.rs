//! Sessions that any replica continues (`cluster.sessions = "shared"`), on a real server of NATS.

use std::fs;
use std::time::Duration;

use mcp_host_tests::{
    ConfigFile, Folder, HttpServer, NatsServer, Plugin, RawHttp, Revision, Rule, TIMEOUT, WrittenConfig,
};
use reqwest::StatusCode;
use ring::digest::{SHA256, digest};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::UPDATED;
use super::session_streams::EventStream;

const REVISION: Revision = Revision::V_2025_11_25;
const ADA: &str = "the-token-of-ada-0123456789abcdef";
/// The NATS stream with the session records.
const BUCKET: &str = "KV_mcp-host-test-SESSIONS";
const BOB: &str = "the-token-of-bob-0123456789abcdef";

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn uri(file: &str) -> String {
    format!("files://f/{file}")
}

/// Replicas that serve one folder to two principals. Neither may see `secret.txt`.
struct Replicas {
    nats: NatsServer,
    folder: Folder,
    servers: Vec<(Option<HttpServer>, WrittenConfig)>,
}

impl Replicas {
    async fn start(count: usize) -> Self {
        Self::start_with(count, "").await
    }

    /// Starts replicas with additional config.
    async fn start_with(count: usize, more: &str) -> Self {
        let nats = NatsServer::start().await;
        let folder = Folder::with_files(["a.txt", "b.txt", "c.txt", "secret.txt"].map(|name| (name, "text")));
        let mut servers = Vec::new();
        for _ in 0..count {
            let config = Self::config(&nats, &folder, more);
            let server = HttpServer::start(&config).await;
            servers.push((Some(server), config));
        }
        Self { nats, folder, servers }
    }

    fn config(nats: &NatsServer, folder: &Folder, more: &str) -> WrittenConfig {
        let principal = |name: &str, token: &str| {
            let digest = hexadecimal(digest(&SHA256, token.as_bytes()).as_ref());
            format!("\n[[principal]]\nname = \"{name}\"\ntoken-sha256 = \"{digest}\"\n")
        };
        let plugin = Plugin::files("f", folder.path()).set("polling", "shared").set("watch-interval", "500ms");
        let cluster = format!(
            "\n[server.cursor-key]\nfile = \"key\"\n\n[cluster]\nname = \"test\"\nnats = [{:?}]\nlease = \"3s\"\nsessions = \"shared\"\n{more}",
            nats.url()
        );
        let rule = |name| Rule::for_principal(name).allow(["**"]).deny(["**/secret.txt"]);
        let config =
            ConfigFile::new().plugin(plugin).rule(rule("ada")).rule(rule("bob")).append(&principal("ada", ADA));
        let config = config.append(&principal("bob", BOB)).append(&cluster).write();
        fs::write(config.dir().join("key"), "11".repeat(32)).unwrap();
        config
    }

    fn url(&self, index: usize) -> &str {
        self.servers[index].0.as_ref().unwrap().url()
    }

    async fn kill(&mut self, index: usize) {
        let server = self.servers[index].0.take().unwrap();
        server.signal(Signal::KILL);
        server.wait_killed().await;
    }

    fn edit(&self, file: &str, content: &str) {
        self.folder.write(file, content);
    }

    /// Waits until a request of a session has a status at a replica.
    async fn wait_for_status(&self, wire: &RawHttp, index: usize, status: u16) {
        let mut wire = wire.at(self.url(index));
        let looking = async {
            while wire.request_builder("ping", json!({})).send().await.unwrap().status() != status {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(TIMEOUT, looking).await.unwrap_or_else(|_| panic!("no {status} of replica {index}"));
    }

    async fn end(mut self) {
        for (server, _) in &mut self.servers {
            if let Some(server) = server.take() {
                server.end().await;
            }
        }
    }
}

async fn subscribe(wire: &mut RawHttp, file: &str) {
    wire.request("resources/subscribe", json!({ "uri": uri(file) })).await.result();
}

/// Returns the status and the body of the answer to a ping.
async fn ping(wire: &mut RawHttp) -> (StatusCode, Value) {
    let answer = wire.request_builder("ping", json!({})).send().await.unwrap();
    (answer.status(), serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
}

#[tokio::test]
async fn any_replica_continues_a_session_and_every_change_is_told_though_replicas_die() {
    let mut replicas = Replicas::start(3).await;
    let mut a = RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    let [mut b, mut c] = [1, 2].map(|index| a.at(replicas.url(index)));
    // The session is opened at one replica, subscribes at another, and listens at the third.
    subscribe(&mut b, "a.txt").await;
    let mut stream = EventStream::open(&c, None).await;
    assert_eq!(stream.next_file().await, "a.txt", "what was subscribed to elsewhere is told once");
    replicas.edit("a.txt", "xx");
    assert_eq!(stream.next_file().await, "a.txt");
    // A subscription at another replica than the stream's is notified once, then for each change.
    subscribe(&mut a, "b.txt").await;
    while stream.next_file().await != "b.txt" {}
    replicas.edit("b.txt", "xx");
    while stream.next_file().await != "b.txt" {}
    // A subscription that is cancelled at another replica gets no more updates.
    a.request("resources/unsubscribe", json!({ "uri": uri("a.txt") })).await.result();
    let last = stream.last_id.clone();

    // The replica that opened the session dies.
    replicas.kill(0).await;
    subscribe(&mut b, "c.txt").await;
    while stream.next_file().await != "c.txt" {}
    replicas.edit("c.txt", "xx");
    while stream.next_file().await != "c.txt" {}

    // A stream at another replica takes over, with an event id of the previous stream: every resource is notified once.
    let mut other = EventStream::open(&b, last.as_deref()).await;
    let told = [other.next_file().await, other.next_file().await];
    assert!(told.contains(&"b.txt".to_owned()) && told.contains(&"c.txt".to_owned()), "{told:?}");
    while let Some(message) = stream.next().await {
        assert_eq!(message["method"], UPDATED, "nothing else comes on the earlier stream, which ends");
    }
    replicas.edit("a.txt", "xxxx");
    replicas.edit("b.txt", "xxx");
    // The replica may detect an earlier change only now, and notify that file once more.
    let told = other.files_until("b.txt").await;
    assert!(!told.contains(&"a.txt".to_owned()), "it is not subscribed to any more: {told:?}");

    // The replica with the stream dies, too.
    replicas.kill(1).await;
    let mut last_stream = EventStream::open(&c, other.last_id.as_deref()).await;
    let told = [last_stream.next_file().await, last_stream.next_file().await];
    assert!(told.contains(&"b.txt".to_owned()) && told.contains(&"c.txt".to_owned()), "{told:?}");
    replicas.edit("c.txt", "xxxxx");
    let told = last_stream.files_until("c.txt").await;
    assert!(!told.contains(&"a.txt".to_owned()), "it is not subscribed to any more: {told:?}");
    assert_eq!(ping(&mut c).await.0, 200);
    replicas.end().await;
}

#[tokio::test]
async fn a_stream_that_is_resumed_at_its_replica_is_not_told_everything() {
    let replicas = Replicas::start(2).await;
    let mut a = RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    subscribe(&mut a, "a.txt").await;
    subscribe(&mut a, "b.txt").await;
    let mut stream = EventStream::open(&a, None).await;
    replicas.edit("a.txt", "xx");
    assert_eq!(stream.next_file().await, "a.txt");
    let last = stream.last_id.clone();
    drop(stream);
    let mut stream = EventStream::open(&a, last.as_deref()).await;
    replicas.edit("b.txt", "xx");
    assert_eq!(stream.next_file().await, "b.txt");
    replicas.end().await;
}

#[tokio::test]
async fn another_principal_gets_nothing_of_a_session_at_any_replica() {
    let replicas = Replicas::start(2).await;
    let ada = RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    let session = ada.session_id().unwrap().to_owned();
    let unknown = format!("{}{}", "0".repeat(32), &session[32..]);
    for index in 0..2 {
        let mut bob = RawHttp::start_with_token(replicas.url(index), REVISION, BOB).await;
        let mut answers = Vec::new();
        for id in [&session, &unknown] {
            bob.use_session(id);
            let posted = ping(&mut bob).await;
            let streamed = bob.try_event_stream(None).await.is_some();
            let error = posted.1["error"].clone();
            answers.push((posted.0, error, streamed));
        }
        assert_eq!(answers[0], answers[1], "it is as one that does not exist");
        assert_eq!((answers[0].0, answers[0].2), (StatusCode::NOT_FOUND, false));
    }
    // These attempts do not affect the session.
    for index in 0..2 {
        assert_eq!(ping(&mut ada.at(replicas.url(index))).await.0, 200);
    }
    replicas.end().await;
}

#[tokio::test]
async fn a_session_that_is_deleted_at_one_replica_ends_at_all() {
    let replicas = Replicas::start(3).await;
    let mut a = RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    subscribe(&mut a, "a.txt").await;
    let b = a.at(replicas.url(1));
    let mut stream = EventStream::open(&b, None).await;
    assert_eq!(stream.next_file().await, "a.txt");
    a.at(replicas.url(2)).delete_session().await;
    while stream.next().await.is_some() {}
    for index in 0..3 {
        replicas.wait_for_status(&a, index, 404).await;
    }
    replicas.end().await;
}

#[tokio::test]
async fn while_nats_is_gone_own_sessions_go_on_and_those_that_are_not_known_are_503() {
    let mut replicas = Replicas::start(2).await;
    let mut a = RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    subscribe(&mut a, "a.txt").await;
    let mut stream = EventStream::open(&a, None).await;
    replicas.nats.kill().await;
    // A session that this replica knows continues, with subscriptions, reads and changes.
    subscribe(&mut a, "b.txt").await;
    for file in ["a.txt", "b.txt"] {
        replicas.edit(file, "xx");
        while stream.next_file().await != file {}
    }
    a.request("resources/read", json!({ "uri": uri("a.txt") })).await.result();
    // A new session works, too.
    let mut late = RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    subscribe(&mut late, "c.txt").await;
    // A session that a replica does not know may still exist, so every request is answered with 503.
    let mut b = a.at(replicas.url(1));
    let answer = b.request_builder("ping", json!({})).send().await.unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
    assert!(b.try_event_stream(None).await.is_none());
    let mut bob = RawHttp::start_with_token(replicas.url(1), REVISION, BOB).await;
    bob.use_session(a.session_id().unwrap());
    assert_eq!(ping(&mut bob).await.0, 503);

    // When NATS is back, everything done in the meantime is known at all replicas.
    replicas.nats.restart().await;
    replicas.wait_for_status(&a, 1, 200).await;
    replicas.wait_for_status(&late, 1, 200).await;
    let mut late_stream = EventStream::open(&late.at(replicas.url(1)), None).await;
    assert_eq!(late_stream.next_file().await, "c.txt");
    assert_eq!(ping(&mut bob).await.0, 404);
    // The older session is written at the next check of due work.
    let told = async {
        let mut other = EventStream::open(&b, None).await;
        while other.next_file().await != "b.txt" {}
    };
    timeout(TIMEOUT, told).await.expect("the subscription of meanwhile is there");
    replicas.end().await;
}

#[tokio::test]
async fn a_record_that_somebody_forges_gives_nothing_that_its_principal_could_not_have() {
    let replicas = Replicas::start(2).await;
    let ada = RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    let session = ada.session_id().unwrap().to_owned();
    let forged_id = format!("{}{}", "f".repeat(32), &session[32..]);
    let record = |principal: &str, files: &[&str]| {
        let record = json!({
            "principal": principal, "is_built_in": false, "revision": "2025-11-25", "may_subscribe": true,
            "is_initialized": true, "log_level": null, "stream": null,
            "subscriptions": files.iter().map(|file| uri(file)).collect::<Vec<_>>(),
        });
        record.to_string().into_bytes()
    };
    let subject = |id: &str| {
        let key = digest(&SHA256, format!("mcp-host session {id}").as_bytes());
        format!("$KV.mcp-host-test-SESSIONS.{}", hexadecimal(&key.as_ref()[..16]))
    };
    // A forged session for bob: ada cannot use it, and bob gets only the notifications that a subscription permits.
    replicas.nats.publish([(&*subject(&forged_id), record("bob", &["a.txt", "secret.txt", "no.txt"]))]).await;
    let mut thief = RawHttp::start_with_token(replicas.url(1), REVISION, ADA).await;
    thief.use_session(&forged_id);
    assert_eq!(ping(&mut thief).await.0, 404);
    let mut bob = RawHttp::start_with_token(replicas.url(1), REVISION, BOB).await;
    bob.use_session(&forged_id);
    let mut stream = EventStream::open(&bob, None).await;
    assert_eq!(stream.next_file().await, "a.txt");
    for round in 2..5 {
        replicas.edit("secret.txt", &"x".repeat(round));
        replicas.edit("a.txt", &"x".repeat(round));
        assert_eq!(stream.next_file().await, "a.txt", "the other one is denied");
    }
    // Ada's session, overwritten in the bucket: at a replica that does not know it, it becomes a session of bob's; at
    // ada's replica, bob gets nothing.
    replicas.nats.publish([(&*subject(&session), record("bob", &["secret.txt"]))]).await;
    bob.use_session(&session);
    assert_eq!(ping(&mut bob.at(replicas.url(0))).await.0, 404);
    let resources = bob.request("resources/read", json!({ "uri": uri("secret.txt") })).await;
    assert!(resources.message.get("result").is_none(), "{:?}", resources.message);
    assert_eq!(ping(&mut ada.at(replicas.url(0))).await.0, 200, "her session goes on where it is known");
    // A value that is not a record, or is too large, is ignored.
    for value in [b"{}".to_vec(), b"\0".to_vec(), record("bob", &["x"; 3]).repeat(3), vec![b'x'; 500_000]] {
        let other = format!("{}{}", "e".repeat(32), &session[32..]);
        replicas.nats.publish([(&*subject(&other), value)]).await;
        bob.use_session(&other);
        assert_eq!(ping(&mut bob).await.0, 404);
    }
    replicas.end().await;
}

#[tokio::test]
async fn copies_of_sessions_make_room_and_sessions_that_were_opened_here_do_not_end_for_them() {
    let replicas = Replicas::start_with(2, "\n[http.limits]\nsessions = 4\nprincipal-share = \"1/1\"\n").await;
    let mut sessions = Vec::new();
    for number in 0..8 {
        sessions.push(RawHttp::start_with_token(replicas.url(number % 2), REVISION, ADA).await);
    }
    // Each replica is full with its own sessions: the other's sessions are temporarily rejected there, and no session
    // is ended for them.
    for (number, session) in sessions.iter().enumerate() {
        assert_eq!(ping(&mut session.at(replicas.url((number + 1) % 2))).await.0, 503);
    }
    for (number, session) in sessions.iter().enumerate() {
        assert_eq!(ping(&mut session.at(replicas.url(number % 2))).await.0, 200);
    }
    // With room for one session, each can be continued.
    sessions.remove(0).delete_session().await;
    let foreign = [&sessions[0], &sessions[2], &sessions[4], &sessions[6]];
    for session in foreign.into_iter().chain(foreign) {
        assert_eq!(ping(&mut session.at(replicas.url(0))).await.0, 200);
        assert_eq!(ping(&mut session.at(replicas.url(1))).await.0, 200);
    }
    for session in [&sessions[1], &sessions[3], &sessions[5]] {
        assert_eq!(ping(&mut session.at(replicas.url(0))).await.0, 200);
    }
    // A session opened beyond the limit ends the longest idle one, at all replicas.
    for _ in 0..4 {
        RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    }
    replicas.wait_for_status(&sessions[1], 1, 404).await;
    replicas.end().await;
}

#[tokio::test]
async fn a_session_is_kept_while_it_is_used_and_dropped_when_it_is_idle() {
    let replicas = Replicas::start_with(2, "\n[http.limits]\nsession-idle-timeout = \"6s\"\n").await;
    let used = RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    let idle = RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    let stream = EventStream::open(&used, None).await;
    assert_eq!(replicas.nats.messages_of(BUCKET).await, 2);
    // Only the session without a stream is forgotten.
    let dropped = async {
        while replicas.nats.messages_of(BUCKET).await == 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, dropped).await.expect("its record is dropped");
    assert_eq!(ping(&mut idle.at(replicas.url(1))).await.0, 404);
    assert_eq!(ping(&mut used.at(replicas.url(1))).await.0, 200);
    drop(stream);
    replicas.end().await;
}
