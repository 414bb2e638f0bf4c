//! The administration listener: liveness and readiness, which clients get reasons, and when the states change.

mod api;
mod commands;
mod console;
mod insight;
mod requests;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use futures::FutureExt as _;
use mcp_host_tests::{
    CertificateAuthority, ConfigFile, Connection, HttpServer, Plugin, RawStdio, Revision, host_command,
};
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

const REVISION: Revision = Revision::V_2026_07_28;
const LOOPBACK: &str = "\n[admin]\nlisten = \"127.0.0.1:0\"\n";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server with an administration listener.
struct Administered {
    server: HttpServer,
    /// The address of the listener.
    address: String,
}

impl Administered {
    async fn start(config: &mcp_host_tests::WrittenConfig) -> Self {
        Self::of(HttpServer::start(config).await).await
    }

    async fn of(server: HttpServer) -> Self {
        let line = server.log_line("administration at ").await;
        let address = line.split_whitespace().last().unwrap().split("://").last().unwrap().to_owned();
        Self { server, address }
    }

    /// Returns the status and the body of a request with additional header lines.
    async fn get(&self, path: &str, headers: &str) -> (u16, String) {
        let tcp = TcpStream::connect(&self.address).await.unwrap();
        request(tcp, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")).await
    }

    async fn ready(&self) -> u16 {
        self.get("/readyz", "").await.0
    }
}

/// Sends a request, and returns the status and the body of the answer.
async fn request(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, head: &str) -> (u16, String) {
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A component that cannot be loaded.
fn broken(folder: &Path) -> Plugin {
    let file = folder.join("broken.wasm");
    fs::write(&file, "no component").unwrap();
    Plugin::new("broken", &file, "broken:///")
}

fn with_token(dir: &Path) -> String {
    let file = dir.join("admin.token");
    fs::write(&file, TOKEN).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    format!("{LOOPBACK}token = {{ file = {file:?} }}\n")
}

#[tokio::test]
async fn a_server_is_ready_although_a_plugin_that_is_not_required_cannot_be_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = ConfigFile::new().plugin(Plugin::sample("a").set("required", true)).plugin(broken(folder.path()));
    let config = plugins.append(LOOPBACK).write();
    let admin = Administered::start(&config).await;
    assert_eq!(admin.get("/livez", "").await, (200, "ok\n".to_owned()));
    assert_eq!(admin.get("/readyz", "").await, (200, "ready\n".to_owned()));
    assert_eq!(admin.get("/mcp", "").await.0, 404);
    assert_eq!(reqwest::get(admin.server.url_for("/livez")).await.unwrap().status(), StatusCode::NOT_FOUND);
    admin.server.end().await;
}

#[tokio::test]
async fn reasons_for_not_being_ready_are_given_only_with_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = broken(folder.path()).set("required", true);
    let config = ConfigFile::new().plugin(plugin).append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    assert_eq!(admin.get("/livez", "").await.0, 200);
    for wrong in ["", "Authorization: Bearer 0123456789abcdef0123456789abcdee\r\n", "Authorization: Bearer \r\n"] {
        assert_eq!(admin.get("/readyz", wrong).await, (503, "not ready\n".to_owned()), "{wrong}");
    }
    let (status, reasons) = admin.get("/readyz", &format!("Authorization: Bearer {TOKEN}\r\n")).await;
    assert_eq!((status, reasons.lines().count()), (503, 1), "{reasons}");
    assert!(reasons.starts_with("plugin `broken` could not be loaded: "), "{reasons}");
    admin.server.end().await;
}

#[tokio::test]
async fn the_owner_of_the_unix_socket_needs_no_token_also_of_a_server_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let plugin = broken(folder.path()).set("required", true);
    let config =
        ConfigFile::new().plugin(plugin).append(&format!("\n[admin]\nlisten = \"unix:{}\"\n", socket.display()));
    let wire = RawStdio::start(&config.write(), REVISION).await;
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let stream = UnixStream::connect(&socket).await.unwrap();
    let (status, reasons) = request(stream, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(status == 503 && reasons.starts_with("plugin `broken`"), "{status} {reasons}");
    wire.end().await;
    assert!(!socket.exists());
}

