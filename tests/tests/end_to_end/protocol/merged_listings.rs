//! Merged listings: pages of any size contain everything that the plugins list, exactly once.

use std::collections::BTreeSet;

use mcp_host_tests::{ConfigFile, Plugin, RawStdio, Revision, Rule, fixture, run};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::proptest_config::with_cases;

/// The number of resources that a plugin lists; `None` if its listing fails.
type ItemCount = Option<usize>;

fn uri(plugin: usize, item: usize) -> String {
    format!("misbehaving://p{plugin}/item-{item:04}")
}

fn config(counts: &[ItemCount], hidden: &BTreeSet<(usize, usize)>, size: i64) -> ConfigFile {
    let hidden: Vec<_> = hidden.iter().map(|(plugin, item)| uri(*plugin, *item)).collect();
    let mut config = ConfigFile::new().page_size(size).allow_all();
    for (plugin, count) in counts.iter().enumerate() {
        let plugin = Plugin::misbehaving(&format!("p{plugin}"));
        config = config.plugin(match count {
            Some(count) => plugin.config("list", "many").config("count", i64::try_from(*count).unwrap()),
            None => plugin.config("list", "internal"),
        });
    }
    match hidden.is_empty() {
        true => config,
        false => config.rule(Rule::for_principal("anonymous").deny_globs(hidden)),
    }
}

/// Returns the entries of the plugins with a listing that a principal may see.
fn expected(counts: &[ItemCount], hidden: &BTreeSet<(usize, usize)>, principal: &str) -> Vec<String> {
    let items =
        counts.iter().enumerate().flat_map(|(plugin, count)| (0..count.unwrap_or(0)).map(move |item| (plugin, item)));
    items
        .filter(|item| principal == "local" || !hidden.contains(item))
        .map(|(plugin, item)| uri(plugin, item))
        .collect()
}

async fn list_pages(config: ConfigFile, principal: &str) -> Vec<Value> {
    let config = config.write();
    let path = config.path();
    let listed = run(["list", "--all", "--json", "--as", principal, "--config", path.to_str().unwrap()]).await;
    String::from_utf8(listed.stdout).unwrap().lines().map(|page| serde_json::from_str(page).unwrap()).collect()
}

proptest! {
    #![proptest_config(with_cases(32))]

    #[test]
    fn a_listing_in_pages_of_any_size_is_what_the_plugins_list_and_the_principal_may_see(
        counts in vec(prop_oneof![5 => (0..40_usize).prop_map(Some), 1 => Just(None)], 1..6),
        hidden in btree_set((0..6_usize, 0..40_usize), 0..30),
        size in prop_oneof![1..8_i64, 1..100_i64],
        principal in prop_oneof![Just("local"), Just("anonymous")],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pages = runtime.block_on(list_pages(config(&counts, &hidden, size), principal));
        let longest = usize::try_from(size).unwrap();
        prop_assert!(pages.iter().all(|page| page["resources"].as_array().unwrap().len() <= longest));
        let listed = pages.iter().flat_map(|page| page["resources"].as_array().unwrap());
        let listed: Vec<_> = listed.map(|resource| resource["uri"].as_str().unwrap().to_owned()).collect();
        prop_assert_eq!(listed, expected(&counts, &hidden, principal));
        let missing = pages.iter().flat_map(|page| page["_meta"]["mcp-host/missing"].as_array().into_iter().flatten());
        let missing: Vec<_> = missing.map(|one| one["plugin"].as_str().unwrap().to_owned()).collect();
        let failing = counts.iter().enumerate().filter(|(_, count)| count.is_none());
        prop_assert_eq!(missing, failing.map(|(plugin, _)| format!("p{plugin}")).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_million_resources_of_a_hundred_plugins_are_walked_in_little_memory() {
    const PLUGINS: usize = 100;
    const ITEMS_PER_PLUGIN: usize = 10_000;
    const PAGE_SIZE: usize = 1000;
    /// The memory that the walk may add to the server: a few pages, far less than the million entries.
    const MAX_GROWTH: u64 = 48 << 20;
    let mut config = ConfigFile::new().page_size(PAGE_SIZE as i64);
    for plugin in 0..PLUGINS {
        let name = format!("p{plugin:02}");
        let plugin = Plugin::new(&name, &fixture("sizes"), &format!("sizes://{name}/"));
        config =
            config.plugin(plugin.config("count", ITEMS_PER_PLUGIN as i64).limit("deadline", "30s").limit("cpu", "10s"));
    }
    let config = config.write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let (mut cursor, mut pages, mut count, mut memory) = (None::<String>, 0, 0, 0);
    loop {
        let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let page = wire.request("resources/list", params).await;
        for resource in page.result()["resources"].as_array().unwrap() {
            assert_eq!(
                resource["uri"],
                format!("sizes://p{:02}/text/{}", count / ITEMS_PER_PLUGIN, count % ITEMS_PER_PLUGIN)
            );
            count += 1;
        }
        pages += 1;
        if pages == PLUGINS * ITEMS_PER_PLUGIN / PAGE_SIZE / 10 {
            memory = wire.rss();
        }
        cursor = page.result()["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((count, pages), (PLUGINS * ITEMS_PER_PLUGIN, PLUGINS * ITEMS_PER_PLUGIN / PAGE_SIZE));
    let grown = wire.rss().saturating_sub(memory);
    assert!(grown < MAX_GROWTH, "{grown} bytes more than after a tenth of the pages");
    wire.end().await;
}
