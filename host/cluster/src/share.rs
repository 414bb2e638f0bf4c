//! The polls of one plugin shard, shared over an engine: a [`Member`] with a task that performs its outputs.
//!
//! The poller of the provider calls [`SharedPolls`] between polls, and never waits for the engine. Events in the
//! meantime are collected as [`News`], in which equal paths are one entry. So a maximum number of paths bounds the
//! memory, however fast other replicas publish changes; beyond it, everything counts as changed.
//!
//! Invalid messages and records from the engine are counted and ignored. The maximum number of paths and
//! [`MAX_NEWS_BYTES`] bound the state that is kept from messages.
//!
//! | module | subject |
//! |---|---|
//! | `name` | the identity of a shard |
//! | `state` | the state that the poller and the task share |
//! | `task` | the task: messages, and requests to the bucket |

mod name;
mod state;
mod task;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_host_base::task;
use tokio::sync::Notify;

pub use self::name::ShardName;
pub use self::state::{MAX_NEWS_BYTES, News};

use self::state::State;
use self::task::Task;
use crate::engine::Engine;
use crate::member::{Found, Member, MemberStats, OwnPolled, Plan, RoleName};
use crate::memory::WantsMemory;
use crate::replica::ReplicaId;

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

impl SharedPolls {
    /// Starts sharing. The task runs on the current runtime until this value is dropped.
    pub fn start<E: Engine>(engine: E, me: ReplicaId, shard: ShardName, lease: Duration) -> Self {
        Self::start_with(engine, me, shard, lease, Arc::default(), WantsMemory::default())
    }

    /// Starts sharing as [`start`](Self::start) does. There is a notification when there are news. The wants of other
    /// replicas take this memory.
    pub(crate) fn start_with<E: Engine>(
        engine: E,
        me: ReplicaId,
        shard: ShardName,
        lease: Duration,
        has_news: Arc<Notify>,
        memory: WantsMemory,
    ) -> Self {
        let state = Arc::new(State::new(Member::new(me, lease, fastrand::u64(..)).with_memory(memory), has_news));
        task::spawn(Task::new(engine, shard, lease, state.clone()).run());
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

#[cfg(test)]
mod tests {
    use mcp_host_base::testing::CapturedLog;
    use tokio::time::{sleep, timeout};
    use tracing::level_filters::LevelFilter;

    use super::task::read;
    use super::*;
    use crate::engine::EngineError;
    use crate::engine::model::Model;
    use crate::member::Stored;
    use crate::record::Record;

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