#[tokio::test]
async fn pages_of_other_sites_and_rebound_names_are_refused() {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(LOOPBACK).write();
    let admin = Administered::start(&config).await;
    assert_eq!(admin.get("/readyz", "Origin: https://evil.example\r\n").await.0, 403);
    assert_eq!(admin.get("/readyz", "Origin: null\r\n").await.0, 403);
    for (host, status) in [("evil.example", 403), ("localhost@evil.example", 400), ("10.0.0.7:9464", 200)] {
        let tcp = TcpStream::connect(&admin.address).await.unwrap();
        let answer = request(tcp, &format!("GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        assert_eq!(answer.0, status, "{host}");
    }
    let tcp = TcpStream::connect(&admin.address).await.unwrap();
    assert_eq!(request(tcp, "POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").await.0, 405);
    admin.server.end().await;
}

#[tokio::test]
async fn clients_are_served_during_the_drain_delay_while_the_server_is_not_ready() {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).allow_all().server("drain-delay", "3s");
    let config = config.append(LOOPBACK).write();
    let admin = Administered::start(&config).await;
    assert_eq!(admin.ready().await, 200);
    admin.server.signal(Signal::TERM);
    admin.server.log_line("`server.drain-delay`").await;
    assert_eq!(admin.ready().await, 503);
    let mut client = admin.server.uninitialized(REVISION);
    let response = client.request("resources/read", json!({ "uri": "sample://a/plain" })).await;
    assert!(response.result()["contents"].is_array());
    let log = admin.server.wait_clean_exit().await.log;
    let (delay, shutdown) = (log.find("`server.drain-delay`"), log.find("graceful shutdown"));
    assert!(delay.is_some() && delay < shutdown, "{log}");
}

#[tokio::test]
async fn probes_are_answered_without_tls_and_nothing_else_is() {
    let authority = CertificateAuthority::new();
    let files = "tls = { certificate = \"cert.pem\", key = \"key.pem\" }\n";
    // The same files for which `tls` writes the config.
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&format!("{LOOPBACK}{files}")).write();
    config.write_certificate(&authority.issue("localhost"));
    let admin = Administered::start(&config).await;
    assert_eq!(admin.get("/livez", "").await.0, 200);
    assert_eq!(admin.get("/readyz", "").await.0, 200);
    assert_eq!(admin.get("/other", "").await, (403, "use https\n".to_owned()));
    let mut connection = Connection::tls(&admin.address, &authority, &[]).await;
    let url = format!("https://localhost:{}/livez", admin.address.rsplit(':').next().unwrap());
    assert_eq!(connection.send(reqwest::Client::new().get(url)).await.status(), StatusCode::OK);
    admin.server.end().await;
}

#[tokio::test]
async fn metrics_at_an_address_beyond_loopback_need_the_token_over_tls() {
    let (authority, folder) = (CertificateAuthority::new(), tempfile::tempdir().unwrap());
    let listen = with_token(folder.path()).replace("127.0.0.1", "0.0.0.0");
    let files = "tls = { certificate = \"cert.pem\", key = \"key.pem\" }\n";
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&format!("{listen}{files}")).write();
    config.write_certificate(&authority.issue("localhost"));
    let mut admin = Administered::start(&config).await;
    admin.address = admin.address.replace("0.0.0.0", "127.0.0.1");
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(admin.get("/metrics", &token).await, (403, "use https\n".to_owned()));
    let url = format!("https://localhost:{}/metrics", admin.address.rsplit(':').next().unwrap());
    let get = async |token: &str| {
        let mut connection = Connection::tls(&admin.address, &authority, &[]).await;
        connection.send(reqwest::Client::new().get(&url).bearer_auth(token)).await.status()
    };
    assert_eq!(get("0123456789abcdef0123456789abcdee").await, StatusCode::UNAUTHORIZED);
    assert_eq!(get(TOKEN).await, StatusCode::OK);
    admin.server.end().await;
}

#[tokio::test]
async fn an_address_in_use_names_the_key_that_has_it() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = other.local_addr().unwrap();
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&format!("\n[admin]\nlisten = \"{address}\"\n"));
    let config = config.write();
    let mut command = host_command();
    command.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(config.path()).stdin(Stdio::null());
    let ended = command.output().await.unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success());
    assert!(stderr.contains(&format!("cannot listen on {address} (`admin.listen`)")), "{stderr}");
    assert!(stderr.contains("name another port in `admin.listen`"), "{stderr}");
}

#[tokio::test]
async fn idle_connections_do_not_keep_probes_from_an_answer() {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(LOOPBACK).write();
    let admin = Administered::start(&config).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(&admin.address).await.unwrap());
    }
    assert_eq!(admin.get("/livez", "").await.0, 200);
    // The probe displaced the oldest idle connection without waiting for any.
    assert_eq!(idle[0].read(&mut [0]).await.unwrap_or(0), 0);
    let mut last = [0];
    assert!(idle[199].read(&mut last).now_or_never().is_none(), "the newest one is open");
    admin.server.end().await;
}
