//! Sessions that any replica continues (`cluster.sessions = "shared"`), on a real server of NATS.

mod balanced;

use std::fs;
use std::time::Duration;

use mcp_host_tests::{
    ConfigFile, FaultyLink, Folder, HttpServer, LinkFault, NatsServer, Plugin, RawHttp, Revision, Rule, TIMEOUT,
    WrittenConfig,
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
/// The administration, for the metrics.
const ADMIN: &str = "\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = { file = \"token\" }\n";

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
            let config = Self::config(&nats.url(), &folder, more);
            let server = HttpServer::start(&config).await;
            servers.push((Some(server), config));
        }
        Self { nats, folder, servers }
    }

    fn config(nats: &str, folder: &Folder, more: &str) -> WrittenConfig {
        let plugin = Plugin::files("f", folder.path()).set("polling", "shared").set("watch-interval", "500ms");
        let cluster = format!(
            "\n[server.cursor-key]\nfile = \"key\"\n\n[cluster]\nname = \"test\"\nnats = [{nats:?}]\nlease = \"3s\"\nsessions = \"shared\"\n{more}"
        );
        let rule = |name| Rule::for_principal(name).allow(["**"]).deny(["**/secret.txt"]);
        let config = ConfigFile::new().plugin(plugin).rule(rule("ada")).rule(rule("bob"));
        let config = config.principal("ada", ADA).principal("bob", BOB).append(&cluster).write();
        fs::write(config.dir().join("key"), "11".repeat(32)).unwrap();
        fs::write(config.dir().join("token"), "the-token-of-the-administrator-0123456789").unwrap();
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

    /// Waits until a replica, which has [`ADMIN`], counts this number of live replicas.
    async fn wait_for_live(&self, index: usize, count: u32) {
        let line = self.servers[index].0.as_ref().unwrap().log_line("administration at ").await;
        let metrics = format!("{}/metrics", line.split_whitespace().last().unwrap());
        let wanted = format!("mcp_host_cluster_live_replicas{{}} {count}");
        let looking = async {
            while !reqwest::get(&metrics).await.unwrap().text().await.unwrap().lines().any(|line| line == wanted) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(TIMEOUT, looking).await.unwrap_or_else(|_| panic!("not {count} replicas at replica {index}"));
    }

    /// Waits until the bucket of sessions has this number of values, one of which is its history.
    async fn wait_for_values(&self, count: u64) {
        let looking = async {
            while self.nats.messages_of(BUCKET).await != count {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(TIMEOUT, looking).await.unwrap_or_else(|_| panic!("not {count} values"));
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
    assert_eq!(replicas.nats.messages_of(BUCKET).await, 3, "two records, and the history of the bucket");
    // Only the session without a stream is forgotten.
    replicas.wait_for_values(2).await;
    assert_eq!(ping(&mut idle.at(replicas.url(1))).await.0, 404);
    assert_eq!(ping(&mut used.at(replicas.url(1))).await.0, 200);
    drop(stream);
    replicas.end().await;
}

#[tokio::test]
async fn sessions_of_a_replica_that_is_cut_off_are_503_at_others_and_continued_there_when_it_is_back() {
    let mut replicas = Replicas::start_with(1, ADMIN).await;
    let nats = replicas.nats.url();
    let link = FaultyLink::start(nats.strip_prefix("nats://").unwrap().parse().unwrap()).await;
    let config = Replicas::config(&format!("nats://{}", link.address()), &replicas.folder, "");
    replicas.servers.push((Some(HttpServer::start(&config).await), config));
    replicas.wait_for_live(0, 2).await;
    let before = RawHttp::start_with_token(replicas.url(1), REVISION, ADA).await;
    assert_eq!(ping(&mut before.at(replicas.url(0))).await.0, 200);
    let (random, replica) = before.session_id().unwrap().split_once('-').unwrap();
    let unknown = format!("{}-{replica}", "0".repeat(random.len()));
    let mut stranger = before.at(replicas.url(0));
    stranger.use_session(&unknown);
    assert_eq!(ping(&mut stranger).await.0, 404, "the replica that would have opened it says that there is none");

    link.set(LinkFault::Cut);
    // Both in the first moment, and after the silence was noticed.
    let mut sessions = Vec::new();
    for _ in 0..8 {
        let mut session = RawHttp::start_with_token(replicas.url(1), REVISION, ADA).await;
        assert_eq!(ping(&mut session).await.0, 200);
        let answer = session.at(replicas.url(0)).request_builder("ping", json!({})).send().await.unwrap();
        assert_eq!(answer.status(), 503);
        assert!(answer.headers().contains_key("retry-after"));
        sessions.push(session);
    }
    replicas.wait_for_live(0, 1).await;
    assert_eq!(ping(&mut sessions[0].at(replicas.url(0))).await.0, 503);
    assert_eq!(ping(&mut before.at(replicas.url(0))).await.0, 200, "its record was written");

    link.set(LinkFault::None);
    for session in &sessions {
        let mut other = session.at(replicas.url(0));
        let looking = async {
            loop {
                match ping(&mut other).await.0.as_u16() {
                    200 => break,
                    status => assert_eq!(status, 503),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(TIMEOUT, looking).await.expect("its record is written");
    }
    replicas.wait_for_status(&stranger, 0, 404).await;
    replicas.end().await;
}

#[tokio::test]
async fn sessions_that_have_ended_leave_nothing_in_the_bucket() {
    let replicas = Replicas::start_with(1, "\n[http.limits]\nsessions = 4\nprincipal-share = \"1/1\"\n").await;
    for _ in 0..20 {
        RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    }
    replicas.wait_for_values(5).await;
    replicas.end().await;
}

#[tokio::test]
async fn a_full_bucket_is_in_the_log_and_sessions_without_a_record_are_503_until_there_is_room() {
    let mut replicas = Replicas::start_with(0, "").await;
    replicas
        .nats
        .create_stream(&json!({
            "name": BUCKET, "subjects": ["$KV.mcp-host-test-SESSIONS.>"], "max_msgs_per_subject": 1, "discard": "new",
            "max_msgs": 3, "allow_msg_ttl": true, "allow_direct": true, "storage": "file", "num_replicas": 1,
        }))
        .await;
    for _ in 0..2 {
        let config = Replicas::config(&replicas.nats.url(), &replicas.folder, ADMIN);
        replicas.servers.push((Some(HttpServer::start(&config).await), config));
    }
    replicas.wait_for_live(1, 2).await;
    // There is room for the history of the bucket, and for two of ada's.
    let mut of_ada = Vec::new();
    for _ in 0..2 {
        of_ada.push(RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await);
    }
    let mut of_bob = RawHttp::start_with_token(replicas.url(0), REVISION, BOB).await;
    let line = replicas.servers[0].0.as_ref().unwrap().log_line("NATS refuses records of shared sessions").await;
    assert!(line.contains("WARN"), "{line}");
    assert_eq!(ping(&mut of_bob).await.0, 200);
    for session in &of_ada {
        assert_eq!(ping(&mut session.at(replicas.url(1))).await.0, 200);
    }
    // After the next heartbeat of its opener, the session is known to exist.
    let mut elsewhere = of_bob.at(replicas.url(1));
    for _ in 0..4 {
        assert_eq!(ping(&mut elsewhere).await.0, 503);
    }
    of_ada.remove(0).delete_session().await;
    replicas.wait_for_status(&of_bob, 1, 200).await;
    replicas.end().await;
}

#[tokio::test]
async fn what_a_session_subscribes_to_elsewhere_is_charged_where_it_was_opened() {
    // One principal may use a quarter of the budget: six subscriptions of this length.
    let limits = "\n[http.limits]\nsubscription-memory = \"64KiB\"\nprincipal-share = \"1/4\"\n";
    let replicas = Replicas::start_with(3, limits).await;
    let file = |number: u32| format!("{number:0>190}");
    for number in 0..7 {
        replicas.folder.write(file(number), "text");
    }
    let [mut one, mut other] = [
        RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await,
        RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await,
    ];
    let mut one_elsewhere = one.at(replicas.url(1));
    for number in 0..4 {
        subscribe(&mut one_elsewhere, &file(number)).await;
    }
    // The state of the record that its opener has read is what counts.
    assert_eq!(ping(&mut one).await.0, 200);
    let mut other_elsewhere = other.at(replicas.url(2));
    for number in 4..7 {
        subscribe(&mut other_elsewhere, &file(number)).await;
    }
    let log = replicas.servers[0].0.as_ref().unwrap();
    let line = log.log_line("its subscriptions at other replicas exceed the share").await;
    assert!(line.contains("WARN"), "{line}");
    let statuses = [ping(&mut one).await.0.as_u16(), ping(&mut other).await.0.as_u16()];
    assert!([[200, 404], [404, 200]].contains(&statuses), "{statuses:?}");
    replicas.end().await;
}

#[tokio::test]
async fn two_spellings_of_a_resource_are_told_of_once_and_cancelled_together() {
    let replicas = Replicas::start(2).await;
    let mut a = RawHttp::start_with_token(replicas.url(0), REVISION, ADA).await;
    subscribe(&mut a, "a.txt").await;
    let other_spelling = json!({ "uri": uri("a.txt").replace("files:", "FILES:") });
    a.request("resources/subscribe", other_spelling.clone()).await.result();
    let mut b = a.at(replicas.url(1));
    let mut stream = EventStream::open(&b, None).await;
    assert_eq!(stream.next_file().await, "a.txt");
    // The record is read again for each change.
    subscribe(&mut a, "b.txt").await;
    let told = stream.files_until("b.txt").await;
    assert!(!told.contains(&"a.txt".to_owned()), "{told:?}");
    b.request("resources/unsubscribe", other_spelling).await.result();
    subscribe(&mut b, "c.txt").await;
    replicas.edit("a.txt", "xx");
    replicas.edit("c.txt", "xx");
    let told = stream.files_until("c.txt").await;
    assert!(!told.contains(&"a.txt".to_owned()), "{told:?}");
    replicas.end().await;
}
