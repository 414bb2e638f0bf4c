//! The console: login, the permissions of its files in a browser, and its pages in a real browser.

mod large;
mod page;
mod policy;
mod watch;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use futures::future::select_all;
use mcp_host_tests::{
    ConfigFile, Folder, HttpServer, Plugin, ReservedPort, Rule, TIMEOUT, client_program, run, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use super::api::{assert_valid, audited, schema};
use super::{Administered, TOKEN, broken, request, with_token};

const ALICE_TOKEN: &str = "token-of-alice";

/// A rule for a group, which may only see secrets.
const AUDITORS: &str = "\n[[rule]]\ngroups = [\"staff/auditors\"]\nallow = [\"**/secret*\"]\n";

/// An image of one pixel.
const DOT: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x01\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// Returns the folder of the browser's screenshots. `docs/console.md` has copies.
fn pictures() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/console/pictures");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs parts of the browser test as an administrator.
async fn browse(parts: &str, address: &str) {
    browse_with(parts, address, TOKEN).await;
}

/// Returns the program that runs parts of the browser test with a token.
fn browser(parts: &str, address: &str, token: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(client_program("console/console.mjs")).args([parts, address, token]).arg(pictures());
    command.kill_on_drop(true);
    command
}

/// Runs parts of the browser test with a token.
async fn browse_with(parts: &str, address: &str, token: &str) {
    succeed(&mut browser(parts, address, token)).await;
}

/// Runs parts of the browser's test.
async fn succeed(browser: &mut Command) {
    let output = browser.stdin(Stdio::null()).output();
    let output = timeout(TIMEOUT, output).await.expect("the browser ends in time").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

impl Administered {
    /// Browses with a client's token. Returns the status and the answer.
    async fn browse_as_alice(&self, what: &str, body: &Value) -> (u16, Value) {
        let authorization = format!("Bearer {ALICE_TOKEN}");
        let path = format!("/api/v1/browse/{what}");
        let (status, _, answer) = self.page_request(&path, &[("Authorization", &authorization)], body).await;
        (status, serde_json::from_str(&answer).unwrap())
    }

    /// Returns whether the search index is complete.
    async fn is_indexed(&self) -> bool {
        let (_, search) = self.get("/api/v1/search", &format!("Authorization: Bearer {TOKEN}\r\n")).await;
        search.contains("\"complete\":true") && !search.contains("\"complete\":false")
    }

    /// Sends a request with these headers and body, as a page does. Returns the status, the head and the body.
    async fn page_request(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, String, String) {
        let (body, host) = (body.to_string(), &self.address);
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
    }
}

#[tokio::test]
async fn a_session_needs_a_page_of_this_origin_its_cookie_and_its_key_and_ends_with_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let config = ConfigFile::new().plugin(Plugin::sample("sample")).append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let origin = format!("http://{}", admin.address);
    let page = [("Origin", origin.as_str()), ("Sec-Fetch-Site", "same-origin")];
    let credentials = json!({ "token": TOKEN });
    for wrong in [
        &page[..1],
        &page[1..],
        &[page[0], ("Sec-Fetch-Site", "same-site")],
        &[("Origin", "http://localhost:1"), page[1]],
    ] {
        assert_eq!(admin.page_request("/console/login", wrong, &credentials).await.0, 403, "{wrong:?}");
    }
    for wrong in [json!({ "token": "wrong" }), json!({ "code": "00" })] {
        assert_eq!(admin.page_request("/console/login", &page, &wrong).await.0, 401, "{wrong}");
    }
    let (status, head, answer) = admin.page_request("/console/login", &page, &credentials).await;
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("; httponly; samesite=strict"), "{cookie}");
    let (cookie, key) = (cookie.split(';').next().unwrap(), answer["key"].as_str().unwrap());
    let session = [page[0], page[1], ("Cookie", cookie), ("Mcp-Host-Console", key)];
    let disable = "/api/v1/plugins/sample/disable";
    for missing in 0..session.len() {
        let mut part = session.to_vec();
        part.remove(missing);
        assert_eq!(admin.page_request(disable, &part, &json!({})).await.0, 401, "{missing}");
    }
    assert_eq!(admin.page_request(disable, &session, &json!({})).await.0, 200);
    let read = format!("Cookie: {cookie}\r\nMcp-Host-Console: {key}\r\nSec-Fetch-Site: same-origin\r\n");
    let (status, found) = admin.get("/api/v1/session", &read).await;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!((status, found), (200, json!({ "principal": "admin/token", "administrator": true })));
    // The clients' listener accepts no cookies, and has no console.
    let stream = TcpStream::connect(admin.server.url().split('/').nth(2).unwrap()).await.unwrap();
    assert_eq!(
        request(stream, &format!("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{read}\r\n")).await.0,
        404
    );

    // A new token ends the sessions of the old one.
    std::fs::write(folder.path().join("admin.token"), TOKEN.replace('0', "9")).unwrap();
    let reload = "POST /api/v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n";
    let stream = TcpStream::connect(&admin.address).await.unwrap();
    assert_eq!(request(stream, &format!("{reload}Authorization: Bearer {TOKEN}\r\n\r\n")).await.0, 200);
    assert_eq!(admin.get("/api/v1/session", &read).await.0, 401);
    admin.server.end().await;
}

