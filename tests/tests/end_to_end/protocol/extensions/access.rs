//! Access control with extensions: a resource that a principal may not see does not exist for it.

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, RawHttp, Revision, Rule};
use serde_json::{Value, json};

use super::{DIRECTORY_READ, SEP_2093, with_extensions};

/// Starts a server with these rules for `anonymous`, and returns it with its config.
async fn start_with_rules(rules: impl IntoIterator<Item = Rule>) -> (mcp_host_tests::WrittenConfig, HttpServer) {
    let config = with_extensions(&[SEP_2093, DIRECTORY_READ], ConfigFile::new().plugin(Plugin::sample("a")));
    let config = rules.into_iter().fold(config, ConfigFile::rule).write();
    let server = HttpServer::start(&config).await;
    (config, server)
}

fn allow_everything() -> Rule {
    Rule::for_principal("anonymous").allow(["**"])
}

fn uri_params(path: &str) -> Value {
    json!({ "uri": format!("sample://a/{path}") })
}

async fn capabilities(wire: &mut RawHttp, path: &str) -> Value {
    wire.request("resources/metadata", uri_params(path)).await.result()["resource"]["capabilities"].clone()
}

async fn uris(wire: &mut RawHttp, method: &str, path: &str) -> Vec<String> {
    let answer = wire.request(method, uri_params(path)).await;
    let items = answer.result().get("resources").or(answer.result().get("contents")).unwrap().as_array().unwrap();
    items.iter().map(|item| item["uri"].as_str().unwrap().trim_start_matches("sample://a/").to_owned()).collect()
}

#[tokio::test]
async fn without_a_rule_nothing_is_there_and_it_looks_like_nothing() {
    let (_config, server) = start_with_rules([]).await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = server.raw_client(revision.clone()).await;
        for method in ["resources/list", "resources/metadata", "resources/read", "resources/directory/read"] {
            if method == "resources/directory/read" && revision == Revision::V_2025_11_25 {
                continue;
            }
            let hidden = wire.request(method, uri_params("collection")).await;
            let unknown = wire.request(method, json!({ "uri": "nobody://a/collection" })).await;
            assert_eq!(hidden.error_code(), unknown.error_code(), "{method}");
            let of =
                |answer: &mcp_host_tests::RpcResponse, scheme: &str| answer.error().to_string().replace(scheme, "");
            assert_eq!(of(&hidden, "sample"), of(&unknown, "nobody"), "{method}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_child_that_is_denied_is_in_no_listing_and_in_no_contents() {
    let (_config, server) = start_with_rules([
        allow_everything(),
        Rule::for_principal("anonymous").deny(["sample://a/collection/001", "**/cover"]),
    ])
    .await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    for method in ["resources/list", "resources/directory/read"] {
        assert_eq!(uris(&mut wire, method, "collection").await, ["collection/000", "collection/002"], "{method}");
    }
    assert_eq!(uris(&mut wire, "resources/list", "album").await, ["collection"]);
    assert_eq!(uris(&mut wire, "resources/read", "collection").await, ["collection/000"]);
    assert_eq!(uris(&mut wire, "resources/read", "album").await, ["album", "album"]);
    let hidden = wire.request("resources/metadata", uri_params("collection/001")).await;
    assert_eq!((hidden.error_code(), &hidden.error()["data"]["uri"]), (-32602, &json!("sample://a/collection/001")));
    server.end().await;
}

#[tokio::test]
async fn a_resource_that_a_principal_may_not_list_says_so_and_is_read_without_what_is_below_it() {
    let rules =
        [allow_everything(), Rule::for_principal("anonymous").deny(["**/album", "**/collection"]).operations(["list"])];
    let (_config, server) = start_with_rules(rules).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    assert_eq!(capabilities(&mut wire, "album").await, json!({ "list": false, "subscribe": false }));
    assert_eq!(wire.request("resources/list", uri_params("album")).await.error_code(), -32602);
    assert_eq!(uris(&mut wire, "resources/read", "album").await, ["album", "album"]);
    let nothing_of_its_own = wire.request("resources/read", uri_params("collection")).await;
    assert_eq!(nothing_of_its_own.error()["data"]["uri"], "sample://a/collection");
    server.end().await;
}

#[tokio::test]
async fn a_resource_that_a_principal_may_not_subscribe_to_says_so() {
    for denied in ["subscribe", "read"] {
        let (_config, server) = start_with_rules([
            allow_everything(),
            Rule::for_principal("anonymous").deny(["**/all"]).operations([denied]),
        ])
        .await;
        let mut wire = server.raw_client(Revision::V_2025_11_25).await;
        assert_eq!(capabilities(&mut wire, "all").await, json!({ "list": false, "subscribe": false }));
        assert_eq!(capabilities(&mut wire, "collection").await, json!({ "list": true, "subscribe": true }));
        assert_eq!(wire.request("resources/subscribe", uri_params("all")).await.error_code(), -32002, "{denied}");
        wire.request("resources/subscribe", uri_params("collection")).await.result();
        server.end().await;
    }
}

#[tokio::test]
async fn metadata_is_an_operation_of_its_own() {
    let (_config, server) = start_with_rules([
        allow_everything(),
        Rule::for_principal("anonymous").deny(["**/plain"]).operations(["metadata"]),
    ])
    .await;
    let mut wire = server.raw_client(Revision::V_2025_11_25).await;
    assert_eq!(wire.request("resources/metadata", uri_params("plain")).await.error_code(), -32002);
    assert_eq!(wire.request("resources/read", uri_params("plain")).await.result()["contents"][0]["text"], "Plain.\n");
    server.end().await;
}

#[tokio::test]
async fn what_can_be_done_differs_between_principals_so_results_that_say_it_are_private() {
    let rules = [
        Rule::for_principal("*").allow(["**"]),
        Rule::for_principal("anonymous").deny(["**/all"]).operations(["subscribe"]),
    ];
    let (config, server) = start_with_rules(rules).await;
    let scopes = async |server: &HttpServer| {
        let mut wire = server.raw_client(Revision::V_2026_07_28).await;
        let mut scopes = Vec::new();
        for method in ["resources/list", "resources/read", "resources/metadata"] {
            scopes.push(wire.request(method, uri_params("collection")).await.result()["cacheScope"].clone());
        }
        scopes.push(wire.request("resources/templates/list", json!({})).await.result()["cacheScope"].clone());
        scopes
    };
    assert_eq!(scopes(&server).await, ["private", "private", "private", "public"]);
    server.end().await;
    drop(config);
    let (_config, server) = start_with_rules([Rule::for_principal("*").allow(["**"])]).await;
    assert_eq!(scopes(&server).await, ["public"; 4]);
    server.end().await;
}
