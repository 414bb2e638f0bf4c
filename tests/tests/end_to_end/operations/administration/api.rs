//! The administration API: access, answers that match the schema, and the effects of actions.

use std::process::Stdio;
use std::time::Duration;

use jsonschema::Validator;
use mcp_host_tests::{
    CertificateAuthority, ConfigFile, Folder, HttpServer, Plugin, RawStdio, ReservedPort, Revision, Rule, TIMEOUT,
    WrittenConfig, fixture, host_command, run, wait_until,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::{Administered, LOOPBACK, REVISION, TOKEN, request, with_token};

pub(super) const SESSIONS: Revision = Revision::V_2025_11_25;

impl Administered {
    /// Returns the status and the answer of a request with the token and a body.
    pub(super) async fn api(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let body = body.map(Value::to_string).unwrap_or_default();
        let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        self.raw(method, path, &format!("{headers}Authorization: Bearer {TOKEN}\r\n"), &body).await
    }

    async fn raw(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let head = format!("{method} /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}");
        let (status, answer) = request(stream, &head).await;
        (status, serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}")))
    }
}

/// Returns the schema that the program prints.
pub(super) async fn schema() -> Validator {
    let schema = run(["schema", "admin", "--config", "absent.toml"]).await.success().json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    jsonschema::validator_for(&schema).unwrap()
}

pub(super) fn assert_valid(schema: &Validator, member: &str, value: &Value) {
    let document = json!({ member: value });
    let errors: Vec<_> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{member}: {errors:#?}\n{value:#}");
}

pub(super) fn audited(config: &WrittenConfig) -> Vec<Value> {
    let text = std::fs::read_to_string(config.dir().join("audit.jsonl")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["operation"].as_str().is_some_and(|name| name.starts_with("admin-"))).collect()
}

#[tokio::test]
async fn answers_are_what_the_schema_says_and_what_the_server_does() {
    let folder = tempfile::tempdir().unwrap();
    let notes = Folder::with_files([("plan.md", "# Plan\n\nA circuit breaker.\n")]);
    let plugins = ConfigFile::new().plugin(Plugin::sample("a")).plugin(Plugin::notes("n", notes.path()).searched());
    let config = plugins.plugin(super::broken(folder.path())).allow_all().append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let schema = schema().await;
    let mut client = admin.server.raw_client(SESSIONS).await;
    client.request("resources/read", json!({ "uri": "sample://a/plain" })).await;
    client.request("resources/subscribe", json!({ "uri": "notes://n/plan.md" })).await.result();
    let get = async |path: &'static str| {
        let (status, answer) = admin.api("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {answer}");
        let member = if path.starts_with("plugins/") { "plugins/NAME" } else { path.split('?').next().unwrap() };
        assert_valid(&schema, &format!("GET /api/v1/{member}"), &answer);
        answer
    };
    let status = get("status").await;
    assert_eq!((&status["ready"], &status["sessions"]), (&json!(true), &json!(1)));
    let states: Vec<_> = status["plugins"]["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plugin| [&plugin["name"], &plugin["state"]["name"]])
        .collect();
    assert!(states.contains(&[&json!("a"), &json!("ready")]), "{states:?}");
    assert!(states.contains(&[&json!("broken"), &json!("failed")]), "{states:?}");
    let plugin = get("plugins/n").await;
    assert_eq!((&plugin["status"]["watched"], &plugin["config"]["mount"]), (&json!(1), &json!("notes://n/")));
    assert_eq!(plugin["config"]["grants"]["dirs"][0]["guest"], "/notes");
    let page = get("plugins?limit=1").await;
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next"]), (1, &json!("a")));
    assert!(page["total"].as_u64().unwrap() >= 3, "{page}");
    assert_ne!(get("plugins?limit=1&after=a").await["items"][0]["name"], "a");
    let session = get("sessions").await["items"][0].clone();
    assert_eq!((&session["principal"], &session["revision"]), (&json!("anonymous"), &json!("2025-11-25")));
    assert!(!session.to_string().contains(client.session_id().unwrap()), "the id of a session is a secret");
    let watched = get("subscriptions").await;
    assert_eq!(
        watched["resources"]["items"],
        json!([{ "uri": "notes://n/plan.md", "subscribers": 1, "unheard": 1, "views": 0, "principals": ["anonymous"] }])
    );
    assert!(get("cache").await["capacity"].as_u64().unwrap() > 0);
    assert_eq!(get("search").await["items"][0]["plugin"], "n");
    get("config").await;
    get("config/warnings").await;
    for (path, status) in [("nothing", 404), ("plugins/absent", 404), ("plugins?limit=0", 400), ("plugins?x=1", 400)] {
        let (found, answer) = admin.api("GET", path, None).await;
        assert_eq!(found, status, "{path}: {answer}");
        assert_valid(&schema, "error", &answer);
    }
    admin.server.end().await;
}

#[tokio::test]
async fn the_config_is_shown_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = Plugin::sample("a").config("api-key", "hunter2").variable("GREETING", "hunter3");
    let config = ConfigFile::new().plugin(plugin).allow_all().append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let (_, shown) = admin.api("GET", "config", None).await;
    assert_eq!(shown["plugins"]["items"][0]["config_keys"], json!(["api-key"]));
    assert_eq!(shown["plugins"]["items"][0]["grants"]["env"], json!(["GREETING"]));
    for secret in ["hunter", TOKEN] {
        assert!(!shown.to_string().contains(secret), "{shown:#}");
    }
    admin.server.end().await;
}

#[tokio::test]
async fn who_is_no_administrator_gets_401_whatever_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    for path in ["status", "nothing", "reload", "plugins/a/disable"] {
        for method in ["GET", "POST", "PUT"] {
            let (status, answer) = admin.raw(method, path, "Authorization: Bearer no\r\n", "").await;
            assert_eq!(status, 401, "{method} {path}: {answer}");
        }
    }
    let response = reqwest::get(format!("http://{}/api/v1/status", admin.address)).await.unwrap();
    let challenge = response.headers()["www-authenticate"].to_str().unwrap();
    assert!(challenge.starts_with("Bearer "), "{challenge}");
    admin.server.end().await;

    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(LOOPBACK).write();
    let admin = Administered::start(&config).await;
    let (status, answer) = admin.api("GET", "status", None).await;
    assert_eq!(status, 401);
    assert!(answer["help"].as_str().unwrap().contains("token = { file"), "{answer}");
    admin.server.end().await;
}

