//! No secret is shown: not in the log at any level, not in answers, not in the output of commands.

use std::fs;

use mcp_host_tests::{
    CertificateAuthority, ConfigFile, Connection, HttpServer, Plugin, Revision, initialize_params, request, run,
};
use reqwest::{StatusCode, Version};
use serde_json::json;

/// The text that no output may contain.
const SECRET: &str = "hunter2";
/// The token of the principal.
const TOKEN: &str = "mcp_hunter2";

fn config() -> ConfigFile {
    let plugin = Plugin::sample("a").variable("API_TOKEN", SECRET).config("greeting", "hello");
    ConfigFile::new().plugin(plugin).tls().principal("ci", TOKEN).allow_all()
}

#[tokio::test]
async fn no_level_of_the_log_shows_a_token_wherever_a_client_puts_it() {
    let (config, authority) = (config().write(), CertificateAuthority::new());
    config.write_certificate(&authority.issue("localhost"));
    let server = HttpServer::start_with(
        &config,
        &["--log", "trace,hyper=trace,hyper_util=trace,h2=trace,rustls=trace,axum=trace,tower=trace"],
    )
    .await;
    for (protocol, version) in [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)] {
        let mut connection = Connection::tls(server.address(), &authority, &[protocol]).await;
        let sessions = Revision::V_2025_11_25;
        let hello = request(&sessions, 0, "initialize", initialize_params(&sessions));
        let opened = server.uninitialized(sessions).post(&hello).bearer_auth(TOKEN);
        assert_eq!(connection.send(opened).await.status(), StatusCode::OK, "{version:?}");
        let list = || server.uninitialized(Revision::V_2026_07_28).request_builder("resources/list", json!({}));
        for (credentials, status) in [
            (format!("Bearer {TOKEN}"), StatusCode::OK),
            (format!("Bearer x{TOKEN}"), StatusCode::UNAUTHORIZED),
            (format!("Basic {TOKEN}"), StatusCode::UNAUTHORIZED),
            (format!("Bearer {TOKEN} {TOKEN}"), StatusCode::BAD_REQUEST),
            (TOKEN.to_owned(), StatusCode::BAD_REQUEST),
        ] {
            let answer = connection.send(list().header("authorization", &credentials)).await;
            assert_eq!(answer.status(), status, "{credentials}");
            assert!(!String::from_utf8_lossy(answer.body()).contains(SECRET), "{credentials}");
            assert!(!format!("{:?}", answer.headers()).contains(SECRET), "{credentials}");
        }
        let cookies = list().bearer_auth(TOKEN).header("cookie", SECRET).header("x-api-key", SECRET);
        assert_eq!(connection.send(cookies).await.status(), StatusCode::OK);
    }
    let log = server.end().await.log;
    assert!(log.contains("TRACE"), "it is logged in full");
    assert!(!log.contains(SECRET), "{}", log.lines().find(|line| line.contains(SECRET)).unwrap());
}

#[tokio::test]
async fn commands_print_no_secret_of_the_config() {
    let (config, authority) = (config().write(), CertificateAuthority::new());
    config.write_certificate(&authority.issue("localhost"));
    let key = fs::read_to_string(config.dir().join("key.pem")).unwrap();
    let path = config.path();
    let path = path.to_str().unwrap();
    for arguments in [
        vec!["check", "--json"],
        vec!["check"],
        vec!["explain", "--as", "ci", "--json", "sample://a/plain"],
        vec!["list", "--as", "ci", "--json"],
        vec!["check", "--log", "trace"],
    ] {
        let output = run(arguments.iter().copied().chain(["--config", path])).await.success();
        let all = format!("{}{}", output.text(), output.stderr);
        assert!(!all.contains(SECRET), "{arguments:?}: {all}");
        assert!(key.lines().skip(1).take(1).all(|line| !all.contains(line)), "{arguments:?}: {all}");
    }
    // The quoted line is the one with the mistake, not the one with the secret.
    fs::write(config.path(), fs::read_to_string(config.path()).unwrap() + "\n[server.x]\n").unwrap();
    let invalid = run(["check", "--config", path]).await;
    assert_eq!(invalid.code(), 2);
    assert!(!invalid.stderr.contains(SECRET), "{}", invalid.stderr);
}
