//! Cached responses of replicas: what one replica finds changed is not served from the cache of another one.

use std::time::Duration;

use mcp_host_tests::{Folder, NatsServer, Plugin};
use tokio::time::timeout;

use super::replicas::Replica;

const RESOURCE: &str = "watched://f/shared";
const HITS: &str = "mcp_host_plugin_response_cache_hits_total{plugin=\"f\"}";
/// How often a replica has dropped the responses of all plugins, because it may have missed a notice.
const DROPS: &str = "mcp_host_cluster_cache_drops_total{}";
/// The time within which a response is no longer served after it has changed: far more than the lease of 3 s, on a busy
/// machine, and far less than the time to live.
const BOUND: Duration = Duration::from_mins(5);
/// The maximum number of attempts of what a busy machine may prevent.
const ATTEMPTS: usize = 20;

/// A plugin whose responses are cached for an hour if no change is reported. Its calls have time.
fn plugin(folder: &Folder) -> Plugin {
    let plugin = Plugin::watched("f", folder.path()).config("ttl", 3600);
    plugin.limit("cpu", "10s").limit("deadline", "1m").limit("queue-timeout", "1m")
}

/// Reads until a response is from the cache, and returns its text. The first response of a plugin is not cached, and a
/// response is not cached if all are dropped meanwhile.
async fn cached(replica: &mut Replica) -> String {
    let reading = async {
        loop {
            let hits = replica.value(HITS).await;
            let text = replica.wire.read(RESOURCE).await.unwrap();
            if replica.value(HITS).await > hits {
                return text;
            }
        }
    };
    let lacks = "no response is cached: does the guest have a time to live (`cargo xtask plugins --fixtures`)?";
    timeout(BOUND, reading).await.expect(lacks)
}

/// Reads until the text is this one.
async fn reads(replica: &mut Replica, text: &str) {
    let reading = async {
        while replica.wire.read(RESOURCE).await.unwrap() != text {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(BOUND, reading).await.unwrap_or_else(|_| panic!("a response from before {text} is still served"));
}

#[tokio::test]
async fn what_one_replica_finds_changed_is_not_served_from_the_cache_of_another_also_without_the_engine() {
    let mut nats = NatsServer::start().await;
    let folder = Folder::with_files([("state", "begin")]);
    let mut watching = Replica::serve(&nats, plugin(&folder), &[RESOURCE]).await;
    // It has no subscriber, so it does not poll: only the other replica finds a change.
    let mut reading = Replica::serve(&nats, plugin(&folder), &[]).await;
    for replica in [&watching, &reading] {
        replica.knows(2, 0).await;
    }
    let mut state = "begin".to_owned();
    // A replica that may have missed a notice drops all responses. The notice of the change is what counts here, so the
    // test is repeated until there was nothing else.
    let mut has_heard = false;
    for attempt in 0..ATTEMPTS {
        let drops = reading.value(DROPS).await;
        assert_eq!(cached(&mut reading).await, state);
        state = format!("state {attempt}");
        folder.write("state", &state);
        timeout(BOUND, watching.told_of(RESOURCE)).await.expect("the subscriber is told");
        reads(&mut reading, &state).await;
        has_heard = reading.value(DROPS).await == drops;
        if has_heard {
            break;
        }
    }
    assert!(has_heard, "all responses were dropped each time");

    assert_eq!(cached(&mut reading).await, state);
    nats.kill().await;
    folder.write("state", "without the engine");
    timeout(BOUND, watching.told_of(RESOURCE)).await.expect("the subscriber is told");
    reads(&mut reading, "without the engine").await;
    for replica in [watching, reading] {
        replica.wire.end().await;
    }
}