#[tokio::test]
async fn the_token_is_not_looked_at_without_tls_where_the_listener_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = "tls = { certificate = \"cert.pem\", key = \"key.pem\" }\n";
    let text = format!("{}{files}", with_token(folder.path()));
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&text).write();
    config.write_certificate(&CertificateAuthority::new().issue("localhost"));
    let admin = Administered::start(&config).await;
    assert_eq!(admin.api("GET", "status", None).await.0, 403);
    admin.server.end().await;
}

#[tokio::test]
async fn bodies_are_json_of_a_bounded_size_from_no_page_of_another_site() {
    let folder = tempfile::tempdir().unwrap();
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let post = async |headers: &str, body: &str| {
        let headers = format!("Authorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n{headers}", body.len());
        admin.raw("POST", "log", &headers, body).await.0
    };
    let json = "Content-Type: application/json\r\n";
    assert_eq!(post("Content-Type: text/plain\r\n", "{\"filter\":\"debug\"}").await, 415);
    assert_eq!(post("Content-Type: application/x-www-form-urlencoded\r\n", "filter=debug").await, 415);
    assert_eq!(post(&format!("{json}Content-Encoding: gzip\r\n"), "{\"filter\":\"debug\"}").await, 415);
    assert_eq!(post(json, "").await, 400);
    assert_eq!(post(json, "{\"filter\":\"debug\",\"more\":1}").await, 400);
    assert_eq!(post(json, "{\"filter\":\"loud\"}").await, 400);
    assert_eq!(post(json, "{\"filter\":\"debug\",\"seconds\":0}").await, 400);
    assert_eq!(post(json, &format!("{{\"filter\":\"{}\"}}", "x".repeat(65_530))).await, 413);
    assert_eq!(admin.api("GET", "log", None).await.0, 405);
    assert_eq!(admin.api("POST", "status", None).await.0, 405);
    let tcp = TcpStream::connect(&admin.address).await.unwrap();
    let head = format!(
        "POST /api/v1/reload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nOrigin: https://evil.example\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(request(tcp, &head).await.0, 403);
    admin.server.end().await;
}

#[tokio::test]
async fn a_plugin_that_is_disabled_stays_so_across_reloads_until_it_is_enabled() {
    let folder = tempfile::tempdir().unwrap();
    let file = |title: &str| {
        let plugin = Plugin::sample("a").set("title", title);
        let file = ConfigFile::new().plugin(plugin).plugin(Plugin::sample("b")).allow_all();
        file.audit("file", "audit.jsonl").append(&with_token(folder.path()))
    };
    let config = file("one").write();
    let admin = Administered::start(&config).await;
    let schema = schema().await;
    let mut client = admin.server.uninitialized(REVISION);
    let mut read = async || {
        let response = client.request("resources/read", json!({ "uri": "sample://a/plain" })).await;
        response.message["result"]["contents"].is_array()
    };
    assert!(read().await);
    let (status, disabled) = admin.api("POST", "plugins/a/disable", None).await;
    assert_eq!((status, &disabled["status"]["state"]["by"]), (200, &json!("admin/token")), "{disabled}");
    assert_valid(&schema, "POST /api/v1/plugins/NAME/disable", &disabled);
    assert!(!read().await);
    config.replace(file("two"));
    // The change of the file may have been detected before.
    let (status, reload) = admin.api("POST", "reload", None).await;
    assert_eq!(status, 200, "{reload}");
    assert_valid(&schema, "POST /api/v1/reload", &reload);
    assert!(!read().await);
    let (_, again) = admin.api("GET", "plugins/a", None).await;
    assert_eq!(again["status"]["state"], disabled["status"]["state"]);
    assert_eq!(again["config"]["title"], "two");
    let (status, enabled) = admin.api("POST", "plugins/a/enable", None).await;
    assert_eq!((status, &enabled["status"]["state"]["name"]), (200, &json!("ready")), "{enabled}");
    assert!(read().await);
    assert_eq!(admin.api("POST", "plugins/a/reset", None).await.0, 200);
    assert_eq!(admin.api("POST", "plugins/absent/reset", None).await.0, 404);
    wait_until("the audit log has the actions", || audited(&config).len() == 5).await;
    let lines: Vec<_> = audited(&config)
        .iter()
        .map(|line| json!([line["principal"], line["operation"], line["plugin"], line["outcome"]]))
        .collect();
    let line = |operation, plugin, outcome| json!(["admin/token", operation, plugin, outcome]);
    assert_eq!(
        lines,
        [
            line("admin-disable", json!("a"), "ok"),
            line("admin-reload", Value::Null, "ok"),
            line("admin-enable", json!("a"), "ok"),
            line("admin-reset", json!("a"), "ok"),
            line("admin-reset", json!("absent"), "not found"),
        ]
    );
    admin.server.end().await;
}

#[tokio::test]
async fn a_reload_says_what_changed_or_why_nothing_did() {
    let folder = tempfile::tempdir().unwrap();
    let file = || ConfigFile::new().plugin(Plugin::sample("a")).append(&with_token(folder.path()));
    let config = file().write();
    let admin = Administered::start(&config).await;
    let (status, same) = admin.api("POST", "reload", None).await;
    assert_eq!((status, &same["changed"], &same["generation"]), (200, &json!(false), &json!(1)), "{same}");
    config.replace(file().plugin(Plugin::sample("b")));
    // The change of the file may have been detected before.
    let (status, more) = admin.api("POST", "reload", None).await;
    assert_eq!((status, &more["generation"]), (200, &json!(2)), "{more}");
    assert_eq!(admin.api("GET", "plugins/b", None).await.0, 200);
    config.replace_text("server = 1\n");
    let (status, wrong) = admin.api("POST", "reload", None).await;
    assert_eq!(status, 409, "{wrong}");
    assert!(wrong["error"].as_str().unwrap().contains("`server` must be"), "{wrong}");
    admin.server.end().await;
}

#[tokio::test]
async fn the_log_and_the_rules_can_be_asked_of_a_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let rule = Rule::for_principal("anonymous").allow(["sample://a/**"]).deny(["**/secret"]);
    let file = ConfigFile::new().plugin(Plugin::sample("a")).rule(rule).append(&with_token(folder.path()));
    let config = file.write();
    let admin = Administered::start(&config).await;
    let schema = schema().await;
    let request = json!({ "uri": "sample://a/secret", "operation": "read", "principal": "anonymous", "groups": [] });
    let (status, answer) = admin.api("POST", "explain", Some(&request)).await;
    assert_eq!((status, &answer["allowed"], &answer["rule"]["glob"]), (200, &json!(false), &json!("**/secret")));
    assert_valid(&schema, "POST /api/v1/explain", &json!({ "request": request, "answer": answer }));
    assert_eq!(admin.api("POST", "explain", Some(&json!({ "uri": "other:///x" }))).await.0, 404);
    let request = json!({ "filter": "debug", "seconds": 600 });
    let (status, answer) = admin.api("POST", "log", Some(&request)).await;
    assert_eq!((status, &answer["filter"], &answer["by"]), (200, &json!("debug"), &json!("admin/token")));
    assert_valid(&schema, "POST /api/v1/log", &json!({ "request": request, "answer": answer }));
    admin.server.uninitialized(REVISION).request("resources/list", json!({})).await;
    admin.server.log_line("mcp_host::access").await;
    let (_, answer) = admin.api("POST", "log", Some(&json!({ "restore": true }))).await;
    assert_eq!((&answer["until"], &answer["by"]), (&Value::Null, &Value::Null), "{answer}");
    let (_, answer) = admin.api("POST", "log", Some(&json!({ "filter": "trace", "seconds": 1 }))).await;
    assert_eq!(answer["filter"], "trace");
    let back = async { while admin.api("GET", "status", None).await.1["log"]["filter"] == "trace" {} };
    timeout(TIMEOUT, back).await.expect("the filter goes back");
    // A reload changes the filter that is restored later, not the current one.
    admin.api("POST", "log", Some(&request)).await;
    let text = std::fs::read_to_string(config.path()).unwrap();
    config.replace_text(&format!("{text}\n[log]\nfilter = \"warn\"\n"));
    admin.server.log_line(" reloaded ").await;
    assert_eq!(admin.api("GET", "status", None).await.1["log"]["filter"], "debug");
    let (_, answer) = admin.api("POST", "log", Some(&json!({ "restore": true }))).await;
    assert_eq!(answer["filter"], "warn", "{answer}");
    admin.server.end().await;
}

