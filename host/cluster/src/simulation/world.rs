//! One world: the scheduler, the streams and what they must be told, and the faults.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use mcp_host_model::uri::{Path, Uri};

use super::calls::{Done, Effect, MOUNT, RunningPoll, Step, moment, number};
use super::provider::Provider;
use super::replica::{Load, Replica, Rules, Running, Stream, Watch};
use super::{Bug, is_planted, plant};
use crate::bounded_json;
use crate::engine::model::ModelServer;
use crate::engine::{EngineError, Entry};
use crate::member::{Member, MemberStats, Output, OwnPolled, Plan, Revision, RoleName, Stored, Time, WriteFailure};
use crate::message::Message;
use crate::poll::Polls;
use crate::record::{MAX_NUMBER, Record};
use crate::replica::ReplicaId;
use crate::share::ShardName;

const LEASE: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
/// The maximum time for which a group that fails for a moment waits until it is polled again.
const AFTER_FAILURE: Duration = Duration::from_secs(8);
/// The time after the last fault in which all replicas run again.
const RECOVERY: Duration = Duration::from_secs(5);
/// The number of replicas above which one event delivers a message to all of them.
const MANY: usize = 64;
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

enum Event {
    Wake {
        shard: u32,
        life: u64,
        at: Time,
    },
    /// The interval after a poll ends, unless another poll has begun.
    Poll {
        shard: u32,
        life: u64,
        begun: u64,
    },
    /// The provider handles a call.
    CallReads {
        shard: u32,
        life: u64,
    },
    CallEnds {
        shard: u32,
        life: u64,
    },
    /// A message or request of a replica arrives at the server.
    Arrives {
        shard: u32,
        connection: u64,
        sent: Sent,
    },
    Delivered {
        shard: u32,
        connection: u64,
        message: Arc<Message>,
    },
    /// A message is delivered to all replicas that were connected when it was sent.
    Broadcast {
        shard: u32,
        sent_at: Time,
        message: Arc<Message>,
    },
    Answered {
        shard: u32,
        life: u64,
        request: u64,
        answer: Answer,
    },
    Edit,
    EditListing,
    /// The provider begins to fail for a path or to be slow, or stops.
    Break,
    Mend {
        shard: u32,
        path: u32,
    },
    Fault,
    /// Streams come, move and go.
    Churn,
    /// Streams connect to other replicas.
    Connect {
        streams: Vec<u32>,
    },
    /// The rules change.
    Rules,
    /// A replica loads the rules.
    Reload {
        life: u64,
    },
    Restart,
    Resume,
    Reconnect,
    ServerBack,
    Check {
        shard: u32,
        path: u32,
        at: Time,
    },
    CheckListing {
        shard: u32,
        at: Time,
    },
}

enum Sent {
    Message(Vec<u8>),
    Read { request: u64 },
    Write { request: u64, expected: Option<Revision>, bytes: Vec<u8> },
}

#[derive(Debug)]
enum Answer {
    Read(Result<Option<Entry>, ()>),
    Written(Result<Revision, WriteFailure>),
}

struct Scheduled {
    at: Time,
    number: u64,
    index: u32,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
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
    /// Since when each path has failed, without a pause in which replicas poll it again: the longer, the longer they wait.
    path_began: Vec<Time>,
    /// The replicas that hold the lease.
    holders: BTreeSet<usize>,
}

