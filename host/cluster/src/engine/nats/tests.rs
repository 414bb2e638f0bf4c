//! The engine against a real server, `target/clients/nats/bin/nats-server`, which `cargo xtask clients` installs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;
use crate::engine::conformance;

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
        while began.elapsed() < Duration::from_secs(30) {
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
        let servers = vec![self.url.clone()];
        let (bucket, timeout) = ("mcp-host-test".to_owned(), Duration::from_secs(10));
        Nats::new(NatsOptions { servers, login, ca: Vec::new(), bucket, timeout }).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until there is a connection that can be used.
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
    conformance::check(one, other).await;
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
