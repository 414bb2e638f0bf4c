//! The audit log: who requested what, and the outcome.

mod full_disk;

use std::fs;
use std::path::{Path, PathBuf};

use mcp_host_tests::{
    ConfigFile, Folder, GitRepo, HttpServer, Plugin, RawStdio, Revision, Rule, WrittenConfig, run, wait_until,
};
use serde_json::{Value, json};

const REVISION: Revision = Revision::V_2025_11_25;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Returns the lines of a file about requests, without lines about the start and the end of the server.
fn lines(file: &Path) -> Vec<Value> {
    let is_of_server = |line: &Value| line["operation"] == "start" || line["operation"] == "stop";
    all_lines(file).into_iter().filter(|line| !is_of_server(line)).collect()
}

/// Returns the lines of a file. Each must be an object. Empty if there is no file.
fn all_lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"))).collect()
}

/// Waits until a file has `number` lines, and returns them.
async fn wait_for_lines(file: &Path, number: usize) -> Vec<Value> {
    wait_until(&format!("{} has {number} lines", file.display()), || lines(file).len() >= number).await;
    let lines = lines(file);
    assert_eq!(lines.len(), number, "{lines:#?}");
    lines
}

fn audit_file(config: &WrittenConfig) -> PathBuf {
    config.dir().join("audit.jsonl")
}

/// Returns the values of these members of a line.
fn members<const N: usize>(line: &Value, names: [&str; N]) -> Value {
    names.map(|name| line[name].clone()).to_vec().into()
}

#[tokio::test]
async fn each_request_has_a_line_with_who_asked_for_what_and_what_came_of_it() {
    let repo = GitRepo::with_files([(".env", "SECRET=hunter2"), ("README.md", "hello")]);
    let config = ConfigFile::new()
        .audit("file", "audit.jsonl")
        .plugin(Plugin::git("repo", repo.path()))
        .rule(Rule::for_principal("anonymous").allow(["git://repo/**"]).deny(["**/.env"]))
        .write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(REVISION).await;
    let read = |name: &str| json!({ "uri": format!("git://repo/blob/main/{name}") });
    wire.request("resources/list", json!({})).await.result();
    wire.request("resources/templates/list", json!({})).await.result();
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let request = wire.request_builder("resources/read", read("README.md")).header("traceparent", &traceparent);
    assert!(request.send().await.unwrap().status().is_success());
    wire.request("resources/read", read(".env")).await.error();
    let mut absent = read("absent");
    absent["_meta"] = json!({ "traceparent": traceparent });
    wire.request("resources/read", absent).await.error();
    wire.request("resources/read", json!({ "uri": "nobody://repo/x" })).await.error();
    let template = json!({ "type": "ref/resource", "uri": "git://repo/blob/{rev}/{+path}" });
    let argument = json!({ "name": "rev", "value": "" });
    wire.request("completion/complete", json!({ "ref": template, "argument": argument })).await.result();
    wire.request("resources/subscribe", read("README.md")).await.result();
    wire.request("resources/unsubscribe", read("README.md")).await.result();

    let lines = wait_for_lines(&audit_file(&config), 9).await;
    let fields = ["sequence", "operation", "uri", "plugin", "decision", "outcome", "bytes", "request_id", "trace_id"];
    let blob = |name: &str| format!("git://repo/blob/main/{name}");
    let found: Vec<_> = lines.iter().map(|line| members(line, fields)).collect();
    let none = Value::Null;
    assert_eq!(
        found,
        [
            json!([2, "list", none, none, none, "ok", none, 1, none]),
            json!([3, "templates", none, none, none, "ok", none, 2, none]),
            json!([4, "read", blob("README.md"), "repo", "allow", "ok", 5, 3, TRACE]),
            json!([5, "read", blob(".env"), "repo", "deny", "not found", none, 4, none]),
            json!([6, "read", blob("absent"), "repo", "allow", "not found", none, 5, TRACE]),
            json!([7, "read", "nobody://repo/x", none, none, "not found", none, 6, none]),
            json!([8, "complete", "git://repo/blob/{rev}/{+path}", "repo", "allow", "ok", none, 7, none]),
            json!([9, "subscribe", blob("README.md"), "repo", "allow", "ok", none, 8, none]),
            json!([10, "unsubscribe", blob("README.md"), none, none, "ok", none, 9, none]),
        ]
    );
    let text = fs::read_to_string(config.path()).unwrap();
    let rule = text.lines().position(|line| line == "[[rule]]").unwrap() + 1;
    let rule = json!(format!("mcp-host.toml:{rule}"));
    for (number, line) in (1..).zip(&lines) {
        let expected = match number {
            3 | 5 | 7 | 8 => json!([rule, "git://repo/**"]),
            4 => json!([rule, "**/.env"]),
            _ => json!([none, none]),
        };
        assert_eq!(members(line, ["rule", "glob"]), expected, "{line}");
    }
    let session = lines[0]["session"].as_str().unwrap();
    assert!(session.len() == 16 && session.bytes().all(|byte| byte.is_ascii_hexdigit()), "{session}");
    for line in &lines {
        assert_eq!(members(line, ["principal", "generation", "session"]), json!(["anonymous", 1, session]));
        assert!(
            line["duration_ms"].as_f64().unwrap() >= 0.0 && line["time"].as_str().unwrap().ends_with('Z'),
            "{line}"
        );
    }
    let text = fs::read_to_string(audit_file(&config)).unwrap();
    assert!(!text.contains(wire.session_id().unwrap()), "a session id is a secret");
    assert!(!text.contains("hunter2") && !text.contains("hello"), "contents are not recorded");
    server.end().await;
}