/// A principal that may list a resource and not read it does not learn the language of its text.
#[tokio::test]
async fn a_listing_has_the_language_of_a_text_for_those_who_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = "Das ist der Plan für die Arbeit, und er ist nicht der letzte, den wir mit der Gruppe machen.\n";
    let files = Folder::with_files([("plan.txt", text), ("short.txt", "a b c\n")]);
    let config = ConfigFile::new()
        .plugin(Plugin::files("files", files.path()).searched())
        .plugin(Plugin::files("other", files.path()))
        .rule(Rule::for_principal("local").allow(["**"]))
        .rule(Rule::for_principal("anonymous").allow(["**"]).operations(["list"]))
        .rule(Rule::for_principal("alice").allow(["**"]))
        .append(&format!("{}users = true\n", with_token(folder.path())))
        .principal("alice", ALICE_TOKEN)
        .write();
    let admin = Administered::start(&config).await;
    while !admin.is_indexed().await {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let languages = |listed: &Value| -> Vec<(String, Value)> {
        let items = listed["items"].as_array().unwrap().iter();
        items.map(|item| (item["uri"].as_str().unwrap().to_owned(), item["language"].clone())).collect()
    };
    let expected = |language: Value| {
        let known = ("files://files/plan.txt", language);
        let others = ["files://files/short.txt", "files://other/plan.txt", "files://other/short.txt"];
        let others = others.into_iter().map(|uri| (uri, Value::Null));
        [known].into_iter().chain(others).map(|(uri, language)| (uri.to_owned(), language)).collect::<Vec<_>>()
    };
    let (_, listed) = admin.api("POST", "browse/list", Some(&json!({}))).await;
    assert_eq!(languages(&listed), expected(json!("de")));
    assert_valid(&schema().await, "POST /api/v1/browse/list", &json!({ "request": {}, "answer": listed }));
    let (status, listed) = admin.browse_as_alice("list", &json!({})).await;
    assert_eq!((status, languages(&listed)), (200, expected(json!("de"))));
    let anonymous = json!({ "as": { "principal": "anonymous" } });
    let (_, listed) = admin.api("POST", "browse/list", Some(&anonymous)).await;
    assert_eq!(languages(&listed), expected(Value::Null));
    admin.server.end().await;
}

#[tokio::test]
async fn open_prints_an_address_that_logs_in_once_although_the_config_has_no_admin() {
    let config = ConfigFile::new().plugin(Plugin::sample("sample")).write();
    let server = HttpServer::start_with(&config, &["--open"]).await;
    let line = server.log_line("console at ").await;
    let address = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    browse("code", &address).await;
    server.end().await;
}

#[tokio::test]
async fn open_prints_another_address_at_a_signal() {
    let config = ConfigFile::new().plugin(Plugin::sample("sample")).write();
    let server = HttpServer::start_with(&config, &["--open"]).await;
    let line = server.log_line("console at ").await;
    assert!(line.contains("; `kill -USR1 ") && line.contains("` prints another)"), "{line}");
    server.signal(Signal::USR1);
    server.log_lines("console at ", 2).await;
    let log = server.end().await.log;
    let addresses: Vec<_> = log.split_whitespace().filter(|word| word.contains("/#code=")).collect();
    assert!(addresses.len() == 2 && addresses[0] != addresses[1], "{log}");
}

