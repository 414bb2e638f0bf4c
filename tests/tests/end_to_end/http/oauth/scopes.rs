//! Scopes: the permitted uses of a token, and the challenge to get one with more scopes (RFC 6750, 3.1).

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawHttp, Revision, Rule, TIMEOUT, TokenIssuer};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ResourceServer, jwks};

const SCOPES: &str = "scopes = [\"mcp:read\"]\noperation-scopes = { subscribe = [\"mcp:subscribe\"] }";

async fn start() -> ResourceServer {
    ResourceServer::start_with(|issuer| format!("{}\n{SCOPES}", jwks(issuer))).await
}

/// A valid token of `alice` with this `scope` claim.
pub(super) fn token(resource: &ResourceServer, scope: &Value) -> String {
    let mut claims = resource.claims("alice");
    claims["scope"] = scope.clone();
    resource.issuer.sign(&claims)
}

/// Asserts the challenge to get a token with more scopes.
fn assert_insufficient(refused: &Response, scopes: &[&str], what: &str) {
    assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{what}");
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
    assert!(
        challenge.starts_with("Bearer ") && challenge.contains("error=\"insufficient_scope\""),
        "{what}: {challenge}"
    );
    assert!(challenge.contains("resource_metadata=\""), "{what}: {challenge}");
    let (_, scope) = challenge.split_once(" scope=\"").or_else(|| challenge.split_once(",scope=\"")).unwrap();
    let (scope, _) = scope.split_once('"').unwrap();
    assert!(scopes.iter().all(|wanted| scope.split(' ').any(|found| found == *wanted)), "{what}: {challenge}");
}

#[tokio::test]
async fn a_token_without_the_scopes_of_every_request_gets_nothing() {
    let resource = start().await;
    for scope in [
        json!(null),
        json!(""),
        json!("mcp:subscribe"),
        json!("mcp:readx MCP:READ mcp read"),
        json!(7),
        json!("mcp:read\tx"),
    ] {
        let refused = resource.list(&token(&resource, &scope)).await;
        assert_insufficient(&refused, &["mcp:read"], &scope.to_string());
    }
    for scope in [json!("mcp:read"), json!("openid mcp:read  other"), json!(["other", "mcp:read"])] {
        assert_eq!(resource.uris(&token(&resource, &scope)).await, ["faulty://m/f"], "{scope}");
    }
    resource.server.end().await;
}

#[tokio::test]
async fn a_subscription_requires_the_scopes_of_its_operation() {
    let resource = start().await;
    let (read, both) = (token(&resource, &json!("mcp:read")), token(&resource, &json!("mcp:read mcp:subscribe")));
    let uri = json!({ "uri": "faulty://m/f" });
    let mut reader = RawHttp::start_with_token(resource.server.url(), Revision::V_2025_11_25, &read).await;
    assert_eq!(reader.request("resources/read", uri.clone()).await.result()["contents"][0]["text"], "text of f");
    let refused = reader.request_builder("resources/subscribe", uri.clone()).send().await.unwrap();
    assert_insufficient(&refused, &["mcp:subscribe"], "subscribe");
    // The session continues with a token that has more scopes.
    let mut upgraded = reader.request_builder("resources/subscribe", uri).build().unwrap();
    upgraded.headers_mut().insert("authorization", format!("Bearer {both}").parse().unwrap());
    assert_eq!(reqwest::Client::new().execute(upgraded).await.unwrap().status(), StatusCode::OK);

    let listen = json!({ "notifications": { "resourceSubscriptions": ["faulty://m/f"] } });
    let mut wire = resource.server.uninitialized(Revision::V_2026_07_28);
    let refused = wire.request_builder("subscriptions/listen", listen.clone()).bearer_auth(&read).send().await.unwrap();
    assert_insufficient(&refused, &["mcp:subscribe"], "listen");
    let listening = wire.request_builder("subscriptions/listen", listen).bearer_auth(&both).send().await.unwrap();
    assert_eq!(listening.status(), StatusCode::OK);
    drop(listening);
    resource.server.end().await;
}

