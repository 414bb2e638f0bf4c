//! One world: its state, its events and their order.
//!
//! | module | subject |
//! |---|---|
//! | `check` | the checker: what each stream must be notified of, and by when |
//! | `faults` | the faults: of processes, of NATS, of records, and of the provider |
//! | `network` | members' messages and requests on the [network](super::network) |
//! | `polls` | the polls of a replica: the watch of plugins, as it uses a member |
//! | `streams` | the event streams of clients, and the rules |

mod check;
mod faults;
mod network;
mod polls;
mod streams;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_model::uri::{Path, Uri};

use super::calls::MOUNT;
use super::network::{Answer, Network, Sent};
use super::provider::Provider;
use super::queue::Queue;
use super::replica::{Load, Replica, Rules, Stream, Watch};
use super::{Bug, LEASE, MILLISECOND, SECOND, index_of, name, plant, short};
use crate::member::{Member, MemberStats, RoleName, Time};
use crate::message::Message;

/// The maximum time for which a group that fails for a moment waits until it is polled again.
const AFTER_FAILURE: Duration = Duration::from_secs(8);
/// The time after the last fault in which all replicas run again.
const RECOVERY: Duration = Duration::from_secs(5);
const PRINCIPALS: u8 = 8;

/// The faults of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weather {
    /// No faults.
    Calm,
    /// The provider fails for some paths now and then, is slow for others, and fails for calls with many paths.
    BadPaths,
    /// Replicas crash, one at a time.
    Crashes,
    /// All faults.
    Storm,
}

/// The size of a world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) replicas: usize,
    pub(super) streams: usize,
    /// The number of leases.
    pub(super) shards: usize,
    /// The number of paths of each shard.
    pub(super) paths: u32,
    /// The provider's `limits.response-items`: twice the number of paths of a group.
    pub(super) max_items: usize,
    pub(super) interval: Duration,
}

impl Size {
    /// A small world of this seed.
    pub(super) fn small(seed: u64, weather: Weather) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let replicas = random.usize(2..=if weather == Weather::Storm { 7 } else { 5 });
        Self {
            replicas,
            streams: replicas * random.usize(2..=8),
            shards: random.usize(1..=3),
            paths: random.u32(2..=12),
            max_items: random.usize(2..=12),
            interval: SECOND,
        }
    }

    /// The expected number of calls of a poll for all replicas.
    fn groups(&self) -> u64 {
        let (paths, group) = (u64::from(self.paths), u64::try_from(self.max_items / 2).unwrap().clamp(1, 1000));
        paths.div_ceil(group).next_power_of_two().min(64)
    }
}

/// What happens at a time. Events of a replica have the number of its process or of its connection, and are dropped
/// with these.
enum Event {
    Wake { shard: u32, life: u64, at: Time },
    // The interval after a poll ends, unless another poll has begun.
    Poll { shard: u32, life: u64, begun: u64 },
    // The provider handles a call.
    CallReads { shard: u32, life: u64 },
    CallEnds { shard: u32, life: u64 },
    // A message or request of a replica arrives at the server.
    Arrives { shard: u32, connection: u64, sent: Sent },
    Delivered { shard: u32, connection: u64, message: Arc<Message> },
    // A message is delivered to all replicas that were connected when it was sent.
    Broadcast { shard: u32, sent_at: Time, message: Arc<Message> },
    Answered { shard: u32, life: u64, request: u64, answer: Answer },
    Edit,
    EditListing,
    // The provider begins to fail for a path, or to be slow for it.
    Break,
    Mend { shard: u32, path: u32 },
    Fault,
    // Streams connect, move and disconnect.
    Churn,
    // Streams connect to other replicas.
    Connect { streams: Vec<u32> },
    // The rules change.
    Rules,
    // A replica loads the rules.
    Reload { life: u64 },
    Restart,
    Resume,
    Reconnect,
    ServerBack,
    Check { shard: u32, path: u32, at: Time },
    CheckListing { shard: u32, at: Time },
}

