//! Change notifications through the library's façade, without a protocol.

use std::sync::Arc;

use mcp_host_tests::{ConfigFile, Folder, Plugin, Rule, TIMEOUT, WrittenConfig, fixture, host_binary};
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::Config;
use mcp_resource_host::engine::Compiler;
use mcp_resource_host::{Host, Subscriber, Update};
use tokio::time::timeout;

/// A host in this process.
pub(crate) async fn start(config: &WrittenConfig) -> Arc<Host> {
    let loaded = Config::load(config.path()).unwrap();
    Arc::new(Host::builder(loaded).compiler(Compiler::Program(host_binary())).start().await.unwrap())
}

async fn next_update(subscriber: &Subscriber) -> Update {
    timeout(TIMEOUT, subscriber.next()).await.expect("an update in time")
}

fn faulty_config(folder: &Folder) -> ConfigFile {
    faulty_config_with_deadline(folder, "1m")
}

fn faulty_config_with_deadline(folder: &Folder, deadline: &str) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::faulty("m", folder.path()).limit("deadline", deadline))
}

#[tokio::test]
async fn that_the_listing_changed_is_told_only_to_those_for_whom_it_did() {
    let folder = Folder::with_files([("a", "a")]);
    let config = faulty_config(&folder).allow_all().rule(Rule::for_principal("local").deny(["**/secret*"])).write();
    let host = start(&config).await;
    let [all, some] = [Principal::ANONYMOUS, Principal::LOCAL].map(|principal| host.subscriber(&principal));
    for subscriber in [&all, &some] {
        subscriber.watch_listing();
        subscriber.listing_ready().await;
    }
    for name in ["secret-1", "secret-2"] {
        folder.write(name, "");
        assert_eq!(next_update(&all).await, Update::Listing);
    }
    // The same walk compares both listings, and the first one's walk has ended.
    assert_eq!(some.try_next(), None);
    folder.write("b", "");
    assert_eq!(next_update(&some).await, Update::Listing);
    assert_eq!(next_update(&all).await, Update::Listing);
}

#[tokio::test]
async fn a_listing_that_cannot_be_walked_is_told_of_whenever_it_may_have_changed() {
    let folder = Folder::with_files([("a", "a"), (".faults/list.trap", "")]);
    let host = start(&faulty_config(&folder).write()).await;
    let subscriber = host.subscriber(&Principal::LOCAL);
    subscriber.watch_listing();
    subscriber.listing_ready().await;
    folder.write("b", "");
    assert_eq!(next_update(&subscriber).await, Update::Listing);
}

#[tokio::test]
async fn what_changed_while_a_provider_was_broken_is_told_when_it_is_back() {
    // A call that hangs lasts until its deadline.
    for (fault, deadline) in [("changes.trap", "1m"), ("changes.hang", "2s"), ("changes.fail", "1m")] {
        let folder = Folder::with_files([("a", "a"), ("b", "b"), ("c", "c")]);
        let host = start(&faulty_config_with_deadline(&folder, deadline).write()).await;
        let subscriber = host.subscriber(&Principal::LOCAL);
        for uri in ["faulty://m/a", "faulty://m/b"] {
            host.subscribe(&subscriber, uri).await.unwrap();
        }
        let broken = folder.write(format!(".faults/{fault}"), "");
        folder.write("a", "changed");
        // While the provider fails, no subscription to another resource succeeds, which proves the failure. Changes of
        // polled resources are notified after the recovery, also to a further subscriber.
        host.subscribe(&host.subscriber(&Principal::LOCAL), "faulty://m/c").await.unwrap_err();
        host.subscribe(&host.subscriber(&Principal::LOCAL), "faulty://m/a").await.unwrap();
        folder.write("b", "changed");
        std::fs::remove_file(broken).unwrap();
        let mut told = [next_update(&subscriber).await, next_update(&subscriber).await];
        told.sort_by_key(|update| format!("{update:?}"));
        assert_eq!(told, ["faulty://m/a", "faulty://m/b"].map(|uri| Update::Resource(uri.to_owned())), "{fault}");
    }
}

#[tokio::test]
async fn a_uri_that_leads_out_of_a_hidden_mount_is_unsubscribed_from_as_if_the_mount_were_absent() {
    for is_hidden_mount_there in [true, false] {
        let (folder, hidden) = (Folder::with_files([("f", "a")]), Folder::with_files([("h", "a")]));
        let plugin = |name: &str, folder: &Folder| {
            Plugin::new(name, &fixture("watched"), &format!("x://h/{name}/")).dir(folder.path(), "/data")
        };
        let mut config = ConfigFile::new().plugin(plugin("b", &folder));
        if is_hidden_mount_there {
            config = config.plugin(plugin("a", &hidden));
        }
        let config = config.rule(Rule::for_principal("anonymous").allow(["x://h/b/**"])).write();
        let host = start(&config).await;
        let subscriber = host.subscriber(&Principal::ANONYMOUS);
        host.subscribe(&subscriber, "x://h/b/f").await.unwrap();
        assert_eq!(host.watch_stats().resources, 1);
        host.unsubscribe(&subscriber, "x://h/a/../b/f").unwrap();
        assert_eq!(host.watch_stats().resources, 0, "{is_hidden_mount_there}");
    }
}