#[tokio::test]
async fn a_plugin_that_has_answered_no_call_is_untried_in_the_list_of_status() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("\n[admin]\nlisten = \"unix:{}\"\n", folder.path().join("admin.sock").display());
    let config = ConfigFile::new().plugin(Plugin::sample("a")).allow_all().append(&listen).write();
    let path = config.path();
    let status = async |option: &[&str]| {
        let command = ["status", "--config", path.to_str().unwrap()];
        run(command.into_iter().chain(option.iter().copied())).await.success()
    };
    let server = HttpServer::start(&config).await;
    let shown = status(&[]).await.text();
    assert!(shown.lines().any(|line| line.starts_with("a ") && line.contains(" untried ")), "{shown}");
    assert!(shown.contains("untried: loaded, and has answered no call yet; `mcp-host check` tries plugins"), "{shown}");
    let plugin = status(&["--json"]).await.json()["plugins"]["items"][0].clone();
    assert_eq!((&plugin["answered"], &plugin["state"]["name"]), (&json!(false), &json!("ready")));
    assert!(status(&["a"]).await.text().contains("untried    it has answered no call yet"));

    assert!(server.client(SESSIONS).await.read("sample://a/plain").await.is_ok());
    let shown = status(&[]).await.text();
    assert!(shown.lines().any(|line| line.starts_with("a ") && line.contains(" ready ")), "{shown}");
    assert!(!shown.contains("untried"), "{shown}");
    server.end().await;
}

