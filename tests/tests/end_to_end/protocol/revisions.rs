//! Messages on the wire, byte for byte where a revision prescribes it.

use mcp_host_tests::{ConfigFile, GitRepo, HttpServer, Plugin, REVISIONS, RawStdio, Revision, Rule};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

const README: &str = "git://repo/blob/main/README.md";

fn repo() -> GitRepo {
    GitRepo::with_files([("README.md", "hello")])
}

fn repo_config(repo: &GitRepo) -> ConfigFile {
    ConfigFile::new().server("name", "wired").plugin(Plugin::git("repo", repo.path())).allow_all()
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn results_of_2026_07_28_have_their_envelope() {
    let repo = repo();
    let config = repo_config(&repo).write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": README })),
    ] {
        let answer = wire.request(method, params).await;
        let result = answer.result();
        assert_eq!(answer.status, Some(200));
        assert_eq!(result["resultType"], "complete", "{method}");
        assert!(result["ttlMs"].is_u64(), "{method}: {result}");
        assert_eq!(result["cacheScope"], "public", "{method}: everybody may do everything");
    }
    let read = wire.request("resources/read", json!({ "uri": README })).await;
    let contents = &read.result()["contents"][0];
    assert_eq!((&contents["uri"], &contents["text"]), (&json!(README), &json!("hello")));
    assert!(keys(contents).iter().all(|key| ["uri", "mimeType", "_meta", "text"].contains(key)), "{contents}");
    server.end().await;
}

#[tokio::test]
async fn results_are_private_where_the_rules_tell_principals_apart() {
    let repo = repo();
    let config =
        repo_config(&repo).rule(Rule::for_principal("anonymous").deny(["**/secret.md"]).operations(["read"])).write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    for (method, params, scope) in [
        ("resources/list", json!({}), "public"),
        ("resources/templates/list", json!({}), "public"),
        ("resources/read", json!({ "uri": README }), "private"),
    ] {
        assert_eq!(wire.request(method, params).await.result()["cacheScope"], scope, "{method}");
    }
    server.end().await;
}

#[tokio::test]
async fn results_of_older_revisions_have_no_result_type() {
    let repo = repo();
    let config = repo_config(&repo).write();
    for revision in [Revision::V_2025_06_18, Revision::V_2025_11_25] {
        let mut wire = RawStdio::start(&config, revision).await;
        let listed = wire.request("resources/list", json!({})).await;
        assert_eq!(listed.result().get("resultType"), None);
        let read = wire.request("resources/read", json!({ "uri": README })).await;
        assert_eq!(read.result().get("resultType"), None);
        wire.end().await;
    }
}