#[tokio::test]
async fn a_client_that_listens_has_a_line_and_so_has_each_resource_of_its_filter() {
    let folder = Folder::with_files([("a.md", "a"), ("secret/c.md", "c")]);
    let config = ConfigFile::new()
        .audit("file", "audit.jsonl")
        .plugin(Plugin::notes("n", folder.path()))
        .rule(Rule::for_principal("*").deny(["notes://n/secret/**"]))
        .write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let wanted = ["notes://n/a.md", "notes://n/secret/c.md"];
    wire.send_request("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": wanted } })).await;
    let mut found: Vec<_> = wait_for_lines(&audit_file(&config), 3).await;
    found.sort_by_key(|line| line["uri"].to_string());
    let found: Vec<_> =
        found.iter().map(|line| members(line, ["operation", "uri", "decision", "outcome", "request_id"])).collect();
    assert_eq!(
        found,
        [
            json!(["subscribe", wanted[0], "allow", "ok", 1]),
            json!(["subscribe", wanted[1], "deny", "not found", 1]),
            json!(["listen", null, null, "ok", 1]),
        ]
    );
    wire.end().await;
}

#[tokio::test]
async fn no_text_of_a_client_makes_a_line_of_its_own_or_deceives_a_reader() {
    let config = ConfigFile::new().audit("file", "audit.jsonl").plugin(Plugin::misbehaving("m")).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let uri = "misbehaving://m/x\"}\n{\"operation\":\"forged\"}\r\u{1b}[2J\u{85}\u{2028}\u{202e}\u{e0041}";
    wire.read(uri).await.unwrap_err();
    wire.send(&json!({ "jsonrpc": "2.0", "id": "\n{}\u{202e}", "method": "resources/list", "params": {} })).await;
    wire.read(&format!("misbehaving://m/{}", "x".repeat(8000))).await.unwrap_err();
    let mut lines = wait_for_lines(&audit_file(&config), 3).await;
    lines.sort_by_key(|line| line["request_id"].to_string());
    assert_eq!(lines[0]["request_id"], "\n{}\u{202e}");
    assert_eq!(members(&lines[1], ["uri", "outcome"]), json!([uri, "invalid request"]));
    assert_eq!(lines[2]["uri"].as_str().unwrap().len(), 2048, "a long URI is truncated");
    let text = fs::read_to_string(audit_file(&config)).unwrap();
    let is_plain = |c: char| c == '\n' || (' '..='~').contains(&c);
    assert!(text.chars().all(is_plain), "{text:?}");
    wire.end().await;
}