#[tokio::test]
async fn the_warnings_about_a_plugin_are_in_the_log_of_the_server_and_in_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("\n[admin]\nlisten = \"unix:{}\"\n", folder.path().join("admin.sock").display());
    let web_plugin = || Plugin::new("web", &fixture("fetch"), "fetch://web/");
    let config = ConfigFile::new().plugin(Plugin::sample("a")).plugin(web_plugin()).append(&listen).write();
    let wire = RawStdio::start(&config, SESSIONS).await;
    let warning = "it imports `wasi:http/outgoing-handler`, which is of no use without `grants.http`";
    let line = wire.log_line(warning).await;
    assert!(line.contains("WARN") && line.contains(r#"plugin="web""#), "{line}");
    let path = config.path();
    let status = async |option: &[&str]| {
        let command = ["status", "--config", path.to_str().unwrap()];
        run(command.into_iter().chain(option.iter().copied())).await.success()
    };
    let shown = status(&[]).await.text();
    assert!(shown.contains("web: 1 warning about its grants and settings: see `mcp-host status web`"), "{shown}");
    let shown = status(&["web"]).await.text();
    assert!(shown.contains(&format!("warning    {warning}: every request will be refused")), "{shown}");
    let details = status(&["web", "--json"]).await.json();
    assert_valid(&schema().await, "GET /api/v1/plugins/NAME", &details);
    let texts = details["warnings"].as_array().unwrap();
    assert!(texts.len() == 1 && texts[0].as_str().unwrap().starts_with(warning), "{details:#}");
    let stream = UnixStream::connect(folder.path().join("admin.sock")).await.unwrap();
    let (_, of_config) = request(stream, "GET /api/v1/config/warnings HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let of_config: Value = serde_json::from_str(&of_config).unwrap();
    let first = of_config["items"][0].as_str().unwrap();
    assert!(first.starts_with(&format!("web: {warning}")), "{of_config}");
    assert_eq!(of_config["total"], of_config["items"].as_array().unwrap().len(), "{of_config}");
    let plugins = status(&["--json"]).await.json()["plugins"]["items"].clone();
    let web = plugins.as_array().unwrap().iter().find(|plugin| plugin["name"] == "web").unwrap();
    assert_eq!(web["warnings"], 1, "{web:#}");
    // A reload adds a plugin: the warning about the first one is not repeated.
    let late = Plugin::new("late", &fixture("fetch"), "fetch://late/");
    let with_late = ConfigFile::new().plugin(Plugin::sample("a")).plugin(web_plugin()).plugin(late);
    config.replace(with_late.append(&listen));
    wire.log_line(r#"every request will be refused plugin="late""#).await;
    let log = wire.end().await.log;
    assert_eq!(log.matches(warning).count(), 2, "{log}");
}

#[tokio::test]
async fn the_commands_find_the_listener_in_the_config() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let config = ConfigFile::new().plugin(Plugin::sample("a").set("required", true)).audit("file", "audit.jsonl");
    let config = config.append(&format!("\n[admin]\nlisten = \"unix:{}\"\n", socket.display())).write();
    let path = config.path();
    let path = path.to_str().unwrap();
    let command = async |arguments: &[&str]| run(arguments.iter().copied().chain(["--config", path])).await;
    let down = command(&["status"]).await;
    assert_eq!(down.code(), 1);
    assert!(down.stderr.contains("no answer from the administration listener at unix:"), "{}", down.stderr);
    assert!(down.stderr.contains("start the server with this config"), "{}", down.stderr);

    let wire = RawStdio::start(&config, SESSIONS).await;
    let status = command(&["status"]).await.success().text();
    assert!(status.starts_with("ready: mcp-host ") && status.contains("a  "), "{status}");
    let json = command(&["status", "--json"]).await.success().json();
    assert_eq!((&json["sessions"], &json["ready"]), (&json!(1), &json!(true)));
    assert_eq!(command(&["status", "--probe"]).await.success().text(), "ready\n");
    let disabled = command(&["admin", "disable", "a"]).await.success().text();
    assert!(disabled.starts_with("a  disabled\na: disabled since ") && disabled.contains("admin/uid:"), "{disabled}");
    let probe = command(&["status", "--probe"]).await;
    assert_eq!(
        (probe.code(), probe.text().starts_with("plugin `a` is disabled by admin/uid:")),
        (1, true),
        "{probe:?}"
    );
    assert_eq!(command(&["admin", "enable", "a"]).await.success().text(), "a  ready\n");
    let wide = command(&["status", "--wide"]).await.success().text();
    assert!(wide.contains("sample://a/"), "{wide}");
    assert!(!command(&["status"]).await.success().text().contains("sample://a/"));
    let one = command(&["status", "a"]).await.success().text();
    assert!(one.starts_with("plugin     a\nstate      ready\nmount      sample://a/\n"), "{one}");
    assert!(one.contains("\nlimits     memory ") && one.contains("\nfaults     none\n"), "{one}");
    assert_eq!(command(&["status", "a", "--json"]).await.success().json()["status"]["name"], "a");
    assert!(command(&["status", "absent"]).await.stderr.contains("the server has no plugin `absent`"));
    let sessions = command(&["admin", "sessions"]).await.success().text();
    assert!(sessions.starts_with("NUMBER  PRINCIPAL") && sessions.contains("  local      2025-11-25  "), "{sessions}");
    let listed = command(&["admin", "sessions", "--json"]).await.success().json();
    assert_eq!((&listed["total"], &listed["items"][0]["principal"]), (&json!(1), &json!("local")));
    let listed = command(&["admin", "subscriptions", "--json"]).await.success().json();
    assert_eq!(listed["resources"]["items"], json!([]));
    let empty = command(&["admin", "subscriptions"]).await.success();
    assert_eq!(empty.text(), "");
    assert!(empty.stderr.contains("note: no client watches a resource\n"), "{}", empty.stderr);
    let cache = command(&["admin", "cache", "--limit", "1"]).await.success().text();
    assert!(cache.starts_with("PLUGIN  HITS") && cache.contains("\na  "), "{cache}");
    // The last row, the whole cache, is in the columns of the others.
    let all = cache.lines().find(|line| line.starts_with("all  ")).unwrap();
    let before_size = all.get(..cache.find("SIZE").unwrap()).unwrap();
    assert!(before_size.trim() == "all" && all.ends_with(" MiB"), "{cache}");
    assert_eq!(command(&["admin", "reset", "a"]).await.success().text(), "a  ready\n");
    let absent = command(&["admin", "reset", "absent"]).await;
    assert!(absent.code() == 1 && absent.stderr.contains("the config has no plugin `absent`"), "{}", absent.stderr);
    let reload = command(&["admin", "reload"]).await.success().text();
    assert!(reload.starts_with("nothing to reload: the config was loaded "), "{reload}");
    assert!(reload.contains(" ago, as generation "), "{reload}");
    let explained = command(&["admin", "explain", "sample://a/plain"]).await.success().text();
    assert!(explained.starts_with("allowed: ") && explained.contains("plugin     a\n"), "{explained}");
    let denied = command(&["admin", "explain", "--as", "anonymous", "sample://a/plain"]).await;
    assert!(denied.code() == 1 && denied.text().starts_with("denied: no rule allows it\n"), "{denied:?}");
    let log = command(&["admin", "log", "debug", "--for", "1h"]).await.success().text();
    assert!(log.starts_with("log debug until "), "{log}");
    command(&["admin", "log", "--restore"]).await.success();

    // A second process with the same address has no listener. Desktop clients start several processes.
    let listen = format!("\n[admin]\nlisten = \"unix:{}\"\n", socket.display());
    let other = ConfigFile::new().plugin(Plugin::sample("a")).append(&listen).write();
    RawStdio::start(&other, SESSIONS).await.end().await;
    // When the file becomes invalid, the server keeps its current config, and the commands still find the server.
    let valid = std::fs::read_to_string(path).unwrap();
    config.replace_text(&format!("{valid}\n[surver]\nname = \"x\"\n"));
    let failed = command(&["admin", "reload"]).await;
    assert!(failed.code() == 1 && failed.stderr.contains("unknown key `surver`"), "{}", failed.stderr);
    let status = command(&["status"]).await;
    assert!(status.stderr.contains("this command needs `[admin]` only"), "{}", status.stderr);
    let status = status.success().text();
    assert!(status.contains("the last reload failed at ") && status.contains("surver"), "{status}");
    config.replace_text(&valid);
    command(&["admin", "reload"]).await.success();
    assert!(!command(&["status"]).await.success().text().contains("failed"));
    wire.end().await;
}

#[tokio::test]
async fn the_commands_send_the_token_over_tls_to_the_certificate_of_the_config() {
    let folder = tempfile::tempdir().unwrap();
    let port = ReservedPort::new();
    let listen = format!("listen = \"{}\"", port.address());
    let files = "tls = { certificate = \"cert.pem\", key = \"key.pem\" }\n";
    let text = format!("{}{files}", with_token(folder.path())).replace("listen = \"127.0.0.1:0\"", &listen);
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&text).write();
    config.write_certificate(&CertificateAuthority::new().issue("localhost"));
    // The server keeps the certificate of its start.
    let admin = Administered::of(HttpServer::start_with(&config, &["--no-reload"]).await).await;
    let path = config.path();
    let arguments = ["status", "--config", path.to_str().unwrap()];
    assert!(run(arguments).await.success().text().starts_with("ready: "));
    // The token is sent only to the server with the certificate.
    config.write_certificate(&CertificateAuthority::new().issue("localhost"));
    let other = run(arguments).await;
    assert!(other.code() == 1 && other.stderr.contains("is not that of `admin.tls`"), "{}", other.stderr);
    admin.server.end().await;
}

#[tokio::test]
async fn a_config_without_a_listener_says_what_to_add() {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).write();
    let path = config.path();
    let failed = run(["admin", "reload", "--config", path.to_str().unwrap()]).await;
    assert_eq!(failed.code(), 2);
    assert!(failed.stderr.contains("the config has no administration listener"), "{}", failed.stderr);
    assert!(failed.stderr.contains("[admin]\nlisten = "), "{}", failed.stderr);
}