#[tokio::test]
async fn a_server_is_discovered_without_a_session() {
    let repo = repo();
    let config = repo_config(&repo).write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    let answer = wire.request("server/discover", json!({})).await;
    let result = answer.result();
    assert_eq!(result["resultType"], "complete");
    let versions = result["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{versions:?}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "wired");
    assert!(result["capabilities"]["resources"].is_object() && result["capabilities"]["completions"].is_object());
    assert_eq!(result["capabilities"].get("tools"), None);
    server.end().await;
}

#[tokio::test]
async fn an_unknown_revision_is_answered_with_one_that_is_known() {
    let repo = repo();
    let config = repo_config(&repo).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    wire.send(&json!({ "jsonrpc": "2.0", "id": 77, "method": "initialize", "params": {
        "protocolVersion": "1999-12-31", "capabilities": {}, "clientInfo": { "name": "old", "version": "0" },
    }}))
    .await;
    let answer = wire.response_to(77).await;
    assert_eq!(answer.result()["protocolVersion"], "2025-11-25");
    wire.end().await;
}

#[tokio::test]
async fn a_request_of_2026_07_28_must_say_what_it_is_and_mean_it() {
    let repo = repo();
    let config = repo_config(&repo).write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    let mut read = async |change: &dyn Fn(&mut Value, &mut HeaderMap)| {
        let request = wire.request_builder("resources/read", json!({ "uri": README })).build().unwrap();
        let mut message: Value = serde_json::from_slice(request.body().unwrap().as_bytes().unwrap()).unwrap();
        let mut headers = request.headers().clone();
        change(&mut message["params"]["_meta"], &mut headers);
        let response =
            reqwest::Client::new().post(server.url()).headers(headers).body(message.to_string()).send().await;
        let response = response.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let (status, answer) = read(&|_, _| ()).await;
    assert_eq!((status, &answer["result"]["contents"][0]["text"]), (200, &json!("hello")));

    let (status, answer) = read(&|meta, _| *meta = json!({})).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32602)), "{answer}");

    for (header, value) in [
        ("mcp-method", "resources/list"),
        ("mcp-name", "git://repo/blob/main/other.md"),
        ("mcp-protocol-version", "2025-11-25"),
    ] {
        let (status, answer) = read(&|_, headers| drop(headers.insert(header, value.parse().unwrap()))).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32020)), "{header}: {answer}");
    }

    let (status, answer) = read(&|meta, headers| {
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
        headers.insert("mcp-protocol-version", "2099-01-01".parse().unwrap());
    })
    .await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32022)), "{answer}");
    assert!(answer["error"]["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn there_are_no_tools_and_no_prompts() {
    let repo = repo();
    let config = repo_config(&repo).write();
    for revision in REVISIONS {
        let mut wire = RawStdio::start(&config, revision.clone()).await;
        for (method, params) in [
            ("tools/list", json!({})),
            ("tools/call", json!({ "name": "x", "arguments": {} })),
            ("prompts/list", json!({})),
            ("prompts/get", json!({ "name": "x" })),
        ] {
            assert_eq!(wire.request(method, params).await.error_code(), -32601, "{method} in {revision}");
        }
        wire.end().await;
    }
}

/// Methods that revision 2026-07-28 removed, and an unknown one.
fn removed_methods() -> [(&'static str, Value); 5] {
    [
        ("ping", json!({})),
        ("logging/setLevel", json!({ "level": "info" })),
        ("resources/subscribe", json!({ "uri": README })),
        ("resources/unsubscribe", json!({ "uri": README })),
        ("nonsense", json!({})),
    ]
}

#[tokio::test]
async fn methods_that_2026_07_28_removed_are_not_found_over_http() {
    let repo = repo();
    let config = repo_config(&repo).write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    for (method, params) in removed_methods() {
        let answer = wire.request(method, params).await;
        assert_eq!((answer.status, answer.error_code()), (Some(404), -32601), "{method}: {answer:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn methods_that_2026_07_28_removed_are_unknown_over_stdio() {
    let repo = repo();
    let config = repo_config(&repo).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    wire.request("server/discover", json!({})).await.result();
    for (method, params) in removed_methods() {
        let answer = wire.request(method, params).await;
        assert_eq!(answer.error_code(), -32601, "{method}: {answer:?}");
    }
    wire.end().await;
}

#[tokio::test]
async fn a_client_that_asks_for_warnings_is_told_which_plugin_is_missing() {
    let config = ConfigFile::new().plugin(Plugin::misbehaving("bad").config("list", "trap")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    assert_eq!(wire.request("logging/setLevel", json!({ "level": "loud" })).await.error_code(), -32602);
    assert_eq!(wire.request("logging/setLevel", json!({ "level": "warning" })).await.result(), &json!({}));
    let id = wire.send_request("resources/list", json!({})).await;
    let (mut told, mut answered) = (false, false);
    while !(told && answered) {
        let message = wire.message().await.unwrap();
        told |= message["method"] == "notifications/message" && message["params"]["data"]["plugin"] == "bad";
        answered |= message["id"] == id;
    }
    wire.end().await;
}

#[tokio::test]
async fn a_request_that_its_client_cancels_ends_and_the_next_is_answered() {
    let slow =
        Plugin::misbehaving("slow").limit("deadline", "60s").limit("concurrency", 1).limit("queue-timeout", "30s");
    let config = ConfigFile::new().plugin(slow).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let id = wire.send_request("resources/read", json!({ "uri": "misbehaving://slow/slow?ms=50000" })).await;
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    wire.send(&cancelled).await;
    // The concurrency limit is one call, so this succeeds only because the first call was ended.
    let read = wire.request("resources/read", json!({ "uri": "misbehaving://slow/good" })).await;
    assert_eq!(read.result()["contents"][0]["text"], "good");
    wire.end().await;
}

#[tokio::test]
async fn a_request_that_its_client_cancels_over_http_ends_without_an_answer() {
    let slow =
        Plugin::misbehaving("slow").limit("deadline", "60s").limit("concurrency", 1).limit("queue-timeout", "30s");
    let config = ConfigFile::new().plugin(slow).allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2025_11_25).await;
    let read = |id: u64| {
        let params = json!({ "uri": "misbehaving://slow/slow?ms=50000" });
        json!({ "jsonrpc": "2.0", "id": id, "method": "resources/read", "params": params })
    };
    let asking = tokio::spawn(wire.post(&read(77)).send());
    server.log_line("a slow read has begun: slow?ms=50000").await;
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 77 } });
    assert_eq!(wire.post(&cancelled).send().await.unwrap().status(), 202);
    let answer = asking.await.unwrap().unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.headers()["content-type"].as_bytes()),
        (200, b"text/event-stream".as_slice())
    );
    assert_eq!(answer.text().await.unwrap(), "");
    // The concurrency limit is one call, so this succeeds only because the first call was ended.
    let read = wire.request("resources/read", json!({ "uri": "misbehaving://slow/good" })).await;
    assert_eq!(read.result()["contents"][0]["text"], "good");
    server.end().await;
}

