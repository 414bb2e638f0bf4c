//! The engine against a real server, `target/clients/nats/bin/nats-server`, which `cargo xtask clients` installs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use async_nats::HeaderMap;
use mcp_host_base::shared_buckets::{BucketError, BucketLimits, Expected, SharedBuckets};
use mcp_host_base::shared_snapshots::{Published, SNAPSHOT_LIFETIME, Slot, Snapshot, SnapshotStore};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio::time::timeout;

use super::bucket::MAX_AGE;
use super::*;
use crate::engine::conformance;
use crate::member::{Found, OwnPolled, Plan, RoleName};
use crate::memory::MemoryPool;
use crate::record::MAX_RECORD_BYTES;
use crate::replica::ReplicaId;
use crate::share::{ShardName, SharedPolls};

/// Enough for a busy machine.
const TIMEOUT: Duration = Duration::from_mins(5);

/// A server on a free port of loopback, with its data in a temporary directory.
struct Server {
    process: Child,
    url: String,
    // Removed after the process has ended.
    _data: tempfile::TempDir,
}

impl Server {
    async fn start(arguments: &[&str]) -> Self {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let program = target.join("clients/nats/bin/nats-server");
        assert!(program.is_file(), "there is no {}: run `cargo xtask clients`", program.display());
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args(["--addr", "127.0.0.1", "--port", "-1", "--jetstream", "--store_dir"]).arg(data.path());
        command.arg("--ports_file_dir").arg(data.path()).args(arguments).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let ports = data.path().join(format!("nats-server_{}.ports", process.id()));
        let url = Self::url(&ports).await;
        Self { process, url, _data: data }
    }