/// The data of the API's server-sent events.
struct EventData(Lines<BufReader<TcpStream>>);

impl EventData {
    /// Opens the event stream at a path.
    async fn open(admin: &Administered, path: &str) -> Self {
        let mut stream = BufReader::new(TcpStream::connect(&admin.address).await.unwrap());
        let head = format!("GET /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut lines = stream.lines();
        let first = lines.next_line().await.unwrap().unwrap();
        assert!(first.contains(" 200 "), "{first}");
        while lines.next_line().await.unwrap().unwrap() != "" {}
        Self(lines)
    }

    /// Returns the data of the next event; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            let line = timeout(TIMEOUT, self.0.next_line()).await.unwrap().ok()??;
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn the_updates_of_a_principal_are_followed_as_they_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([("a.md", "# One\n")]);
    let config = ConfigFile::new().plugin(Plugin::files("files", files.path())).allow_all();
    let config = config.append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let schema = schema().await;
    assert_eq!(admin.api("GET", "updates", None).await.0, 400);
    assert_eq!(admin.api("GET", "updates?follow&plugin=files", None).await.0, 400);
    assert_eq!(admin.api("POST", "updates?follow", None).await.0, 405);
    assert_eq!(admin.raw("GET", "updates?follow", "", "").await.0, 401);
    let mut of_client = EventData::open(&admin, "updates?follow&principal=anonymous").await;
    let mut of_nobody = EventData::open(&admin, "updates?follow&principal=nobody").await;
    let mut client = admin.server.raw_client(SESSIONS).await;
    let uri = json!({ "uri": "files://files/a.md" });
    client.request("resources/subscribe", uri.clone()).await.result();
    // Without a stream, the client's updates would be pending.
    let _events = client.event_stream().await;
    files.write("a.md", "# Another\n");
    loop {
        let update = of_client.next().await.unwrap();
        assert_valid(&schema, "GET /api/v1/updates?follow", &json!({ "update": update, "missed": { "lines": 1 } }));
        assert_eq!(update["principal"], "anonymous", "{update}");
        if update["uri"] == uri["uri"] {
            break;
        }
        // The edit may have changed the listing, too.
        assert_eq!(update["uri"], Value::Null, "{update}");
    }
    admin.server.end().await;
    assert_eq!(of_nobody.next().await, None, "they are of another principal");
}

#[tokio::test]
async fn the_audit_log_is_followed_by_administrators_while_they_are_such() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = || ConfigFile::new().plugin(Plugin::sample("a")).plugin(Plugin::sample("b")).allow_all();
    let token = with_token(folder.path());
    let config = plugins().append(&token).write();
    let admin = Administered::start(&config).await;
    let schema = schema().await;
    let refused = admin.api("GET", "audit?follow", None).await;
    assert!(refused.0 == 409 && refused.1["help"].as_str().unwrap().contains("[audit]"), "{refused:?}");
    config.replace(plugins().audit("file", "audit.jsonl").append(&token));
    admin.server.log_line("reloaded").await;
    assert_eq!(admin.api("GET", "audit", None).await.0, 400);
    assert_eq!(admin.api("POST", "audit?follow", None).await.0, 405);
    assert_eq!(admin.raw("GET", "audit?follow", "", "").await.0, 401);