#[tokio::test]
async fn the_list_of_a_stream_counts_for_the_memory_of_subscriptions() {
    let folder = Folder::with_files([("a", "a")]);
    let config = faulty_config(&folder).http_limit("subscription-memory", "64KiB").write();
    let host = start(&config).await;
    // A single principal may use a quarter of the limit.
    let subscriber = host.subscriber(&Principal::new("users/ada"));
    let uris: Vec<String> = (0..100).map(|number| format!("none:///{number}")).collect();
    let first = host.reserve_subscription_list(&subscriber, &uris);
    assert!(first.is_some());
    assert!(host.reserve_subscription_list(&subscriber, &uris).is_none());
    let other = host.subscriber(&Principal::new("users/bob"));
    assert!(host.reserve_subscription_list(&other, &uris).is_some());
    drop(first);
    assert!(host.reserve_subscription_list(&subscriber, &uris).is_some());
}

#[tokio::test]
async fn lookups_of_one_client_do_not_keep_others_from_subscribing() {
    let folder = Folder::with_files([("f", "a")]);
    let plugin = Plugin::watched("m", folder.path()).limit("deadline", "5s");
    let rule = |principal: &str| Rule::for_principal(principal).allow(["watched://m/**"]);
    let config = ConfigFile::new().plugin(plugin).rule(rule("users/ada")).rule(rule("users/bob")).write();
    let host = start(&config).await;
    let uris: Vec<String> = (0..100).map(|number| format!("watched://m/slow/{number}")).collect();
    let streams: Vec<_> = (0..4)
        .map(|_| {
            let (host, uris) = (host.clone(), uris.clone());
            tokio::spawn(async move {
                let subscriber = host.subscriber(&Principal::new("users/ada"));
                host.maintain_subscriptions(&subscriber, &uris).await
            })
        })
        .collect();
    // This runtime has one thread: the yields let each stream start its lookups.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let other = host.subscriber(&Principal::new("users/bob"));
    host.subscribe(&other, "watched://m/f").await.unwrap();
    streams.iter().for_each(|stream| stream.abort());
}

#[tokio::test]
async fn a_slow_subscriber_is_told_once_and_delays_nobody() {
    let folder = Folder::with_files([("a", "a")]);
    let host = start(&faulty_config(&folder).write()).await;
    let [slow, quick] = [(); 2].map(|()| host.subscriber(&Principal::LOCAL));
    for subscriber in [&slow, &quick] {
        host.subscribe(subscriber, "faulty://m/a").await.unwrap();
    }
    for round in 0..5 {
        folder.write("a", format!("round {round}"));
        assert_eq!(next_update(&quick).await, Update::Resource("faulty://m/a".to_owned()));
    }
    assert_eq!(slow.try_next(), Some(Update::Resource("faulty://m/a".to_owned())));
    assert_eq!(slow.try_next(), None);
}

#[tokio::test]
async fn a_reload_of_nothing_changes_nothing_and_of_something_keeps_the_rest() {
    let folder = Folder::with_files([("a", "a")]);
    let config = faulty_config(&folder).plugin(Plugin::faulty("n", folder.path())).write();
    let host = start(&config).await;
    let subscriber = host.subscriber(&Principal::LOCAL);
    for uri in ["faulty://m/a", "faulty://n/a"] {
        host.subscribe(&subscriber, uri).await.unwrap();
    }
    let reloaded = host.reload(Config::load(config.path()).unwrap()).await.unwrap();
    assert!(reloaded.is_unchanged() && reloaded.generation == 1, "{reloaded:?}");
    config.replace(faulty_config(&folder).plugin(Plugin::faulty("n", folder.path()).config("prefix", "new")));
    let reloaded = host.reload(Config::load(config.path()).unwrap()).await.unwrap();
    assert_eq!((reloaded.generation, reloaded.changed), (2, vec!["n".to_owned()]));
    assert_eq!(next_update(&subscriber).await, Update::Resource("faulty://n/a".to_owned()));
    // Each change was notified once, and unchanged resources not at all.
    host.subscribe(&subscriber, "faulty://n/a").await.unwrap();
    assert_eq!(subscriber.try_next(), None);
}