#[tokio::test]
async fn the_stream_of_a_token_without_the_scope_carries_nothing_that_another_token_subscribed() {
    let resource = start().await;
    let (read, both) = (token(&resource, &json!("mcp:read")), token(&resource, &json!("mcp:read mcp:subscribe")));
    let wire = RawHttp::start_with_token(resource.server.url(), Revision::V_2025_11_25, &both).await;
    let session = wire.session_id().unwrap().to_owned();
    let event_stream = async |token: &str| {
        let request = reqwest::Client::new().get(resource.server.url()).header("accept", "text/event-stream");
        let request = request.header("mcp-protocol-version", "2025-11-25").header("mcp-session-id", &session);
        let stream = request.bearer_auth(token).send().await.unwrap();
        assert_eq!(stream.status(), StatusCode::OK);
        stream
    };
    let read_until = async |stream: &mut reqwest::Response, wanted: &str| {
        let reading = async {
            let mut text = String::new();
            while !text.contains(wanted) {
                let chunk = stream.chunk().await.unwrap();
                text += &String::from_utf8_lossy(&chunk.expect("the stream goes on"));
            }
        };
        timeout(TIMEOUT, reading).await.expect("it is told");
    };
    let subscribe = async |uri: &str| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": { "uri": uri } });
        let answer = wire.post(&message).send().await.unwrap().text().await.unwrap();
        assert!(answer.contains("\"result\""), "{answer}");
    };
    subscribe("faulty://m/f").await;
    let narrow = event_stream(&read).await;
    let mut listener = resource.server.uninitialized(Revision::V_2026_07_28);
    let filter = json!({ "notifications": { "resourceSubscriptions": ["faulty://m/f"] } });
    let mut known = listener.request_builder("subscriptions/listen", filter).bearer_auth(&both).send().await.unwrap();
    read_until(&mut known, "notifications/resources/updated").await;
    resource.folder.write("f", "another text of f");
    read_until(&mut known, "notifications/resources/updated").await;
    // The newer stream has the scope, receives the pending updates, and ends the older stream.
    let mut wide = event_stream(&both).await;
    read_until(&mut wide, "notifications/resources/updated").await;
    let text = timeout(TIMEOUT, narrow.text()).await.expect("it ends").expect("it ends in order");
    assert!(!text.contains("notifications/resources"), "{text}");

    // A client that gets a token with the scope subscribes, and opens another stream when its old one ends.
    let narrow = event_stream(&read).await;
    subscribe("faulty://m/f").await;
    timeout(TIMEOUT, narrow.text()).await.expect("it ends").expect("it ends in order");
    drop((known, wide));
    resource.server.end().await;
}

#[tokio::test]
async fn a_tool_lists_resources_without_templates_for_a_token_that_is_not_for_them() {
    const TEMPLATES: &str = "operation-scopes = { list = [\"mcp:list\"], templates = [\"mcp:templates\"] }";
    let entry = |issuer: &TokenIssuer| format!("{}\n{TEMPLATES}", jwks(issuer));
    let sample = Plugin::sample("s");
    let rule = Rule::for_principal("corp/alice").allow(["sample://s/**"]);
    let more = |config: ConfigFile| {
        let config = config.server("tools", vec!["list"]).server("tool-structured-content", true);
        config.plugin(sample).rule(rule)
    };
    let resource = ResourceServer::start_with_config(entry, more).await;
    let call = |scope: &str| {
        let call = json!({ "name": "list_resources", "arguments": {} });
        let request = resource.server.uninitialized(super::REVISION).request_builder("tools/call", call);
        request.bearer_auth(token(&resource, &json!(scope))).send()
    };
    let result = async |scope: &str| call(scope).await.unwrap().json::<Value>().await.unwrap()["result"].clone();

    let text = |result: &Value| result["content"][0]["text"].as_str().unwrap().to_owned();
    let whole = result("mcp:list mcp:templates").await;
    assert!(!whole["structuredContent"]["resourceTemplates"].as_array().unwrap().is_empty(), "{whole}");
    assert!(text(&whole).contains("sample://s/item/{") && !text(&whole).contains("left out"), "{whole}");

    let narrow = result("mcp:list").await;
    assert_eq!(narrow["structuredContent"]["resources"], whole["structuredContent"]["resources"]);
    assert_eq!(narrow["structuredContent"].get("resourceTemplates"), None);
    assert!(!narrow.to_string().contains("sample://s/item/{"), "{narrow}");
    assert!(text(&narrow).contains("URI templates are left out: the access token"), "{narrow}");

    for scope in ["mcp:templates", "openid"] {
        assert_insufficient(&call(scope).await.unwrap(), &["mcp:list"], scope);
    }
    resource.server.end().await;
}

