//! `cargo xtask cluster`: three replicas, three nodes of NATS and a balancer on loopback, clients that listen, files,
//! tables and pages that change all the time, and a fault each ten seconds. Ends with the line
//! `N changes, M notifications, 0 lost`; fails if an update was lost, or sent to a client that may not see it.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "it prints what it does, and fails by panicking")]

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mcp_host_tests::{LEASE, LinkFault, Load, ReplicaSet};
use rustix::process::{Resource, Signal, getrlimit, setrlimit};

/// The number of files, tables and pages.
const RESOURCES: usize = 100;
/// The number of clients without `--clients`.
const CLIENTS: usize = 60;
/// The maximum number of subscriptions of all clients: with more than 60 clients, each subscribes to fewer
/// resources, so that the number of notifications does not depend on the number of clients.
const SUBSCRIPTIONS: usize = CLIENTS * RESOURCES;
/// The number of changes a second without `--changes-per-second`.
const CHANGES_PER_SECOND: u32 = 20;
/// The time between two faults.
const FAULT_INTERVAL: Duration = Duration::from_secs(10);
/// The time for which a process stands still.
const PAUSE: Duration = Duration::from_secs(5);
/// The delay of a slow link.
const LATE: Duration = Duration::from_millis(200);
/// The time within which a stream has to be notified: the lease, the interval, and the deadline of a poll.
const BOUND: Duration = LEASE.saturating_add(Duration::from_secs(10));

/// What is broken, one after the other.
const FAULTS: [Fault; 11] = [
    Fault::KillHolder,
    Fault::KillLeader,
    Fault::PauseHolder,
    Fault::KillFollower,
    Fault::PauseLeader,
    Fault::Links(LinkFault::HalfOpen),
    Fault::RestartAll,
    Fault::Links(LinkFault::Delay(LATE)),
    Fault::KillTwoNodes,
    Fault::PauseTwoNodes,
    Fault::Links(LinkFault::Cut),
];

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillHolder,
    PauseHolder,
    KillLeader,
    KillFollower,
    KillTwoNodes,
    PauseLeader,
    PauseTwoNodes,
    RestartAll,
    Links(LinkFault),
}

