//! `examples/team.toml`, unmodified: all included providers for a team, and two kinds of client.

use std::collections::BTreeSet;
use std::path::Path;

use mcp_host_tests::{HttpServer, RawHttp, Revision};
use serde_json::{Value, json};

const DEVELOPER: &str = "mcp_example-developer";
const AGENT: &str = "mcp_example-agent";

async fn uris(client: &mut RawHttp) -> BTreeSet<String> {
    let (mut uris, mut cursor) = (BTreeSet::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = client.request("resources/list", params).await.result().clone();
        let resources = page["resources"].as_array().unwrap();
        uris.extend(resources.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            return uris;
        }
    }
}

async fn read(client: &mut RawHttp, uri: &str) -> Option<String> {
    let answer = client.request("resources/read", json!({ "uri": uri })).await;
    Some(answer.message["result"]["contents"][0]["text"].as_str()?.to_owned())
}

#[tokio::test]
async fn the_example_for_teams_serves_every_provider_to_each_client_by_its_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let server = HttpServer::start_file(&root.join("examples/team.toml")).await;
    let mut developer = RawHttp::start_with_token(server.url(), Revision::V_2025_11_25, DEVELOPER).await;
    let mut agent = RawHttp::start_with_token(server.url(), Revision::V_2025_11_25, AGENT).await;
    let (all, some) = (uris(&mut developer).await, uris(&mut agent).await);
    for uri in [
        "files:///README.md",
        "notes:///start-here.md",
        "results:///builds/sizes",
        "results:///latest",
        "prometheus:///saved/up",
        "web://docs.rs/rmcp/latest/rmcp/",
    ] {
        assert!(all.contains(uri) && some.contains(uri), "{uri}: {some:?}");
    }
    for uri in ["config://shop/effective", "files:///examples/team/config/shop.toml", "results://reviews/review"] {
        assert!(all.contains(uri) && !some.contains(uri), "{uri}");
        assert!(read(&mut developer, uri).await.is_some(), "{uri}");
        assert_eq!(read(&mut agent, uri).await, None, "{uri}");
    }
    assert!(some.is_subset(&all));
    let effective: Value =
        serde_json::from_str(&read(&mut developer, "config://shop/effective").await.unwrap()).unwrap();
    assert_eq!(effective["values"]["server"], json!({ "host": "shop.example.org", "port": 9090 }));
    assert_eq!(effective["values"]["log_level"], "debug");
    assert!(!effective.to_string().contains("not-a-real-password"));
    assert!(read(&mut agent, "results:///latest").await.unwrap().starts_with("# Sizes"));
    // A linked worktree's repository is elsewhere, and not granted by the example.
    if root.join(".git").is_dir() {
        assert!(read(&mut agent, "git://project/log/HEAD?limit=1").await.is_some());
        assert_eq!(read(&mut agent, "git://project/blob/HEAD/examples/team/config/shop.toml").await, None);
        for uri in ["git://project/commit/HEAD", "git://project/diff/HEAD..HEAD"] {
            assert!(read(&mut developer, uri).await.is_some(), "{uri}");
            assert_eq!(read(&mut agent, uri).await, None, "{uri} shows changes of every file");
        }
    }
    server.end().await;
}
