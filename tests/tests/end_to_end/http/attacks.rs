//! Attacks on access control: spellings of denied URIs, stolen cursors, requests of foreign pages with a valid token,
//! and rule changes while a client listens.

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, RawHttp, Revision, Rule, TIMEOUT, WrittenConfig};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

const REVISION: Revision = Revision::V_2025_11_25;
const TOKEN: &str = "mcp_matrix-ci";
const OTHER_TOKEN: &str = "mcp_matrix-ops";
/// The text of every denied file, and of no other file.
const MARKER: &str = "hunter2";

/// Adds the principals `ci` and `ops`, the rules of `ci`, and a rule that allows everything to `ops`.
fn with_rules(config: ConfigFile, of_ci: &str) -> ConfigFile {
    let config =
        config.principal("ci", TOKEN).principal("ops", OTHER_TOKEN).rule(Rule::for_principal("ops").allow(["**"]));
    config.append(&format!("\n[[rule]]\nprincipals = ['ci']\n{of_ci}\n"))
}

/// A config with the folder `m`, which is polled ten times a second.
fn config(folder: &Folder, of_ci: &str) -> ConfigFile {
    with_rules(ConfigFile::new().page_size(1).plugin(Plugin::faulty("m", folder.path())), of_ci)
}

async fn read(wire: &mut RawHttp, method: &str, uri: &str) -> Value {
    wire.request(method, json!({ "uri": uri })).await.message
}

