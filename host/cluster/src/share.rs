//! The polls of one plugin shard, shared over an engine: a [`Member`] with a task that performs its outputs.
//!
//! The poller of the provider calls [`SharedPolls`] between polls, and never waits for the engine. Events in the
//! meantime are collected as [`News`], in which equal paths are one entry. So [`MAX_PATHS`] bounds the memory,
//! however fast other replicas publish changes; beyond it, everything counts as changed.
//!
//! Invalid messages and records from the engine are counted and ignored. [`MAX_PATHS`] and [`MAX_NEWS_BYTES`]
//! bound the state that is kept from messages. An invalid record in the bucket is replaced in time (see
//! [`member`](crate::member)), with a warning that names its key. Anyone who can publish can write invalid
//! records again and again, so there is at most one such warning per [`LOG_INTERVAL`], and it has
//! [`MAX_REASON`] bytes of the reason, which may quote the record.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_host_base::task;
use mcp_host_base::text::prefix;
use mcp_host_base::throttle::Throttle;
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::bounded_json::DecodeBudget;
use crate::division::MAX_PATHS;
use crate::engine::{Engine, EngineError};
use crate::member::{
    Found, Member, MemberStats, Output, OwnPolled, Plan, Revision, RoleName, Stored, Time, WriteFailure, part,
};
use crate::message::Message;
use crate::record::Record;
use crate::replica::ReplicaId;
#[cfg(test)]
use crate::simulation::{Bug, is_planted};

/// The maximum size of paths that wait for notification, in bytes.
pub const MAX_NEWS_BYTES: usize = 16 * 1024 * 1024;
/// The pause after the engine has rejected a subscription.
const RETRY: Duration = Duration::from_secs(1);
/// The maximum time in which a replica announces that it leaves.
const FAREWELL: Duration = Duration::from_secs(1);
/// The minimum time between two warnings that the record is invalid.
const LOG_INTERVAL: Duration = Duration::from_mins(1);
/// The maximum size of the reason in such a warning, in bytes.
const MAX_REASON: usize = 200;

/// The identity of a plugin shard: all replicas with the same identity share their polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardName(String);

impl ShardName {
    /// The shard of a plugin in the cluster with this name. `parts` is everything that determines the answers of
    /// the provider: the digest of the component, its config, its mount.
    pub fn new<'a>(cluster: &str, parts: impl IntoIterator<Item = &'a [u8]>, shard: u32) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            // With lengths, so that different lists of parts have different hashes.
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(part);
        }
        let digest = hasher.finalize();
        let hexadecimal: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        #[cfg(test)]
        let shard = if is_planted(Bug::ShardNotNamed) { 0 } else { shard };
        Self(format!("{cluster}.{hexadecimal}.{shard}"))
    }

    /// Returns the name of another shard of the same plugin.
    pub(crate) fn sibling(&self, shard: u32) -> Self {
        Self(format!("{}.{shard}", self.plugin()))
    }

    /// Returns the part of the name that all shards of the plugin have in common.
    pub(crate) fn plugin(&self) -> &str {
        self.0.rsplit_once('.').map_or(self.0.as_str(), |(plugin, _)| plugin)
    }

    /// The subject of its messages.
    pub fn subject(&self) -> String {
        format!("mcp-host.1.{}", self.0)
    }

    /// The key of its record.
    pub fn key(&self) -> &str {
        &self.0
    }
}

/// The events since the last check.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Paths that have changed, wanted by this replica or by others.
    pub changed: BTreeSet<Arc<str>>,
    /// The size of these paths.
    bytes: usize,
    /// Whether everything counts as changed.
    pub all_changed: bool,
    /// Whether the listing may have changed.
    pub listing: bool,
    /// The number up to which all requests were served.
    pub completed: Option<u64>,
    /// The number up to which they were served by rounds that this replica [relies](Member::relies_on_rounds) on.
    pub relied: Option<u64>,
    /// Whether there may be something to poll.
    pub wake: bool,
}

impl News {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, changed: Vec<Arc<str>>, listing: bool) {
        self.listing |= listing;
        for path in changed {
            let length = path.len();
            if self.changed.insert(path) {
                self.bytes = self.bytes.saturating_add(length);
            }
        }
        if self.changed.len() > MAX_PATHS || self.bytes > MAX_NEWS_BYTES {
            self.changed.clear();
            (self.all_changed, self.bytes) = (true, 0);
        }
    }
}