#[tokio::test]
async fn a_token_that_is_not_for_listings_gets_no_index_of_a_directory() {
    const LIST: &str = "operation-scopes = { list = [\"mcp:list\"] }";
    let entry = |issuer: &TokenIssuer| format!("{}\n{LIST}", jwks(issuer));
    let notes = Folder::with_files([("a.md", "A note.\n"), ("sub/b.md", "Another.\n")]);
    let plugin = Plugin::notes("n", notes.path());
    let rule = Rule::for_principal("corp/alice").allow(["notes://n/**"]);
    let more = |config: ConfigFile| config.server("tools", vec!["list", "read"]).plugin(plugin).rule(rule);
    let resource = ResourceServer::start_with_config(entry, more).await;
    let (narrow, whole) = (token(&resource, &json!("openid")), token(&resource, &json!("mcp:list")));
    let answer = async |token: &str, method: &str, params: &Value| {
        let request = resource.server.uninitialized(super::REVISION).request_builder(method, params.clone());
        let response = request.bearer_auth(token).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{method}");
        response.text().await.unwrap()
    };
    for uri in ["notes://n/", "notes://n/sub"] {
        let tool = json!({ "name": "read_resource", "arguments": { "uri": uri } });
        for (method, params) in [("resources/read", json!({ "uri": uri })), ("tools/call", tool)] {
            let (index, without) = (answer(&whole, method, &params).await, answer(&narrow, method, &params).await);
            assert!(index.contains(".md>"), "{index}");
            assert!(!without.contains(".md") && without.contains("the scopes of `list`"), "{without}");
        }
    }
    let note = answer(&narrow, "resources/read", &json!({ "uri": "notes://n/sub/b.md" })).await;
    assert!(note.contains("Another."), "{note}");
    resource.server.end().await;
}

#[tokio::test]
async fn scopes_are_asked_for_before_anything_is_said_of_resources() {
    let resource = start().await;
    let token = token(&resource, &json!("mcp:other"));
    for uri in ["faulty://m/f", "faulty://m/g", "faulty://m/nothing", "nothing://x/y"] {
        let read =
            resource.server.uninitialized(super::REVISION).request_builder("resources/read", json!({ "uri": uri }));
        assert_insufficient(&read.bearer_auth(&token).send().await.unwrap(), &["mcp:read"], uri);
    }
    resource.server.end().await;
}

#[tokio::test]
async fn a_reload_that_requires_another_scope_ends_the_streams_of_tokens_without_it() {
    let resource = ResourceServer::start_with(jwks).await;
    let read = token(&resource, &json!("mcp:read"));
    let events = resource.session(&read).await.event_stream().await;
    let entry = format!("{}\n{SCOPES}", jwks(&resource.issuer));
    let issuer = super::issuer_entry("corp", &resource.issuer.identifier(), &entry);
    resource.config.replace(super::base_config(&resource.folder, &resource.port).append(&issuer));
    timeout(TIMEOUT, events.bytes()).await.expect("it ends").expect("it ends in order");
    resource.assert_valid(&read).await;
    resource.server.end().await;
}

