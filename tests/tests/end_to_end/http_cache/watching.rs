//! Who subscribes to a page is told when it changes.

use mcp_host_tests::{Origin, Reply, Revision, StdioWire};
use serde_json::json;

use super::{serving, uri, web};

#[tokio::test]
async fn a_page_that_changes_is_told_and_one_that_is_confirmed_is_not() {
    let origin = Origin::http().await;
    let page = |body: &str| Reply::ok("text/plain", body).cache_control("max-age=0").etag(&format!("\"{body}\""));
    origin.serve("/a", page("one"));
    origin.serve("/b", page("one"));
    let config = serving(web(&[&origin]).config("check-seconds", 1));
    let mut wire = StdioWire::start(&config, Revision::V_2025_11_25).await;
    for path in ["/a", "/b"] {
        wire.request("resources/subscribe", json!({ "uri": uri(&origin, path) })).await.result();
    }
    // Each has been confirmed before one of them changes.
    let is_confirmed = |path: &str| {
        let requests = origin.requests();
        requests.iter().any(|request| request.path == path && request.header("if-none-match").is_some())
    };
    while !(is_confirmed("/a") && is_confirmed("/b")) {
        origin.until_requests(origin.requests().len() + 1).await;
    }
    origin.serve("/b", page("two"));
    loop {
        let message = wire.message().await.expect("a notification before the end");
        if message["method"] == "notifications/resources/updated" {
            assert_eq!(message["params"]["uri"], uri(&origin, "/b").as_str());
            break;
        }
    }
    wire.close();
    wire.ended().await;
}
