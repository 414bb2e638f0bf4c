//! Requests to the administration API that are invalid, or whose client disconnects early.

use mcp_host_tests::{ConfigFile, Plugin, Rule, run, wait_until};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::api::{SESSIONS, audited};
use super::{Administered, TOKEN, with_token};

#[tokio::test]
async fn a_body_that_is_wrong_is_refused_with_what_to_send() {
    let folder = tempfile::tempdir().unwrap();
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let filter = |count| (0..count).map(|number| format!("target{number}=info")).collect::<Vec<_>>().join(",");
    let keys = "`filter`, `seconds`, `restore`";
    for (body, error, help) in [
        (json!({}), "the request has no `filter`, and no `restore`", "{ \"restore\": true }"),
        (json!({ "filter": null }), "the request has no `filter`, and no `restore`", "{ \"restore\": true }"),
        (json!({ "seconds": 60 }), "the request has no `filter`, and no `restore`", "{ \"restore\": true }"),
        (json!({ "filter": "debug", "restore": true }), "`restore` goes with neither", "\"filter\": \"debug\""),
        (json!(["debug", 60]), "the body is not a JSON object", keys),
        (json!("debug"), "the body is not a JSON object", keys),
        (json!({ "filter": 5 }), "invalid type: integer `5`, expected a string", keys),
        (json!({ "level": "debug" }), "unknown field `level`", keys),
        (json!({ "filter": "debug", "seconds": 0 }), "`seconds` is not a number from 1 to 86400: 0", "600"),
        (json!({ "filter": filter(65) }), "a filter has at most 64 levels, and this one has 65", ""),
    ] {
        let (status, answer) = admin.api("POST", "log", Some(&body)).await;
        let text = |member: &str| answer[member].as_str().unwrap_or_default().to_owned();
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(text("error").contains(error) && text("help").contains(help), "{body}: {answer}");
    }
    let (status, answer) = admin.api("POST", "explain", None).await;
    let help = answer["help"].as_str().unwrap();
    assert!(status == 400 && help.contains("`uri`, `operation`, `principal`, `groups`"), "{answer}");
    let (_, status) = admin.api("GET", "status", None).await;
    assert_eq!(status["log"]["by"], Value::Null, "{status}");
    assert_eq!(admin.api("POST", "log", Some(&json!({ "filter": filter(64) }))).await.0, 200);
    admin.server.end().await;
}

#[tokio::test]
async fn lines_of_the_audit_log_say_what_was_set_and_what_was_explained() {
    let folder = tempfile::tempdir().unwrap();
    let rule = Rule::for_principal("anonymous").allow(["sample://a/**"]);
    let config = ConfigFile::new().plugin(Plugin::sample("a")).rule(rule).audit("file", "audit.jsonl");
    let config = config.append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let explain = json!({ "uri": "sample://a/plain", "operation": "metadata", "principal": "anonymous" });
    for (path, body) in [
        ("log", json!({ "filter": "warn,mcp_host=debug", "seconds": 60 })),
        ("log", json!({ "filter": "loud" })),
        ("log", json!({ "restore": true })),
        ("explain", explain),
    ] {
        admin.api("POST", path, Some(&body)).await;
    }
    wait_until("the audit log has the actions", || audited(&config).len() == 4).await;
    let shown: Vec<_> = audited(&config)
        .iter()
        .map(|line| {
            let members = ["operation", "outcome", "filter", "seconds", "uri", "for_principal", "for_operation"];
            json!(members.map(|member| line[member].clone()))
        })
        .collect();
    let none = Value::Null;
    assert_eq!(
        shown,
        [
            json!(["admin-log", "ok", "warn,mcp_host=debug", 60, none, none, none]),
            json!(["admin-log", "invalid request", "loud", 600, none, none, none]),
            json!(["admin-log", "ok", none, none, none, none, none]),
            json!(["admin-explain", "ok", none, none, "sample://a/plain", "anonymous", "metadata"]),
        ]
    );
    admin.server.end().await;
}

#[tokio::test]
async fn a_plugin_is_disabled_although_the_client_disconnects() {
    let folder = tempfile::tempdir().unwrap();
    // The plugin's listing is walked before it is unloaded, and takes as long as a call may.
    let slow = Plugin::misbehaving("m").config("list", "sleep").limit("deadline", "15s");
    let config = ConfigFile::new().plugin(slow).allow_all().audit("file", "audit.jsonl");
    let config = config.append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let _session = admin.server.raw_client(SESSIONS).await;
    let mut stream = TcpStream::connect(&admin.address).await.unwrap();
    let head = "POST /api/v1/plugins/m/disable HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n";
    stream.write_all(format!("{head}Authorization: Bearer {TOKEN}\r\n\r\n").as_bytes()).await.unwrap();
    // By now, the request is being processed, also by a busy machine.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    drop(stream);
    wait_until("the audit log has the action", || audited(&config).len() == 1).await;
    let line = &audited(&config)[0];
    assert_eq!((&line["operation"], &line["outcome"]), (&json!("admin-disable"), &json!("ok")), "{line}");
    let (_, plugin) = admin.api("GET", "plugins/m", None).await;
    assert_eq!(plugin["status"]["state"]["name"], "disabled", "{plugin}");
    admin.server.end().await;
}

#[tokio::test]
async fn a_wrong_operation_is_a_wrong_option_for_both_commands_that_explain() {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append("\n[admin]\nlisten = \"127.0.0.1:9\"\n").write();
    let path = config.path();
    let path = path.to_str().unwrap();
    for command in [&["explain"][..], &["admin", "explain"]] {
        let options = ["--op", "write", "sample://a/plain", "--config", path];
        let failed = run(command.iter().chain(&options).copied()).await;
        assert_eq!(failed.code(), 2, "{}", failed.stderr);
        assert!(failed.stderr.contains("write one of list, templates, read"), "{}", failed.stderr);
    }
}
