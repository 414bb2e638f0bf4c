//! Worlds of one plugin, whose watched paths become many and few again, so that the number of its shards changes.
//!
//! Replicas run [`Division`], and a [`Member`] and [`Polls`] for each shard, in the order in which the watch of plugins uses them. A shard
//! has at most [`MAX_PATHS`] paths here. Messages and requests take time and may be lost, replicas crash and are cut off, the bucket is
//! lost, and the provider fails for paths. Polls take no time: [`world`](super::world) has slow polls, pauses, clocks and rules, and shards
//! that do not change.
//!
//! The checked promise: each replica notifies each edit of a path that it watches in time, unless the provider failed for the path. At the
//! end nothing may be missing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mcp_host_model::uri::{Path, Uri};

use super::calls::{Done, Effect, MOUNT, RunningPoll, SimulatedPolls, Step, moment, number};
use super::provider::Provider;
use super::world::Weather;
use super::{Bug, plant, plant_max_paths, seeds};
use crate::division::{Divided, Division};
use crate::engine::model::ModelServer;
use crate::engine::{EngineError, Entry};
use crate::member::{Member, Output, OwnPolled, Plan, Revision, RoleName, Stored, Time, WriteFailure};
use crate::message::Message;
use crate::poll::Polls;
use crate::record::Record;
use crate::replica::ReplicaId;
use crate::share::ShardName;

const LEASE: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
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

enum Sent {
    Message(Vec<u8>),
    Read { request: u64 },
    Write { request: u64, expected: Option<Revision>, bytes: Vec<u8> },
}

enum Answer {
    Read(Result<Option<Entry>, ()>),
    Written(Result<Revision, WriteFailure>),
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
    connection: Option<u64>,
    /// The arrival of its last message, and of the last message for it.
    uplink: Time,
    downlink: Time,
    /// The number of shards of its last poll.
    count: u32,
}

