//! The simulation at any size, for `cargo xtask simulate`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::replica::Load;
use super::world::{Outcome, Size, Weather, World};
use super::{BUGS, Bug, fault_of};

/// Returns a number that the command has set in the environment.
fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(format!("MCP_HOST_SIMULATION_{name}")).ok()?;
    Some(value.parse().unwrap_or_else(|error| panic!("{name}: {value:?} is not a number: {error}")))
}

fn size() -> Size {
    let number = |name, default: u64| usize::try_from(setting(name).unwrap_or(default)).unwrap();
    let (replicas, streams) = (number("REPLICAS", 12), number("STREAMS", 2000));
    // Ten streams for each path.
    let paths = number("PATHS", u64::try_from(streams / 10).unwrap()).max(1);
    let shards = number("SHARDS", u64::try_from(paths.div_ceil(20_000).max(3)).unwrap());
    Size {
        replicas,
        streams,
        shards,
        paths: u32::try_from(paths.div_ceil(shards)).unwrap(),
        // Sixteen groups of each shard, if they may be that small.
        max_items: number("ITEMS", u64::try_from((paths.div_ceil(shards) / 8).clamp(8, 2000)).unwrap()),
        interval: Duration::from_millis(setting("INTERVAL").unwrap_or(1000)),
    }
}

/// The bug that is planted in all worlds; none if the environment names none.
fn bug() -> Option<Bug> {
    let name = std::env::var("MCP_HOST_SIMULATION_BUG").ok()?;
    let bug = BUGS.iter().map(|(bug, _)| *bug).find(|bug| format!("{bug:?}") == name);
    Some(bug.unwrap_or_else(|| panic!("there is no bug {name:?}, but {BUGS:?}")))
}

/// The faults of a seed: each fourth world has the same.
fn weather(seed: u64) -> Weather {
    [Weather::Storm, Weather::Crashes, Weather::BadPaths, Weather::Calm][usize::try_from(seed % 4).unwrap()]
}

#[derive(Default)]
struct Total {
    seeds: u64,
    changes: u64,
    notifications: u64,
    lost: u64,
    denied: u64,
    gaps: u64,
    seconds: f64,
    polls_of_one: u64,
    load: Load,
    most: f64,
    failures: Vec<String>,
}

impl Total {
    fn add(&mut self, seed: u64, size: Size, outcome: &Outcome) {
        self.seeds += 1;
        self.changes += outcome.changes;
        self.notifications += outcome.notifications;
        self.lost += outcome.lost;
        self.denied += outcome.denied;
        self.gaps += outcome.gaps;
        self.seconds += outcome.seconds;
        self.polls_of_one += outcome.polls_of_one;
        self.load.add(outcome.load);
        self.most = self.most.max(outcome.most.operations() as f64 / outcome.seconds);
        if let Some(fault) = fault_of(weather(seed), outcome) {
            let Size { replicas, streams, shards, paths, max_items, interval } = size;
            let paths = u64::from(paths) * u64::try_from(shards).unwrap();
            self.failures.push(format!(
                "seed {seed} ({:?}): {fault}\n  cargo xtask simulate --seed {seed} --trace --replicas {replicas} --streams \
                 {streams} --shards {shards} --paths {paths} --items {max_items} --interval {}",
                weather(seed),
                interval.as_millis(),
            ));
        }
    }

    fn print(&self, size: Size, took: Duration) {
        let replica_seconds = self.seconds * size.replicas as f64;
        let each = |count: u64| count as f64 / replica_seconds;
        let Load { sent, received, requests, polls, calls } = self.load;
        println!(
            "{} seeds of {} replicas, {} streams, {} shards of {} paths, {} paths to a group, in {:.1} s",
            self.seeds,
            size.replicas,
            size.streams,
            size.shards,
            size.paths,
            (size.max_items / 2).clamp(1, 1000),
            took.as_secs_f64(),
        );
        println!("{:.0} simulated seconds, {} times everything was notified", self.seconds, self.gaps);
        println!(
            "each replica a second: {:.2} messages to NATS, {:.2} from NATS, {:.2} requests to the bucket, {:.3} polls, {:.2} \
             calls of providers; at most {:.1} operations of NATS",
            each(sent),
            each(received),
            each(requests),
            each(polls),
            each(calls),
            self.most,
        );
        println!("{:.2} polls for each that a single replica makes", polls as f64 / self.polls_of_one as f64);
        println!(
            "{} seeds, {} changes, {} notifications, {} lost, {} of what is denied",
            self.seeds, self.changes, self.notifications, self.lost, self.denied
        );
    }
}

/// Runs these worlds at the default size.
pub(super) fn assert_all_good(seeds: std::ops::Range<u64>) {
    let (size, mut total) = (size(), Total::default());
    for seed in seeds {
        total.add(seed, size, &World::new(seed, weather(seed), size, None, false).run());
    }
    assert!(total.failures.is_empty(), "{}", total.failures.join("\n"));
    assert!(total.notifications > total.changes);
}

/// Runs as many worlds as the environment says, on all processors.
#[test]
#[ignore = "a command: cargo xtask simulate"]
fn simulate() {
    let (size, began) = (size(), Instant::now());
    if let Some(seed) = setting("SEED") {
        let is_traced = setting("TRACE").is_some();
        let outcome = World::new(seed, weather(seed), size, bug(), is_traced).run();
        outcome.trace.iter().for_each(|line| println!("{line}"));
        let mut total = Total::default();
        total.add(seed, size, &outcome);
        return report(&total, size, began);
    }
    let seeds = setting("SEEDS").unwrap_or(100);
    let (next, total) = (AtomicU64::new(0), Mutex::new(Total::default()));
    let threads =
        setting("THREADS").unwrap_or(std::thread::available_parallelism().map_or(1, |count| count.get() as u64));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(seeds) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let outcome = World::new(seed, weather(seed), size, bug(), false).run();
                    let mut total = total.lock().unwrap();
                    total.add(seed, size, &outcome);
                    if total.seeds.is_multiple_of((seeds / 20).max(1)) {
                        eprintln!("{} of {seeds} seeds after {:.0} s", total.seeds, began.elapsed().as_secs_f64());
                    }
                }
            });
        }
    });
    report(&total.into_inner().unwrap(), size, began);
}

fn report(total: &Total, size: Size, began: Instant) {
    total.print(size, began.elapsed());
    total.failures.iter().take(10).for_each(|failure| println!("{failure}"));
    assert!(total.failures.is_empty(), "{} seeds have failed", total.failures.len());
}