    let mut audit = EventData::open(&admin, "audit?follow&plugin=b").await;
    let mut client = admin.server.raw_client(SESSIONS).await;
    for uri in ["sample://a/plain", "sample://b/plain"] {
        client.request("resources/read", json!({ "uri": uri })).await.result();
    }
    let line = audit.next().await.unwrap();
    assert_eq!((&line["uri"], &line["outcome"]), (&json!("sample://b/plain"), &json!("ok")), "{line}");
    assert_valid(&schema, "GET /api/v1/audit?follow", &json!({ "audit": line, "missed": { "lines": 1 } }));
    // A stream opened with the old token ends before the next line.
    std::fs::write(folder.path().join("admin.token"), "fedcba9876543210fedcba9876543210").unwrap();
    admin.server.log_line("generation=3").await;
    client.request("resources/read", json!({ "uri": "sample://b/plain" })).await.result();
    assert_eq!(audit.next().await, None);
    admin.server.end().await;
}

#[tokio::test]
async fn a_profile_is_not_for_a_client_that_is_no_administrator_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let config = ConfigFile::new().plugin(Plugin::sample("a")).audit("file", "audit.jsonl");
    let config = config.append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let revoking = async {
        wait_until("the profile has begun", || audited(&config).len() == 1).await;
        std::fs::write(folder.path().join("admin.token"), "fedcba9876543210fedcba9876543210").unwrap();
    };
    let profiling = admin.api("POST", "plugins/a/profile?seconds=60", None);
    let ((status, answer), ()) = tokio::join!(profiling, revoking);
    assert_eq!(status, 401, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("no longer an administrator"), "{answer}");
    admin.server.end().await;
}

