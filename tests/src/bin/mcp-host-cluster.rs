//! `cargo xtask cluster`: three replicas, three nodes of NATS and a balancer on loopback, clients that listen, files that change all the time, and
//! a fault each ten seconds. Ends with the line `N changes, M notifications, 0 lost`; fails if something was lost, or told to a client
//! that may not see it.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "it prints what it does, and fails by panicking")]

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mcp_host_tests::{LEASE, LinkFault, ReplicaSet};
use rustix::process::{Resource, Signal, getrlimit, setrlimit};

const FILES: usize = 100;
/// The number of clients without `--clients`.
const CLIENTS: usize = 60;
/// The pause between two changes.
const CHANGE_INTERVAL: Duration = Duration::from_millis(50);
/// The time between two faults.
const FAULT_INTERVAL: Duration = Duration::from_secs(10);
/// The time for which a process stands still.
const PAUSE: Duration = Duration::from_secs(5);
/// The delay of a slow link.
const LATE: Duration = Duration::from_millis(200);
/// The time within which a stream has to be told: the lease, the interval, and the deadline of a poll.
const BOUND: Duration = LEASE.saturating_add(Duration::from_secs(10));

/// What is broken, one after the other.
const FAULTS: [Fault; 9] = [
    Fault::KillHolder,
    Fault::KillLeader,
    Fault::PauseHolder,
    Fault::KillFollower,
    Fault::Links(LinkFault::HalfOpen),
    Fault::RestartAll,
    Fault::Links(LinkFault::Delay(LATE)),
    Fault::KillTwoNodes,
    Fault::Links(LinkFault::Cut),
];

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillHolder,
    PauseHolder,
    KillLeader,
    KillFollower,
    KillTwoNodes,
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
    raise_file_limit();
    println!("starting three nodes of NATS, three replicas, a balancer and {clients} clients of {FILES} files");
    let mut set = ReplicaSet::start(FILES, clients).await;
    let holder = set.holder().await;
    println!("replica {holder} polls for all; the changes begin");
    let began = Instant::now();
    let (mut faults, mut number) = (FAULTS.iter().cycle(), 0_u32);
    while began.elapsed() < Duration::from_secs(seconds) {
        change_for(&mut set, FAULT_INTERVAL.min(Duration::from_secs(seconds))).await;
        if began.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        number = number.saturating_add(1);
        let fault = *faults.next().expect("they begin again");
        println!("{:>4} s  {}", began.elapsed().as_secs(), fault.text());
        inflict(&mut set, fault, number).await;
    }
    set.wait_until_all_listen().await;
    set.wait_until_told().await;
    let verdict = set.end(BOUND).await;
    for lost in verdict.lost.iter().take(20) {
        println!("lost: {} was not told of {}", lost.stream, lost.change.uri);
    }
    for (stream, uri) in verdict.foreign.iter().take(20) {
        println!("foreign: {stream} was told of {uri}");
    }
    let [median, late, most] = [0.5, 0.99, 1.0].map(|part| verdict.delay(part).as_millis());
    println!("from a change to its notification: median {median} ms, 99th percentile {late} ms, at most {most} ms");
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

/// Changes files for that time.
async fn change_for(set: &mut ReplicaSet, time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        set.change();
        tokio::time::sleep(CHANGE_INTERVAL).await;
    }
}

/// Does it, and lets files change meanwhile.
async fn inflict(set: &mut ReplicaSet, fault: Fault, number: u32) {
    match fault {
        Fault::KillHolder => {
            let holder = set.holder().await;
            set.kill(holder).await;
            change_for(set, PAUSE).await;
            set.restart(holder).await;
        }
        Fault::PauseHolder => {
            let holder = set.holder().await;
            set.signal(holder, Signal::STOP);
            change_for(set, PAUSE).await;
            set.signal(holder, Signal::CONT);
        }
        Fault::Links(fault) => {
            set.nats.set_links(fault);
            change_for(set, PAUSE).await;
            set.nats.set_links(LinkFault::None);
        }
        Fault::RestartAll => {
            for index in 0..3 {
                set.replace(index, &format!("{}/s", number.saturating_add(2))).await;
                change_for(set, Duration::from_secs(1)).await;
            }
        }
        Fault::KillLeader | Fault::KillFollower | Fault::KillTwoNodes => {
            let leader = set.nats.leader().await.unwrap_or(0);
            let next = |by: usize| (leader.saturating_add(by)).checked_rem(3).unwrap_or(0);
            let killed = match fault {
                Fault::KillLeader => vec![leader],
                Fault::KillFollower => vec![next(1)],
                _ => vec![leader, next(1)],
            };
            for node in &killed {
                set.nats.kill(*node).await;
            }
            change_for(set, PAUSE).await;
            for node in killed {
                set.nats.restart(node).await;
            }
        }
    }
}