/// The counters of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareStats {
    /// The counters of the state machine.
    pub member: MemberStats,
    /// The number of invalid messages and records.
    pub invalid: u64,
    /// The number of failed requests to the engine.
    pub failed: u64,
}

/// The polls of one shard, shared with other replicas while this value exists.
#[derive(Debug)]
pub struct SharedPolls {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    start: Instant,
    member: Mutex<Member>,
    news: Mutex<News>,
    /// Notified when there are news, of this shard or of another one of the plugin.
    has_news: Arc<Notify>,
    /// Notified when the member has something to do.
    has_outputs: Notify,
    closing: Notify,
    invalid: AtomicU64,
    failed: AtomicU64,
    invalid_log: Throttle,
}

impl State {
    fn member(&self) -> MutexGuard<'_, Member> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        self.start.elapsed()
    }

    /// Calls the member, and makes the task perform its outputs.
    fn with_member<T>(&self, call: impl FnOnce(&mut Member, Time) -> T) -> T {
        let result = call(&mut self.member(), self.now());
        self.has_outputs.notify_one();
        result
    }

    fn tell(&self, change: impl FnOnce(&mut News)) {
        let mut news = self.news();
        change(&mut news);
        if !news.is_empty() {
            self.has_news.notify_one();
        }
    }
}

impl SharedPolls {
    /// Starts sharing. The task runs on the current runtime until this value is dropped.
    pub fn start<E: Engine>(engine: E, me: ReplicaId, shard: ShardName, lease: Duration) -> Self {
        Self::start_with(engine, me, shard, lease, Arc::default())
    }

    /// Starts sharing as [`start`](Self::start) does. There is a notification when there are news.
    pub(crate) fn start_with<E: Engine>(
        engine: E,
        me: ReplicaId,
        shard: ShardName,
        lease: Duration,
        has_news: Arc<Notify>,
    ) -> Self {
        let state = Arc::new(State {
            start: Instant::now(),
            member: Mutex::new(Member::new(me, lease, fastrand::u64(..))),
            news: Mutex::default(),
            has_news,
            has_outputs: Notify::new(),
            closing: Notify::new(),
            invalid: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            invalid_log: Throttle::new(LOG_INTERVAL),
        });
        let task = Task { engine, shard, lease, state: state.clone(), request: None };
        task::spawn(task.run());
        Self { state }
    }

    /// Returns the number of shards of the plugin: see [`Member::shards`].
    pub(crate) fn shards(&self) -> u32 {
        self.state.member().shards()
    }

    /// Sets how the plugin is divided here: see [`Member::set_division`].
    pub(crate) fn set_division(&self, need: u32, held: usize) {
        self.state.member().set_division(need, held);
    }

    /// Returns whether this replica relies on rounds: see [`Member::relies_on_rounds`].
    pub fn relies_on_rounds(&self) -> bool {
        self.state.member().relies_on_rounds()
    }

    /// Returns whether there are news.
    pub(crate) fn has_news(&self) -> bool {
        !self.state.news().is_empty()
    }

    /// Sets the paths that are watched here, and the number of requested polls so far.
    pub fn watch(&self, paths: BTreeSet<Arc<str>>, requested: u64) {
        self.state.with_member(|member, now| member.watch(now, paths, requested));
    }

    /// Ends watching here.
    pub fn leave(&self) {
        self.state.with_member(Member::leave);
        *self.state.news() = News::default();
    }

    /// Begins a poll: see [`Member::begin_poll`].
    pub fn begin_poll(&self) -> Plan {
        self.state.with_member(Member::begin_poll)
    }

    /// Handles the end of a poll of this replica's own paths.
    pub fn own_polled(&self, polled: OwnPolled) {
        self.state.with_member(|member, now| member.own_polled(now, polled));
    }

    /// Handles the end of a poll for all replicas: see [`Member::shared_polled`].
    pub fn shared_polled(&self, found: Found, is_complete: bool) {
        self.state.with_member(|member, now| member.shared_polled(now, found, is_complete));
    }

    /// Waits until there are news. Cancel-safe.
    pub async fn wait_for_news(&self) {
        while self.state.news().is_empty() {
            self.state.has_news.notified().await;
        }
    }

    /// Takes the news.
    pub fn take_news(&self) -> News {
        std::mem::take(&mut *self.state.news())
    }

    /// The role of this replica.
    pub fn role(&self) -> RoleName {
        self.state.member().role()
    }