    async fn url(ports: &PathBuf) -> String {
        let began = Instant::now();
        while began.elapsed() < TIMEOUT {
            let read = std::fs::read(ports).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            if let Some(ports) = read {
                let ports: serde_json::Value = ports;
                return ports["nats"][0].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server does not say its port");
    }

    fn connect(&self, login: Login) -> Nats {
        self.connect_with(login, &[])
    }

    /// Connects with these authorities; over TLS, if there are any.
    fn connect_with(&self, login: Login, ca: &[CertificateDer<'static>]) -> Nats {
        let url = if ca.is_empty() { self.url.clone() } else { self.url.replace("nats://", "tls://") };
        let (bucket, timeout) = ("mcp-host-test".to_owned(), Duration::from_secs(10));
        Nats::new(NatsOptions { servers: vec![url], login, ca: ca.to_vec(), bucket, timeout }).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn messages_that_wait_for_different_subscribers_share_their_memory() {
    let pool = Arc::new(MemoryPool::new(10));
    let waiting = || Waiting { memory: MemoryShare::of(pool.clone()), ..Waiting::default() };
    let (mut one, mut other) = (waiting(), waiting());
    for length in [2, 4] {
        assert!(one.make_room(length));
        one.add(length);
    }
    assert!(!other.make_room(5), "further messages are lost");
    assert!(other.make_room(4));
    other.add(4);
    // The first message of the one was taken.
    one.keep(1);
    assert!(other.make_room(2) && !other.make_room(3));
    drop(one);
    assert!(other.make_room(6) && !other.make_room(CAPACITY_BYTES));
}

/// Waits until there is a usable connection.
async fn connected(engine: &Nats) {
    while let Err(error) = engine.get("nothing").await {
        assert!(matches!(error, EngineError::NoAnswer(_)), "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn nats_is_an_engine() {
    let server = Server::start(&[]).await;
    let engines = [server.connect(Login::None), server.connect(Login::None)];
    for engine in &engines {
        connected(engine).await;
    }
    let [one, other] = engines;
    conformance::check(one.clone(), other.clone()).await;
    let sessions = |engine: Nats| engine.with_session_bucket("mcp-host-test-SESSIONS".to_owned());
    conformance::check_expiry(sessions(one), sessions(other)).await;
}

impl Server {
    fn buckets(&self) -> NatsBuckets {
        let options = NatsOptions {
            servers: vec![self.url.clone()],
            login: Login::None,
            ca: Vec::new(),
            bucket: String::new(),
            timeout: Duration::from_secs(10),
        };
        NatsBuckets::new(options, "test").unwrap()
    }
}

#[tokio::test]
async fn nats_is_a_store_of_buckets() {
    let server = Server::start(&[]).await;
    conformance::buckets::check(&server.buckets(), &server.buckets()).await;
}

impl Server {
    fn snapshots(&self) -> NatsSnapshots {
        let options = NatsOptions {
            servers: vec![self.url.clone()],
            login: Login::None,
            ca: Vec::new(),
            bucket: "mcp-host-test".to_owned(),
            timeout: Duration::from_secs(10),
        };
        NatsSnapshots::new(options, "test", Duration::from_secs(50)).unwrap()
    }
}

#[tokio::test]
async fn nats_is_a_store_of_snapshots() {
    let server = Server::start(&[]).await;
    conformance::snapshots::check(&server.snapshots(), &server.snapshots()).await;
}

#[tokio::test]
async fn the_object_store_drops_what_nobody_writes_again() {
    let server = Server::start(&[]).await;
    server.snapshots().place("ab").append(Slot::A, b"a chunk".to_vec()).await.unwrap();
    let engine = server.connect(Login::None);
    connected(&engine).await;
    let info = "$JS.API.STREAM.INFO.OBJ_mcp-host-test-SEARCH".to_owned();
    let config = engine.request(info, HeaderMap::new(), Vec::new()).await.unwrap().config.unwrap();
    assert_eq!(config["max_age"], u64::try_from(SNAPSHOT_LIFETIME.as_nanos()).unwrap());
    assert_eq!(config["max_bytes"], 1_u64 << 30);
}

#[tokio::test]
async fn what_others_write_into_the_object_store_is_no_snapshot_and_is_replaced() {
    let server = Server::start(&[]).await;
    let place = server.snapshots().place("ab");
    place.append(Slot::A, b"a chunk".to_vec()).await.unwrap();
    let engine = server.connect(Login::None);
    connected(&engine).await;
    let publish = async |subject: &str, value: &[u8]| {
        let subject = format!("$O.mcp-host-test-SEARCH.{subject}");
        engine.request(subject, HeaderMap::new(), value.to_vec()).await.unwrap()
    };
    publish("M.YWI=", b"garbage").await;
    let Ok(Published::Invalid { revision, .. }) = place.published().await else { panic!("it is not a description") };
    let snapshot = Snapshot { slot: Slot::A, chunks: 1, bytes: 7, digest: [0; 32], seal: Vec::new() };
    assert!(place.publish(snapshot.clone(), None).await.is_err());
    place.publish(snapshot, Some(revision)).await.unwrap();
    // An object of another client that is deleted.
    publish("M.YWI=", br#"{"name":"ab","bucket":"b","nuid":"aba","size":0,"chunks":0,"deleted":true}"#).await;
    assert!(matches!(place.published().await, Ok(Published::Invalid { .. })));
}

#[tokio::test]
async fn what_others_write_into_a_bucket_is_neither_listed_nor_read_as_a_key() {
    let server = Server::start(&[]).await;
    let limits = BucketLimits { bytes: 64 << 20, keys: 1000 };
    let bucket = server.buckets().bucket("web", "pages", limits);
    bucket.put("a", b"1".to_vec(), Expected::Absent).await.unwrap();
    let engine = server.connect(Login::None);
    connected(&engine).await;
    let publish = async |token: &str, headers: HeaderMap, value: &[u8]| {
        let subject = format!("$KV.mcp-host-test-KV-web-pages.{token}");
        engine.request(subject, headers, value.to_vec()).await.unwrap()
    };
    for token in ["not-base64-of-a-key", "a.b", "_w", "history"] {
        publish(token, HeaderMap::new(), b"garbage").await;
    }
    let page = bucket.keys_after(0, 100).await.unwrap();
    assert_eq!((page.keys, page.next), (vec!["a".to_owned()], None));
    // One page may have entries of others only.
    let page = bucket.keys_after(1, 2).await.unwrap();
    assert!(page.keys.is_empty() && page.next.is_some(), "{page:?}");
    // A deletion marker, as `nats kv del` writes it, with the token of the key `a`.
    let mut deleted = HeaderMap::new();
    deleted.insert("KV-Operation", "DEL");
    publish("YQ", deleted, b"").await;
    assert_eq!(bucket.get("a").await.unwrap(), None);
    assert_eq!(bucket.keys_after(0, 100).await.unwrap().keys, Vec::<String>::new());
    bucket.put("a", b"2".to_vec(), Expected::Absent).await.unwrap();
    assert_eq!(bucket.get("a").await.unwrap().unwrap().value, b"2");
    // A value that another client has written under the name of a key is a value.
    publish("YQ", HeaderMap::new(), b"\xff\0").await;
    assert_eq!(bucket.get("a").await.unwrap().unwrap().value, b"\xff\0");
}

#[tokio::test]
async fn a_page_ends_before_the_headers_that_others_write_exceed_its_bytes_and_the_next_one_goes_on() {
    let server = Server::start(&[]).await;
    let limits = BucketLimits { bytes: 64 << 20, keys: 1000 };
    let bucket = server.buckets().bucket("web", "pages", limits);
    bucket.put("a", b"1".to_vec(), Expected::Absent).await.unwrap();
    let engine = server.connect(Login::None);
    connected(&engine).await;
    // The requests to make and to delete consumers. The server has the subscription before the next request.
    let client = engine.connection.connected().await.unwrap();
    let mut requests = client.subscribe("$JS.API.CONSUMER.*.KV_mcp-host-test-KV-web-pages.*").await.unwrap();
    for number in 0..40 {
        let mut headers = HeaderMap::new();
        // JetStream stores headers of less than 64 KiB. Two of these messages fit into a pull, and a page has 16 pulls.
        headers.insert("X-Filler", "x".repeat(60_000));
        let subject = format!("$KV.mcp-host-test-KV-web-pages.filler-{number}");
        let answer = engine.request(subject, headers, Vec::new()).await.unwrap();
        assert!(answer.error.is_none(), "{:?}", answer.error);
    }
    bucket.put("b", b"2".to_vec(), Expected::Absent).await.unwrap();
    let (mut keys, mut next, mut pages) = (Vec::new(), Some(0), 0);
    while let Some(revision) = next {
        let page = bucket.keys_after(revision, 1000).await.unwrap();
        keys.extend(page.keys);
        (next, pages) = (page.next, pages + 1);
    }
    assert_eq!((keys, pages), (vec!["a".to_owned(), "b".to_owned()], 2));
    // The consumer of each page is deleted at its end, and not only by the server after its lifetime.
    let mut requested = Vec::new();
    for _ in 0..2 * pages {
        let request = timeout(TIMEOUT, requests.next()).await.unwrap().unwrap();
        let words: Vec<String> = request.subject.split('.').map(str::to_owned).collect();
        requested.push([words[3].clone(), words[5].clone()]);
    }
    let consumers = |action: &str| {
        let of_action = requested.iter().filter(|[requested, _]| requested == action);
        of_action.map(|[_, consumer]| consumer.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!(consumers("CREATE").len(), pages, "{requested:?}");
    assert_eq!(consumers("CREATE"), consumers("DELETE"), "{requested:?}");
    let deleted = async {
        loop {
            let names = "$JS.API.CONSUMER.NAMES.KV_mcp-host-test-KV-web-pages";
            let names = client.request(names, "".into()).await.unwrap();
            let names: serde_json::Value = serde_json::from_slice(&names.payload).unwrap();
            if names["total"] == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, deleted).await.expect("the consumers are deleted");
}

#[tokio::test]
async fn a_bucket_that_is_gone_is_made_again_and_one_without_a_server_fails_in_time() {
    let mut server = Server::start(&[]).await;
    let limits = BucketLimits { bytes: 64 << 20, keys: 1000 };
    let bucket = server.buckets().bucket("web", "pages", limits);
    bucket.put("a", b"1".to_vec(), Expected::Any).await.unwrap();
    let engine = server.connect(Login::None);
    connected(&engine).await;
    let subject = "$JS.API.STREAM.DELETE.KV_mcp-host-test-KV-web-pages".to_owned();
    engine.request(subject, HeaderMap::new(), Vec::new()).await.unwrap();
    assert_eq!(bucket.get("a").await.unwrap(), None);
    bucket.put("a", b"2".to_vec(), Expected::Absent).await.unwrap();
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    let began = Instant::now();
    while !matches!(bucket.get("a").await, Err(BucketError::NoAnswer(_))) {
        assert!(began.elapsed() < TIMEOUT);
    }
    let began = Instant::now();
    assert!(matches!(bucket.put("a", Vec::new(), Expected::Any).await, Err(BucketError::NoAnswer(_))));
    // Its time is 10 s.
    assert!(began.elapsed() < Duration::from_mins(1), "a request ends within its time");
}

#[tokio::test]
async fn a_key_that_an_admin_has_deleted_is_none_and_can_be_created() {
    let server = Server::start(&[]).await;
    let engine = server.connect(Login::None);
    connected(&engine).await;
    engine.write("key", b"a".to_vec(), None).await.unwrap();
    let mut deleted = HeaderMap::new();
    deleted.insert("KV-Operation", "DEL");
    engine.request("$KV.mcp-host-test.key".to_owned(), deleted, Vec::new()).await.unwrap();
    assert_eq!(engine.get("key").await.unwrap(), None);
    let revision = engine.write("key", b"b".to_vec(), None).await.unwrap();
    assert_eq!(engine.get("key").await.unwrap(), Some(Entry { revision, value: b"b".to_vec() }));
}

/// Polls a provider without changes, until the replica has the role and has made `own_polls` own polls.
async fn poll_until(polls: &SharedPolls, role: RoleName, own_polls: u64) {
    while polls.role() != role || polls.stats().member.own_polls < own_polls {
        match polls.begin_poll() {
            Plan::Own { .. } => polls.own_polled(OwnPolled::Complete),
            Plan::Shared(_) => polls.shared_polled(Found { tokens: vec![None], ..Found::default() }, true),
            Plan::Nothing => {}
        }
        // Waits for the interval of polls, unless there are news earlier.
        let _ = tokio::time::timeout(Duration::from_millis(10), polls.wait_for_news()).await;
        polls.take_news();
    }
}

#[tokio::test]
async fn while_the_bucket_is_full_a_replica_polls_for_itself_and_afterwards_for_all() {
    let server = Server::start(&[]).await;
    let engine = server.connect(Login::None);
    connected(&engine).await;
    engine.write("filler", vec![0; 4096], None).await.unwrap();
    let resize = async |max_bytes: i64| {
        let config = serde_json::json!({
            "name": "KV_mcp-host-test", "subjects": ["$KV.mcp-host-test.>"], "max_msgs_per_subject": 1, "discard": "new",
            "max_bytes": max_bytes, "max_age": u64::try_from(MAX_AGE.as_nanos()).unwrap(), "max_msg_size": MAX_RECORD_BYTES,
            "deny_delete": true, "allow_rollup_hdrs": true, "allow_direct": true, "storage": "file", "num_replicas": 1,
        });
        let subject = "$JS.API.STREAM.UPDATE.KV_mcp-host-test".to_owned();
        let answer = engine.request(subject, HeaderMap::new(), config.to_string().into_bytes()).await.unwrap();
        assert!(answer.error.is_none(), "{:?}", answer.error);
    };
    resize(4200).await;
    assert!(matches!(engine.write("key", vec![0; 100], None).await, Err(EngineError::Refused(_))));
    let shard = ShardName::new("test", [b"x".as_slice()], 0);
    let polls = SharedPolls::start(engine.clone(), ReplicaId::new(1), shard, Duration::from_millis(600));
    polls.watch(BTreeSet::from(["a".into()]), 1);
    poll_until(&polls, RoleName::Alone, 20).await;
    assert!(polls.stats().failed > 0, "it has tried to take the lease");
    resize(-1).await;
    poll_until(&polls, RoleName::Holding, 0).await;
    // A bucket that becomes full takes the lease from its holder, which then polls for itself.
    resize(1).await;
    poll_until(&polls, RoleName::Alone, 0).await;
    let before = polls.stats().member.own_polls;
    poll_until(&polls, RoleName::Alone, before + 20).await;
}

#[tokio::test]
async fn different_replicas_poll_the_shards_of_a_plugin_on_a_server_and_no_change_is_lost() {
    let server = Server::start(&[]).await;
    connected(&server.connect(Login::None)).await;
    crate::shards::tests::check(|| server.connect(Login::None)).await;
}

#[tokio::test]
async fn a_server_is_told_who_connects_and_refuses_others() {
    let server = Server::start(&["--user", "host", "--pass", "hunter2"]).await;
    let login = |password: &str| Login::Password("host".to_owned(), password.to_owned());
    assert_eq!(format!("{:?}", login("hunter2")), "Password(…)");
    let engine = server.connect(login("hunter2"));
    connected(&engine).await;
    let other = server.connect(login("wrong"));
    assert!(matches!(other.get("nothing").await, Err(EngineError::NoAnswer(_))));
    assert!(!other.is_connected());
}

#[tokio::test]
async fn without_a_server_requests_fail_and_nothing_waits_for_one() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let servers = vec![format!("nats://{nowhere}")];
    let options = |servers| NatsOptions {
        servers,
        login: Login::None,
        ca: Vec::new(),
        bucket: "test".to_owned(),
        timeout: Duration::from_secs(10),
    };
    let engine = Nats::new(options(servers)).unwrap();
    assert!(matches!(engine.get("key").await, Err(EngineError::NoAnswer(_))));
    assert!(matches!(engine.publish("mcp.test", Vec::new()).await, Err(EngineError::NoAnswer(_))));
    assert!(matches!(Nats::new(options(vec!["nats://a b".to_owned()])), Err(NatsError::Url(_))));
}

/// A certificate authority.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// Starts a server with a certificate for this name, which has expired if `is_expired`.
    async fn server(&self, name: &str, is_expired: bool) -> Server {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if is_expired {
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = tempfile::tempdir().unwrap();
        let [pem, key_pem] = ["cert.pem", "key.pem"].map(|name| files.path().join(name));
        std::fs::write(&pem, certificate.pem()).unwrap();
        std::fs::write(&key_pem, key.serialize_pem()).unwrap();
        let [pem, key_pem] = [&pem, &key_pem].map(|file| file.to_str().unwrap());
        // The server logs that it is listening after it has read the files.
        Server::start(&["--tls", "--tlscert", pem, "--tlskey", key_pem]).await
    }
}

#[tokio::test]
async fn over_tls_a_server_is_an_engine_if_the_authority_is_trusted() {
    let authority = Authority::new();
    let server = authority.server("127.0.0.1", false).await;
    let ca = [authority.certificate.clone()];
    let engines = [server.connect_with(Login::None, &ca), server.connect_with(Login::None, &ca)];
    for engine in &engines {
        connected(engine).await;
    }
    let [one, other] = engines;
    conformance::check(one, other).await;
}

#[tokio::test]
async fn a_server_of_another_authority_or_name_or_whose_certificate_has_expired_is_no_engine() {
    let (authority, other) = (Authority::new(), Authority::new());
    let trusted = [authority.certificate.clone()];
    for server in [
        other.server("127.0.0.1", false).await,
        authority.server("n1.example", false).await,
        authority.server("127.0.0.1", true).await,
    ] {
        let engine = server.connect_with(Login::None, &trusted);
        // The first request begins to connect; by the second attempt, the first has failed.
        for _ in 0..2 {
            assert!(matches!(engine.get("nothing").await, Err(EngineError::NoAnswer(_))));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert!(!engine.is_connected());
    }
}
