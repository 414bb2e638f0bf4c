//! Listening beyond loopback: with authentication and TLS, or with `insecure`.

use mcp_host_tests::{CertificateAuthority, ConfigFile, Connection, HttpServer, Plugin, Revision, WrittenConfig, run};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::json;

const REVISION: Revision = Revision::V_2026_07_28;
const ANY_ADDRESS: &str = "0.0.0.0:0";
/// The token of the principal `ci`.
const TOKEN: &str = "test";

fn config() -> ConfigFile {
    ConfigFile::new().plugin(Plugin::sample("a")).allow_all()
}

/// A config whose server may listen beyond loopback, as `mcp.example.com`.
fn protected_config() -> ConfigFile {
    config().principal("ci", TOKEN).tls().http("hosts", vec!["mcp.example.com"])
}

fn write(config: ConfigFile) -> (WrittenConfig, CertificateAuthority) {
    let (config, authority) = (config.write(), CertificateAuthority::new());
    config.write_certificate(&authority.issue("localhost"));
    (config, authority)
}

/// A request for a listing with this `Host`.
fn list_request(server: &HttpServer, host: &str) -> RequestBuilder {
    server.uninitialized(REVISION).request_builder("resources/list", json!({})).header("host", host)
}

/// The address of the server on loopback.
fn loopback(server: &HttpServer) -> String {
    server.address().replace("0.0.0.0", "127.0.0.1")
}

#[tokio::test]
async fn an_address_beyond_loopback_is_refused_without_authentication_and_tls_wherever_it_is_written() {
    let (none, _) = write(config());
    let (tokens, _) = write(config().principal("ci", TOKEN));
    let (tls, _) = write(config().tls());
    for (config, missing) in
        [(&none, "neither authentication nor TLS"), (&tokens, "no TLS"), (&tls, "no authentication")]
    {
        let refused = run(["serve", "--http", ANY_ADDRESS, "--config", config.path().to_str().unwrap()]).await;
        assert_eq!(refused.code(), 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(missing) && refused.stderr.contains("`insecure = true`"), "{}", refused.stderr);
    }
    let in_file = config().principal("ci", TOKEN).server("http", ANY_ADDRESS).write();
    for command in ["check", "serve"] {
        let refused = run([command, "--config", in_file.path().to_str().unwrap()]).await;
        assert_eq!(refused.code(), 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("no TLS") && refused.stderr.contains("^^^"), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn with_tokens_and_tls_the_server_answers_at_all_addresses_to_the_names_that_the_config_has() {
    let (config, authority) = write(protected_config());
    let server = HttpServer::start_at(&config, ANY_ADDRESS).await;
    assert!(server.url().starts_with("https://0.0.0.0:"), "{}", server.url());
    for (host, token, status) in [
        ("mcp.example.com", Some(TOKEN), StatusCode::OK),
        ("mcp.example.com", Some("wrong"), StatusCode::UNAUTHORIZED),
        ("localhost", Some(TOKEN), StatusCode::OK),
        ("0.0.0.0", Some(TOKEN), StatusCode::FORBIDDEN),
        ("evil.example", Some(TOKEN), StatusCode::FORBIDDEN),
        ("192.0.2.1", Some(TOKEN), StatusCode::FORBIDDEN),
    ] {
        let mut connection = Connection::tls(&loopback(&server), &authority, &["http/1.1"]).await;
        let mut request = list_request(&server, host);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        assert_eq!(connection.send(request).await.status(), status, "{host} {token:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn an_insecure_server_is_served_and_warned_of() {
    let in_file = config().http("insecure", true).server("http", "0.0.0.0:8080").write();
    let path = in_file.path();
    let checked = run(["check", "--config", path.to_str().unwrap()]).await.success();
    let expected = "neither authentication nor TLS: `http.insecure` permits that";
    assert!(checked.text().contains(expected) && checked.text().contains("`http.hosts`"), "{}", checked.text());
    assert_eq!(run(["check", "--strict", "--config", path.to_str().unwrap()]).await.code(), 1);

    let config = config().http("insecure", true).write();
    let server = HttpServer::start_at(&config, ANY_ADDRESS).await;
    let mut connection = Connection::plain(&loopback(&server), reqwest::Version::HTTP_11).await;
    assert_eq!(connection.send(list_request(&server, "localhost")).await.status(), StatusCode::OK);
    server.log_line(expected).await;
    let log = server.end().await.log;
    assert_eq!(log.matches(expected).count(), 1, "{log}");
}

#[tokio::test]
async fn a_reload_does_not_take_away_what_protects_a_server_beyond_loopback() {
    let (config, authority) = write(protected_config());
    let server = HttpServer::start_at(&config, ANY_ADDRESS).await;
    config.replace(self::config().tls().http("hosts", vec!["mcp.example.com"]));
    let line = server.log_line("can be reached from other machines, and the config has no authentication").await;
    assert!(line.contains("reload failed") && line.contains("nothing of the new config applies"), "{line}");
    let mut connection = Connection::tls(&loopback(&server), &authority, &["http/1.1"]).await;
    let wrong = list_request(&server, "mcp.example.com").bearer_auth("wrong");
    assert_eq!(connection.send(wrong).await.status(), StatusCode::UNAUTHORIZED, "tokens are still validated");
    let right = list_request(&server, "mcp.example.com").bearer_auth(TOKEN);
    assert_eq!(connection.send(right).await.status(), StatusCode::OK, "those of the old config");
    server.end().await;
}