    /// Returns the counters.
    pub fn stats(&self) -> ShareStats {
        let [invalid, failed] = [&self.state.invalid, &self.state.failed].map(|count| count.load(Ordering::Relaxed));
        ShareStats { member: self.state.member().stats(), invalid, failed }
    }
}

impl Drop for SharedPolls {
    fn drop(&mut self) {
        self.state.closing.notify_one();
    }
}

/// The result of a request to the bucket.
enum Answer {
    Read(Result<Stored, ()>),
    Written(Result<Revision, WriteFailure>),
}

struct Task<E> {
    engine: E,
    shard: ShardName,
    lease: Duration,
    state: Arc<State>,
    /// The request under way. The member makes one at a time.
    request: Option<tokio::task::JoinHandle<Answer>>,
}

impl<E: Engine> Task<E> {
    async fn run(mut self) {
        let subject = self.shard.subject();
        let state = self.state.clone();
        loop {
            let subscribed = tokio::select! {
                subscribed = self.engine.subscribe(&subject) => subscribed,
                () = state.closing.notified() => return,
            };
            let ended = match subscribed {
                Ok(messages) => self.run_with(messages).await,
                Err(error) => {
                    self.failed(&error);
                    tokio::select! {
                        () = sleep(RETRY) => Ended::Subscription,
                        () = state.closing.notified() => Ended::Closing,
                    }
                }
            };
            if matches!(ended, Ended::Closing) {
                state.member().leave(state.now());
                let _ = timeout(FAREWELL, self.say_farewell()).await;
                return;
            }
        }
    }

    /// Announces that it leaves, and gives the lease back.
    async fn say_farewell(&mut self) {
        loop {
            self.do_outputs().await;
            let Some(request) = &mut self.request else { return };
            let answer = request.await;
            self.answered(answer);
        }
    }