#[tokio::test]
async fn the_command_prints_the_audit_log_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let config = ConfigFile::new().plugin(Plugin::sample("a")).audit("file", "audit.jsonl");
    let socket = folder.path().join("admin.sock");
    let config = config.append(&format!("\n[admin]\nlisten = \"unix:{}\"\n", socket.display())).write();
    let mut wire = RawStdio::start(&config, SESSIONS).await;
    let mut command = host_command();
    command.args(["admin", "audit", "--operation", "read", "--outcome", "ok", "--config"]).arg(config.path());
    let mut command = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(command.stdout.take().unwrap()).lines();
    // Requests sent before the stream is connected are not shown.
    let line = loop {
        for uri in ["sample://a/absent", "sample://a/plain"] {
            wire.request("resources/read", json!({ "uri": uri })).await;
        }
        if let Ok(line) = timeout(Duration::from_millis(100), lines.next_line()).await {
            break line.unwrap().unwrap();
        }
    };
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["uri"], &line["principal"]), (&json!("sample://a/plain"), &json!("local")), "{line}");
    wire.end().await;
    let ended = timeout(TIMEOUT, command.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(1), "the server has ended");
}

#[tokio::test]
async fn without_an_audit_log_the_command_is_an_error_and_says_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("\n[admin]\nlisten = \"unix:{}\"\n", folder.path().join("admin.sock").display());
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&listen).write();
    let wire = RawStdio::start(&config, SESSIONS).await;
    let path = config.path();
    let refused = run(["admin", "audit", "--config", path.to_str().unwrap()]).await;
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("the config has no audit log"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("following"), "{}", refused.stderr);
    wire.end().await;
}