#[tokio::test]
async fn a_request_that_is_cancelled_has_the_same_members() {
    let slow = || Plugin::misbehaving("slow").limit("deadline", "10m");
    let params = json!({ "uri": "misbehaving://slow/slow?ms=600000", "_meta": { "traceparent": format!("00-{TRACE}-00f067aa0ba902b7-01") } });
    let cancel =
        |id: u64| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    let names = ["operation", "outcome", "request_id", "trace_id"];

    let config = ConfigFile::new().audit("file", "audit.jsonl").plugin(slow()).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let id = wire.send_request("resources/read", params.clone()).await;
    wire.log_line("a slow read has begun").await;
    wire.send(&cancel(id)).await;
    let lines = wait_for_lines(&audit_file(&config), 1).await;
    assert_eq!(members(&lines[0], names), json!(["read", "cancelled", id, TRACE]));
    wire.end().await;

    let config = ConfigFile::new().audit("file", "audit.jsonl").plugin(slow()).allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(REVISION).await;
    wire.request("resources/list", json!({})).await.result();
    let read = json!({ "jsonrpc": "2.0", "id": 77, "method": "resources/read", "params": params });
    let reading = tokio::spawn(wire.post(&read).send());
    server.log_line("a slow read has begun").await;
    assert_eq!(wire.post(&cancel(77)).send().await.unwrap().status(), 202);
    reading.await.unwrap().unwrap();
    let lines = wait_for_lines(&audit_file(&config), 2).await;
    assert_eq!(members(&lines[1], names), json!(["read", "cancelled", 77, TRACE]));
    assert!(lines[1]["session"].is_string() && lines[1]["session"] == lines[0]["session"], "{lines:#?}");
    server.end().await;
}

#[tokio::test]
async fn on_standard_error_lines_stand_beside_the_log() {
    let config = ConfigFile::new().audit("stderr", true).plugin(Plugin::misbehaving("m")).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    wire.read("misbehaving://m/good").await.unwrap();
    let line = wire.log_line("\"operation\":\"read\"").await;
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(members(&line, ["principal", "uri", "bytes"]), json!(["local", "misbehaving://m/good", 4]));
    wire.end().await;
}