    async fn run_with(&mut self, mut messages: mpsc::Receiver<Vec<u8>>) -> Ended {
        let state = self.state.clone();
        let mut budget = DecodeBudget::default();
        loop {
            self.do_outputs().await;
            let deadline = state.member().deadline();
            let wake = async {
                match deadline.and_then(|deadline| state.start.checked_add(deadline)) {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let answer = async {
                match &mut self.request {
                    Some(request) => request.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                message = messages.recv() => match message {
                    Some(bytes) => {
                        self.receive(&bytes);
                        budget.spend(bytes.len()).await;
                    }
                    None => return Ended::Subscription,
                },
                answer = answer => self.answered(answer),
                () = wake => state.member().wake(state.now()),
                () = state.has_outputs.notified() => {}
                () = state.closing.notified() => return Ended::Closing,
            }
        }
    }

    fn receive(&self, bytes: &[u8]) {
        match Message::decode(bytes) {
            Ok(message) => self.state.member().receive(self.state.now(), &message),
            Err(error) => {
                self.state.invalid.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(target: "mcp_host", subject = self.shard.subject(), "a message of the cluster is ignored: {error}");
            }
        }
    }

    fn answered(&mut self, answer: Result<Answer, tokio::task::JoinError>) {
        let was_write = self.request.take().is_some();
        let (mut member, now) = (self.state.member(), self.state.now());
        match answer {
            Ok(Answer::Read(result)) => member.read(now, result),
            Ok(Answer::Written(result)) => member.written(now, result),
            // The task of the request ended with the runtime.
            Err(_) => {
                if was_write {
                    member.written(now, Err(WriteFailure::Unknown));
                }
                member.read(now, Err(()));
            }
        }
    }

    fn failed(&self, error: &EngineError) {
        self.state.failed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(target: "mcp_host", subject = self.shard.subject(), "a request to the cluster has failed: {error}");
    }

    async fn do_outputs(&mut self) {
        loop {
            let output = self.state.member().next_output();
            let Some(output) = output else { return };
            match output {
                Output::Publish(message) => self.publish(&message).await,
                Output::Read => {
                    let (engine, shard, state) = (self.engine.clone(), self.shard.clone(), self.state.clone());
                    let limit = part(self.lease, 5);
                    self.request =
                        Some(task::spawn(async move { Answer::Read(read(&engine, &shard, &state, limit).await) }));
                }
                Output::Write { expected, record } => {
                    let (engine, shard, state) = (self.engine.clone(), self.shard.clone(), self.state.clone());
                    let limit = part(self.lease, 5);
                    let written =
                        async move { Answer::Written(write(&engine, &shard, &state, expected, &record, limit).await) };
                    self.request = Some(task::spawn(written));
                }
                Output::Changed { changed, listing } => self.state.tell(|news| news.add(changed, listing)),
                Output::Completed { requested, relied } => self.state.tell(|news| {
                    news.completed = news.completed.max(Some(requested));
                    news.relied = news.relied.max(Some(requested).filter(|_| relied));
                }),
                Output::Wake => self.state.tell(|news| news.wake = true),
            }
        }
    }

    /// Publishes a message. A message that cannot be sent is lost, and other replicas detect the gap.
    async fn publish(&self, message: &Message) {
        match message.encode() {
            Ok(bytes) => {
                if let Err(error) = self.engine.publish(&self.shard.subject(), bytes).await {
                    self.failed(&error);
                }
            }
            Err(error) => {
                self.state.invalid.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(target: "mcp_host", "a message to the cluster cannot be sent: {error}");
            }
        }
    }
}

/// Why a subscription ended.
enum Ended {
    Subscription,
    Closing,
}

async fn read<E: Engine>(engine: &E, shard: &ShardName, state: &State, limit: Duration) -> Result<Stored, ()> {
    let failed = || {
        state.failed.fetch_add(1, Ordering::Relaxed);
    };
    let entry = timeout(limit, engine.get(shard.key())).await.map_err(|_| failed())?.map_err(|error| {
        failed();
        tracing::debug!(target: "mcp_host", "the record {} cannot be read: {error}", shard.key());
    })?;
    let Some(entry) = entry else { return Ok(Stored::Nothing) };
    match Record::decode(&entry.value) {
        Ok(record) => Ok(Stored::Record(entry.revision, Box::new(record))),
        Err(error) => {
            state.invalid.fetch_add(1, Ordering::Relaxed);
            if state.invalid_log.record().is_some() {
                tracing::warn!(
                    target: "mcp_host",
                    "the value of {} in the bucket is not valid: {}. If no replica writes it, it is replaced, and subscribers are notified of everything once",
                    shard.key(),
                    prefix(&error.to_string(), MAX_REASON),
                );
            }
            Ok(Stored::Invalid(entry.revision))
        }
    }
}

async fn write<E: Engine>(
    engine: &E,
    shard: &ShardName,
    state: &State,
    expected: Option<Revision>,
    record: &Record,
    limit: Duration,
) -> Result<Revision, WriteFailure> {
    let bytes = record.encode().map_err(|error| {
        tracing::warn!(target: "mcp_host", "polls cannot be shared, as the provider's tokens are too long: {error}");
        WriteFailure::Impossible
    })?;
    match timeout(limit, engine.write(shard.key(), bytes, expected)).await {
        Ok(Ok(revision)) => Ok(revision),
        Ok(Err(EngineError::Conflict)) => Err(WriteFailure::Conflict),
        failure => {
            state.failed.fetch_add(1, Ordering::Relaxed);
            if let Ok(Err(error)) = failure {
                tracing::debug!(target: "mcp_host", "the record {} cannot be written: {error}", shard.key());
            }
            Err(WriteFailure::Unknown)
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_base::testing::CapturedLog;
    use tracing::level_filters::LevelFilter;

    use super::*;
    use crate::engine::model::Model;

    fn paths(texts: &[&str]) -> BTreeSet<Arc<str>> {
        texts.iter().map(|text| Arc::from(*text)).collect()
    }

    fn shard() -> ShardName {
        ShardName::new("test", [b"digest".as_slice(), b"config"], 0)
    }

    /// Polls a provider without changes once, if there is something to poll, and briefly waits for news.
    async fn serve(polls: &SharedPolls) {
        match polls.begin_poll() {
            Plan::Own { .. } => polls.own_polled(OwnPolled::Complete),
            Plan::Shared(_) => polls.shared_polled(Found { tokens: vec![None], ..Found::default() }, true),
            Plan::Nothing => {}
        }
        let _ = timeout(Duration::from_millis(20), polls.wait_for_news()).await;
        polls.take_news();
    }

    /// Polls a provider without changes until this replica has the role.
    async fn poll_until(polls: &SharedPolls, role: RoleName) {
        while polls.role() != role {
            match polls.begin_poll() {
                Plan::Own { .. } => polls.own_polled(OwnPolled::Complete),
                Plan::Shared(_) => polls.shared_polled(Found { tokens: vec![None], ..Found::default() }, true),
                Plan::Nothing => {}
            }
            polls.wait_for_news().await;
            polls.take_news();
        }
    }

    #[test]
    fn shards_of_what_answers_differently_differ_and_names_are_subjects() {
        let name = |cluster, parts: &[&[u8]], shard| ShardName::new(cluster, parts.iter().copied(), shard);
        let first = name("a", &[b"x", b"y"], 0);
        assert_eq!(first, name("a", &[b"x", b"y"], 0));
        for other in [name("b", &[b"x", b"y"], 0), name("a", &[b"xy", b""], 0), name("a", &[b"x", b"y"], 1)] {
            assert_ne!(first, other);
        }
        assert!(first.subject().starts_with("mcp-host.1.a.") && first.subject().ends_with(".0"), "{first:?}");
        assert_eq!(first.sibling(1), name("a", &[b"x", b"y"], 1));
    }

    #[test]
    fn more_changes_than_paths_are_watched_are_a_change_of_all() {
        let mut news = News::default();
        news.add((0..=MAX_PATHS).map(|number| number.to_string().into()).collect(), false);
        assert!(news.all_changed && news.changed.is_empty());
        news.add(vec!["a".into()], true);
        assert_eq!((news.changed.len(), news.listing), (1, true));
        let long = |number: usize| format!("{number:0>8000}").into();
        let mut news = News::default();
        news.add((0..=MAX_NEWS_BYTES / 8000).map(long).collect(), false);
        assert!(news.all_changed && news.changed.is_empty());
    }

    #[tokio::test]
    async fn one_replica_polls_for_both_and_the_other_hears_of_changes() {
        let (engine, lease) = (Model::default(), Duration::from_secs(10));
        let start = |number| SharedPolls::start(engine.clone(), ReplicaId::new(number), shard(), lease);
        let (one, other) = (start(1), start(2));
        one.watch(paths(&["a"]), 1);
        poll_until(&one, RoleName::Holding).await;
        other.watch(paths(&["b"]), 1);
        let following = poll_until(&other, RoleName::Following);
        let holding = async {
            loop {
                if let Plan::Shared(poll) = one.begin_poll() {
                    assert!(poll.paths.contains_key("a"));
                    one.shared_polled(Found { tokens: vec![None], ..Found::default() }, true);
                } else {
                    one.own_polled(OwnPolled::Complete);
                }
                one.wait_for_news().await;
                one.take_news();
            }
        };
        tokio::select! {
            () = following => {}
            () = holding => {}
        }
        let poll = loop {
            match one.begin_poll() {
                Plan::Shared(poll) => break poll,
                _ => one.wait_for_news().await,
            }
            one.take_news();
        };
        assert!(poll.paths.keys().eq(&paths(&["a", "b"])));
        one.shared_polled(
            Found { changed: vec!["b".into()], listing: true, tokens: vec![None], ..Found::default() },
            true,
        );
        other.wait_for_news().await;
        let news = other.take_news();
        assert_eq!((news.changed, news.listing), (paths(&["b"]), true));
        // A dropped replica gives the lease back, and the other one takes it.
        drop(one);
        poll_until(&other, RoleName::Holding).await;
        assert_eq!(other.stats().member.gaps, 0);
    }

    #[tokio::test]
    async fn a_record_that_no_host_writes_is_replaced_whoever_wrote_it() {
        let lease = Duration::from_millis(500);
        let valid = serde_json::json!({
            "history": 1, "epoch": 1, "holder": null, "renewals": 0, "covers": {}, "tokens": [],
            "round": { "epoch": 1, "seq": 1, "parts": 0 },
        });
        let with = |pointer: &str| {
            let mut value = valid.clone();
            *value.pointer_mut(pointer).unwrap() = u64::MAX.into();
            value.to_string()
        };
        for poison in [with("/round/seq"), with("/epoch"), with("/renewals"), "{}".to_owned(), "\0".to_owned()] {
            let engine = Model::default();
            engine.write(shard().key(), poison.clone().into_bytes(), None).await.unwrap();
            let polls = SharedPolls::start(engine.clone(), ReplicaId::new(1), shard(), lease);
            polls.watch(paths(&["a"]), 1);
            poll_until(&polls, RoleName::Holding).await;
            let stored = engine.get(shard().key()).await.unwrap().unwrap();
            let record = Record::decode(&stored.value).unwrap();
            assert_eq!(record.holder, Some(ReplicaId::new(1)), "{poison}");
            assert!(polls.stats().invalid > 0, "{poison}");
        }
    }

    #[tokio::test]
    async fn a_value_that_is_no_record_is_warned_of_once_with_a_part_of_its_text() {
        let (engine, lease, log) = (Model::default(), Duration::from_secs(10), CapturedLog::default());
        let polls = SharedPolls::start(engine.clone(), ReplicaId::new(1), shard(), lease);
        // The error of the parser quotes the text.
        let value = serde_json::json!({ "history": "x".repeat(100_000) }).to_string();
        engine.write(shard().key(), value.into_bytes(), None).await.unwrap();
        let _capturing = log.capture(LevelFilter::WARN);
        for _ in 0..3 {
            let found = read(&engine, &shard(), &polls.state, lease).await;
            assert!(matches!(found, Ok(Stored::Invalid(_))));
        }
        let lines = log.lines();
        assert_eq!(lines.len(), 1, "{} lines", lines.len());
        assert!(lines[0].contains("is not valid") && lines[0].len() < 1000, "{} bytes", lines[0].len());
        assert_eq!(polls.stats().invalid, 3);
    }

    #[tokio::test]
    async fn other_tasks_run_between_long_messages() {
        let (engine, subject) = (Model::default(), shard().subject());
        let polls = SharedPolls::start(engine.clone(), ReplicaId::new(1), shard(), Duration::from_secs(10));
        // Until it has subscribed, it receives no message.
        while polls.stats().invalid == 0 {
            engine.publish(&subject, b"{}".to_vec()).await.unwrap();
            tokio::task::yield_now().await;
        }
        let before = polls.stats().invalid;
        for _ in 0..50 {
            engine.publish(&subject, vec![b'x'; 100 * 1024]).await.unwrap();
        }
        let mut turns = 0;
        while polls.stats().invalid < before + 50 {
            turns += 1;
            tokio::task::yield_now().await;
        }
        assert!(turns >= 25, "{turns} turns of this task while 50 messages are decoded");
    }

    #[tokio::test]
    async fn a_record_that_is_overwritten_costs_a_gap_and_the_next_change_is_heard() {
        let (engine, lease) = (Model::default(), Duration::from_millis(500));
        let start = |number| SharedPolls::start(engine.clone(), ReplicaId::new(number), shard(), lease);
        let (one, other) = (start(1), start(2));
        one.watch(paths(&["a"]), 1);
        other.watch(paths(&["a"]), 1);
        let settled = async || {
            let both = async {
                tokio::join!(
                    async {
                        loop {
                            serve(&one).await;
                        }
                    },
                    async {
                        loop {
                            serve(&other).await;
                        }
                    }
                );
            };
            let looking = async {
                loop {
                    let roles = [one.role(), other.role()];
                    if roles.contains(&RoleName::Holding) && roles.contains(&RoleName::Following) {
                        return;
                    }
                    sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                () = both => {}
                () = looking => {}
            }
        };
        settled().await;
        let stored = engine.get(shard().key()).await.unwrap().unwrap();
        let mut record = Record::decode(&stored.value).unwrap();
        (record.round.seq, record.holder) = (u64::MAX, None);
        let bytes = record.encode().unwrap();
        // The holder may write meanwhile, which changes the revision.
        while let Err(EngineError::Conflict) = {
            let revision = engine.get(shard().key()).await.unwrap().unwrap().revision;
            engine.write(shard().key(), bytes.clone(), Some(revision)).await
        } {}
        let history = record.history;
        let replaced = async {
            loop {
                let stored = engine.get(shard().key()).await.unwrap().unwrap();
                if Record::decode(&stored.value).is_ok_and(|record| record.history != history && record.round.seq > 0) {
                    return;
                }
                tokio::join!(serve(&one), serve(&other));
            }
        };
        replaced.await;
        settled().await;
        assert!(one.stats().member.gaps + other.stats().member.gaps > 0, "who followed tells everything");
        let (holder, follower) = if one.role() == RoleName::Holding { (&one, &other) } else { (&other, &one) };
        follower.take_news();
        let found = Found { changed: vec!["a".into()], tokens: vec![None], ..Found::default() };
        loop {
            if let Plan::Shared(_) = holder.begin_poll() {
                break holder.shared_polled(found, true);
            }
            holder.wait_for_news().await;
            holder.take_news();
        }
        follower.wait_for_news().await;
        assert_eq!(follower.take_news().changed, paths(&["a"]));
    }
}
