//! Replicas behind a load balancer, with three NATS nodes, while both are killed and paused, and files, tables and
//! pages change: every client's notifications are compared with every change.

use std::time::Duration;

use mcp_host_tests::{LEASE, LinkFault, Load, ReplicaSet};
use rustix::process::Signal;

const RESOURCES: usize = 20;
const CLIENTS: usize = 30;
/// The promised maximum delay: the lease, the interval, and the time for a poll, with tolerance for a machine that runs
/// other tests.
const BOUND: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_client_misses_a_change_though_nodes_and_replicas_are_killed_and_paused() {
    let mut set = ReplicaSet::start(Load::of_all(RESOURCES, CLIENTS)).await;
    let holder = set.holder().await;
    set.wait_for_live(3).await;
    set.round().await;

    // The holder of the lease is killed, and restarted.
    set.kill(holder).await;
    set.round().await;
    set.wait_for_live(2).await;
    set.restart(holder).await;
    set.wait_for_live(3).await;
    set.round().await;

    // The holder is paused for longer than the lease: another replica takes the lease, and the paused one detects its
    // loss.
    let holder = set.holder().await;
    set.signal(holder, Signal::STOP);
    tokio::time::sleep(LEASE * 2).await;
    set.round().await;
    set.signal(holder, Signal::CONT);
    set.wait_until_all_listen().await;
    set.round().await;

    // A follower node, then the leader, then both of the two remaining nodes.
    let leader = leader(&set).await;
    set.nats.kill((leader + 1) % 3).await;
    set.round().await;
    set.nats.restart((leader + 1) % 3).await;
    let leader = self::leader(&set).await;
    set.nats.kill(leader).await;
    set.round().await;
    let other = (leader + 1) % 3;
    set.nats.kill(other).await;
    set.round().await;
    set.nats.restart(leader).await;
    set.nats.restart(other).await;
    set.holder().await;
    set.round().await;

    // The leader stands still, and then two nodes.
    for count in [1, 2] {
        let leader = self::leader(&set).await;
        let paused = (leader..leader + count).map(|node| node % 3);
        paused.clone().for_each(|node| set.nats.signal(node, Signal::STOP));
        set.round().await;
        paused.for_each(|node| set.nats.signal(node, Signal::CONT));
        set.holder().await;
        set.round().await;
    }

    // The network between replicas and NATS: delayed, stalled, with lost answers, and cut.
    let late = LinkFault::Delay(LEASE / 15);
    for fault in [late, LinkFault::Stalled, LinkFault::HalfOpen, LinkFault::Cut] {
        set.nats.set_links(fault);
        set.round().await;
        // The same again after all replicas have noticed.
        tokio::time::sleep(LEASE).await;
        set.round().await;
    }
    set.nats.set_links(LinkFault::None);
    set.round().await;
    set.holder().await;
    set.round().await;

    // All replicas are replaced, one after the other, by replicas with another config.
    for index in 0..3 {
        set.replace(index, "3/s").await;
        set.round().await;
    }
    set.wait_for_live(3).await;
    set.wait_for_metric("mcp_host_cluster_differing_configs", 0).await;
    set.wait_until_all_listen().await;
    set.round().await;
    set.wait_until_told().await;

    let verdict = set.end(BOUND).await;
    assert_eq!((&verdict.lost[..], &verdict.foreign[..]), (&[][..], &[][..]), "{} changes", verdict.changes);
    assert!(verdict.told() > RESOURCES * CLIENTS * 5, "{}", verdict.told());
    assert_eq!(verdict.delays.keys().collect::<Vec<_>>(), ["db", "files", "web"]);
}

async fn leader(set: &ReplicaSet) -> usize {
    let looking = async {
        loop {
            match set.nats.leader().await {
                Some(leader) => return leader,
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(mcp_host_tests::TIMEOUT, looking).await.expect("the stream has a leader")
}