struct Shard {
    member: Member,
    polls: Option<SimulatedPolls>,
    is_failing: bool,
    /// The new paths that its last poll has not served.
    unserved: BTreeSet<u32>,
    request: u64,
    is_requesting: bool,
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
    /// Events by their time and number, each with its replica and the number of its process.
    queue: BTreeMap<(Time, u64), (usize, u64, Event)>,
    next: u64,
    replicas: Vec<Replica>,
    server: ModelServer,
    is_server_up: bool,
    is_lossy: bool,
    connections: u64,
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

fn index_of(number: u32) -> usize {
    usize::try_from(number).unwrap()
}

fn name(shard: u32) -> ShardName {
    ShardName::new("simulated", [b"plugin".as_slice()], shard)
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
        let mut world = Self {
            weather,
            now: Time::ZERO,
            queue: BTreeMap::new(),
            next: 0,
            replicas: Vec::new(),
            server: ModelServer::default(),
            is_server_up: true,
            is_lossy: is_storm && random.bool(),
            connections: 0,
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
        while let Some(((at, _), (index, life, event))) = self.queue.pop_first() {
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
            Event::Arrives { shard, connection, sent }
                if self.is_server_up && replica.connection == Some(connection) =>
            {
                self.arrives(index, shard, sent);
            }
            Event::Delivered { shard, connection, message } if replica.connection == Some(connection) => {
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
                self.is_server_up = true;
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
        self.queue.insert((at, self.next), (index, life, event));
        self.next += 1;
    }

    fn note(&mut self, index: usize, text: impl FnOnce() -> String) {
        if self.is_traced {
            self.outcome.trace.push(format!("{:>9.3} r{index} {}", self.now.as_secs_f64(), text()));
        }
    }

    fn has_faults(&self) -> bool {
        self.now < self.faults_end
    }

    /// Polls each shard, in the order in which the watch of plugins does.
    fn poll(&mut self, index: usize) {
        let (now, located) = (self.now, &self.located);
        let replica = &mut self.replicas[index];
        let (life, requested) = (replica.life, replica.requested);
        if replica.streams.is_empty() {
            let shards: Vec<_> = replica.shards.keys().copied().collect();
            replica.division.clear();
            replica.shards.values_mut().for_each(Shard::forget);
            return shards.into_iter().for_each(|shard| self.with_member(index, shard, Member::leave));
        }
        (replica.is_polling, replica.polls_again) = (true, false);
        let watched: Vec<_> = replica.streams.keys().map(|path| located[index_of(*path)].clone()).collect();
        let count = replica.shards.get(&0).map_or(1, |first| first.member.shards());
        let held = replica.shards.values().filter(|shard| shard.member.role() == RoleName::Holding).count();
        let Divided { shards, need, needs_poll } = replica.division.divide(watched, count, requested);
        if needs_poll {
            (replica.requested, replica.polls_again) = (requested + 1, true);
        }
        let count = count.max(need);
        self.outcome.fewer += u64::from(count < std::mem::replace(&mut replica.count, count));
        self.outcome.most_shards = self.outcome.most_shards.max(count);
        let has_part = |shard: u32| shard == 0 || shards.get(index_of(shard)).is_some_and(|paths| !paths.is_empty());
        let left: Vec<_> = replica.shards.keys().copied().filter(|shard| !has_part(*shard)).collect();
        for shard in left {
            // What the replica writes may be the moment at which it is killed.
            if !self.replicas[index].is_up || self.replicas[index].life != life {
                return;
            }
            self.replicas[index].shards.get_mut(&shard).unwrap().forget();
            self.with_member(index, shard, Member::leave);
        }
        for (shard, watched) in (0_u32..).zip(shards).filter(|(shard, paths)| *shard == 0 || !paths.is_empty()) {
            if !self.replicas[index].is_up || self.replicas[index].life != life {
                return;
            }
            let (id, seed) = (self.replicas[index].id, self.random.u64(..));
            self.replicas[index].shards.entry(shard).or_insert_with(|| Shard::new(id, seed));
            let paths: BTreeSet<Arc<str>> = watched.iter().map(|(_, path)| path.as_str().into()).collect();
            self.note(index, || format!("shard {shard} watches {paths:?}"));
            let mut plan = Plan::Nothing;
            self.with_member(index, shard, |member, now| {
                member.set_division(need, held);
                member.watch(now, paths, requested);
                plan = member.begin_poll(now);
            });
            if self.replicas[index].is_up && self.replicas[index].life == life {
                self.poll_shard(index, shard, watched, requested, plan, now);
            }
        }
        let replica = &mut self.replicas[index];
        if !replica.is_up || replica.life != life {
            return;
        }
        replica.is_polling = false;
        let pause = if replica.polls_again { 10 * MILLISECOND } else { SECOND };
        self.activate(index);
        self.schedule_poll(index, pause);
    }

    fn poll_shard(
        &mut self,
        index: usize,
        shard: u32,
        watched: Vec<(Uri, Path)>,
        requested: u64,
        plan: Plan,
        now: Time,
    ) {
        self.note(index, || format!("shard {shard} plans {plan:?}"));
        let of_shard = self.replicas[index].shards.get_mut(&shard).unwrap();
        match plan {
            Plan::Nothing => of_shard.is_failing = false,
            Plan::Own { tokens, tell_all, handover } => {
                let relied = of_shard.member.relies_on_rounds();
                let mut polls = of_shard.polls.take().unwrap();
                polls.begin_own(moment(now), tokens, tell_all, handover);
                let running = RunningPoll::own(polls, watched, of_shard.is_failing);
                let (polls, done) = self.finish(index, running);
                let Done::Own(unserved) = done else { panic!("it is a poll of own paths") };
                let unanswered = polls.unanswered_since(moment(now));
                let polled = if unserved.is_some() { polls.own_polled() } else { OwnPolled::Failed };
                let replica = &mut self.replicas[index];
                let of_shard = replica.shards.get_mut(&shard).unwrap();
                (of_shard.polls, of_shard.is_failing) = (Some(polls), unserved.is_none());
                if let Some(unserved) = unserved {
                    of_shard.unserved = unserved;
                    replica.polls_again |= replica.division.polled(shard, requested, &unanswered, !relied);
                }
                self.with_member(index, shard, |member, now| member.own_polled(now, polled));
            }
            Plan::Shared(poll) => {
                let polls = of_shard.polls.take().unwrap();
                let running = RunningPoll::shared(polls, poll);
                let (polls, done) = self.finish(index, running);
                let Done::Shared(found, is_ok) = done else { panic!("it is a poll for all") };
                let of_shard = self.replicas[index].shards.get_mut(&shard).unwrap();
                (of_shard.polls, of_shard.is_failing) = (Some(polls), !is_ok);
                self.outcome.shared_polls += u64::from(shard > 0);
                self.note(index, || format!("shard {shard} found {found:?}"));
                self.with_member(index, shard, |member, now| member.shared_polled(now, found, is_ok));
            }
        }
    }

    /// Runs a poll to its end.
    fn finish(&mut self, index: usize, mut poll: RunningPoll) -> (SimulatedPolls, Done) {
        let mut answer = None;
        loop {
            let (effects, step) = poll.resume(self.now, answer.take());
            for effect in effects {
                match effect {
                    Effect::Told(paths) => paths.into_iter().for_each(|path| self.tell(index, path)),
                    Effect::Everything => (0..PATHS).for_each(|path| self.tell(index, path)),
                    Effect::Listing => {}
                }
            }
            match step {
                Step::Calls(call) => {
                    answer = Some(self.provider.changes(self.now, &call.paths, call.token.as_deref()));
                }
                Step::Ends(polls, done) => return (polls, done),
            }
        }
    }

    fn tell(&mut self, index: usize, path: u32) {
        if let Some(stream) = self.replicas[index].streams.get_mut(&path) {
            stream.untold = None;
            self.note(index, || format!("notifies p{path}"));
        }
    }

    /// Activates the subscriptions that the polls of all shards have served.
    fn activate(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let completed = replica.division.completed();
        for (path, stream) in &mut replica.streams {
            let is_unserved = || replica.shards.values().any(|shard| shard.unserved.contains(path));
            if stream.active_since.is_none() && stream.requested <= completed && !is_unserved() {
                stream.active_since = Some(self.now);
            }
        }
    }

    /// Begins a poll soon.
    fn wake(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if replica.is_polling {
            replica.polls_again = true;
        } else {
            self.schedule_poll(index, MILLISECOND);
        }
    }

    fn schedule_poll(&mut self, index: usize, pause: Duration) {
        let replica = &mut self.replicas[index];
        replica.begun += 1;
        let begun = replica.begun;
        self.after(pause, index, Event::Poll { begun });
    }

    /// Calls a member, and performs its outputs.
    fn with_member(&mut self, index: usize, shard: u32, call: impl FnOnce(&mut Member, Time)) {
        let now = self.now;
        let Some(of_shard) = self.replicas[index].shards.get_mut(&shard) else { return };
        call(&mut of_shard.member, now);
        loop {
            let Some(of_shard) = self.replicas[index].shards.get_mut(&shard) else { return };
            let Some(output) = of_shard.member.next_output() else { break };
            // A process may end between any two actions.
            if self.may_crash() && self.random.u32(..3000) == 0 {
                return self.crash(index);
            }
            match output {
                Output::Publish(message) => {
                    self.note(index, || format!("shard {shard} says {message:?}"));
                    self.send(index, shard, Sent::Message(message.encode().unwrap()));
                }
                Output::Read => {
                    let request = self.request(index, shard);
                    self.send(index, shard, Sent::Read { request });
                    self.after(LEASE / 5, index, Event::Answered { shard, request, answer: Answer::Read(Err(())) });
                }
                Output::Write { expected, record } => {
                    let (request, bytes) = (self.request(index, shard), record.encode().unwrap());
                    self.send(index, shard, Sent::Write { request, expected, bytes });
                    let answer = Answer::Written(Err(WriteFailure::Unknown));
                    self.after(LEASE / 5, index, Event::Answered { shard, request, answer });
                }
                Output::Changed { changed, .. } => changed.iter().for_each(|path| self.tell(index, number(path))),
                Output::Completed { requested, relied } => {
                    let replica = &mut self.replicas[index];
                    replica.shards.get_mut(&shard).unwrap().unserved.clear();
                    replica.division.served(shard, requested);
                    let goes_on = relied && replica.division.polled(shard, requested, &HashSet::new(), true);
                    self.activate(index);
                    if goes_on {
                        self.wake(index);
                    }
                }
                Output::Wake => self.wake(index),
            }
        }
        let Some(of_shard) = self.replicas[index].shards.get_mut(&shard) else { return };
        let deadline = of_shard.member.deadline().map(|deadline| deadline.max(now + MILLISECOND));
        if let Some(at) = deadline
            && of_shard.wake_at != Some(at)
        {
            of_shard.wake_at = Some(at);
            self.at(at, index, Event::Wake { shard, at });
        }
    }

    fn request(&mut self, index: usize, shard: u32) -> u64 {
        let of_shard = self.replicas[index].shards.get_mut(&shard).unwrap();
        of_shard.request += 1;
        of_shard.is_requesting = true;
        of_shard.request
    }

    fn answered(&mut self, index: usize, shard: u32, request: u64, answer: Answer) {
        let of_shard = self.replicas[index].shards.get_mut(&shard).unwrap();
        if of_shard.request != request || !std::mem::take(&mut of_shard.is_requesting) {
            return;
        }
        let stored = |entry: Option<Entry>| match entry {
            None => Stored::Nothing,
            Some(Entry { revision, value }) => Stored::Record(revision, Box::new(Record::decode(&value).unwrap())),
        };
        self.with_member(index, shard, |member, now| match answer {
            Answer::Read(result) => member.read(now, result.map(stored)),
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

    fn send(&mut self, index: usize, shard: u32, sent: Sent) {
        let delay = self.delay();
        let Some(connection) = self.replicas[index].connection else { return };
        let at = (self.now + delay).max(self.replicas[index].uplink);
        self.replicas[index].uplink = at;
        self.at(at, index, Event::Arrives { shard, connection, sent });
    }

    fn arrives(&mut self, index: usize, shard: u32, sent: Sent) {
        let key = name(shard).key().to_owned();
        let answered = match sent {
            Sent::Message(bytes) => {
                let message = Arc::new(Message::decode(&bytes).unwrap());
                for to in 0..self.replicas.len() {
                    if let Some(connection) = self.replicas[to].connection.filter(|_| !self.is_lost()) {
                        self.reply(to, Event::Delivered { shard, connection, message: message.clone() });
                    }
                }
                return;
            }
            Sent::Read { request } => {
                Event::Answered { shard, request, answer: Answer::Read(Ok(self.server.get(&key))) }
            }
            Sent::Write { request, expected, bytes } => {
                let written = self.server.write(&key, &bytes, expected).map_err(|error| match error {
                    EngineError::Conflict => WriteFailure::Conflict,
                    _ => WriteFailure::Unknown,
                });
                Event::Answered { shard, request, answer: Answer::Written(written) }
            }
        };
        if !self.is_lost() {
            self.reply(index, answered);
        }
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
            replica.connection = Some(self.connections);
        }
    }

    /// A replica watches more paths, or fewer.
    fn churn(&mut self, index: usize) {
        // In the end, subscriptions no longer change.
        if !self.has_faults() {
            return;
        }
        let next = self.milliseconds(500, 6000);
        self.after(next, index, Event::Churn);
        if !self.replicas[index].is_up {
            return;
        }
        let has_many = (self.now.as_secs() / PHASE.as_secs()).is_multiple_of(2);
        let target = if has_many { self.random.usize(3..=30) } else { self.random.usize(0..=3) };
        for _ in 0..self.random.usize(1..=20) {
            let path = self.random.u32(..PATHS);
            let replica = &mut self.replicas[index];
            match replica.streams.len() {
                count if count < target => {
                    replica.requested += 1;
                    let requested = replica.requested;
                    let stream = || Stream { requested, active_since: None, untold: None };
                    replica.streams.entry(path).or_insert_with(stream);
                }
                _ => drop(replica.streams.remove(&path)),
            }
        }
        self.wake(index);
    }

    fn edit(&mut self) {
        if !self.has_faults() {
            return;
        }
        let (path, now) = (self.random.u32(..PATHS), self.now);
        self.provider.edit(path);
        self.note(0, || format!("edit of p{path}"));
        for replica in &mut self.replicas {
            if let Some(stream) = replica.streams.get_mut(&path)
                && stream.active_since.is_some_and(|since| since < now)
            {
                stream.untold.get_or_insert(now);
            }
        }
        self.after(BOUND, 0, Event::Check { path, at: now });
        let next = self.milliseconds(20, 1000);
        self.after(next, 0, Event::Edit);
    }

    /// Checks that an edit was notified to each replica in time, unless the provider failed for the path.
    fn check(&mut self, path: u32, at: Time) {
        let is_holding = |shard: &Shard| shard.member.role() == RoleName::Holding;
        let holders = self.replicas.iter().filter(|replica| replica.shards.values().any(is_holding)).count();
        self.outcome.most_holders = self.outcome.most_holders.max(holders);
        let is_bad = self.provider.bad.contains(&path);
        if is_bad || self.hindered[index_of(path)] >= at {
            return;
        }
        for (index, replica) in self.replicas.iter().enumerate() {
            let untold = replica.streams.get(&path).and_then(|stream| stream.untold);
            if untold.is_some_and(|untold| untold <= at) {
                let failure = format!("at {:?} r{index} has not notified the edit of p{path} at {untold:?}", self.now);
                self.outcome.failure.get_or_insert(failure);
            }
        }
    }

    fn break_path(&mut self) {
        if !self.has_faults() {
            return;
        }
        let (path, mends) = (self.random.u32(..PATHS), self.milliseconds(100, 8000));
        if self.provider.bad.insert(path) {
            if self.hindered[index_of(path)] < self.now {
                self.failing_since[index_of(path)] = self.now;
            }
            self.note(0, || format!("the provider fails for p{path}"));
            self.after(mends, 0, Event::Mend { path });
        }
        let next = self.milliseconds(300, 3000);
        self.after(next, 0, Event::Break);
    }

    fn mend(&mut self, path: u32) {
        self.note(0, || format!("the provider is good again for p{path}"));
        self.provider.bad.remove(&path);
        // The back-off of a group is at most as long as it has failed.
        let failed = self.now - self.failing_since[index_of(path)];
        self.hindered[index_of(path)] = self.now + failed * 13 / 10 + 4 * SECOND;
    }

    fn fault(&mut self) {
        if !self.has_faults() {
            return;
        }
        let next = self.milliseconds(3000, 20_000);
        self.after(next, 0, Event::Fault);
        let index = self.random.usize(..self.replicas.len());
        let back = self.milliseconds(100, 15_000);
        match self.random.u32(..4) {
            _ if self.weather == Weather::Crashes && self.may_crash() => self.crash(index),
            _ if self.weather == Weather::Crashes => {}
            0 if self.may_crash() => self.crash(index),
            1 => {
                self.note(index, || "the server ends".to_owned());
                self.is_server_up = false;
                self.replicas.iter_mut().for_each(|replica| replica.connection = None);
                if self.random.bool() {
                    self.server = ModelServer::default();
                }
                self.after(back, 0, Event::ServerBack);
            }
            _ => {
                self.note(index, || "is cut off".to_owned());
                self.replicas[index].connection = None;
                self.after(back, index, Event::Reconnect);
            }
        }
    }

    fn may_crash(&self) -> bool {
        matches!(self.weather, Weather::Crashes | Weather::Storm)
            && self.has_faults()
            && self.now >= self.last_crash + 5 * SECOND
            && self.replicas.iter().all(|replica| replica.is_up)
    }

    fn crash(&mut self, index: usize) {
        self.note(index, || "crashes".to_owned());
        self.last_crash = self.now;
        let replica = &mut self.replicas[index];
        *replica =
            Replica { life: replica.life + 1, uplink: replica.uplink, downlink: replica.downlink, ..Replica::new() };
        let back = self.milliseconds(500, 10_000);
        self.after(back, index, Event::Restart);
    }

    fn restart(&mut self, index: usize) {
        let id = ReplicaId::new(self.random.u128(..));
        let replica = &mut self.replicas[index];
        (replica.is_up, replica.id) = (true, id);
        self.connect(index);
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
            connection: None,
            uplink: Time::ZERO,
            downlink: Time::ZERO,
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
            request: 0,
            is_requesting: false,
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
fn each_bug_that_is_planted_in_the_division_is_found() {
    for (bug, weather) in [
        (Bug::InNoShard, Weather::Calm),
        (Bug::MovedAtOnce, Weather::Calm),
        (Bug::MovedBeforeLastPoll, Weather::Calm),
        (Bug::UnansweredHasMoved, Weather::BadPaths),
        (Bug::RelianceIgnored, Weather::Storm),
    ] {
        let found = (0..3000).find_map(|seed| Some((seed, run(seed, weather, Some(bug), false).failure?)));
        let (seed, failure) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?} is found with seed {seed}: {failure}");
    }
}

#[test]
fn a_seed_is_one_world_of_shards() {
    for weather in [Weather::BadPaths, Weather::Storm] {
        assert_eq!(run(1, weather, None, true).trace, run(1, weather, None, true).trace);
    }
}
