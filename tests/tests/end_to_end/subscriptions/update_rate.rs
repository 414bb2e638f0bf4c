//! Bounds for providers that report changes often: the rate of updates to a subscriber, and the host's work for them.

use std::fs;
use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision};
use mcp_resource_host::Update;
use mcp_resource_host::access::Principal;
use serde_json::json;

use crate::subscriptions::facade::start;

const UPDATED: &str = "notifications/resources/updated";
const LISTING: &str = "notifications/resources/list_changed";
const URI: &str = "watched://w/f";

/// Returns the maximum number of updates in a time: one per 100 ms, and one at each end.
fn max_updates_in(time: Duration) -> u128 {
    time.as_millis() / 100 + 2
}

#[tokio::test]
async fn a_path_that_is_named_thousands_of_times_is_told_once_a_round() {
    let (folder, counts) = (Folder::with_files([("state", "0")]), Folder::with_files::<&str, &str>([]));
    let plugin =
        Plugin::watched("w", folder.path()).config("repeat", 9000).writable_dir(counts.path(), "/count", "1MiB");
    let mut wire = RawStdio::start(&ConfigFile::new().plugin(plugin).write(), Revision::V_2025_11_25).await;
    wire.request("resources/subscribe", json!({ "uri": URI })).await.result();
    let rounds = || fs::read(counts.path().join("changes")).unwrap().len();
    let before = rounds();
    for told in 1..=20 {
        wire.notification(UPDATED).await;
        // One round may have ended before this one.
        assert!(rounds() - before + 1 >= told, "{told} updates for {} rounds", rounds() - before);
    }
    wire.end().await;
}

#[tokio::test]
async fn one_resource_is_told_ten_times_a_second_at_most_though_a_client_has_rounds_made_all_the_time() {
    let folder = Folder::with_files([("state", "0")]);
    let plugin = Plugin::watched("w", folder.path()).config("repeat", 1);
    let mut wire = RawStdio::start(&ConfigFile::new().plugin(plugin).write(), Revision::V_2025_11_25).await;
    let (began, mut told) = (Instant::now(), 0);
    wire.request("resources/subscribe", json!({ "uri": URI })).await.result();
    for _ in 0..200 {
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            wire.request(method, json!({ "uri": "watched://w/other" })).await.result();
        }
        told += wire.take_notifications().iter().filter(|message| message["params"]["uri"] == URI).count() as u128;
    }
    let most = max_updates_in(began.elapsed());
    assert!(told > 0 && told <= most, "{told} of {most}");
    wire.end().await;
}

#[tokio::test]
async fn that_the_listing_changed_is_told_ten_times_a_second_at_most_though_it_always_does() {
    let folder = Folder::with_files([("state", "0")]);
    let plugin = Plugin::watched("w", folder.path()).config("relists", true);
    let (began, mut told) = (Instant::now(), 0);
    let mut wire = RawStdio::start(&ConfigFile::new().plugin(plugin).write(), Revision::V_2025_11_25).await;
    for _ in 0..200 {
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            wire.request(method, json!({ "uri": URI })).await.result();
        }
        told += wire.take_notifications().iter().filter(|message| message["method"] == LISTING).count() as u128;
    }
    let most = max_updates_in(began.elapsed());
    assert!(told <= most, "{told} of {most}");
    wire.notification(LISTING).await;
    wire.end().await;
}

#[tokio::test]
async fn walks_that_find_out_what_is_listed_take_nothing_of_what_clients_may_use() {
    let folder = Folder::with_files([("state", "0")]);
    let plugin = Plugin::watched("w", folder.path()).config("relists", true);
    let narrow = plugin.limit("concurrency", 1).limit("queue", 0).limit("rate", "1/s");
    let host = start(&ConfigFile::new().plugin(narrow).write()).await;
    let subscriber = host.subscriber(&Principal::LOCAL);
    subscriber.watch_listing();
    for _ in 0..5 {
        assert_eq!(subscriber.next().await, Update::Listing);
    }
    host.read(&Principal::LOCAL, URI).await.unwrap();
}

#[tokio::test]
async fn more_resources_than_one_answer_may_name_are_all_told() {
    const RESOURCES: usize = 600;
    let folder = Folder::with_files([("state", "0")]);
    let host =
        start(&ConfigFile::new().plugin(Plugin::watched("w", folder.path()).limit("response-items", 200)).write())
            .await;
    let subscriber = host.subscriber(&Principal::LOCAL);
    let uris: Vec<_> = (0..RESOURCES).map(|number| format!("watched://w/{number}")).collect();
    for change in ["as soon as it counts", "1", "2"] {
        let mut left: std::collections::BTreeSet<_> = uris.iter().cloned().collect();
        let told = async {
            while !left.is_empty() {
                let Update::Resource(uri) = subscriber.next().await else { continue };
                left.remove(&uri);
            }
        };
        if change == "as soon as it counts" {
            tokio::select! {
                () = told => {}
                never = host.maintain_subscriptions(&subscriber, &uris) => match never {},
            }
        } else {
            folder.write("state", change);
            told.await;
        }
    }
    assert_eq!(host.watch_stats().resources, RESOURCES);
}

#[tokio::test]
async fn what_one_stream_may_subscribe_to_is_bounded_in_number_and_in_bytes_and_the_rest_is_not_acknowledged() {
    let folder = Folder::with_files([("state", "0")]);
    let config = ConfigFile::new().plugin(Plugin::watched("w", folder.path())).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    for (length, expected) in [(20, 1024), (8000, (256 << 10) / 8000)] {
        let uris: Vec<_> = (0..1100).map(|number| format!("watched://w/{number:0>0$}", length - 12)).collect();
        let wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
        // The message itself has at most some megabytes.
        let wanted =
            if length > 20 { json!({ "notifications": { "resourceSubscriptions": &uris[..100] } }) } else { wanted };
        let id = wire.send_request("subscriptions/listen", wanted).await;
        let acknowledged = wire.notification("notifications/subscriptions/acknowledged").await;
        let accepted = acknowledged["params"]["notifications"]["resourceSubscriptions"].as_array().unwrap().len();
        assert_eq!(accepted, expected, "{length}");
        let cancelled = json!({ "requestId": id });
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled })).await;
    }
    wire.end().await;
}
