//! Worlds of one plugin, whose watched paths become many and few again, so that the number of its shards changes.
//!
//! Replicas run [`Division`], and a [`Member`] and [`Polls`] for each shard, in the order in which the watch of plugins
//! uses them. A shard has at most [`MAX_PATHS`] paths here. Messages and requests take time and may be lost, replicas
//! crash and are cut off, the bucket is lost, and the provider fails for paths. Polls take no time:
//! [`world`](super::world) has slow polls, pauses, clocks and rules, and shards that do not change. The
//! [network](super::network) is the same.
//!
//! | module | subject |
//! |---|---|
//! | `check` | subscriptions and edits, and the checker: each replica notifies each edit of a path that it watches in time, unless the provider failed for the path. At the end nothing may be missing |
//! | `faults` | the faults: of processes, of NATS, and of the provider |
//! | `network` | members' messages and requests |
//! | `polls` | the polls of a replica: the watch of plugins, as it uses a division and members |
//! | `planted` | the bugs that are planted in the division |

mod check;
mod faults;
mod network;
mod planted;
mod polls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mcp_host_model::uri::{Path, Uri};

use super::calls::{MOUNT, SimulatedPolls};
use super::network::{Answer, Network, Requests, Sent};
use super::provider::Provider;
use super::queue::Queue;
use super::world::Weather;
use super::{Bug, LEASE, MILLISECOND, SECOND, index_of, name, plant, plant_max_paths, seeds};
use crate::division::Division;
use crate::member::{Member, Time};
use crate::message::Message;
use crate::poll::Polls;
use crate::replica::ReplicaId;

/// The time in which an edit must be notified, whatever happens to replicas and NATS.
const BOUND: Duration = Duration::from_secs(30);
/// How long many paths are watched, and then few.
const PHASE: Duration = Duration::from_secs(45);
/// The time after the last fault and the last edit until the end.
const REST: Duration = Duration::from_secs(90);
const PATHS: u32 = 40;
const MAX_PATHS: usize = 8;
const MAX_ITEMS: usize = 6;

enum Event {
    Poll { begun: u64 },
    Wake { shard: u32, at: Time },
    // A message or request of a replica arrives at the server.
    Arrives { shard: u32, connection: u64, sent: Sent },
    Delivered { shard: u32, connection: u64, message: Arc<Message> },
    Answered { shard: u32, request: u64, answer: Answer },
    // The watched paths of a replica change.
    Churn,
    Edit,
    // The provider begins to fail for a path, and ends.
    Break,
    Mend { path: u32 },
    Fault,
    Restart,
    Reconnect,
    ServerBack,
    Check { path: u32, at: Time },
}

/// One process.
struct Replica {
    life: u64,
    is_up: bool,
    id: ReplicaId,
    division: Division,
    shards: BTreeMap<u32, Shard>,
    /// Its watched paths.
    streams: BTreeMap<u32, Stream>,
    requested: u64,
    is_polling: bool,
    polls_again: bool,
    /// The number of times that a poll was scheduled.
    begun: u64,
    /// The number of shards of its last poll.
    count: u32,
}

struct Shard {
    member: Member,
    polls: Option<SimulatedPolls>,
    is_failing: bool,
    /// The new paths that its last poll has not served.
    unserved: BTreeSet<u32>,
    requests: Requests,
    wake_at: Option<Time>,
}

/// A subscription.
struct Stream {
    /// The number of the poll that it waits for.
    requested: u64,
    active_since: Option<Time>,
    /// The first edit that was not notified yet.
    untold: Option<Time>,
}

#[derive(Debug, Default)]
struct Outcome {
    failure: Option<String>,
    /// The greatest number of shards, and how often a replica has used fewer than before.
    most_shards: u32,
    fewer: u64,
    /// The greatest number of replicas that held a lease at the same time.
    most_holders: usize,
    /// Polls for all replicas of other shards than the first.
    shared_polls: u64,
    trace: Vec<String>,
}

struct World {
    weather: Weather,
    random: fastrand::Rng,
    now: Time,
    /// Events, each with its replica and the number of its process.
    queue: Queue<(usize, u64, Event)>,
    replicas: Vec<Replica>,
    network: Network,
    last_crash: Time,
    provider: Provider,
    located: Vec<(Uri, Path)>,
    /// When the provider last failed for each path, or its back-off has not ended; and since when.
    hindered: Vec<Time>,
    failing_since: Vec<Time>,
    faults_end: Time,
    is_traced: bool,
    outcome: Outcome,
}

fn division() -> Division {
    Division::new(name(0).plugin().to_owned())
}

fn run(seed: u64, weather: Weather, bug: Option<Bug>, is_traced: bool) -> Outcome {
    plant(bug);
    plant_max_paths(Some(MAX_PATHS));
    // For the jitter of back-offs.
    fastrand::seed(seed);
    let outcome = World::new(seed, weather, is_traced).run();
    plant_max_paths(None);
    plant(None);
    outcome
}