#[tokio::test]
async fn a_file_that_is_too_large_is_rotated_and_no_line_is_lost() {
    let config = ConfigFile::new().audit("file", "audit.jsonl").audit("max-size", "64KiB").audit("keep", 2);
    let config = config.plugin(Plugin::misbehaving("m")).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let uri = format!("misbehaving://m/{}", "x".repeat(3000));
    for _ in 0..80 {
        wire.read(&uri).await.unwrap_err();
    }
    wire.end().await;
    let path = |end: &str| config.dir().join(format!("audit.jsonl{end}"));
    let sequences: Vec<_> = [".2", ".1", ""]
        .iter()
        .flat_map(|end| lines(&path(end)))
        .map(|line| line["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(sequences.last(), Some(&81), "everything is written before the end");
    assert!(sequences.is_sorted() && sequences.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{sequences:?}");
    for end in ["", ".1"] {
        let size = fs::metadata(path(end)).unwrap().len();
        assert!(size > 0 && size <= 64 << 10, "{end}: {size}");
    }
    assert!(!path(".3").exists());
}

#[tokio::test]
async fn a_file_has_one_server_which_alone_writes_it() {
    let config = ConfigFile::new().audit("file", "audit.jsonl").plugin(Plugin::misbehaving("m")).write();
    let server = HttpServer::start(&config).await;
    let path = config.path();
    let path = path.to_str().unwrap();
    let second = run(["serve", "--stdio", "--config", path]).await;
    assert_eq!(second.code(), 1, "{}", second.stderr);
    assert!(second.stderr.contains("in use by another host; let `audit.file` name another"), "{}", second.stderr);
    run(["read", "misbehaving://m/good", "--config", path]).await.success();
    server.end().await;
    let operations: Vec<_> =
        all_lines(&audit_file(&config)).iter().map(|line| members(line, ["operation", "sequence"])).collect();
    assert_eq!(operations, [json!(["start", 1]), json!(["stop", 2])], "commands have no lines");
}

#[tokio::test]
async fn a_reload_turns_the_audit_log_on_moves_it_and_turns_it_off() {
    let on = |file: &str| ConfigFile::new().audit("file", file).plugin(Plugin::misbehaving("m"));
    let off = || ConfigFile::new().plugin(Plugin::misbehaving("m"));
    let config = off().write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let mut generation = 1;
    for (next, name) in [(on("one"), "one"), (on("two"), "two"), (off(), ""), (on("one"), "one")] {
        config.replace(next);
        generation += 1;
        wire.log_line(&format!("generation={generation}")).await;
        wire.read("misbehaving://m/good").await.unwrap();
        if !name.is_empty() {
            let file = config.dir().join(name);
            let is_there = || lines(&file).iter().any(|line| line["generation"] == generation);
            wait_until("the request has a line", is_there).await;
        }
    }
    wire.end().await;
    let generations = |name: &str| {
        let lines = lines(&config.dir().join(name));
        lines.iter().map(|line| line["generation"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((generations("one"), generations("two")), (vec![2, 5], vec![3]));
}

#[tokio::test]
async fn a_line_says_what_was_read_however_its_uri_was_spelled() {
    let folder = Folder::with_files([("secret.txt", "text")]);
    let config = ConfigFile::new().audit("file", "audit.jsonl").plugin(Plugin::faulty("m", folder.path())).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let spelled = format!("faulty://m/{}{}secret.txt", "a/".repeat(1030), "../".repeat(1030));
    assert_eq!(wire.read(&spelled).await.unwrap(), "text");
    let long = format!("faulty://m/{}end", "x".repeat(3000));
    wire.read(&long).await.unwrap_err();
    let lines = wait_for_lines(&audit_file(&config), 2).await;
    assert_eq!(members(&lines[0], ["uri", "uri_end", "outcome"]), json!(["faulty://m/secret.txt", null, "ok"]));
    assert!(lines[1]["uri_end"].as_str().unwrap().ends_with("xend"), "{}", lines[1]);
    assert_eq!(lines[1]["uri_bytes"], long.len());
    assert_eq!(lines[1]["uri_sha256"].as_str().unwrap().len(), 64);
    wire.end().await;
}

#[tokio::test]
async fn a_search_and_a_selection_of_context_have_the_uris_and_the_bytes_that_they_returned() {
    let folder = Folder::with_files([("a.md", "zebra one"), ("b.md", "zebra two"), ("c.md", "other")]);
    let plugin = Plugin::notes("n", folder.path()).searched();
    let config = ConfigFile::new().audit("file", "audit.jsonl").plugin(plugin).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let found = async {
        loop {
            let found = wire.read("search:///?q=zebra").await.unwrap();
            if found.contains("a.md") && found.contains("b.md") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(mcp_host_tests::TIMEOUT, found).await.expect("they are indexed");
    wire.read("context:///?q=zebra").await.unwrap();
    wire.end().await;
    let lines = lines(&audit_file(&config));
    for line in &lines[lines.len() - 2..] {
        let mut returned: Vec<_> =
            line["returned"].as_array().unwrap().iter().map(|uri| uri.as_str().unwrap()).collect();
        returned.sort_unstable();
        assert_eq!(returned, ["notes://n/a.md", "notes://n/b.md"], "{line}");
        assert!(line["bytes"].as_u64().unwrap() > 0, "{line}");
    }
}

#[tokio::test]
async fn failed_logins_have_lines_that_strangers_cannot_multiply() {
    let config = ConfigFile::new()
        .audit("file", "audit.jsonl")
        .plugin(Plugin::misbehaving("m"))
        .principal("ci", "token-of-ci")
        .write();
    let server = HttpServer::start(&config).await;
    let mut client = server.uninitialized(Revision::V_2026_07_28);
    for _ in 0..20 {
        let request = client.request_builder("resources/list", json!({})).bearer_auth("guessed");
        assert_eq!(request.send().await.unwrap().status(), 401);
    }
    wait_until("the first has a line at once", || !lines(&audit_file(&config)).is_empty()).await;
    server.end().await;
    let lines = lines(&audit_file(&config));
    let found: Vec<_> = lines
        .iter()
        .map(|line| members(line, ["operation", "client", "reason", "outcome", "count", "principal"]))
        .collect();
    let expected = |count: u64| json!(["authenticate", "127.0.0.1", "token", "refused", count, null]);
    assert_eq!(found, [expected(1), expected(19)]);
    let text = fs::read_to_string(audit_file(&config)).unwrap();
    assert!(!text.contains("guessed"), "a token is a secret, a wrong one, too");
}
