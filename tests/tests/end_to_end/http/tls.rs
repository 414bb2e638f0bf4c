//! HTTPS: the negotiated protocol, and the certificate.

use std::fs;

use mcp_host_tests::{CertificateAuthority, ConfigFile, Connection, HttpServer, Plugin, Revision, WrittenConfig};
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const REVISION: Revision = Revision::V_2026_07_28;

fn config() -> ConfigFile {
    ConfigFile::new().plugin(Plugin::sample("a")).allow_all().tls()
}

/// A server with a certificate issued by this authority.
async fn start(authority: &CertificateAuthority) -> (WrittenConfig, HttpServer) {
    let config = config().write();
    config.write_certificate(&authority.issue("localhost"));
    let server = HttpServer::start(&config).await;
    (config, server)
}

/// Reads a resource over a connection.
async fn read(server: &HttpServer, connection: &mut Connection) -> Value {
    let uri = json!({ "uri": "sample://a/plain" });
    let answer = connection.send(server.uninitialized(REVISION).request_builder("resources/read", uri)).await;
    assert_eq!(answer.status(), StatusCode::OK);
    serde_json::from_slice(answer.body()).unwrap()
}

#[tokio::test]
async fn clients_over_tls_choose_between_http2_and_http1() {
    let authority = CertificateAuthority::new();
    let (_config, server) = start(&authority).await;
    assert!(server.url().starts_with("https://"), "{}", server.url());
    let choices: [(&[&str], _); 4] = [
        (&["h2", "http/1.1"], Some("h2")),
        (&["http/1.1", "h2"], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&[], None),
    ];
    for (offered, chosen) in choices {
        let mut connection = Connection::tls(server.address(), &authority, offered).await;
        assert_eq!(connection.alpn_protocol(), chosen);
        assert!(read(&server, &mut connection).await["result"]["contents"].is_array());
    }
    server.end().await;
}

#[tokio::test]
async fn who_speaks_plain_http_where_tls_is_spoken_gets_nothing_and_others_are_served() {
    let authority = CertificateAuthority::new();
    let (_config, server) = start(&authority).await;
    let mut plain = TcpStream::connect(server.address()).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // A TLS alert and a reset are both acceptable.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("ok"), "{answer:?}");
    read(&server, &mut Connection::tls(server.address(), &authority, &[]).await).await;
    server.end().await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_those_who_connect_and_nobody_who_is_connected_notices() {
    let authority = CertificateAuthority::new();
    let (config, server) = start(&authority).await;
    let mut before = Connection::tls(server.address(), &authority, &["h2"]).await;
    let next = authority.issue("localhost");
    config.write_certificate(&next);
    server.log_line("http=true").await;
    let mut after = Connection::tls(server.address(), &authority, &["h2"]).await;
    assert_eq!(after.certificate(), Some(next.der()));
    assert_ne!(before.certificate(), Some(next.der()));
    assert_eq!(read(&server, &mut before).await["result"], read(&server, &mut after).await["result"]);
    server.end().await;
}

#[tokio::test]
async fn a_broken_certificate_changes_nothing_but_the_log_and_a_right_one_counts_again() {
    let authority = CertificateAuthority::new();
    let (config, server) = start(&authority).await;
    let first = Connection::tls(server.address(), &authority, &[]).await;
    fs::write(config.dir().join("cert.pem"), "no certificate").unwrap();
    server.log_line("the file holds no certificate").await;
    let second = Connection::tls(server.address(), &authority, &[]).await;
    assert_eq!(first.certificate(), second.certificate());
    config.write_certificate(&authority.issue("localhost"));
    server.log_line("http=true").await;
    let third = Connection::tls(server.address(), &authority, &[]).await;
    assert_ne!(first.certificate(), third.certificate());
    server.end().await;
}

#[tokio::test]
async fn sighup_has_the_certificate_read_again() {
    let authority = CertificateAuthority::new();
    let (_config, server) = start(&authority).await;
    read(&server, &mut Connection::tls(server.address(), &authority, &[]).await).await;
    server.signal(Signal::HUP);
    server.log_line("nothing changed").await;
    read(&server, &mut Connection::tls(server.address(), &authority, &[]).await).await;
    server.end().await;
}

#[tokio::test]
async fn a_server_with_tls_never_goes_over_to_plain_http() {
    let authority = CertificateAuthority::new();
    let (config, server) = start(&authority).await;
    config.replace(ConfigFile::new().plugin(Plugin::sample("a")).allow_all());
    server.log_line("`http.tls` changed, which takes effect after a restart only").await;
    read(&server, &mut Connection::tls(server.address(), &authority, &[]).await).await;
    server.end().await;
}

#[tokio::test]
async fn a_handshake_that_is_never_finished_is_given_up() {
    let authority = CertificateAuthority::new();
    let config = config().http_limit("read-timeout", "100ms").write();
    config.write_certificate(&authority.issue("localhost"));
    let server = HttpServer::start(&config).await;
    let mut silent = TcpStream::connect(server.address()).await.unwrap();
    assert_eq!(silent.read(&mut [0]).await.unwrap(), 0, "it is closed");
    server.end().await;
}

#[tokio::test]
async fn a_read_in_flight_over_http2_is_answered_before_the_server_ends() {
    let authority = CertificateAuthority::new();
    let slow = Plugin::misbehaving("slow").limit("cpu", "30s").limit("deadline", "30s");
    let config = ConfigFile::new().plugin(slow).allow_all().tls().write();
    config.write_certificate(&authority.issue("localhost"));
    let server = HttpServer::start(&config).await;
    let mut connection = Connection::tls(server.address(), &authority, &["h2"]).await;
    let uri = json!({ "uri": "misbehaving://slow/slow?ms=300" });
    let request = server.uninitialized(REVISION).request_builder("resources/read", uri);
    let asking = tokio::spawn(async move {
        let answer = connection.send(request).await;
        connection.wait_closed().await;
        answer
    });
    server.log_line("a slow read has begun").await;
    server.signal(Signal::TERM);
    let answer: Value = serde_json::from_slice(asking.await.unwrap().body()).unwrap();
    assert_eq!(answer["result"]["contents"][0]["text"], "slow");
    server.wait_clean_exit().await;
}