#[tokio::test]
async fn admin_open_prints_an_address_whose_code_logs_in_once_and_has_a_line_of_the_audit_log() {
    let (folder, port) = (tempfile::tempdir().unwrap(), ReservedPort::new());
    let text = with_token(folder.path()).replace("127.0.0.1:0", &port.address().to_string());
    let config = ConfigFile::new().plugin(Plugin::sample("sample")).audit("file", "audit.jsonl").append(&text).write();
    let admin = Administered::start(&config).await;
    let path = config.path();
    let open = async |option: &[&str]| {
        let command = ["admin", "open", "--config", path.to_str().unwrap()];
        run(command.into_iter().chain(option.iter().copied())).await.success()
    };
    let opened = open(&["--json"]).await.json();
    assert_valid(&schema().await, "POST /api/v1/login-code", &opened);
    let (console, code) = opened["url"].as_str().unwrap().split_once("#code=").unwrap();
    assert_eq!((console, &opened["seconds"]), (&*format!("http://{}/", admin.address), &json!(60)));
    let origin = format!("http://{}", admin.address);
    let page = [("Origin", origin.as_str()), ("Sec-Fetch-Site", "same-origin")];
    for status in [200, 401] {
        let answer = admin.page_request("/console/login", &page, &json!({ "code": code })).await;
        assert_eq!(answer.0, status, "{answer:?}");
        assert!(status == 200 || answer.2.contains("`mcp-host admin open`"), "{answer:?}");
    }
    let shown = open(&[]).await;
    assert!(shown.text().starts_with(console) && shown.stderr.contains("it logs in once, within 60 s"), "{shown:?}");
    wait_until("the audit log is written", || audited(&config).len() == 2).await;
    assert!(audited(&config).iter().all(|line| line["operation"] == "admin-open" && line["outcome"] == "ok"));
    admin.server.end().await;
}

#[tokio::test]
async fn an_administrator_browses_as_a_principal_and_each_view_has_a_line_of_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([("plan.md", "# The plan\n\nA breaker.\n"), ("secret.txt", "hidden words\n")]);
    let config = ConfigFile::new()
        .plugin(Plugin::files("files", files.path()).searched())
        .rule(Rule::for_principal("local").allow(["**"]))
        .rule(Rule::for_principal("anonymous").allow(["**"]).deny(["**/secret*"]))
        .audit("file", "audit.jsonl")
        .append(&with_token(folder.path()))
        .write();
    let admin = Administered::start(&config).await;
    while !admin.is_indexed().await {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let schema = schema().await;
    let uri = "files://files/secret.txt";
    let anonymous = json!({ "principal": "anonymous", "groups": [] });
    let template = "files://files/{+path}";
    let requests = [
        ("list", json!({}), json!({ "as": anonymous, "limit": 1000 })),
        ("read", json!({ "uri": "files://files/plan.md" }), json!({ "as": anonymous, "uri": "files://files/plan.md" })),
        ("templates", json!({}), json!({ "as": anonymous })),
        (
            "complete",
            json!({ "template": template, "variable": "path", "value": "sec" }),
            json!({ "as": anonymous, "template": template, "variable": "path", "value": "sec" }),
        ),
        ("search", json!({ "query": "words breaker" }), json!({ "as": anonymous, "query": "words breaker" })),
        ("context", json!({ "budget": 500 }), json!({ "as": anonymous, "query": "words breaker", "budget": 500 })),
    ];
    for (what, of_local, of_anonymous) in requests {
        let path = format!("browse/{what}");
        for (request, sees) in [(of_local, true), (of_anonymous, false)] {
            let (status, answer) = admin.api("POST", &path, Some(&request)).await;
            assert_eq!(status, 200, "{what}: {answer}");
            assert_valid(&schema, &format!("POST /api/v1/{path}"), &json!({ "request": request, "answer": answer }));
            if !["read", "templates"].contains(&what) {
                assert_eq!(answer.to_string().contains("secret.txt"), sees, "{what}: {answer}");
            }
        }
    }
    let (status, answer) = admin.api("POST", "browse/read", Some(&json!({ "as": anonymous, "uri": uri }))).await;
    assert_eq!((status, answer["error"].as_str()), (404, Some(format!("there is no resource {uri}").as_str())));
    let nobody = json!({ "as": { "principal": "nobody", "groups": [] } });
    assert_eq!(admin.api("POST", "browse/list", Some(&nobody)).await.0, 400);
    assert_eq!(admin.api("POST", "browse/nothing", Some(&json!({}))).await.0, 404);
    admin.server.end().await;

    let views = audited(&config);
    assert!(views.iter().all(|line| line["principal"] == "admin/token" && line["operation"] == "admin-view"));
    let outcomes: Vec<_> = views.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, [["ok"; 12].as_slice(), &["not found"]].concat());
    let lines = std::fs::read_to_string(config.dir().join("audit.jsonl")).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_denied = |line: &Value| line["uri"] == uri && line["principal"] == "anonymous";
    let denied: Vec<_> = lines.filter(is_denied).collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert_eq!((&denied[0]["decision"], &denied[0]["administrator"]), (&json!("deny"), &json!("admin/token")));
}

