//! Tools: the same façade, for clients that know only tools.

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, REVISIONS, RawStdio, Revision, RpcResponse, Rule};
use serde_json::{Value, json};

use super::{searched, wait_until_found};

const ALL: [&str; 4] = ["list", "read", "search", "context"];

fn folder() -> Folder {
    Folder::with_files([
        ("guide.md", "# Guide\n\nThe circuit breaker opens after five failures.\n"),
        ("logo.png", "\u{89}PNG\r\n"),
    ])
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

fn text(answer: &RpcResponse) -> &str {
    answer.result()["content"][0]["text"].as_str().unwrap()
}

/// Calls a tool that searches, until the result is not cut short, as it may be on a busy machine.
async fn call_in_time(wire: &mut RawStdio, params: Value) -> RpcResponse {
    call_until(wire, params, "guide.md").await
}

/// The same, until the text of the result contains that.
async fn call_until(wire: &mut RawStdio, params: Value, wanted: &str) -> RpcResponse {
    loop {
        let answer = wire.request("tools/call", params.clone()).await;
        // Older revisions have the text only.
        let is_partial = answer.result()["structuredContent"]["partial"] == true;
        if !is_partial && text(&answer).contains(wanted) {
            return answer;
        }
    }
}

#[tokio::test]
async fn a_client_that_knows_only_tools_finds_and_reads_in_every_revision() {
    let folder = folder();
    let config = searched(&folder).server("tools", ALL.to_vec()).write();
    for revision in REVISIONS {
        let mut wire = RawStdio::start(&config, revision.clone()).await;
        wait_until_found(&mut wire, "circuit", 1).await;
        let is_structured = revision >= Revision::V_2025_06_18;
        let listed = wire.request("tools/list", json!({})).await;
        let tools = listed.result()["tools"].as_array().unwrap().clone();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["list_resources", "read_resource", "search_resources", "resource_context"]);
        for tool in &tools {
            assert_eq!(tool["inputSchema"]["type"], "object");
            assert_eq!(tool.get("outputSchema").is_some(), is_structured, "{revision:?}");
            assert_eq!(tool.get("annotations").is_some(), revision >= Revision::V_2025_03_26);
        }

        let found = call_in_time(&mut wire, call("search_resources", json!({ "query": "circuit breaker" }))).await;
        assert!(text(&found).contains("files://f/guide.md") && text(&found).contains("opens after five"));
        assert_eq!(found.result().get("structuredContent").is_some(), is_structured);
        let links = found.result()["content"].as_array().unwrap().iter().filter(|item| item["type"] == "resource_link");
        assert_eq!(links.count(), usize::from(is_structured));
        if is_structured {
            assert_eq!(found.result()["structuredContent"]["results"][0]["uri"], "files://f/guide.md");
        }

        let context = json!({ "query": "when does the breaker open?", "budget": 100 });
        let chosen = call_in_time(&mut wire, call("resource_context", context)).await;
        assert!(text(&chosen).starts_with("files://f/guide.md?lines=1-3 (lines 1-3):\n# Guide"), "{}", text(&chosen));
        let context = json!({ "query": "when does the breaker open?", "budget": 1 });
        call_until(&mut wire, call("resource_context", context), "No passage fits the budget of 1 tokens").await;
        let read = wire.request("tools/call", call("read_resource", json!({ "uri": "files://f/guide.md" }))).await;
        assert!(text(&read).starts_with("# Guide"));
        let listed = wire.request("tools/call", call("list_resources", json!({}))).await;
        assert!(text(&listed).contains("files://f/guide.md - guide.md"), "{}", text(&listed));
        assert!(text(&listed).contains("\nfiles://f/{+path}{?lines"), "{}", text(&listed));
        if is_structured {
            let templates = listed.result()["structuredContent"]["resourceTemplates"].as_array().unwrap();
            let templates: Vec<_> = templates.iter().map(|one| one["uriTemplate"].as_str().unwrap()).collect();
            assert!(templates.contains(&"search:///{?q,in,kind,lang,limit}"), "{templates:?}");
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn after_a_resource_that_does_not_exist_a_model_is_told_what_to_do_next() {
    let folder = folder();
    let config = searched(&folder).server("tools", ALL.to_vec()).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let tools = "`list_resources` lists those that exist; `search_resources` finds them by words";
    for (name, uri, next) in [
        ("read_resource", "files://f/absent", tools.to_owned()),
        ("read_resource", "file://f/guide.md", format!("the nearest mount is `files://f/`; {tools}")),
        ("list_resources", "files://g/", format!("the nearest mount is `files://f/`; {tools}")),
    ] {
        let answer = wire.request("tools/call", call(name, json!({ "uri": uri }))).await;
        assert_eq!(text(&answer), format!("there is no resource {uri}; {next}"));
    }
    wire.end().await;
}

#[tokio::test]
async fn an_integer_is_one_however_json_writes_it() {
    let folder = folder();
    let config = searched(&folder).server("tools", ALL.to_vec()).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wait_until_found(&mut wire, "circuit", 1).await;
    call_in_time(&mut wire, call("search_resources", json!({ "query": "circuit", "limit": 5.0 }))).await;
    call_in_time(&mut wire, call("resource_context", json!({ "query": "circuit", "budget": 1e2 }))).await;
    wire.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_told_to_the_model_or_to_the_client() {
    let folder = folder();
    let config = searched(&folder).server("tools", ALL.to_vec()).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for (name, arguments) in [
        ("read_resource", json!({})),
        ("read_resource", json!({ "uri": "files://f/absent" })),
        ("read_resource", json!({ "uri": "files://f/guide.md", "other": 1 })),
        ("search_resources", json!({ "query": 5 })),
        ("search_resources", json!({ "query": "x", "limit": 1000 })),
        ("search_resources", json!({ "query": "" })),
        ("search_resources", json!({ "query": "x", "in": "" })),
        ("search_resources", json!({ "query": "x", "kind": "markdown" })),
        ("search_resources", json!({ "query": "x", "lang": "english" })),
        ("resource_context", json!({ "query": "?" })),
        ("list_resources", json!({ "cursor": "forged" })),
    ] {
        let answer = wire.request("tools/call", call(name, arguments)).await;
        assert_eq!(answer.result()["isError"], true, "{name}: {}", answer.result());
    }
    assert_eq!(wire.request("tools/call", call("other", json!({}))).await.error_code(), -32602);
    assert_eq!(
        wire.request("tools/call", json!({ "name": "read_resource", "arguments": [] })).await.error_code(),
        -32602
    );
    assert_eq!(wire.request("tools/call", json!({})).await.error_code(), -32602);
    assert_eq!(wire.request("tools/list", json!({ "cursor": "forged" })).await.error_code(), -32602);
    let long = json!({ "query": "x".repeat(100_000) });
    assert_eq!(wire.request("tools/call", call("search_resources", long)).await.error_code(), -32602);
    wire.end().await;
}

#[tokio::test]
async fn without_tools_in_the_config_there_are_none() {
    let folder = folder();
    let config = searched(&folder).server("tools", vec!["read"]).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let listed = wire.request("tools/list", json!({})).await;
    assert_eq!(listed.result()["tools"].as_array().unwrap().len(), 1);
    assert_eq!(wire.request("tools/call", call("list_resources", json!({}))).await.error_code(), -32602);
    wire.end().await;
    let config = searched(&folder).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for (method, params) in [("tools/list", json!({})), ("tools/call", call("read_resource", json!({})))] {
        assert_eq!(wire.request(method, params).await.error_code(), -32601);
    }
    wire.end().await;
}

#[tokio::test]
async fn a_tool_obeys_the_rules_of_resources() {
    let folder = Folder::with_files([("public.md", "needle"), ("secret.md", "needle")]);
    let config = ConfigFile::new()
        .server("tools", ALL.to_vec())
        .plugin(Plugin::files("f", folder.path()).searched())
        .rule(Rule::for_principal("*").allow(["files://f/public.md"]))
        .write();
    let server = HttpServer::start(&config).await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = server.raw_client(revision).await;
        let listed = wire.request("tools/call", call("list_resources", json!({}))).await;
        assert!(text(&listed).contains("public.md") && !text(&listed).contains("secret"), "{}", text(&listed));
        let read = |uri: &str| call("read_resource", json!({ "uri": uri }));
        let hidden = wire.request("tools/call", read("files://f/secret.md")).await;
        let unknown = wire.request("tools/call", read("files://f/unknown.md")).await;
        assert_eq!(text(&hidden).replace("secret", "unknown"), text(&unknown));
        loop {
            let found = wire.request("tools/call", call("search_resources", json!({ "query": "needle" }))).await;
            assert!(!text(&found).contains("secret"), "{}", text(&found));
            if found.result()["structuredContent"]["total"] == 1 {
                break;
            }
        }
    }
    server.end().await;
}
