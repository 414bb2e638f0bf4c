//! Bearer tokens of the config: who is accepted, and how open streams end when a token is removed.

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, RawHttp, Revision, Rule, TIMEOUT, host_command};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

const REVISION: Revision = Revision::V_2025_11_25;
const TOKEN: &str = "mcp_test-token-of-ci";
const OTHER_TOKEN: &str = "mcp_test-token-of-ops";

/// Returns the output of `mcp-host token hash`.
async fn digest(token: &str) -> String {
    let mut command = host_command();
    command.args(["token", "hash"]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut input, token.as_bytes()).await.unwrap();
    drop(input);
    let output = process.wait_with_output().await.unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn principal(name: &str, token: &str) -> String {
    format!("\n[[principal]]\nname = \"{name}\"\ntoken-sha256 = \"{}\"\n", digest(token).await)
}

/// A config with the folder `m` and the files `f` and `g`. `ci` may use `f`, and `ops` both.
async fn config(folder: &Folder) -> ConfigFile {
    let ci = principal("ci", TOKEN).await;
    let ops = principal("ops", OTHER_TOKEN).await;
    ConfigFile::new()
        .plugin(Plugin::faulty("m", folder.path()))
        .append(&ci)
        .append(&ops)
        .append("\n[[group]]\nname = \"operators\"\nprincipals = [\"ops\"]\n")
        .rule(Rule::for_principal("ci").allow(["faulty://m/f"]))
        .append("\n[[rule]]\ngroups = [\"operators\"]\nallow = [\"faulty://m/**\"]\n")
}

fn folder() -> Folder {
    Folder::with_files([("f", "text of f"), ("g", "text of g")])
}

async fn uris(wire: &mut RawHttp) -> Vec<Value> {
    let listed = wire.request("resources/list", json!({})).await.result().clone();
    listed["resources"].as_array().unwrap().iter().map(|entry| entry["uri"].clone()).collect()
}

/// An `initialize` request with this value of `Authorization`.
fn initialize(server: &HttpServer, authorization: Option<&str>) -> RequestBuilder {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": mcp_host_tests::initialize_params(&REVISION),
    });
    let request = server.uninitialized(REVISION).post(&hello);
    match authorization {
        Some(value) => request.header("authorization", value),
        None => request,
    }
}

#[tokio::test]
async fn a_token_is_a_principal_with_the_rules_of_its_name_and_its_groups() {
    let folder = folder();
    let config = config(&folder).await.write();
    let server = HttpServer::start(&config).await;
    let mut ci = RawHttp::start_with_token(server.url(), REVISION, TOKEN).await;
    let mut ops = RawHttp::start_with_token(server.url(), REVISION, OTHER_TOKEN).await;
    assert_eq!(uris(&mut ci).await, ["faulty://m/f"]);
    assert_eq!(uris(&mut ops).await, ["faulty://m/f", "faulty://m/g"]);
    let denied = ci.request("resources/read", json!({ "uri": "faulty://m/g" })).await;
    let absent = ci.request("resources/read", json!({ "uri": "faulty://m/nothing" })).await;
    assert_eq!(denied.message["error"]["code"], absent.message["error"]["code"], "denied is absent");
    server.end().await;
}

#[tokio::test]
async fn without_a_valid_token_nothing_is_answered_and_the_challenge_says_why() {
    let folder = folder();
    let config = config(&folder).await.write();
    let server = HttpServer::start(&config).await;
    let basic = format!("Basic {TOKEN}");
    for (authorization, status, challenge) in [
        (None, StatusCode::UNAUTHORIZED, "Bearer"),
        (Some("Bearer wrong"), StatusCode::UNAUTHORIZED, "Bearer error=\"invalid_token\""),
        (Some(&*digest(TOKEN).await), StatusCode::BAD_REQUEST, "Bearer error=\"invalid_request\""),
        (Some(&*format!("Bearer {}", digest(TOKEN).await)), StatusCode::UNAUTHORIZED, "Bearer error=\"invalid_token\""),
        (Some(&*basic), StatusCode::UNAUTHORIZED, "Bearer error=\"invalid_token\""),
        (Some("Bearer "), StatusCode::BAD_REQUEST, "Bearer error=\"invalid_request\""),
    ] {
        let response = initialize(&server, authorization).send().await.unwrap();
        assert_eq!(response.status(), status, "{authorization:?}");
        let found = response.headers()["www-authenticate"].to_str().unwrap();
        assert_eq!(found.split(", error_description=").next(), Some(challenge), "{authorization:?}");
        assert!(!response.text().await.unwrap().contains("wrong"), "no part of a token is repeated");
    }
    let valid = format!("Bearer {TOKEN}");
    let twice = initialize(&server, Some(&valid)).header("authorization", &valid).send().await.unwrap();
    assert_eq!(twice.status(), StatusCode::BAD_REQUEST);
    let in_url = Client::new().post(format!("{}?access_token={TOKEN}", server.url())).send().await.unwrap();
    assert_eq!(in_url.status(), StatusCode::UNAUTHORIZED, "tokens are not taken from a URL");
    let log = server.end().await.log;
    assert!(!log.contains(TOKEN), "{log}");
}