pub(super) struct World {
    weather: Weather,
    size: Size,
    random: fastrand::Rng,
    now: Time,
    queue: BinaryHeap<Reverse<Scheduled>>,
    next: u64,
    replicas: Vec<Replica>,
    streams: Vec<Stream>,
    shards: Vec<Shard>,
    server: ModelServer,
    is_server_up: bool,
    last_crash: Time,
    /// All versions of the rules.
    rules: Vec<Rules>,
    end: Time,
    faults_end: Time,
    bound: Duration,
    /// The longest half of a call, in milliseconds.
    leg: u64,
    /// Messages are lost, or delayed for long.
    is_lossy: bool,
    connections: u64,
    connected: u64,
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

fn index_of(number: u32) -> usize {
    usize::try_from(number).unwrap()
}

fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap()
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
        // A poll calls each group. Failing calls take two seconds of it, calls for parts four, and one more call of each.
        let poll = Duration::from_millis(2 * leg * size.groups()) + if is_calm { Time::ZERO } else { 8 * SECOND };
        // The lease, at the slowest clock; the pause of a replica that begins to poll for itself; an interval; twice the
        // longest poll with its pause; and delays.
        let bound = LEASE * 12 / 10 + SECOND + size.interval + (poll + poll.min(SECOND)) * 2 + 2 * SECOND;
        let shards = (0..size.shards).map(|shard| Shard::new(shard, size, is_calm, &mut random)).collect::<Vec<_>>();
        let subjects: Vec<_> = (0..size.shards).map(|shard| name(shard).subject()).collect();
        let rules = |random: &mut fastrand::Rng| (0..size.paths).map(|_| random.u8(..) | random.u8(..)).collect();
        let rules: Vec<Vec<u8>> = (0..size.shards).map(|_| rules(&mut random)).collect();
        let mut world = Self {
            weather,
            size,
            now: Time::ZERO,
            queue: BinaryHeap::new(),
            next: 0,
            replicas: Vec::new(),
            streams: Vec::new(),
            shards,
            server: ModelServer::default(),
            is_server_up: true,
            last_crash: Time::ZERO,
            rules: vec![Arc::new(rules)],
            end: faults_end + RECOVERY + 2 * AFTER_FAILURE + bound + SECOND,
            faults_end,
            bound,
            leg,
            is_lossy: is_storm && random.bool(),
            connections: 0,
            connected: 0,
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
        self.queue.push(Reverse(Scheduled { at, number: self.next, index: short(index), event }));
        self.next += 1;
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
        while let Some(Reverse(Scheduled { at, index, event, .. })) = self.queue.pop() {
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
            Event::Arrives { shard, connection, sent } if self.is_connected(index, connection) => {
                self.arrives(index, index_of(shard), sent);
            }
            Event::Delivered { shard, connection, message } if self.is_connected(index, connection) => {
                self.hear(index, index_of(shard), &message);
            }
            Event::Broadcast { shard, sent_at, message } if self.is_server_up => {
                self.broadcast(index_of(shard), sent_at, &message);
            }
            Event::Answered { shard, life, request, answer } if self.is_alive(index, life) => {
                self.answered(index, index_of(shard), request, answer);
            }
            Event::Edit => self.edit(),
            Event::EditListing => self.edit_listing(),
            Event::Break => self.break_path(),
            Event::Mend { shard, path } => {
                self.note_world(|| format!("shard {shard} is good again for p{path}"));
                let now = self.now;
                let shard = &mut self.shards[index_of(shard)];
                if shard.provider.bad.remove(&path) {
                    // The back-off of a group is at most as long as it has failed.
                    let failed = now - shard.path_began[index_of(path)];
                    shard.path_hindered[index_of(path)] = now + failed * 13 / 10 + AFTER_FAILURE / 2;
                }
                shard.provider.slow.remove(&path);
            }
            Event::Fault => self.fault(),
            Event::Churn => self.churn(index),
            Event::Connect { streams } => self.connect_streams(streams),
            Event::Rules => self.change_rules(),
            Event::Reload { life } if self.is_alive(index, life) => self.load_rules(index),
            Event::Restart => self.restart(index),
            Event::Reconnect => self.connect(index),
            Event::ServerBack => {
                self.is_server_up = true;
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

    fn is_connected(&self, index: usize, connection: u64) -> bool {
        self.is_server_up && self.replicas[index].connection.is_some_and(|(number, _)| number == connection)
    }

    /// Returns the time on a replica's clock.
    fn local(&self, index: usize) -> Time {
        let (offset, speed) = self.replicas[index].clock;
        offset + self.now * speed / 1000
    }

    // A replica's member, and NATS.

    /// Calls a member, and performs its outputs.
    fn with_member(&mut self, index: usize, shard: usize, call: impl FnOnce(&mut Member, Time)) {
        let local = self.local(index);
        if let Some(member) = &mut self.watch(index, shard).member {
            call(member, local);
        }
        let (mut polls, life) = (false, self.replicas[index].life);
        let at = short(shard);
        while let Some(output) = self.watch(index, shard).member.as_mut().and_then(|member| member.next_output()) {
            // A process may end between any two actions.
            let dies =
                matches!(self.weather, Weather::Crashes | Weather::Storm) && self.has_faults() && self.may_crash();
            if dies && self.random.u32(..3000) == 0 {
                self.crash(index);
                return;
            }
            match output {
                Output::Publish(message) => {
                    self.note(index, || format!("shard {shard} says {message:?}"));
                    self.replicas[index].load.sent += 1;
                    self.send(index, shard, Sent::Message(message.encode().unwrap()));
                }
                Output::Read => {
                    let request = self.request(index, shard);
                    self.send(index, shard, Sent::Read { request });
                    let answer = Answer::Read(Err(()));
                    self.after(LEASE / 5, index, Event::Answered { shard: at, life, request, answer });
                }
                Output::Write { expected, record } => {
                    self.note(index, || format!("shard {shard} writes over {expected:?}: {record:?}"));
                    let (request, bytes) = (self.request(index, shard), record.encode().unwrap());
                    self.send(index, shard, Sent::Write { request, expected, bytes });
                    let answer = Answer::Written(Err(WriteFailure::Unknown));
                    self.after(LEASE / 5, index, Event::Answered { shard: at, life, request, answer });
                }
                Output::Changed { changed, listing } => {
                    changed.iter().for_each(|path| self.tell(index, shard, number(path)));
                    if listing {
                        self.tell_listing(index, shard);
                    }
                }
                Output::Completed(requested) => self.complete(index, shard, requested, &BTreeSet::new()),
                Output::Wake => polls = true,
            }
        }
        let Some(member) = &self.watch(index, shard).member else { return };
        let (is_holding, deadline) = (member.role() == RoleName::Holding, member.deadline());
        match is_holding {
            true => self.shards[shard].holders.insert(index),
            false => self.shards[shard].holders.remove(&index),
        };
        if polls {
            self.poll(index, shard);
        }
        if let Some(deadline) = deadline {
            let wait = deadline.saturating_sub(self.local(index)) * 1000 / self.replicas[index].clock.1 + MILLISECOND;
            let at = self.now + wait;
            let watch = self.watch(index, shard);
            if watch.wake_at.is_none_or(|before| at < before) {
                watch.wake_at = Some(at);
                self.at(at, index, Event::Wake { shard: short(shard), life, at });
            }
        }
    }

    /// Counts a request to the bucket, and returns its number.
    fn request(&mut self, index: usize, shard: usize) -> u64 {
        self.replicas[index].load.requests += 1;
        let watch = self.watch(index, shard);
        watch.is_requesting = true;
        watch.request
    }

    fn answered(&mut self, index: usize, shard: usize, request: u64, answer: Answer) {
        let watch = self.watch(index, shard);
        if watch.request != request {
            return;
        }
        (watch.request, watch.is_requesting) = (request + 1, false);
        self.note(index, || format!("shard {shard} is answered {answer:?}"));
        self.with_member(index, shard, |member, now| match answer {
            Answer::Read(result) => {
                let decode = |value: &[u8]| match is_planted(Bug::NumbersNotBounded) {
                    true => Ok(bounded_json::decode(value, usize::MAX)?),
                    false => Record::decode(value),
                };
                let stored = |entry: Option<Entry>| match entry {
                    None => Stored::Nothing,
                    Some(Entry { revision, value }) => match decode(&value) {
                        Ok(record) => Stored::Record(revision, Box::new(record)),
                        Err(_) => Stored::Invalid(revision),
                    },
                };
                member.read(now, result.map(stored));
            }
            Answer::Written(result) => member.written(now, result),
        });
    }

    fn delay(&mut self) -> Duration {
        match self.is_lossy && self.has_faults() {
            true => self.milliseconds(1, 400),
            false => self.milliseconds(1, 30),
        }
    }

    fn is_lost(&mut self) -> bool {
        self.is_lossy && self.has_faults() && self.random.u32(..20) == 0
    }

    fn send(&mut self, index: usize, shard: usize, sent: Sent) {
        let delay = self.delay();
        let Some((connection, _)) = self.replicas[index].connection else { return };
        let at = (self.now + delay).max(self.replicas[index].uplink);
        self.replicas[index].uplink = at;
        self.at(at, index, Event::Arrives { shard: short(shard), connection, sent });
    }

    fn arrives(&mut self, index: usize, shard: usize, sent: Sent) {
        let (life, at) = (self.replicas[index].life, short(shard));
        let answered = match sent {
            Sent::Message(bytes) => return self.publish(shard, &bytes),
            Sent::Read { request } => {
                let answer = Answer::Read(Ok(self.server.get(&self.shards[shard].key)));
                Event::Answered { shard: at, life, request, answer }
            }
            Sent::Write { request, expected, bytes } => {
                let key = &self.shards[shard].key;
                let unchecked = is_planted(Bug::LeaseNotChecked);
                let expected = if unchecked { self.server.get(key).map(|entry| entry.revision) } else { expected };
                let written = self.server.write(key, &bytes, expected).map_err(|error| match error {
                    EngineError::Conflict => WriteFailure::Conflict,
                    _ => WriteFailure::Unknown,
                });
                Event::Answered { shard: at, life, request, answer: Answer::Written(written) }
            }
        };
        // A response may be lost, too.
        if !self.is_lost() {
            self.reply(index, answered);
        }
    }

    /// Delivers a message to all subscribers of its subject.
    fn publish(&mut self, shard: usize, bytes: &[u8]) {
        let decoded = match is_planted(Bug::NumbersNotBounded) {
            true => Ok(serde_json::from_slice(bytes).unwrap()),
            false => Message::decode(bytes),
        };
        let message: Arc<Message> = Arc::new(decoded.unwrap());
        if self.replicas.len() > MANY {
            let delay = self.delay();
            let at = (self.now + delay).max(self.replicas[0].downlink);
            self.replicas[0].downlink = at;
            return self.at(at, 0, Event::Broadcast { shard: short(shard), sent_at: self.now, message });
        }
        for to in 0..self.replicas.len() {
            for other in 0..self.shards.len() {
                if self.shards[other].subject != self.shards[shard].subject || self.is_lost() {
                    continue;
                }
                if let Some((connection, _)) = self.replicas[to].connection {
                    let message = message.clone();
                    self.reply(to, Event::Delivered { shard: short(other), connection, message });
                }
            }
        }
    }

    /// Delivers a message to all replicas. Announcements are passed to holders only: [`Member::receive`] ignores them in any other role.
    fn broadcast(&mut self, shard: usize, sent_at: Time, message: &Arc<Message>) {
        if matches!(**message, Message::Want(_)) {
            self.outcome.load.received += self.connected;
            for index in self.shards[shard].holders.clone() {
                self.deliver(index, shard, sent_at, message);
            }
            return;
        }
        for index in 0..self.replicas.len() {
            self.deliver(index, shard, sent_at, message);
        }
    }

    fn deliver(&mut self, index: usize, shard: usize, sent_at: Time, message: &Arc<Message>) {
        let Some((connection, since)) = self.replicas[index].connection else { return };
        if since > sent_at || self.is_lost() {
            return;
        }
        let until = self.replicas[index].stopped_until;
        if until > self.now {
            let message = message.clone();
            return self.at(until, index, Event::Delivered { shard: short(shard), connection, message });
        }
        self.hear(index, shard, message);
    }

    fn hear(&mut self, index: usize, shard: usize, message: &Message) {
        self.note(index, || format!("shard {shard} hears {message:?}"));
        self.replicas[index].load.received += 1;
        self.with_member(index, shard, |member, now| member.receive(now, message));
    }

    fn reply(&mut self, index: usize, event: Event) {
        let delay = self.delay();
        let at = (self.now + delay).max(self.replicas[index].downlink);
        self.replicas[index].downlink = at;
        self.at(at, index, event);
    }

    fn connect(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if self.is_server_up && replica.is_up && replica.connection.is_none() {
            self.connections += 1;
            self.connected += 1;
            replica.connection = Some((self.connections, self.now));
        }
    }

    fn disconnect(&mut self, index: usize) {
        if self.replicas[index].connection.take().is_some() {
            self.connected -= 1;
        }
    }

    fn restart(&mut self, index: usize) {
        if self.replicas[index].is_up {
            return;
        }
        let (id, newest) = (ReplicaId::new(self.random.u128(..)), self.rules.len() - 1);
        for shard in 0..self.size.shards {
            let member = Some(Box::new(Member::new(id, LEASE, self.random.u64(..))));
            let polls = Some(Box::new(Polls::new(self.size.max_items, false)));
            *self.watch(index, shard) = Watch { member, polls, ..Watch::default() };
        }
        let replica = &mut self.replicas[index];
        (replica.is_up, replica.life, replica.rules) = (true, replica.life + 1, newest);
        self.connect(index);
        self.note(index, || "starts".to_owned());
    }

    fn crash(&mut self, index: usize) {
        self.note(index, || "crashes".to_owned());
        self.last_crash = self.now;
        self.disconnect(index);
        let mut streams = Vec::new();
        for shard in 0..self.size.shards {
            let watch = std::mem::take(self.watch(index, shard));
            self.outcome.gaps += watch.member.map_or(0, |member| member.stats().gaps);
            streams.extend(watch.paths.into_values().flatten());
            self.shards[shard].holders.remove(&index);
        }
        self.replicas[index].is_up = false;
        for stream in &streams {
            let stream = &mut self.streams[index_of(*stream)];
            (stream.replica, stream.active_since, stream.untold) = (None, None, None);
        }
        let (back, again) = (self.milliseconds(500, 15_000), self.milliseconds(100, 2000));
        self.at((self.now + back).min(self.faults_end + RECOVERY), index, Event::Restart);
        self.after(again, 0, Event::Connect { streams });
    }

    /// Few replicas crash at a time, because others must continue. In worlds where no replica may notify everything, it is one, and the
    /// next holder has time to make a round.
    fn may_crash(&self) -> bool {
        let (is_storm, down) = (self.weather == Weather::Storm, self.replicas.iter().filter(|replica| !replica.is_up));
        let is_settled = is_storm || self.now >= self.last_crash + LEASE * 2;
        is_settled && down.count() <= if is_storm { self.replicas.len() / 20 } else { 0 }
    }

    // The watch of plugins, as it uses a member.

    fn poll(&mut self, index: usize, shard: usize) {
        let watch = self.watch(index, shard);
        if watch.running.is_some() || watch.is_planning {
            watch.polls_again = true;
            return;
        }
        if watch.paths.is_empty() {
            if std::mem::take(&mut watch.is_watching) {
                if let Some(polls) = &mut watch.polls {
                    polls.go_idle();
                }
                (watch.is_failing, watch.listing_since, watch.listing_untold) = (false, None, None);
                self.with_member(index, shard, Member::leave);
            }
            return;
        }
        watch.is_planning = true;
        let is_new = !std::mem::replace(&mut watch.is_watching, true) | std::mem::take(&mut watch.is_changed);
        let (requested, life) = (watch.requested, self.replicas[index].life);
        let names = &self.shards[shard].names;
        let paths = self.replicas[index].watches[shard].paths.keys().filter(|_| is_new);
        let paths = paths.map(|path| names[index_of(*path)].clone()).collect::<BTreeSet<_>>();
        let mut plan = Plan::Nothing;
        self.with_member(index, shard, |member, now| {
            if is_new {
                member.watch(now, paths, requested);
            }
            plan = member.begin_poll(now);
        });
        if !self.is_alive(index, life) {
            return;
        }
        self.note(index, || format!("shard {shard} plans {plan:?}"));
        let local = self.local(index);
        let (located, watch) = (&self.shards[shard].located, &mut self.replicas[index].watches[shard]);
        (watch.is_planning, watch.begun) = (false, watch.begun + 1);
        let Some(mut polls) = watch.polls.take() else { return };
        let (is_shared, poll) = match plan {
            Plan::Nothing => {
                watch.polls = Some(polls);
                watch.is_failing = false;
                let pause = if std::mem::take(&mut watch.polls_again) { MILLISECOND } else { self.size.interval };
                let begun = watch.begun;
                return self.after(pause, index, Event::Poll { shard: short(shard), life, begun });
            }
            Plan::Own { tokens, tell_all, handover } => {
                polls.begin_own(moment(local), tokens, tell_all, handover);
                let watched = watch.paths.keys().map(|path| located[index_of(*path)].clone()).collect();
                (false, RunningPoll::own(polls, watched, watch.is_failing))
            }
            Plan::Shared(poll) => (true, RunningPoll::shared(polls, poll)),
        };
        let began = self.now;
        watch.running = Some(Running { poll, is_shared, began, requested, call: None, answer: None });
        self.replicas[index].load.polls += 1;
        self.resume(index, shard);
    }

    /// Continues the poll under way with the answer of the provider, if there is one.
    fn resume(&mut self, index: usize, shard: usize) {
        let (local, life) = (self.local(index), self.replicas[index].life);
        let Some(mut running) = self.watch(index, shard).running.take() else { return };
        let (effects, step) = running.poll.resume(local, running.answer.take());
        let is_shared = running.is_shared;
        let done = match step {
            Step::Calls(call) => {
                running.call = Some(call);
                let delay = self.milliseconds(1, self.leg);
                self.after(delay, index, Event::CallReads { shard: short(shard), life });
                self.watch(index, shard).running = Some(running);
                None
            }
            Step::Ends(polls, done) => Some((polls, done, running.began, running.requested)),
        };
        for effect in effects {
            match effect {
                Effect::Told(paths) => paths.into_iter().for_each(|path| self.tell(index, shard, path)),
                Effect::Everything => self.tell_everything(index, shard),
                Effect::Listing => self.tell_listing(index, shard),
            }
        }
        let Some((polls, done, began, requested)) = done else { return };
        let polled = polls.own_polled();
        self.watch(index, shard).polls = Some(polls);
        match done {
            Done::Own(unserved) => {
                self.note(index, || format!("shard {shard} polled, shared {is_shared}, without {unserved:?}"));
                let polled = if unserved.is_some() { polled } else { OwnPolled::Failed };
                self.watch(index, shard).is_failing = polled == OwnPolled::Failed;
                if let Some(unserved) = unserved {
                    self.complete(index, shard, requested, &unserved);
                }
                self.with_member(index, shard, |member, now| member.own_polled(now, polled));
            }
            Done::Shared(found, is_ok) => {
                self.note(index, || format!("shard {shard} polled, shared {is_shared}, ok {is_ok}: {found:?}"));
                self.watch(index, shard).is_failing = !is_ok;
                self.with_member(index, shard, |member, now| member.shared_polled(now, found, is_ok));
            }
        }
        if !self.is_alive(index, life) {
            return;
        }
        let took = (self.now - began).clamp(MILLISECOND, SECOND);
        let watch = self.watch(index, shard);
        // A poll has begun that these outputs requested.
        if watch.running.is_some() {
            return;
        }
        let begun = watch.begun;
        let pause = if std::mem::take(&mut watch.polls_again) { took } else { self.size.interval };
        self.after(pause, index, Event::Poll { shard: short(shard), life, begun });
    }

    /// The provider handles the call of a poll.
    fn call_reads(&mut self, index: usize, shard: usize) {
        let is_unlucky = self.weather == Weather::Storm && self.has_faults() && self.random.u32(..60) == 0;
        let now = self.now;
        let at = &mut self.shards[shard];
        let replica = &mut self.replicas[index];
        let Some(running) = &mut replica.watches[shard].running else { return };
        let Some(call) = running.call.take() else { return };
        replica.load.calls += 1;
        let is_slow = at.provider.is_slow(&call.paths);
        let answer = if is_unlucky { None } else { at.provider.changes(now, &call.paths, call.token.as_deref()) };
        if is_unlucky || now < at.provider.down_until {
            at.hindered = at.hindered.max(now + AFTER_FAILURE);
        }
        let is_ok = answer.is_some();
        running.answer = Some(answer);
        self.note(index, || format!("shard {shard} calls {call:?}, ok {is_ok}"));
        let ends = self.milliseconds(1, self.leg) + Duration::from_millis(if is_slow { 60 } else { 0 });
        let life = self.replicas[index].life;
        self.after(ends, index, Event::CallEnds { shard: short(shard), life });
    }

    /// Activates the subscriptions that a poll has served.
    fn complete(&mut self, index: usize, shard: usize, requested: u64, without: &BTreeSet<u32>) {
        self.note(index, || format!("shard {shard} has active subscriptions up to {requested} without {without:?}"));
        let now = self.now;
        let (streams, watch) = (&mut self.streams, &mut self.replicas[index].watches[shard]);
        watch.listing_since.get_or_insert(now);
        watch.pending.retain(|stream| {
            let stream = &mut streams[index_of(*stream)];
            let is_served = stream.requested <= requested && !without.contains(&stream.path);
            if is_served {
                stream.active_since = Some(micros(now));
            }
            !is_served
        });
    }

    // Streams.

    /// Returns whether a principal may see a path under a version of the rules.
    fn allows(&self, rules: usize, shard: usize, path: u32, principal: u8) -> bool {
        self.rules[rules][shard][index_of(path)] & (1 << principal) != 0
    }

    fn tell(&mut self, index: usize, shard: usize, path: u32) {
        let rules = self.replicas[index].rules;
        let Some(streams) = self.replicas[index].watches[shard].paths.get(&path).cloned() else { return };
        for id in streams {
            let stream = self.streams[index_of(id)];
            let is_allowed = self.allows(rules, shard, path, stream.principal);
            // What may not be seen is not told.
            if !is_allowed && !is_planted(Bug::PolicyNotAsked) {
                continue;
            }
            self.outcome.notifications += 1;
            self.streams[index_of(id)].untold = None;
            let is_foreign = (stream.replica, stream.shard, stream.path) != (Some(short(index)), short(shard), path);
            if is_foreign || !is_allowed {
                self.outcome.denied += 1;
                self.failure =
                    Some(format!("r{index} told stream {id} of p{path} of shard {shard}, which it may not see"));
            }
        }
        self.note(index, || format!("shard {shard} tells p{path}"));
    }

    fn tell_everything(&mut self, index: usize, shard: usize) {
        let paths: Vec<_> = self.watch(index, shard).paths.keys().copied().collect();
        paths.into_iter().for_each(|path| self.tell(index, shard, path));
        self.tell_listing(index, shard);
    }

    fn tell_listing(&mut self, index: usize, shard: usize) {
        self.note(index, || format!("shard {shard} tells the listing"));
        self.watch(index, shard).listing_untold = None;
    }

    /// Connects streams to replicas that run.
    fn connect_streams(&mut self, streams: Vec<u32>) {
        let mut later = Vec::new();
        let mut changed = BTreeSet::new();
        for stream in streams {
            let mut indexes = (0..8).map(|_| self.random.usize(..self.replicas.len()));
            let replicas = &self.replicas;
            let now = self.now;
            let found = indexes.find(|index| replicas[*index].is_up && replicas[*index].stopped_until <= now);
            drop(indexes);
            match found {
                Some(index) => changed.extend(self.subscribe(index, stream).map(|shard| (index, shard))),
                None => later.push(stream),
            }
        }
        if !later.is_empty() {
            self.after(SECOND, 0, Event::Connect { streams: later });
        }
        changed.into_iter().for_each(|(index, shard)| self.poll(index, shard));
    }

    /// Subscribes a stream at a replica, unless it may not see its path. Returns the shard.
    fn subscribe(&mut self, index: usize, id: u32) -> Option<usize> {
        let (rules, stream) = (self.replicas[index].rules, self.streams[index_of(id)]);
        let shard = index_of(stream.shard);
        if stream.replica.is_some() || !self.allows(rules, shard, stream.path, stream.principal) {
            return None;
        }
        let watch = self.watch(index, shard);
        watch.requested += 1;
        watch.is_changed = true;
        watch.pending.push(id);
        watch.paths.entry(stream.path).or_default().push(id);
        let requested = watch.requested;
        let stream = &mut self.streams[index_of(id)];
        (stream.replica, stream.requested) = (Some(short(index)), requested);
        Some(shard)
    }

    fn unsubscribe(&mut self, id: u32) {
        let stream = &mut self.streams[index_of(id)];
        let Some(index) = stream.replica.take() else { return };
        (stream.active_since, stream.untold) = (None, None);
        let (path, shard) = (stream.path, index_of(stream.shard));
        let watch = self.watch(index_of(index), shard);
        watch.pending.retain(|other| *other != id);
        if let Some(streams) = watch.paths.get_mut(&path) {
            streams.retain(|other| *other != id);
            if streams.is_empty() {
                watch.paths.remove(&path);
                watch.is_changed = true;
            }
        }
    }

    /// Some streams come to a replica, for other paths, or go.
    fn churn(&mut self, index: usize) {
        // In the end, subscriptions no longer change.
        if !self.has_faults() {
            return;
        }
        let next = self.milliseconds(500, 20_000);
        self.after(next, index, Event::Churn);
        if !self.replicas[index].is_up {
            return;
        }
        let mut changed = BTreeSet::new();
        for _ in 0..(self.streams.len() / self.replicas.len() / 50).max(1) {
            let id = self.random.usize(..self.streams.len());
            let before = self.streams[id];
            if let Some(other) = before.replica {
                if self.replicas[index_of(other)].stopped_until > self.now {
                    continue;
                }
                self.unsubscribe(short(id));
                changed.insert((index_of(other), index_of(before.shard)));
            }
            if self.random.u32(..4) == 0 {
                continue;
            }
            let (shard, path) = (short(self.random.usize(..self.size.shards)), self.random.u32(..self.size.paths));
            (self.streams[id].shard, self.streams[id].path) = (shard, path);
            changed.extend(self.subscribe(index, short(id)).map(|shard| (index, shard)));
        }
        for (index, shard) in changed {
            if self.trace.is_some() {
                let paths: Vec<_> = self.watch(index, shard).paths.keys().copied().collect();
                self.note(index, || format!("shard {shard} watches {paths:?}"));
            }
            self.poll(index, shard);
        }
    }

    fn change_rules(&mut self) {
        if !self.has_faults() {
            return;
        }
        let mut rules = Vec::clone(&self.rules[self.rules.len() - 1]);
        for _ in 0..(index_of(self.size.paths) / 20).max(1) {
            let (shard, path) = (self.random.usize(..self.size.shards), index_of(self.random.u32(..self.size.paths)));
            rules[shard][path] = self.random.u8(..) | self.random.u8(..);
        }
        self.rules.push(Arc::new(rules));
        for index in 0..self.replicas.len() {
            let (delay, life) = (self.milliseconds(0, 10_000), self.replicas[index].life);
            self.after(delay, index, Event::Reload { life });
        }
        let next = self.milliseconds(5000, 30_000);
        self.after(next, 0, Event::Rules);
    }

    fn load_rules(&mut self, index: usize) {
        let rules = self.rules.len() - 1;
        let before = std::mem::replace(&mut self.replicas[index].rules, rules);
        for shard in 0..self.size.shards {
            let (old, new) = (self.rules[before].clone(), self.rules[rules].clone());
            for (path, (old, new)) in
                old[shard].iter().zip(&new[shard]).enumerate().filter(|(_, (old, new))| old != new)
            {
                let streams = self.watch(index, shard).paths.get(&short(path)).cloned().unwrap_or_default();
                for id in streams {
                    let stream = &mut self.streams[index_of(id)];
                    // A principal that gains access learns of the resource by other means.
                    if (old & new) & (1 << stream.principal) == 0 {
                        stream.untold = None;
                    }
                }
            }
        }
    }

    // What happens in the world.

    fn edit(&mut self) {
        let paths = (index_of(self.size.paths) * self.size.shards / 100).max(1);
        for _ in 0..self.random.usize(1..=paths) {
            let (shard, path) = (self.random.usize(..self.size.shards), self.random.u32(..self.size.paths));
            self.shards[shard].provider.edit(path);
            self.outcome.changes += 1;
            self.note_world(|| format!("edit of p{path} of shard {shard}"));
            let now = micros(self.now);
            for index in 0..self.replicas.len() {
                let rules = self.replicas[index].rules;
                let Some(streams) = self.replicas[index].watches[shard].paths.get(&path) else { continue };
                let mask = self.rules[rules][shard][index_of(path)];
                for id in streams {
                    let stream = &mut self.streams[index_of(*id)];
                    let is_active = stream.active_since.is_some_and(|since| since < now);
                    if is_active && mask & (1 << stream.principal) != 0 {
                        stream.untold.get_or_insert(now);
                    }
                }
            }
            self.after(self.bound, 0, Event::Check { shard: short(shard), path, at: self.now });
        }
        let next = self.milliseconds(50, 3000);
        self.after(next, 0, Event::Edit);
    }

    fn edit_listing(&mut self) {
        let shard = self.random.usize(..self.size.shards);
        self.shards[shard].provider.edit_listing();
        self.outcome.changes += 1;
        self.note_world(|| format!("edit of the listing of shard {shard}"));
        let now = self.now;
        for replica in &mut self.replicas {
            let watch = &mut replica.watches[shard];
            if watch.listing_since.is_some_and(|since| since < now) {
                watch.listing_untold.get_or_insert(now);
            }
        }
        self.after(self.bound, 0, Event::CheckListing { shard: short(shard), at: now });
        let next = self.milliseconds(500, 10_000);
        self.after(next, 0, Event::EditListing);
    }

    fn break_path(&mut self) {
        if !self.has_faults() {
            return;
        }
        let (shard, path) = (self.random.usize(..self.size.shards), self.random.u32(..self.size.paths));
        let mends = self.milliseconds(100, 8_000);
        let at = &mut self.shards[shard];
        if self.random.u32(..4) == 0 {
            at.provider.slow.insert(path);
        } else if !at.provider.bad.insert(path) {
            return self.after(SECOND, 0, Event::Break);
        } else if at.path_hindered[index_of(path)] < self.now {
            at.path_began[index_of(path)] = self.now;
        }
        self.note_world(|| format!("shard {shard} fails for p{path}, or is slow"));
        self.after(mends, 0, Event::Mend { shard: short(shard), path });
        let next = self.milliseconds(500, 15_000);
        self.after(next, 0, Event::Break);
    }

    /// Returns the last time at which something prevented a replica from a notification.
    fn hindered(&self, index: usize, shard: usize, path: Option<u32>) -> Time {
        let at = &self.shards[shard];
        let of_path = path.map_or(Time::ZERO, |path| match at.provider.bad.contains(&path) {
            true => self.now,
            false => at.path_hindered[index_of(path)],
        });
        self.replicas[index].hindered.max(at.hindered).max(of_path)
    }

    /// Checks that an edit was notified to each stream in time, unless something prevented it.
    fn check(&mut self, shard: usize, path: u32, at: Time) {
        for index in 0..self.replicas.len() {
            let Some(streams) = self.replicas[index].watches[shard].paths.get(&path) else { continue };
            let is_late = |id: &&u32| self.streams[index_of(**id)].untold.is_some_and(|untold| untold <= micros(at));
            if let Some(id) = streams.iter().find(is_late)
                && self.hindered(index, shard, Some(path)) < at
            {
                self.outcome.lost += 1;
                self.failure = Some(format!(
                    "r{index} has not told stream {id} of the edit of p{path} of shard {shard} at {at:?}"
                ));
                return;
            }
        }
    }

    fn check_listing(&mut self, shard: usize, at: Time) {
        for index in 0..self.replicas.len() {
            let untold = self.replicas[index].watches[shard].listing_untold;
            if untold.is_some_and(|untold| untold <= at) && self.hindered(index, shard, None) < at {
                self.outcome.lost += 1;
                self.failure = Some(format!("r{index} has not told the listing of shard {shard} of {at:?}"));
                return;
            }
        }
    }

    /// Checks all streams at the end: nothing is hindered any more.
    fn check_all(&mut self) {
        let latest = self.end - self.bound;
        for (id, stream) in self.streams.iter().enumerate() {
            let (Some(index), Some(untold)) = (stream.replica, stream.untold) else { continue };
            let hindered = self.hindered(index_of(index), index_of(stream.shard), Some(stream.path));
            if untold <= micros(latest) && hindered <= latest {
                self.outcome.lost += 1;
                let (path, shard) = (stream.path, stream.shard);
                self.failure =
                    Some(format!("r{index} never told stream {id} of p{path} of shard {shard}, since {untold} µs"));
            }
        }
        for index in 0..self.replicas.len() {
            for shard in 0..self.size.shards {
                let untold = self.replicas[index].watches[shard].listing_untold;
                if untold.is_some_and(|untold| untold <= latest) && self.hindered(index, shard, None) <= latest {
                    self.outcome.lost += 1;
                    self.failure = Some(format!("r{index} never told the listing of shard {shard}"));
                }
            }
        }
    }

    fn fault(&mut self) {
        if !self.has_faults() {
            return;
        }
        let next = match self.weather {
            Weather::Storm => self.milliseconds(500, 15_000),
            _ => self.milliseconds(20_000, 30_000),
        };
        self.after(next, 0, Event::Fault);
        let victims = if self.weather == Weather::Storm { (self.replicas.len() / 50).max(1) } else { 1 };
        for _ in 0..victims {
            // Usually a holder, which matters most.
            let shard = self.random.usize(..self.size.shards);
            let holder = self.shards[shard].holders.first().copied().filter(|_| self.random.u32(..3) > 0);
            let index = holder.unwrap_or_else(|| self.random.usize(..self.replicas.len()));
            let kind = if self.weather == Weather::Crashes { 0 } else { self.random.u32(..9) };
            self.fail(index, shard, kind);
        }
    }

    fn fail(&mut self, index: usize, shard: usize, kind: u32) {
        match kind {
            0 | 1 if self.may_crash() => self.crash(index),
            2 | 3 => self.stop(index),
            4 | 5 => {
                self.note(index, || "is cut off".to_owned());
                self.disconnect(index);
                let back = self.milliseconds(100, 20_000);
                self.at((self.now + back).min(self.faults_end + RECOVERY), index, Event::Reconnect);
            }
            6 => {
                self.note_world(|| "the server ends".to_owned());
                self.is_server_up = false;
                (0..self.replicas.len()).for_each(|index| self.disconnect(index));
                if self.random.bool() {
                    self.server = ModelServer::default();
                }
                let back = self.milliseconds(100, 20_000);
                self.at((self.now + back).min(self.faults_end + RECOVERY), 0, Event::ServerBack);
            }
            7 => self.overwrite(shard),
            8 => {
                let until = self.now + self.milliseconds(100, 5000);
                self.note_world(|| format!("shard {shard} fails for everything until {until:?}"));
                self.shards[shard].provider.down_until = until;
            }
            _ => {}
        }
    }

    /// Pauses a process, or the machine with its clock.
    fn stop(&mut self, index: usize) {
        let until = (self.now + self.milliseconds(100, 25_000)).min(self.faults_end + RECOVERY);
        if until <= self.replicas[index].stopped_until {
            return;
        }
        self.note(index, || format!("is stopped until {until:?}"));
        if self.random.bool() {
            // The clock of a machine that is suspended stands still. It does not go back.
            let (offset, speed) = self.replicas[index].clock;
            let lost = (until - self.now) * speed / 1000;
            self.replicas[index].clock.0 = offset.checked_sub(lost).unwrap_or(offset);
        }
        let replica = &mut self.replicas[index];
        (replica.stopped_until, replica.hindered) = (until, until);
        // Its leases, and those that it is about to take, are not used meanwhile.
        for (shard, watch) in self.shards.iter_mut().zip(&replica.watches) {
            let is_holding = watch.member.as_ref().is_some_and(|member| member.role() == RoleName::Holding);
            if is_holding || watch.is_requesting {
                shard.hindered = shard.hindered.max(until);
            }
        }
        self.at(until, index, Event::Resume);
    }

    /// Another program overwrites a record, once.
    fn overwrite(&mut self, shard: usize) {
        let key = self.shards[shard].key.clone();
        let Some(Entry { revision, value }) = self.server.get(&key) else { return };
        let Ok(mut record) = serde_json::from_slice::<Record>(&value) else { return };
        let number = [u64::MAX, u64::MAX - 1, MAX_NUMBER][self.random.usize(..3)];
        record.holder = record.holder.filter(|_| self.random.bool());
        match self.random.u32(..5) {
            0 => record.round.seq = number,
            1 => record.epoch = number,
            2 => record.covers.values_mut().for_each(|version| *version = number),
            3 => (record.round.seq, record.epoch, record.renewals) = (number, number, number),
            _ => {}
        }
        let is_record = is_planted(Bug::NumbersNotBounded) || self.random.u32(..5) > 0;
        let bytes = if is_record { serde_json::to_vec(&record).unwrap() } else { b"{}".to_vec() };
        self.note_world(|| format!("the record of shard {shard} is overwritten: {}", String::from_utf8_lossy(&bytes)));
        self.server.write(&key, &bytes, Some(revision)).unwrap();
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
            key: name(shard).key().to_owned(),
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

/// Returns the name of a shard, as replicas compute it.
fn name(shard: usize) -> ShardName {
    ShardName::new("simulated", [b"plugin".as_slice()], short(shard))
}