#[tokio::test]
async fn the_status_has_the_calls_of_the_last_minute() {
    let folder = tempfile::tempdir().unwrap();
    let config = ConfigFile::new().plugin(Plugin::sample("a").set("response-cache", false)).allow_all();
    let config = config.append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let mut client = admin.server.raw_client(SESSIONS).await;
    let recent = async || admin.api("GET", "plugins/a", None).await.1["status"]["recent"].clone();
    let before = recent().await["calls"].as_u64().unwrap();
    for _ in 0..20 {
        client.request("resources/read", json!({ "uri": "sample://a/plain" })).await.result();
    }
    let after = recent().await;
    // A read of a provider that reports changes may need a second call to validate the cache.
    assert!(after["calls"].as_u64().unwrap() >= before + 20, "{after}");
    let [p50, p99] = ["p50_us", "p99_us"].map(|name| after[name].as_u64().unwrap());
    assert!(0 < p50 && p50 <= p99, "{after}");
    admin.server.end().await;
}

#[tokio::test]
async fn a_plugin_has_its_last_log_lines_and_what_it_imports_against_its_grants() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = Plugin::misbehaving("m").bucket("unused");
    let config = ConfigFile::new().plugin(plugin).allow_all().append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let client = admin.server.client(REVISION).await;
    let (_, before) = admin.api("GET", "plugins/m", None).await;
    assert_eq!(before["log"], json!([]), "{before:#}");
    let keyvalue = before["requirements"].as_array().unwrap().iter().find(|one| one["capability"] == "keyvalue");
    assert_eq!(keyvalue.unwrap()["status"], "unused", "{before:#}");

    assert!(client.read("misbehaving://m/panic").await.is_err());
    let (_, after) = admin.api("GET", "plugins/m", None).await;
    assert_valid(&schema().await, "GET /api/v1/plugins/NAME", &after);
    let log = after["log"].as_array().unwrap();
    let texts: Vec<_> = log.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert!(texts.iter().any(|text| text.contains("the secret is at /very/secret/place")), "{texts:?}");
    assert!(texts.iter().any(|text| text.starts_with("read panic: ")), "{texts:?}");

    let address = admin.address.clone();
    let port = address.rsplit(':').next().unwrap().to_owned();
    let of_port = config.dir().join("status.toml");
    let text = std::fs::read_to_string(config.path()).unwrap();
    std::fs::write(&of_port, text.replace("127.0.0.1:0", &format!("127.0.0.1:{port}"))).unwrap();
    let shown = run(["status", "m", "--config", of_port.to_str().unwrap()]).await.success().text();
    assert!(shown.contains("the secret is at /very/secret/place"), "{shown}");
    assert!(shown.contains("imports    keyvalue: unused"), "{shown}");

    let _ = client.read("misbehaving://m/flood-log").await;
    let (_, flooded) = admin.api("GET", "plugins/m", None).await;
    assert!(flooded["log"].as_array().unwrap().len() <= 128, "{}", flooded["log"].as_array().unwrap().len());
    admin.server.end().await;
}
