//! An upstream has what every plugin has: search, context, tools, the audit log, cached responses, skills, the circuit
//! breaker, and a place in a listing of any length.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_host_tests::{
    ConfigFile, HttpServer, MockOrigin, Plugin, RawHttp, RawStdio, RecordedRequest, Reply, Revision, RpcResponse,
    StdioServer, fixture, wait_until,
};
use serde_json::{Value, json};

use crate::protocol::skills::file_of_skill;
use crate::search::{search, uris, wait_until_found};

/// The limits of an upstream whose calls have time, since they share the processors with all other tests.
const PATIENT: &str = "limits = { cpu = '10s', deadline = '1m', queue-timeout = '1m' }";
/// The URI of the guide at the host.
const GUIDE: &str = "up+x://s/guide.md";
const SKILL: &str = "---\nname: pdf\ndescription: Reads PDF files.\n---\nRun extract.py.\n";
const SCRIPT: &str = "print(1)\n";
/// The resources of the server.
const FILES: [(&str, &str); 3] = [
    ("x://s/guide.md", "# Guide\n\nThe circuit breaker opens after five failures.\n"),
    ("x://s/skills/pdf/SKILL.md", SKILL),
    ("x://s/skills/pdf/extract.py", SCRIPT),
];

/// Answers as a server with sessions. Its answers are valid for ten minutes, with this `cacheScope`.
fn answer(request: &RecordedRequest, scope: &str) -> Reply {
    if request.method != "POST" {
        return Reply::status(405);
    }
    let message: Value = serde_json::from_slice(&request.body).unwrap();
    let uri = message["params"]["uri"].as_str().unwrap_or_default();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": {} },
            "serverInfo": { "name": "files", "version": "1" } }),
        "ping" => json!({}),
        "resources/list" => {
            let resource = |(uri, text): &(&str, &str)| {
                let size = text.len();
                json!({ "uri": uri, "name": uri, "mimeType": "text/plain", "size": size })
            };
            let resources: Vec<_> = FILES.iter().map(resource).collect();
            json!({ "resources": resources, "ttlMs": 600_000, "cacheScope": scope })
        }
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "resources/read" => {
            let Some((_, text)) = FILES.iter().find(|(known, _)| *known == uri) else {
                let error = json!({ "code": -32002, "message": "none" });
                return reply(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
            };
            let contents = json!([{ "uri": uri, "mimeType": "text/plain", "text": text }]);
            json!({ "contents": contents, "ttlMs": 600_000, "cacheScope": scope })
        }
        method if method.starts_with("notifications/") => return Reply::status(202),
        _ => return Reply::status(400),
    };
    reply(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

fn reply(answer: &Value) -> Reply {
    Reply::ok("application/json", answer.to_string()).header("mcp-session-id", "s")
}

async fn origin(scope: &'static str) -> MockOrigin {
    let origin = MockOrigin::http().await;
    origin.serve_with("/mcp", move |request| answer(request, scope));
    origin
}

/// Returns the config section of the server, with further keys.
fn upstream(origin: &MockOrigin, keys: &str) -> String {
    format!("[[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\n{keys}\n", origin.url("/mcp"))
}

/// Returns how many reads the server got.
fn read_count(origin: &MockOrigin) -> usize {
    let is_read = |request: &RecordedRequest| String::from_utf8_lossy(&request.body).contains("\"resources/read\"");
    origin.requests().iter().filter(|request| is_read(request)).count()
}

/// Calls a tool until the text of its result contains all of `wanted`: a search may end early on a busy machine.
async fn call_until(wire: &mut RawStdio, name: &str, arguments: Value, wanted: &[&str]) {
    let params = json!({ "name": name, "arguments": arguments });
    let text = |answer: &RpcResponse| answer.result()["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    loop {
        let found = text(&wire.request("tools/call", params.clone()).await);
        if wanted.iter().all(|wanted| found.contains(wanted)) {
            return;
        }
    }
}

#[tokio::test]
async fn an_upstream_is_searched_called_by_tools_and_audited_like_a_plugin() {
    let origin = origin("public").await;
    let config = ConfigFile::new()
        .server("tools", vec!["list", "read", "search", "context"])
        .audit("file", "audit.jsonl")
        .append(&upstream(&origin, &format!("search = {{}}\n{PATIENT}")))
        .allow_all()
        .write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wait_until_found(&mut wire, "circuit", 1).await;
    assert_eq!(uris(&search(&mut wire, "circuit").await), [GUIDE]);
    call_until(&mut wire, "list_resources", json!({}), &[GUIDE, "up+x://s/skills/pdf/extract.py"]).await;
    call_until(&mut wire, "read_resource", json!({ "uri": GUIDE }), &["five failures"]).await;
    call_until(&mut wire, "search_resources", json!({ "query": "circuit breaker" }), &[GUIDE]).await;
    let question = json!({ "query": "when does the circuit breaker open?", "budget": 100 });
    call_until(&mut wire, "resource_context", question, &[GUIDE, "five failures"]).await;
    wire.read(GUIDE).await.unwrap();
    let file = config.dir().join("audit.jsonl");
    wait_until("the read is in the audit log", || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let expected = json!(["read", GUIDE, "up", "allow", "ok"]);
        let members = ["operation", "uri", "plugin", "decision", "outcome"];
        lines.any(|line| json!(members.map(|name| line[name].clone())) == expected)
    })
    .await;
    wire.end().await;
}

