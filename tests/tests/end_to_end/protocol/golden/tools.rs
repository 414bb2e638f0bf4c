//! The cases of tools: the listing, and each tool with success and with each kind of failure.

use mcp_host_tests::{RawHttp, RawStdio, Revision, initialize_params};
use serde_json::{Value, json};

use super::cases::{Case, CaseBuilder, Subject};

/// The file of the tools.
pub(super) const TOOLS: Subject = Subject { name: "tools", cases };

/// A search that matches everything in the index.
const EVERYTHING: &str = "sample";

/// A connection that can send requests.
pub(super) trait Asks {
    async fn ask(&mut self, method: &str, params: Value) -> Value;
}

impl Asks for RawStdio {
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.request(method, params).await.message
    }
}

impl Asks for RawHttp {
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.request(method, params).await.message
    }
}

/// Waits until everything is indexed. Earlier results of searches are marked as partial.
pub(super) async fn wait_until_indexed(connection: &mut impl Asks) {
    loop {
        let params = json!({ "name": "search_resources", "arguments": { "query": EVERYTHING } });
        let answer = connection.ask("tools/call", params).await;
        let text = answer["result"]["content"][0]["text"].as_str().expect("a search has a text");
        if !text.contains("not everything is indexed") {
            return;
        }
    }
}

fn cases(revision: &Revision) -> Vec<Case> {
    let mut builder = CaseBuilder::new(revision);
    let (method, params) = match revision.has_initialize() {
        true => ("initialize", initialize_params(revision)),
        false => ("server/discover", json!({})),
    };
    let message = builder.request(method, params);
    builder.cases.push(Case::message("what there is", message).first());
    builder.push("the tools", "tools/list", json!({}));
    builder.push("a cursor that nobody gave", "tools/list", json!({ "cursor": "made up" }));
    for (what, name, arguments) in [
        ("the resources", "list_resources", json!({})),
        ("the children of a resource", "list_resources", json!({ "uri": "sample://a/collection" })),
        ("the children of what is not there", "list_resources", json!({ "uri": "sample://a/nothing" })),
        ("a listing from a cursor that nobody gave", "list_resources", json!({ "cursor": "made up" })),
        ("a text", "read_resource", json!({ "uri": "sample://a/all" })),
        ("bytes", "read_resource", json!({ "uri": "sample://a/binary" })),
        ("several contents", "read_resource", json!({ "uri": "sample://a/several" })),
        ("what is not there", "read_resource", json!({ "uri": "sample://a/nothing" })),
        ("what no mount has", "read_resource", json!({ "uri": "simple://a/all" })),
        ("what its owner denies", "read_resource", json!({ "uri": "sample://a/denied" })),
        ("what cannot be had now", "read_resource", json!({ "uri": "sample://a/unavailable" })),
        ("a read without a URI", "read_resource", json!({})),
        ("a read with an argument that is unknown", "read_resource", json!({ "uri": "sample://a/all", "other": 1 })),
        ("a search", "search_resources", json!({ "query": "all of it" })),
        (
            "a search that is narrowed",
            "search_resources",
            json!({
                "query": EVERYTHING, "in": "sample://a/all", "kind": "text", "lang": "en", "limit": 1,
            }),
        ),
        ("a search that finds nothing", "search_resources", json!({ "query": "absent" })),
        ("a search with syntax of FTS5", "search_resources", json!({ "query": "\"a\" AND NEAR(b c) OR text:d*" })),
        ("a search without words", "search_resources", json!({})),
        ("a search for nothing", "search_resources", json!({ "query": "" })),
        ("a search below no mount", "search_resources", json!({ "query": "x", "in": "simple://a/all" })),
        ("a search of no kind", "search_resources", json!({ "query": "x", "kind": "markdown" })),
        ("a search in no language", "search_resources", json!({ "query": "x", "lang": "english" })),
        ("a search with a limit that is too high", "search_resources", json!({ "query": "x", "limit": 101 })),
        ("a selection", "resource_context", json!({ "query": "all of it", "budget": 100 })),
        ("a selection by priority alone", "resource_context", json!({ "budget": 100 })),
        ("a selection without a budget", "resource_context", json!({ "query": "all", "budget": 0 })),
        ("a tool that is not there", "delete_resource", json!({ "uri": "sample://a/all" })),
    ] {
        builder.push(what, "tools/call", json!({ "name": name, "arguments": arguments }));
    }
    builder.push("a call without arguments", "tools/call", json!({ "name": "list_resources" }));
    builder.push(
        "a call with arguments that are no object",
        "tools/call",
        json!({ "name": "list_resources", "arguments": [] }),
    );
    builder.push("a call without a name", "tools/call", json!({ "arguments": {} }));
    builder.push_raw("a call with parameters that are no object", "tools/call", json!(["x"]));
    builder.cases
}