#[tokio::test]
async fn search_and_context_require_the_scopes_of_what_they_are_made_of() {
    const LIST: &str = "operation-scopes = { list = [\"mcp:list\"] }";
    let entry = |issuer: &TokenIssuer| format!("{}\n{LIST}", jwks(issuer));
    let notes = Folder::with_files([("a.md", "A note with words.\n")]);
    let searched = Plugin::notes("n", notes.path()).searched();
    let rule = Rule::for_principal("corp/alice").allow(["notes://n/**", "search:///**", "context:///**"]);
    let more = |config: ConfigFile| config.server("tools", vec!["list", "read"]).plugin(searched).rule(rule);
    let resource = ResourceServer::start_with_config(entry, more).await;
    let (narrow, whole) = (token(&resource, &json!("openid")), token(&resource, &json!("mcp:list")));
    let tool = |uri: &str| json!({ "name": "read_resource", "arguments": { "uri": uri } });
    let complete = json!({
        "ref": { "type": "ref/resource", "uri": "search:///{?q,in,kind,lang,limit}" },
        "argument": { "name": "in", "value": "" },
    });
    let listen = json!({ "notifications": { "resourceSubscriptions": ["search:///saved/x"] } });
    for (method, params) in [
        ("resources/read", json!({ "uri": "search:///?q=words" })),
        ("resources/read", json!({ "uri": "SEARCH:///?q=words" })),
        ("resources/read", json!({ "uri": "context:///?q=words" })),
        ("tools/call", tool("search:///?q=words")),
        ("completion/complete", complete),
        ("subscriptions/listen", listen),
    ] {
        let request = |token: &str| {
            resource.server.uninitialized(super::REVISION).request_builder(method, params.clone()).bearer_auth(token)
        };
        assert_insufficient(&request(&narrow).send().await.unwrap(), &["mcp:list"], &params.to_string());
        assert_eq!(request(&whole).send().await.unwrap().status(), StatusCode::OK, "{params}");
    }
    let read = json!({ "uri": "notes://n/a.md" });
    let request = resource.server.uninitialized(super::REVISION).request_builder("resources/read", read);
    assert_eq!(request.bearer_auth(&narrow).send().await.unwrap().status(), StatusCode::OK);
    resource.server.end().await;
}

#[tokio::test]
async fn the_console_requires_the_scopes_of_what_it_shows_at_each_door() {
    const SCOPES: &str = "operation-scopes = { list = [\"mcp:list\"], read = [\"mcp:read\"] }";
    let entry = |issuer: &TokenIssuer| format!("{}\n{SCOPES}", jwks(issuer));
    let notes = Folder::with_files([("a.md", "A note with words.\n")]);
    let searched = Plugin::notes("n", notes.path()).searched();
    let rule = Rule::for_principal("corp/alice").allow(["notes://n/**", "search:///**", "context:///**"]);
    let admin = "\n[admin]\nlisten = \"127.0.0.1:0\"\nusers = true\n";
    let more = |config: ConfigFile| config.plugin(searched).rule(rule).append(admin);
    let resource = ResourceServer::start_with_config(entry, more).await;
    let line = resource.server.log_line("administration at ").await;
    let console = line.split_whitespace().last().unwrap();
    let complete = |template: &str, variable: &str| json!({ "template": template, "variable": variable, "value": "" });
    let (list, both): (&[&str], &[&str]) = (&["mcp:list"], &["mcp:list", "mcp:read"]);
    for (door, body, required) in [
        ("list", json!({}), list),
        ("templates", json!({}), &[]),
        ("read", json!({ "uri": "notes://n/a.md" }), both),
        ("search", json!({ "query": "words" }), both),
        ("context", json!({ "query": "words", "budget": 100 }), both),
        ("complete", complete("notes://n/{+path}", "path"), &[]),
        ("complete", complete("search:///{?q,in,kind,lang,limit}", "kind"), both),
        ("complete", complete("SEARCH:///{?q,in,kind,lang,limit}", "in"), both),
        ("list", json!({ "parent": "search:///" }), both),
        ("watch", json!({ "uris": ["notes://n/a.md"] }), &[]),
        ("watch", json!({ "uris": ["notes://n/a.md", "search:///saved/x"] }), both),
        ("watch", json!({ "uris": ["CONTEXT:///?q=words"] }), both),
    ] {
        for scopes in ["openid", "openid mcp:list", "openid mcp:read", "openid mcp:list mcp:read"] {
            let url = format!("{console}/api/v1/browse/{door}");
            let request = reqwest::Client::new().post(url).bearer_auth(token(&resource, &json!(scopes))).json(&body);
            let answer = request.send().await.unwrap();
            let may = required.iter().all(|scope| scopes.split(' ').any(|found| found == *scope));
            let status = answer.status();
            // A stream has no end.
            let is_stream = door == "watch" && status == StatusCode::OK;
            let text = if is_stream { String::new() } else { answer.text().await.unwrap() };
            assert_eq!(status != StatusCode::FORBIDDEN, may, "{door} {body} with {scopes}: {status} {text}");
        }
    }
    resource.server.end().await;
}