/// A user sees the resources that the principal may read, and no server state.
#[tokio::test]
async fn users_see_what_they_may_see_with_the_token_that_they_have_for_mcp() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([("plan.md", "# The plan\n"), ("secret.txt", "hidden words\n")]);
    let config = |users: &str| {
        let config = ConfigFile::new().plugin(Plugin::files("files", files.path()));
        let rule = Rule::for_principal("alice").allow(["**"]).deny(["**/secret*"]);
        config.rule(rule).append(&format!("{}{users}", with_token(folder.path()))).principal("alice", ALICE_TOKEN)
    };
    let config = (config("").write(), config("users = true\n").write());
    let without = Administered::start(&config.0).await;
    assert_eq!(without.browse_as_alice("list", &json!({})).await.0, 401);
    without.server.end().await;

    let admin = Administered::start(&config.1).await;
    let (status, listed) = admin.browse_as_alice("list", &json!({})).await;
    assert_eq!((status, listed["items"].as_array().unwrap().len()), (200, 1), "{listed}");
    let (plan, secret) = (json!({ "uri": "files://files/plan.md" }), json!({ "uri": "files://files/secret.txt" }));
    let (status, read) = admin.browse_as_alice("read", &plan).await;
    assert_eq!((status, &read["contents"][0]["text"]), (200, &json!("# The plan\n")), "{read}");
    assert_eq!(admin.browse_as_alice("read", &secret).await.0, 404);
    let as_local = json!({ "uri": "files://files/secret.txt", "as": { "principal": "local" } });
    assert_eq!(admin.browse_as_alice("read", &as_local).await.0, 403);
    for path in ["status", "plugins", "config", "audit?follow", "subscriptions"] {
        let header = format!("Authorization: Bearer {ALICE_TOKEN}\r\n");
        assert_eq!(admin.get(&format!("/api/v1/{path}"), &header).await.0, 401, "{path}");
    }
    let parts = format!("http://{}", admin.address);
    browse_with("user", &parts, ALICE_TOKEN).await;
    admin.server.end().await;
}

const BOB_TOKEN: &str = "token-of-bob";

