//! Listing the children of a resource.

use std::collections::BTreeSet;

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, RawStdio, Revision, Rule, fixture, run};
use proptest::collection::btree_set;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{SEP_2093, config_with_sources, create_sources, list_all, list_pages, uri_of, with_extensions};
use crate::support::proptest_config::with_cases;

fn child(n: usize) -> String {
    format!("sample://a/collection/{n:03}")
}

/// Returns all pages, of a given size, of the children of a collection. The children with the hidden numbers are
/// denied.
async fn list_child_pages(count: usize, hidden: &BTreeSet<usize>, size: i64) -> Vec<Value> {
    let plugin = Plugin::sample("a").config("collection", i64::try_from(count).unwrap());
    let config = with_extensions(&[SEP_2093], ConfigFile::new().page_size(size).plugin(plugin));
    let config = match hidden.is_empty() {
        true => config,
        false => config.rule(Rule::for_principal("local").deny_globs(hidden.iter().map(|n| child(*n)).collect())),
    };
    let config = config.write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let pages = list_pages(&mut wire, Some("sample://a/collection")).await;
    wire.end().await;
    pages
}

proptest! {
    #![proptest_config(with_cases(32))]

    #[test]
    fn children_in_pages_of_any_size_are_all_that_the_principal_may_see(
        count in 0..60_usize,
        hidden in btree_set(0..60_usize, 0..30),
        size in prop_oneof![1..8_i64, 1..100_i64],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pages = runtime.block_on(list_child_pages(count, &hidden, size));
        let of = |page: &Value| page["resources"].as_array().unwrap().clone();
        let longest = usize::try_from(size).unwrap();
        prop_assert!(pages.iter().all(|page| of(page).len() <= longest));
        let found: Vec<_> = pages.iter().flat_map(of).map(|resource| uri_of(&resource).to_owned()).collect();
        let expected: Vec<_> = (0..count).filter(|n| !hidden.contains(n)).map(child).collect();
        prop_assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn descending_from_the_root_finds_every_file_that_is_listed() {
    let (repo, notes) = create_sources();
    for size in [1, 2, 100] {
        let config = with_extensions(&[SEP_2093], config_with_sources(&repo, &notes).page_size(size)).write();
        let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
        for (root, mount) in [("git://repo/tree/HEAD", "git://repo/"), ("notes://diary/", "notes://diary/")] {
            let (mut files, mut folders) = (BTreeSet::new(), vec![root.to_owned()]);
            while let Some(folder) = folders.pop() {
                for resource in list_all(&mut wire, Some(&folder)).await {
                    match resource["capabilities"]["list"] == json!(true) {
                        true => folders.push(uri_of(&resource).to_owned()),
                        false => assert!(files.insert(uri_of(&resource).to_owned()), "{resource} is there once"),
                    }
                }
            }
            let everything = list_all(&mut wire, None).await;
            let everything = everything.iter().map(uri_of).filter(|uri| uri.starts_with(mount));
            assert_eq!(files, everything.map(str::to_owned).collect(), "in pages of {size}");
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn a_provider_that_lists_whatever_the_parent_is_not_asked_for_what_cannot_be_listed() {
    let sizes = Plugin::new("sizes", &fixture("sizes"), "sizes:///").config("count", 3);
    let config = with_extensions(&[SEP_2093], ConfigFile::new().plugin(sizes)).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let answer = wire.request("resources/list", json!({ "uri": "sizes:///text/1" })).await;
    assert_eq!((answer.error_code(), &answer.error()["message"]), (-32602, &json!("sizes:///text/1 cannot be listed")));
    wire.end().await;
    let path = config.path();
    let refused = run(["list", "sizes:///text/1", "--config", path.to_str().unwrap()]).await;
    assert!(refused.stderr.contains("sizes:///text/1 cannot be listed"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_cursor_of_one_transport_goes_on_over_the_other_and_for_every_spelling_of_the_parent() {
    let config =
        with_extensions(&[SEP_2093], ConfigFile::new().page_size(1).plugin(Plugin::sample("a")).allow_all()).write();
    let server = HttpServer::start(&config).await;
    let mut old = server.raw_client(Revision::V_2025_06_18).await;
    let mut new = server.raw_client(Revision::V_2026_07_28).await;
    let first = old.request("resources/list", json!({ "uri": "sample://a/collection" })).await;
    let cursor = &first.result()["nextCursor"];
    for spelling in ["sample://a/collection", "SAMPLE://A/collection", "sample://a/x/../%63ollection"] {
        let next = new.request("resources/list", json!({ "uri": spelling, "cursor": cursor })).await;
        assert_eq!(next.result()["resources"][0]["uri"], "sample://a/collection/001", "{spelling}");
    }
    server.end().await;
    // Over stdio, the principal is another one.
    let mut wire = RawStdio::start(&config, Revision::V_2025_06_18).await;
    let other = wire.request("resources/list", json!({ "uri": "sample://a/collection", "cursor": cursor })).await;
    assert_eq!(other.error_code(), -32602);
    wire.end().await;
}

#[tokio::test]
async fn a_plugin_that_fails_fails_the_listing_below_its_resource_alone() {
    let broken = Plugin::misbehaving("broken").config("list", "trap");
    let config = with_extensions(&[SEP_2093], ConfigFile::new().plugin(Plugin::sample("a")).plugin(broken)).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let children = wire.request("resources/list", json!({ "uri": "sample://a/collection" })).await;
    assert_eq!(children.result().get("_meta"), None, "the other plugin has no part in it");
    let everything = wire.request("resources/list", json!({})).await;
    assert_eq!(everything.result()["_meta"]["mcp-host/missing"][0]["plugin"], "broken");
    let failed = wire.request("resources/list", json!({ "uri": "misbehaving://broken/trap" })).await;
    assert_eq!((failed.error_code(), &failed.error()["data"]["plugin"]), (-32603, &json!("broken")));
    wire.end().await;
}