impl World {
    fn new(seed: u64, weather: Weather, is_traced: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let located = (0..PATHS).map(|path| MOUNT.compose(&format!("p{path}")).unwrap());
        let located = located.map(|located| (located.uri, located.path)).collect();
        let is_storm = weather == Weather::Storm;
        let replicas = random.usize(2..=5);
        let faults_end = Duration::from_secs(random.u64(100..180));
        let lossy_until = if is_storm && random.bool() { faults_end } else { Time::ZERO };
        let mut world = Self {
            weather,
            now: Time::ZERO,
            queue: Queue::new(),
            replicas: Vec::new(),
            network: Network::new(replicas, lossy_until),
            last_crash: Time::ZERO,
            provider: Provider::new(PATHS, usize::MAX),
            located,
            hindered: vec![Time::ZERO; index_of(PATHS)],
            failing_since: vec![Time::ZERO; index_of(PATHS)],
            faults_end,
            is_traced,
            outcome: Outcome::default(),
            random,
        };
        for index in 0..replicas {
            world.replicas.push(Replica::new());
            let (start, churn) = (world.milliseconds(0, 2000), world.milliseconds(2000, 4000));
            world.after(start, index, Event::Restart);
            world.after(churn, index, Event::Churn);
        }
        world.after(SECOND, 0, Event::Edit);
        if matches!(weather, Weather::Crashes | Weather::Storm) {
            world.after(10 * SECOND, 0, Event::Fault);
        }
        if matches!(weather, Weather::BadPaths | Weather::Storm) {
            world.after(2 * SECOND, 0, Event::Break);
        }
        world
    }

    fn run(mut self) -> Outcome {
        let end = self.faults_end + REST;
        while let Some((at, (index, life, event))) = self.queue.take() {
            if at > end || self.outcome.failure.is_some() {
                break;
            }
            self.now = at;
            self.handle(index, life, event);
        }
        for path in 0..PATHS {
            self.check(path, end - BOUND);
        }
        self.outcome
    }

    fn handle(&mut self, index: usize, life: u64, event: Event) {
        let replica = &mut self.replicas[index];
        let is_alive = replica.is_up && replica.life == life;
        match event {
            Event::Poll { begun } if is_alive && replica.begun == begun => self.poll(index),
            Event::Wake { shard, at } if is_alive => {
                let of_shard = replica.shards.get_mut(&shard).unwrap();
                if of_shard.wake_at == Some(at) {
                    of_shard.wake_at = None;
                    self.with_member(index, shard, Member::wake);
                }
            }
            Event::Arrives { shard, connection, sent } if self.network.is_connected(index, connection) => {
                self.arrives(index, shard, sent);
            }
            Event::Delivered { shard, connection, message } if self.network.is_connected(index, connection) => {
                self.note(index, || format!("shard {shard} hears {message:?}"));
                self.with_member(index, shard, |member, now| member.receive(now, &message));
            }
            Event::Answered { shard, request, answer } if is_alive => self.answered(index, shard, request, answer),
            Event::Churn => self.churn(index),
            Event::Edit => self.edit(),
            Event::Break => self.break_path(),
            Event::Mend { path } => self.mend(path),
            Event::Fault => self.fault(),
            Event::Restart => self.restart(index),
            Event::Reconnect => self.connect(index),
            Event::ServerBack => {
                self.network.start();
                (0..self.replicas.len()).for_each(|index| self.connect(index));
            }
            Event::Check { path, at } => self.check(path, at),
            _ => {}
        }
    }

    fn milliseconds(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.random.u64(from..to))
    }

    fn after(&mut self, delay: Duration, index: usize, event: Event) {
        self.at(self.now + delay, index, event);
    }

    fn at(&mut self, at: Time, index: usize, event: Event) {
        let life = self.replicas.get(index).map_or(0, |replica| replica.life);
        self.queue.add(at, (index, life, event));
    }

    fn note(&mut self, index: usize, text: impl FnOnce() -> String) {
        if self.is_traced {
            self.outcome.trace.push(format!("{:>9.3} r{index} {}", self.now.as_secs_f64(), text()));
        }
    }

    fn has_faults(&self) -> bool {
        self.now < self.faults_end
    }
}

impl Replica {
    fn new() -> Self {
        Self {
            life: 0,
            is_up: false,
            id: ReplicaId::new(0),
            division: division(),
            shards: BTreeMap::new(),
            streams: BTreeMap::new(),
            requested: 0,
            is_polling: false,
            polls_again: false,
            begun: 0,
            count: 1,
        }
    }
}

impl Shard {
    fn new(id: ReplicaId, seed: u64) -> Self {
        Self {
            member: Member::new(id, LEASE, seed),
            polls: Some(new_polls()),
            is_failing: false,
            unserved: BTreeSet::new(),
            requests: Requests::default(),
            wake_at: None,
        }
    }

    /// Drops the state of the polls, because the shard has no paths any more.
    fn forget(&mut self) {
        (self.polls, self.is_failing) = (Some(new_polls()), false);
        self.unserved.clear();
    }
}

fn new_polls() -> SimulatedPolls {
    Box::new(Polls::new(MAX_ITEMS, false))
}

#[test]
fn no_change_is_lost_while_paths_move_to_other_shards() {
    let (mut fewer, mut most_shards, mut most_holders, mut shared_polls) = (0, 0, 0, 0);
    for weather in [Weather::Calm, Weather::BadPaths, Weather::Crashes, Weather::Storm] {
        for seed in seeds(100) {
            let outcome = run(seed, weather, None, false);
            if let Some(failure) = outcome.failure {
                let trace = run(seed, weather, None, true).trace;
                panic!("{}\nMCP_HOST_SIMULATION_SEED={seed}, {weather:?}: {failure}", trace.join("\n"));
            }
            fewer += outcome.fewer;
            shared_polls += outcome.shared_polls;
            most_shards = outcome.most_shards.max(most_shards);
            most_holders = outcome.most_holders.max(most_holders);
        }
    }
    println!("at most {most_shards} shards, {most_holders} holders; {fewer} times fewer; {shared_polls} polls for all");
    assert!(most_shards >= 8 && most_holders >= 2 && fewer > 0 && shared_polls > 0);
}

#[test]
fn a_seed_is_one_world_of_shards() {
    for weather in [Weather::BadPaths, Weather::Storm] {
        assert_eq!(run(1, weather, None, true).trace, run(1, weather, None, true).trace);
    }
}