#[tokio::test]
async fn a_client_without_a_token_is_anonymous_where_a_rule_says_so() {
    let folder = folder();
    let config = config(&folder).await.rule(Rule::for_principal("anonymous").allow(["faulty://m/g"])).write();
    let server = HttpServer::start(&config).await;
    let mut anonymous = server.raw_client(REVISION).await;
    assert_eq!(uris(&mut anonymous).await, ["faulty://m/g"]);
    let wrong = initialize(&server, Some("Bearer wrong")).send().await.unwrap();
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED, "a wrong token is not anonymous");
    server.end().await;
}

#[tokio::test]
async fn a_path_where_nothing_is_names_the_endpoint() {
    let folder = folder();
    let config = config(&folder).await.write();
    let server = HttpServer::start(&config).await;
    let answer = reqwest::Client::new().post(server.url().replace("/mcp", "/")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    assert_eq!(answer.text().await.unwrap(), "there is nothing at this path; the MCP endpoint is /mcp\n");
    server.end().await;
}

#[tokio::test]
async fn a_session_is_worth_nothing_with_another_token_or_without_one() {
    let folder = folder();
    let config = config(&folder).await.rule(Rule::for_principal("anonymous").allow(["faulty://m/g"])).write();
    let server = HttpServer::start(&config).await;
    let mut ops = RawHttp::start_with_token(server.url(), REVISION, OTHER_TOKEN).await;
    let session = ops.session_id().unwrap().to_owned();
    for token in [Some(TOKEN), None] {
        let stolen = json!({ "jsonrpc": "2.0", "id": 9, "method": "resources/list", "params": {} });
        let mut request = server.uninitialized(REVISION).post(&stolen).header("mcp-session-id", &session);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        assert_eq!(request.send().await.unwrap().status(), StatusCode::NOT_FOUND, "{token:?}");
    }
    assert_eq!(uris(&mut ops).await.len(), 2);
    server.end().await;
}

#[tokio::test]
async fn a_token_that_a_reload_removes_is_worth_nothing_and_its_streams_end() {
    let folder = folder();
    let config_file = config(&folder).await.write();
    let server = HttpServer::start(&config_file).await;
    let mut ci = RawHttp::start_with_token(server.url(), REVISION, TOKEN).await;
    let ops = RawHttp::start_with_token(server.url(), REVISION, OTHER_TOKEN).await;
    let (events, others) = (ci.event_stream().await, ops.event_stream().await);
    let renewed = principal("ci", "mcp_another-token").await;
    let other = principal("ops", OTHER_TOKEN).await;
    config_file.replace(
        ConfigFile::new()
            .plugin(Plugin::faulty("m", folder.path()))
            .append(&renewed)
            .append(&other)
            .rule(Rule::for_principal("ci").allow(["faulty://m/f"])),
    );
    // The stream ends in order: a stream that is cut would be an error.
    timeout(TIMEOUT, events.bytes()).await.unwrap().unwrap();
    let refused = ci.request_builder("resources/list", json!({})).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let mut renewed = RawHttp::start_with_token(server.url(), REVISION, "mcp_another-token").await;
    assert_eq!(uris(&mut renewed).await, ["faulty://m/f"]);
    drop(others);
    server.end().await;
}

#[tokio::test]
async fn a_stream_ends_when_its_token_becomes_one_of_another_principal() {
    let folder = folder();
    let config_file = config(&folder).await.write();
    let server = HttpServer::start(&config_file).await;
    let ci = RawHttp::start_with_token(server.url(), REVISION, TOKEN).await;
    let events = ci.event_stream().await;
    let (ci, ops) = (principal("ci", OTHER_TOKEN).await, principal("ops", TOKEN).await);
    config_file.replace(ConfigFile::new().plugin(Plugin::faulty("m", folder.path())).append(&ci).append(&ops));
    timeout(TIMEOUT, events.bytes()).await.unwrap().unwrap();
    server.end().await;
}