/// Sends a request whose body never arrives completely.
async fn send_head(address: &str, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n{headers}");
    stream.write_all(format!("{head}Content-Length: 60\r\n\r\n{{").as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn logins_that_do_not_end_keep_no_probe_from_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let headers = format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", admin.address);
    let mut logins = Vec::new();
    for _ in 0..200 {
        logins.push(send_head(&admin.address, "/console/login", &headers).await);
    }
    assert_eq!(admin.get("/livez", "").await.0, 200);
    // The request displaced the oldest one.
    assert_eq!(logins[0].read(&mut [0]).await.unwrap_or(0), 0);
    admin.server.end().await;
}

#[tokio::test]
async fn a_user_whose_requests_do_not_end_leaves_others_their_share() {
    let folder = tempfile::tempdir().unwrap();
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&with_token(folder.path()));
    let config = config.append("users = true\n").principal("alice", ALICE_TOKEN).principal("bob", BOB_TOKEN).write();
    let admin = Administered::start(&config).await;
    let bob = format!("Authorization: Bearer {BOB_TOKEN}\r\n");
    let mut requests = Vec::new();
    // More than his share.
    for _ in 0..9 {
        requests.push(send_head(&admin.address, "/api/v1/browse/list", &bob).await);
    }
    let answers = requests.iter_mut().map(|stream| {
        Box::pin(async move {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.map(|_| answer)
        })
    });
    let (refused, ..) = timeout(TIMEOUT, select_all(answers)).await.expect("what exceeds his share is refused");
    assert_eq!(&refused.unwrap(), b"HTTP/1.1 429");
    assert_eq!(admin.browse_as_alice("list", &json!({})).await.0, 200);
    assert_eq!(admin.get("/livez", "").await.0, 200);
    admin.server.end().await;
}

#[tokio::test]
async fn administrators_see_and_change_the_server_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([
        (
            "plan.md",
            "# The plan\n\nA circuit **breaker** opens. ![x](https://evil.example/p.png) [data](data.json)\n\n\
             | memory | deadline | address |\n|---|---|---|\n\
             | 1 | 2 | `a_name_without_any_space_that_is_wider_than_the_preview_and_again_that_is_wider_than_the_preview_by_far` |\n",
        ),
        ("table.csv", "city,people\nRome,3\n"),
        ("data.json", "{\"a\": [1, 2]}\n"),
        ("load.csv", "time,load\n2026-01-01T00:00:00Z,1.5\n2026-01-01T00:01:00Z,2.5\n"),
        ("rows.json", "[{\"city\": \"Rome\", \"people\": 3}]\n"),
        (
            "query.json",
            "{\"columns\": [{\"name\": \"town\", \"type\": \"text\"}], \"rows\": [[\"Rome\"]], \"hasMore\": false}\n",
        ),
        ("main.rs", "fn main() {}\n"),
        ("secret.txt", "hidden words\n"),
        (
            "german.txt",
            "Das ist der Plan für die Arbeit, und er ist nicht der letzte, den wir mit der Gruppe machen.\n",
        ),
        ("japanese.txt", "これは計画についての文書です。\n"),
    ]);
    std::fs::write(files.path().join("dot.gif"), DOT).unwrap();
    let rows: String = (0..20_000).map(|number| format!("{number},the {number}th\n")).collect();
    files.write("long.csv", format!("number,text\n{rows}"));
    let pdf = include_bytes!("../../../../../plugins/files/tests/files/hello.pdf");
    std::fs::write(files.path().join("hello.pdf"), pdf).unwrap();
    let config = ConfigFile::new()
        .plugin(Plugin::sample("sample").searched())
        .plugin(Plugin::files("files", files.path()).searched())
        .plugin(broken(folder.path()))
        .rule(Rule::for_principal("local").allow(["**"]))
        .rule(Rule::for_principal("anonymous").allow(["**"]).deny(["**/secret*"]))
        // A warning: the pattern matches no mount.
        .rule(Rule::for_principal("anonymous").allow(["nothing://x/nothing.md"]))
        .audit("file", "audit.jsonl")
        .append(&with_token(folder.path()))
        .principal("alice", ALICE_TOKEN)
        .append(AUDITORS)
        .write();
    let admin = Administered::start(&config).await;
    while !admin.is_indexed().await {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let parts = "login,resources,narrow,context,view_as,plugins,live,config,cut,appearance,japanese,zones,screen_reader,\
                 folders,missing,no_config,letters,principals,upstreams,warnings,formats,hostile";
    let schema = folder.path().join("schema.json");
    let printed = run(["schema", "admin", "--config", "absent.toml"]).await.success().text();
    std::fs::write(&schema, printed).unwrap();
    let mut browser = browser(parts, &format!("http://{}", admin.address), TOKEN);
    succeed(browser.arg(schema)).await;
    admin.server.end().await;
}