impl Fault {
    fn text(self) -> &'static str {
        match self {
            Self::KillHolder => "kill -9 of the replica that polls for all",
            Self::PauseHolder => "SIGSTOP of the replica that polls for all, for 5 s",
            Self::KillLeader => "kill -9 of the node of NATS that leads the records, for 5 s",
            Self::KillFollower => "kill -9 of a node of NATS that follows, for 5 s",
            Self::KillTwoNodes => "kill -9 of two nodes of NATS, for 5 s",
            Self::PauseLeader => "SIGSTOP of the node of NATS that leads the records, for 5 s",
            Self::PauseTwoNodes => "SIGSTOP of two nodes of NATS, for 5 s",
            Self::Links(LinkFault::Delay(_)) => "what goes between replicas and NATS takes 200 ms longer, for 5 s",
            Self::Links(LinkFault::HalfOpen) => "what NATS sends to replicas is lost, for 5 s",
            Self::Links(_) => "the connections of all replicas to NATS are cut, for 5 s",
            Self::RestartAll => "all replicas are restarted, one after the other, with another config",
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<ExitCode> {
    let seconds = option("--seconds")?.unwrap_or(60_u64);
    let clients = option("--clients")?.unwrap_or(CLIENTS);
    let changes = option("--changes-per-second")?.unwrap_or(CHANGES_PER_SECOND);
    let change_interval =
        Duration::from_secs(1).checked_div(changes).context("`--changes-per-second` is at least 1")?;
    let subscriptions = SUBSCRIPTIONS.checked_div(clients).unwrap_or(RESOURCES).clamp(1, RESOURCES);
    raise_file_limit();
    println!("starting three nodes of NATS, three replicas, a balancer and {clients} clients");
    let set = ReplicaSet::start(Load { resources: RESOURCES, clients, subscriptions }).await;
    let mut cluster = Cluster { set, change_interval };
    let holder = cluster.set.holder().await;
    println!("replica {holder} polls for all");
    println!("{changes} of {RESOURCES} resources change each second; a client subscribes to {subscriptions} of them");
    let began = Instant::now();
    let (mut faults, mut number) = (FAULTS.iter().cycle(), 0_u32);
    while began.elapsed() < Duration::from_secs(seconds) {
        cluster.change_for(FAULT_INTERVAL.min(Duration::from_secs(seconds))).await;
        if began.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        number = number.saturating_add(1);
        let fault = *faults.next().expect("they begin again");
        println!("{:>4} s  {}", began.elapsed().as_secs(), fault.text());
        cluster.inflict(fault, number).await;
    }
    let Cluster { set, .. } = cluster;
    set.wait_until_all_listen().await;
    set.wait_until_told().await;
    let verdict = set.end(BOUND).await;
    for lost in verdict.lost.iter().take(20) {
        println!("lost: {} was not told of {}", lost.stream, lost.change.uri);
    }
    for (stream, uri) in verdict.foreign.iter().take(20) {
        println!("foreign: {stream} was told of {uri}");
    }
    for scheme in verdict.delays.keys() {
        let [median, late, most] = [0.5, 0.99, 1.0].map(|part| verdict.delay(scheme, part).as_millis());
        println!("{scheme}://: notified after {median} ms (median), {late} ms (99th percentile), {most} ms (longest)");
    }
    println!("{} changes, {} notifications, {} lost", verdict.changes, verdict.notifications, verdict.lost.len());
    let is_right = verdict.lost.is_empty() && verdict.foreign.is_empty();
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the value of an option; none if it is not given.
fn option<T>(name: &str) -> Result<Option<T>>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let value = std::env::args().skip_while(|argument| argument != name).nth(1);
    value.map(|value| value.parse::<T>().with_context(|| format!("`{name}` is a number"))).transpose()
}

/// Raises the limit of file descriptors of this process and of all that it starts: each client has a connection.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the soft limit can be raised to the hard one");
}

/// The processes and clients, while resources change.
struct Cluster {
    set: ReplicaSet,
    /// The pause between two changes.
    change_interval: Duration,
}

impl Cluster {
    /// Changes resources for that time.
    async fn change_for(&mut self, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.set.change();
            tokio::time::sleep(self.change_interval).await;
        }
    }

    /// Does it, and lets resources change meanwhile.
    async fn inflict(&mut self, fault: Fault, number: u32) {
        match fault {
            Fault::KillHolder => {
                let holder = self.set.holder().await;
                self.set.kill(holder).await;
                self.change_for(PAUSE).await;
                self.set.restart(holder).await;
            }
            Fault::PauseHolder => {
                let holder = self.set.holder().await;
                self.set.signal(holder, Signal::STOP);
                self.change_for(PAUSE).await;
                self.set.signal(holder, Signal::CONT);
            }
            Fault::Links(fault) => {
                self.set.nats.set_links(fault);
                self.change_for(PAUSE).await;
                self.set.nats.set_links(LinkFault::None);
            }
            Fault::RestartAll => {
                for index in 0..3 {
                    self.set.replace(index, &format!("{}/s", number.saturating_add(2))).await;
                    self.change_for(Duration::from_secs(1)).await;
                }
            }
            Fault::KillLeader | Fault::KillFollower | Fault::KillTwoNodes => {
                let nodes = self.nodes(fault).await;
                for node in &nodes {
                    self.set.nats.kill(*node).await;
                }
                self.change_for(PAUSE).await;
                for node in nodes {
                    self.set.nats.restart(node).await;
                }
            }
            Fault::PauseLeader | Fault::PauseTwoNodes => {
                let nodes = self.nodes(fault).await;
                nodes.iter().for_each(|node| self.set.nats.signal(*node, Signal::STOP));
                self.change_for(PAUSE).await;
                nodes.iter().for_each(|node| self.set.nats.signal(*node, Signal::CONT));
            }
        }
    }

    /// The nodes of NATS that a fault concerns.
    async fn nodes(&self, fault: Fault) -> Vec<usize> {
        let leader = self.set.nats.leader().await.unwrap_or(0);
        let next = leader.saturating_add(1).checked_rem(3).unwrap_or(0);
        match fault {
            Fault::KillFollower => vec![next],
            Fault::KillTwoNodes | Fault::PauseTwoNodes => vec![leader, next],
            _ => vec![leader],
        }
    }
}