#[tokio::test]
async fn answers_are_cached_for_the_time_that_the_server_gives_unless_they_are_private() {
    for (scope, is_cached) in [("public", true), ("private", false)] {
        let origin = origin(scope).await;
        let config = ConfigFile::new().append(&upstream(&origin, PATIENT)).allow_all().write();
        let server = HttpServer::start(&config).await;
        let mut client = RawHttp::start(server.url(), Revision::V_2026_07_28).await;
        let read = json!({ "uri": GUIDE });
        // The cache is used after the first answer with a time to live.
        for _ in 0..2 {
            client.request("resources/read", read.clone()).await.result();
        }
        let before = read_count(&origin);
        for _ in 0..3 {
            let answer = client.request("resources/read", read.clone()).await;
            let ttl = answer.result()["ttlMs"].as_u64().unwrap_or_default();
            assert_eq!(ttl > 0, is_cached, "{scope}: {:?}", answer.message);
        }
        assert_eq!(read_count(&origin) - before, if is_cached { 0 } else { 3 }, "{scope}");
        server.end().await;
    }
}

#[tokio::test]
async fn an_upstream_has_skills() {
    let origin = origin("public").await;
    let keys = format!("skills = ['**/skills/*']\n{PATIENT}");
    let config = ConfigFile::new().append(&upstream(&origin, &keys)).allow_all().write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let discovered = wire.request("server/discover", json!({})).await;
    let extensions = &discovered.result()["capabilities"]["extensions"];
    assert_eq!(*extensions, json!({ "io.modelcontextprotocol/skills": {} }));
    let listed = wire.request("skills/list", json!({})).await;
    let expected = json!([{
        "uri": "up+x://s/skills/pdf/SKILL.md",
        "frontmatter": { "name": "pdf", "description": "Reads PDF files." },
        "resources": [
            file_of_skill("up+x://s/skills/pdf/SKILL.md", SKILL),
            file_of_skill("up+x://s/skills/pdf/extract.py", SCRIPT),
        ],
    }]);
    assert_eq!(listed.result()["skills"], expected);
    let got = wire.request("skills/get", json!({ "uri": "up+x://s/skills/pdf/SKILL.md" })).await;
    assert_eq!(got.result()["skill"], expected[0]);
    wire.end().await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_set_aside_by_the_circuit_breaker_until_it_does() {
    /// More than the failures that open the circuit.
    const MOST: usize = 10;
    let (origin, is_silent) = (MockOrigin::http().await, Arc::new(AtomicBool::new(false)));
    let silent = is_silent.clone();
    origin.serve_with("/mcp", move |request| match silent.load(Ordering::SeqCst) {
        true => Reply::silent(),
        false => answer(request, "private"),
    });
    let config = ConfigFile::new().append(&upstream(&origin, "limits = { deadline = '500ms' }")).allow_all().write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    is_silent.store(true, Ordering::SeqCst);
    let mut failures = 0;
    loop {
        // Each is another request, so that none of them is refused by itself.
        let error = client.read_error(&format!("up+x://s/{failures}")).await;
        if error.message.contains("circuit breaker is open") {
            break;
        }
        failures += 1;
        assert!(failures < MOST, "{error:?}");
    }
    assert!(server.log_line("circuit breaker opened").await.contains("plugin=\"up\""));
    let before = read_count(&origin);
    client.read_error(GUIDE).await;
    assert_eq!(read_count(&origin), before, "it was not asked");
    is_silent.store(false, Ordering::SeqCst);
    while client.read(GUIDE).await.is_err() {}
    server.log_line("circuit breaker closed").await;
    server.end().await;
}

/// The number of entries of the upstream, and of the plugin beside it.
const ENTRIES: usize = 50_000;
/// The number of entries of a page of the upstream.
const PAGE: usize = 1000;

/// Answers as a server with sessions and [`ENTRIES`] resources, in pages.
fn answer_with_pages(request: &RecordedRequest) -> Reply {
    if request.method != "POST" {
        return Reply::status(405);
    }
    let message: Value = serde_json::from_slice(&request.body).unwrap();
    if message["method"] != "resources/list" {
        return answer(request, "public");
    }
    let start = message["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
    let end = start + PAGE;
    let resources: Vec<_> =
        (start..end).map(|n| json!({ "uri": format!("x://s/{n}"), "name": n.to_string() })).collect();
    let mut page = json!({ "resources": resources });
    if end < ENTRIES {
        page["nextCursor"] = json!(end.to_string());
    }
    reply(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": page }))
}

#[tokio::test]
async fn an_upstream_and_a_plugin_are_in_one_listing_of_a_hundred_thousand_entries() {
    let origin = MockOrigin::http().await;
    origin.serve_with("/mcp", answer_with_pages);
    let sizes = Plugin::new("sizes", &fixture("sizes"), "sizes:///").config("count", i64::try_from(ENTRIES).unwrap());
    let sizes = sizes.limit("cpu", "10s").limit("deadline", "1m").limit("queue-timeout", "1m");
    let config = ConfigFile::new().plugin(sizes).append(&upstream(&origin, PATIENT)).allow_all().write();
    let server = StdioServer::start_in(&config, Revision::V_2026_07_28).await;
    let listed = server.client().uris().await;
    assert_eq!(listed.len(), 2 * ENTRIES);
    let listed: HashSet<_> = listed.into_iter().collect();
    let mut expected = (0..ENTRIES).flat_map(|n| [format!("up+x://s/{n}"), format!("sizes:///text/{n}")]);
    assert_eq!(expected.find(|uri| !listed.contains(uri)), None);
    server.end().await;
}