/// One lease.
struct Shard {
    key: String,
    /// The first shard with the same subject.
    subject: usize,
    names: Vec<Arc<str>>,
    located: Vec<(Uri, Path)>,
    provider: Provider,
    /// When a replica that held the lease was last stopped, or the provider last failed.
    hindered: Time,
    /// When each path last failed, or had to wait because it had failed.
    path_hindered: Vec<Time>,
    /// Since when each path has failed without a pause in which replicas poll it again. Their back-off grows with this
    /// time.
    path_began: Vec<Time>,
    /// The replicas that hold the lease.
    holders: BTreeSet<usize>,
}

pub(super) struct World {
    weather: Weather,
    size: Size,
    random: fastrand::Rng,
    now: Time,
    /// Events, each with its replica.
    queue: Queue<(u32, Event)>,
    replicas: Vec<Replica>,
    streams: Vec<Stream>,
    shards: Vec<Shard>,
    network: Network,
    last_crash: Time,
    /// All versions of the rules.
    rules: Vec<Rules>,
    end: Time,
    faults_end: Time,
    bound: Duration,
    /// The longest half of a call, in milliseconds.
    leg: u64,
    trace: Option<Vec<String>>,
    failure: Option<String>,
    outcome: Outcome,
}

/// The outcome of a world.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) failure: Option<String>,
    /// The number of polls that a single replica would make in the time.
    pub(super) polls_of_one: u64,
    pub(super) changes: u64,
    pub(super) notifications: u64,
    /// Changes that were not notified in time.
    pub(super) lost: u64,
    /// Notifications of what a stream may not see.
    pub(super) denied: u64,
    pub(super) gaps: u64,
    /// The simulated time, in seconds.
    pub(super) seconds: f64,
    /// The work of all replicas, and of the one with the most operations.
    pub(super) load: Load,
    pub(super) most: Load,
    /// The roles of replicas at the end, for each shard.
    pub(super) roles: Vec<Vec<RoleName>>,
    pub(super) trace: Vec<String>,
}

fn micros(time: Time) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

impl World {
    pub(super) fn new(seed: u64, weather: Weather, size: Size, bug: Option<Bug>, is_traced: bool) -> Self {
        plant(bug);
        // For the jitter of back-offs.
        fastrand::seed(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let faults_end = Duration::from_secs(random.u64(40..100));
        let (is_calm, is_storm) = (matches!(weather, Weather::Calm | Weather::Crashes), weather == Weather::Storm);
        let leg = (150 / size.groups()).max(2);
        // A poll calls each group. Failing calls take two seconds of it, calls for parts four, and one more call of
        // each.
        let poll = Duration::from_millis(2 * leg * size.groups()) + if is_calm { Time::ZERO } else { 8 * SECOND };
        // The lease, at the slowest clock; the pause of a replica that begins to poll for itself; an interval; twice
        // the longest poll with its pause; and delays.
        let bound = LEASE * 12 / 10 + SECOND + size.interval + (poll + poll.min(SECOND)) * 2 + 2 * SECOND;
        let shards = (0..size.shards).map(|shard| Shard::new(shard, size, is_calm, &mut random)).collect::<Vec<_>>();
        let subjects: Vec<_> = (0..size.shards).map(|shard| name(short(shard)).subject()).collect();
        let rules = |random: &mut fastrand::Rng| (0..size.paths).map(|_| random.u8(..) | random.u8(..)).collect();
        let rules: Vec<Vec<u8>> = (0..size.shards).map(|_| rules(&mut random)).collect();
        let lossy_until = if is_storm && random.bool() { faults_end } else { Time::ZERO };
        let network = Network::new(size.replicas, lossy_until);
        let mut world = Self {
            weather,
            size,
            now: Time::ZERO,
            queue: Queue::new(),
            replicas: Vec::new(),
            streams: Vec::new(),
            shards,
            network,
            last_crash: Time::ZERO,
            rules: vec![Arc::new(rules)],
            end: faults_end + RECOVERY + 2 * AFTER_FAILURE + bound + SECOND,
            faults_end,
            bound,
            leg,
            trace: is_traced.then(Vec::new),
            failure: None,
            outcome: Outcome::default(),
            random,
        };
        for (shard, subject) in subjects.iter().enumerate() {
            world.shards[shard].subject = subjects.iter().position(|first| first == subject).unwrap();
        }
        for index in 0..size.replicas {
            let clock = (Duration::from_secs(world.random.u64(0..1000)), world.random.u32(990..=1010));
            world.replicas.push(Replica::new(size.shards, clock));
            let (start, churn) = (world.milliseconds(0, 3000), world.milliseconds(4500, 8000));
            world.after(start, index, Event::Restart);
            world.after(churn, index, Event::Churn);
        }
        for _ in 0..size.streams {
            let (shard, path) = (short(world.random.usize(..size.shards)), world.random.u32(..size.paths));
            let principal = world.random.u8(..PRINCIPALS);
            let (replica, active_since, untold) = (None, None, None);
            world.streams.push(Stream { replica, shard, path, principal, requested: 0, active_since, untold });
        }
        // Streams connect in a few waves.
        for wave in 0..4 {
            let at = world.milliseconds(3000, 4500);
            let streams = (0..short(size.streams)).filter(|stream| stream % 4 == wave).collect();
            world.after(at, 0, Event::Connect { streams });
        }
        world.after(SECOND, 0, Event::Edit);
        world.after(4 * SECOND, 0, Event::EditListing);
        world.after(10 * SECOND, 0, Event::Rules);
        if matches!(weather, Weather::Crashes | Weather::Storm) {
            world.after(15 * SECOND, 0, Event::Fault);
        }
        if matches!(weather, Weather::BadPaths | Weather::Storm) {
            world.after(2 * SECOND, 0, Event::Break);
        }
        world
    }

    fn milliseconds(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.random.u64(from..to))
    }