#[tokio::test]
async fn no_spelling_of_a_uri_reaches_what_is_denied() {
    let folder = Folder::with_files([
        ("secret/a.md", MARKER),
        ("secret/caf\u{e9}.md", MARKER),
        ("public/a.md", "public"),
        ("public/caf\u{e9}.md", MARKER),
        // The same name in the other normalization form of Unicode. A rule denies both.
        ("public/cafe\u{301}.md", MARKER),
        ("public/cafe\u{300}.md", "another file"),
        ("Secret/a.md", "another folder"),
    ]);
    let denied = "allow = ['notes://n/**']\ndeny = ['notes://n/secret/**', 'notes://n/public/caf\u{e9}.md']";
    let config = ConfigFile::new().server("extensions", vec!["sep-2093"]).plugin(Plugin::notes("n", folder.path()));
    let config_file = with_rules(config, denied).write();
    let server = HttpServer::start(&config_file).await;
    let mut ci = RawHttp::start_with_token(server.url(), REVISION, TOKEN).await;
    let mut ops = RawHttp::start_with_token(server.url(), REVISION, OTHER_TOKEN).await;
    let spellings = [
        "notes://n/secret/a.md",
        "NOTES://N/secret/a.md",
        "notes://n/%73ecret/a.md",
        "notes://n/%73%65%63%72%65%74/%61.md",
        "notes://n/%2573ecret/a.md",
        "notes://n/secret%2Fa.md",
        "notes://n/secret%2fa.md",
        "notes://n/secret%252Fa.md",
        "notes://n/public/../secret/a.md",
        "notes://n/public/%2e%2e/secret/a.md",
        "notes://n/public/.%2E/secret/a.md",
        "notes://n/public/%252e%252e/secret/a.md",
        "notes://n/public%2F..%2Fsecret%2Fa.md",
        "notes://n/public/..%2fsecret/a.md",
        "notes://n/public/%C0%AE%C0%AE/secret/a.md",
        "notes://n/public/\u{ff0e}\u{ff0e}/secret/a.md",
        "notes://n/\u{ff53}ecret/a.md",
        "notes://n//secret/a.md",
        "notes://n/secret//a.md",
        "notes://n/./secret/./a.md",
        "notes://n/%2e/secret/a.md",
        "notes://n/secret;x/a.md",
        "notes://n/public;/../secret/a.md",
        "notes://n/secret/a.md;v=1",
        "notes://n/secret./a.md",
        "notes://n/secret/a.md.",
        "notes://n/secret/a.md/",
        "notes://n/secret/a.md/.",
        "notes://n/secret/a.md?x",
        "notes://n/secret/a.md?",
        "notes://n/secret/a.md#x",
        "notes://n/secret/a.md%00",
        "notes://n/secret%00/a.md",
        "notes://n/secret\\a.md",
        "notes://n/secret%5Ca.md",
        "notes://n/file/secret/a.md",
        "notes://n./secret/a.md",
        "notes://n:80/secret/a.md",
        "notes://x@n/secret/a.md",
        "notes:/n/secret/a.md",
        "notes:///secret/a.md",
        " notes://n/secret/a.md",
        "notes://n/secret/a.md ",
        "notes://n/se\u{200b}cret/a.md",
        "notes://n/secret/caf\u{e9}.md",
        "notes://n/secret/caf%C3%A9.md",
        "notes://n/secret/caf%c3%a9.md",
        "notes://n/public/caf\u{e9}.md",
        "notes://n/public/caf%c3%A9.md",
        "notes://n/public/caf%E9.md",
        "notes://n/public/caf%25C3%25A9.md",
        "notes://n/public/cafe\u{301}.md",
        "notes://n/public/cafe%cc%81.md",
    ];
    let mut reached = 0;
    for uri in spellings {
        for method in ["resources/read", "resources/metadata", "resources/subscribe"] {
            let (answer, all) = (read(&mut ci, method, uri).await, read(&mut ops, method, uri).await);
            assert!(!answer.to_string().contains(MARKER), "{method} {uri}: {answer}");
            // Allowed results are the same as for a principal that may see everything.
            if answer.get("result").is_some() {
                assert_eq!(answer["result"], all["result"], "{method} {uri}");
            }
            reached += usize::from(all.to_string().contains(MARKER));
        }
    }
    assert!(reached >= 10, "most spellings are of the files: {reached}");
    // Different names are different resources, and remain visible.
    for (uri, text) in [
        ("notes://n/public/a.md", "public"),
        ("notes://n/Secret/a.md", "another folder"),
        ("notes://n/public/cafe%cc%80.md", "another file"),
    ] {
        let answer = read(&mut ci, "resources/read", uri).await;
        assert_eq!(answer["result"]["contents"][0]["text"], text, "{uri}: {answer}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_stolen_cursor_is_invalid_and_a_replayed_one_shows_what_the_rules_of_now_allow() {
    let folder = Folder::with_files([("a", ""), ("b", ""), ("c", ""), ("d", "")]);
    let config_file = config(&folder, "allow = ['**']").write();
    let server = HttpServer::start(&config_file).await;
    let mut ci = RawHttp::start_with_token(server.url(), REVISION, TOKEN).await;
    let mut ops = RawHttp::start_with_token(server.url(), REVISION, OTHER_TOKEN).await;
    let cursor = ci.request("resources/list", json!({})).await.result()["nextCursor"].clone();
    let params = json!({ "cursor": cursor });
    assert_eq!(ops.request("resources/list", params.clone()).await.error_code(), -32602);
    assert_eq!(ci.request("resources/templates/list", params.clone()).await.error_code(), -32602);

    config_file.replace(config(&folder, "allow = ['**']\ndeny = ['**/b', '**/d']"));
    server.log_line("generation=2").await;
    for _ in 0..2 {
        let page = ci.request("resources/list", params.clone()).await;
        assert_eq!(page.result()["resources"][0]["uri"], "faulty://m/c", "{page:?}");
        assert_eq!(page.result().get("nextCursor"), None, "no cursor tells of what is hidden behind it: {page:?}");
    }
    assert_eq!(ops.request("resources/list", params).await.error_code(), -32602);
    server.end().await;
}

#[tokio::test]
async fn a_page_of_another_site_gets_nothing_with_a_valid_token() {
    let folder = Folder::with_files([("a", MARKER)]);
    let config_file = config(&folder, "allow = ['**']").write();
    let server = HttpServer::start(&config_file).await;
    let ask = |revision| {
        let mut wire = server.uninitialized(revision);
        wire.request_builder("resources/read", json!({ "uri": "faulty://m/a" })).bearer_auth(TOKEN)
    };
    for (name, value) in [
        // DNS rebinding: the name of another site resolves to the address of this server.
        ("host", "rebound.example:80"),
        ("host", "localhost.evil.example"),
        ("host", "127.0.0.1.evil.example"),
        ("origin", "https://evil.example"),
        ("origin", "http://localhost.evil.example"),
        ("origin", "null"),
    ] {
        let refused = ask(Revision::V_2026_07_28).header(name, value).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{name}: {value}");
        assert!(refused.headers().keys().all(|header| !header.as_str().starts_with("access-control-")));
        assert!(!refused.text().await.unwrap().contains(MARKER), "{name}: {value}");
    }
    let own = ask(Revision::V_2026_07_28).header("cookie", format!("token={OTHER_TOKEN}")).send().await.unwrap();
    assert!(own.text().await.unwrap().contains(MARKER), "cookies are not credentials");
    server.end().await;
}

#[tokio::test]
async fn a_token_in_a_url_is_ignored_and_never_logged() {
    let folder = Folder::with_files([("a", MARKER)]);
    let config_file = config(&folder, "allow = ['**']").write();
    let server = HttpServer::start(&config_file).await;
    for query in ["access_token", "token", "authorization"] {
        let mut wire = server.uninitialized(Revision::V_2026_07_28);
        let mut request = wire.request_builder("resources/read", json!({ "uri": "faulty://m/a" })).build().unwrap();
        request.url_mut().set_query(Some(&format!("{query}={TOKEN}")));
        let refused = reqwest::Client::new().execute(request).await.unwrap();
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{query}");
        assert!(!refused.text().await.unwrap().contains(TOKEN), "{query}");
    }
    let log = server.end().await.log;
    assert!(!log.contains(TOKEN), "{log}");
}

/// A client that listens, and the notifications that it received.
struct Listener {
    stream: Response,
    text: String,
}

impl Listener {
    async fn start(server: &HttpServer, uris: &[&str]) -> Self {
        let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
        let mut wire = RawHttp::start_with_token(server.url(), Revision::V_2026_07_28, TOKEN).await;
        let stream = wire.request_builder("subscriptions/listen", filter).send().await.unwrap();
        Self { stream, text: String::new() }
    }

    /// Reads until an update of this resource arrives. Returns the text received before it.
    async fn read_until_updated(&mut self, uri: &str) -> String {
        let wanted = format!("\"uri\":\"{uri}\"");
        loop {
            if let Some((before, rest)) = self.text.split_once(&wanted) {
                let before = before.to_owned();
                self.text = rest.to_owned();
                return before;
            }
            let chunk = timeout(TIMEOUT, self.stream.chunk()).await.unwrap().unwrap();
            self.text.push_str(std::str::from_utf8(&chunk.expect("the stream goes on")).unwrap());
        }
    }
}

/// Replaces the rules of `ci`, and waits until they are in effect.
async fn replace_rules(
    server: &HttpServer,
    config_file: &WrittenConfig,
    folder: &Folder,
    of_ci: &str,
    generation: u64,
) {
    config_file.replace(config(folder, of_ci));
    server.log_line(&format!("generation={generation}")).await;
}

#[tokio::test]
async fn a_change_of_rules_applies_to_a_client_that_listens() {
    let (f, g) = ("faulty://m/f", "faulty://m/g");
    let folder = Folder::with_files([("f", "0"), ("g", "0")]);
    let everything = "allow = ['**']";
    let config_file = config(&folder, everything).write();
    let server = HttpServer::start(&config_file).await;
    let mut listener = Listener::start(&server, &[f, g]).await;
    let mut ready = listener.read_until_updated(g).await;
    if !ready.contains(f) {
        ready = listener.read_until_updated(f).await;
    }
    drop(ready);
    let mut generation = 1;
    for without_f in [
        "allow = ['**']\ndeny = ['**/f']",
        "allow = ['**/g']",
        // `f` may be read, but not subscribed to.
        "allow = ['**/g']\n[[rule]]\nprincipals = ['ci']\nallow = ['**/f']\noperations = ['list', 'read']",
        // `f` may be subscribed to, but not read.
        "allow = ['**']\n[[rule]]\nprincipals = ['ci']\ndeny = ['**/f']\noperations = ['read']",
    ] {
        generation += 1;
        replace_rules(&server, &config_file, &folder, without_f, generation).await;
        // After the first update of `g`, all updates sent before the rules took effect have been received.
        for round in 0..3 {
            folder.write("f", format!("{generation} {round}"));
            folder.write("g", format!("{generation} {round}"));
            let before = listener.read_until_updated(g).await;
            assert!(round == 0 || !before.contains(f), "{without_f}: {before}");
        }
        generation += 1;
        replace_rules(&server, &config_file, &folder, everything, generation).await;
        listener.read_until_updated(f).await;
    }
    server.end().await;
}