/// A plugin whose reads take the time in their URIs.
fn slow_config() -> ConfigFile {
    ConfigFile::new().plugin(Plugin::misbehaving("slow").limit("deadline", "60s")).allow_all()
}

#[tokio::test]
async fn a_request_with_the_id_of_one_in_flight_is_refused_over_stdio() {
    let config = slow_config().write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let read = |uri: &str| json!({ "jsonrpc": "2.0", "id": 77, "method": "resources/read", "params": { "uri": uri } });
    wire.send(&read("misbehaving://slow/slow?ms=2000")).await;
    wire.send(&read("misbehaving://slow/good")).await;
    assert_eq!(wire.response_to(77).await.error_code(), -32600);
    assert_eq!(wire.response_to(77).await.result()["contents"][0]["text"], "slow");
    wire.send(&read("misbehaving://slow/good")).await;
    assert_eq!(wire.response_to(77).await.result()["contents"][0]["text"], "good", "it has been answered by now");
    wire.end().await;
}

#[tokio::test]
async fn a_request_with_the_id_of_one_in_flight_is_refused_over_http() {
    let config = slow_config().write();
    let server = HttpServer::start(&config).await;
    let wire = server.raw_client(Revision::V_2025_11_25).await;
    let read = |uri: &str| json!({ "jsonrpc": "2.0", "id": 77, "method": "resources/read", "params": { "uri": uri } });
    let first = tokio::spawn(wire.post(&read("misbehaving://slow/slow?ms=8000")).send());
    server.log_line("a slow read has begun").await;
    let second = wire.post(&read("misbehaving://slow/good")).send().await.unwrap();
    assert_eq!(second.status().as_u16(), 400);
    assert_eq!(second.json::<Value>().await.unwrap()["error"]["code"], -32600);
    let first = first.await.unwrap().unwrap().text().await.unwrap();
    assert!(first.contains(r#""text":"slow""#), "{first}");
    let third = wire.post(&read("misbehaving://slow/good")).send().await.unwrap().text().await.unwrap();
    assert!(third.contains(r#""text":"good""#), "it has been answered by now: {third}");
    server.end().await;
}