    fn after(&mut self, delay: Duration, index: usize, event: Event) {
        self.at(self.now + delay, index, event);
    }

    fn at(&mut self, at: Time, index: usize, event: Event) {
        self.queue.add(at, (short(index), event));
    }

    fn note(&mut self, index: usize, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} r{index} {}", self.now.as_secs_f64(), text()));
        }
    }

    /// Records what happens outside of replicas.
    fn note_world(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} {}", self.now.as_secs_f64(), text()));
        }
    }

    /// Whether faults may still happen.
    fn has_faults(&self) -> bool {
        self.now < self.faults_end
    }

    pub(super) fn run(mut self) -> Outcome {
        while let Some((at, (index, event))) = self.queue.take() {
            if at > self.end || self.failure.is_some() {
                break;
            }
            self.now = at;
            let index = index_of(index);
            let is_of_replica = matches!(
                event,
                Event::Wake { .. }
                    | Event::Poll { .. }
                    | Event::CallReads { .. }
                    | Event::CallEnds { .. }
                    | Event::Delivered { .. }
                    | Event::Answered { .. }
                    | Event::Churn
                    | Event::Reload { .. }
            );
            let until = self.replicas[index].stopped_until;
            if is_of_replica && until > self.now {
                // Events continue in the same order.
                self.at(until, index, event);
                continue;
            }
            self.handle(index, event);
        }
        if self.failure.is_none() {
            self.now = self.end;
            self.check_all();
        }
        self.finish()
    }

    fn finish(mut self) -> Outcome {
        plant(None);
        let mut outcome = std::mem::take(&mut self.outcome);
        for replica in &self.replicas {
            outcome.load.add(replica.load);
            if replica.load.operations() >= outcome.most.operations() {
                outcome.most = replica.load;
            }
        }
        let members = |shard: usize| {
            let watches =
                self.replicas.iter().filter(|replica| replica.is_up).map(move |replica| &replica.watches[shard]);
            watches.filter_map(|watch| watch.member.as_deref())
        };
        outcome.gaps += (0..self.size.shards)
            .flat_map(members)
            .map(Member::stats)
            .map(|MemberStats { gaps, .. }| gaps)
            .sum::<u64>();
        outcome.roles = (0..self.size.shards).map(|shard| members(shard).map(Member::role).collect()).collect();
        outcome.seconds = self.now.as_secs_f64();
        let shards = u64::try_from(self.size.shards).unwrap();
        outcome.polls_of_one = shards * u64::try_from(self.now.as_millis() / self.size.interval.as_millis()).unwrap();
        (outcome.failure, outcome.trace) = (self.failure, self.trace.unwrap_or_default());
        outcome
    }

    fn handle(&mut self, index: usize, event: Event) {
        match event {
            Event::Wake { shard, life, at } if self.is_alive(index, life) => {
                let shard = index_of(shard);
                if self.watch(index, shard).wake_at == Some(at) {
                    self.watch(index, shard).wake_at = None;
                    self.with_member(index, shard, |member, now| {
                        if member.deadline().is_some_and(|deadline| deadline <= now) {
                            member.wake(now);
                        }
                    });
                }
            }
            Event::Poll { shard, life, begun }
                if self.is_alive(index, life) && self.watch(index, index_of(shard)).begun == begun =>
            {
                self.poll(index, index_of(shard));
            }
            Event::CallReads { shard, life } if self.is_alive(index, life) => self.call_reads(index, index_of(shard)),
            Event::CallEnds { shard, life } if self.is_alive(index, life) => self.resume(index, index_of(shard)),
            Event::Arrives { shard, connection, sent } if self.network.is_connected(index, connection) => {
                self.arrives(index, index_of(shard), sent);
            }
            Event::Delivered { shard, connection, message } if self.network.is_connected(index, connection) => {
                self.hear(index, index_of(shard), &message);
            }
            Event::Broadcast { shard, sent_at, message } if self.network.is_up() => {
                self.broadcast(index_of(shard), sent_at, &message);
            }
            Event::Answered { shard, life, request, answer } if self.is_alive(index, life) => {
                self.answered(index, index_of(shard), request, answer);
            }
            Event::Edit => self.edit(),
            Event::EditListing => self.edit_listing(),
            Event::Break => self.break_path(),
            Event::Mend { shard, path } => self.mend(index_of(shard), path),
            Event::Fault => self.fault(),
            Event::Churn => self.churn(index),
            Event::Connect { streams } => self.connect_streams(streams),
            Event::Rules => self.change_rules(),
            Event::Reload { life } if self.is_alive(index, life) => self.load_rules(index),
            Event::Restart => self.restart(index),
            Event::Reconnect => self.connect(index),
            Event::ServerBack => {
                self.network.start();
                (0..self.replicas.len()).for_each(|index| self.connect(index));
            }
            Event::Check { shard, path, at } => self.check(index_of(shard), path, at),
            Event::CheckListing { shard, at } => self.check_listing(index_of(shard), at),
            _ => {}
        }
    }

    fn watch(&mut self, index: usize, shard: usize) -> &mut Watch {
        &mut self.replicas[index].watches[shard]
    }

    fn is_alive(&self, index: usize, life: u64) -> bool {
        self.replicas[index].life == life && self.replicas[index].is_up
    }

    /// Returns the time on a replica's clock.
    fn local(&self, index: usize) -> Time {
        let (offset, speed) = self.replicas[index].clock;
        offset + self.now * speed / 1000
    }
}

impl Shard {
    fn new(shard: usize, size: Size, is_calm: bool, random: &mut fastrand::Rng) -> Self {
        let names: Vec<Arc<str>> = (0..size.paths).map(|path| format!("p{path}").into()).collect();
        let located = names.iter().map(|name| MOUNT.compose(name).unwrap());
        let located = located.map(|located| (located.uri, located.path)).collect();
        let is_limited = !is_calm && random.u32(..4) == 0;
        let max_call = if is_limited { (size.max_items / 4).max(3) } else { usize::MAX };
        Self {
            key: name(short(shard)).key().to_owned(),
            subject: 0,
            names,
            located,
            provider: Provider::new(size.paths, max_call),
            hindered: Time::ZERO,
            path_hindered: vec![Time::ZERO; index_of(size.paths)],
            path_began: vec![Time::ZERO; index_of(size.paths)],
            holders: BTreeSet::new(),
        }
    }
}
