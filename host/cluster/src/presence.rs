//! The presence of one replica in its cluster: a [`Roster`] with a task that performs its outputs.
//!
//! A host has one. An [`Observer`], which the task calls and which must not block, applies the results. Invalid
//! notices from the engine are counted and ignored. Anyone who can publish can invent replicas: rates are
//! divided by a number that the config bounds, and the log has at most one line about other replicas per
//! [`LOG_INTERVAL`].

mod log;

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_base::throttle::Throttle;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::bounded_json::DecodeBudget;
use crate::engine::{Engine, EngineError};
use crate::member::Time;
use crate::replica::ReplicaId;
use crate::roster::{About, Dropped, Notice, Opener, ReplicaView, Roster, RosterStats, RosterView, Tick};
use crate::session::SessionKey;
use crate::share::ShardName;

use self::log::{DifferenceLog, log_configs, log_cursor_keys};

/// The pause after the engine has rejected a subscription.
const RETRY: Duration = Duration::from_secs(1);
/// The maximum time in which a replica announces that it leaves.
const FAREWELL: Duration = Duration::from_secs(1);
/// The maximum number of messages that are handled while a period is over, before its end is: as many as wait at most.
/// Others can send messages faster than they are handled.
const MAX_BEFORE_TICK: usize = 4096;
/// The minimum time between two warnings of one kind about other replicas.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// The host's handler for notices of other replicas.
pub trait Observer: Send + Sync + 'static {
    /// Returns what this replica publishes about itself. Called once per period.
    fn describe(&self) -> About;

    /// Invalidates known data. Never called with [`Dropped::Nothing`].
    fn drop_cached(&self, dropped: &Dropped);

    /// Sets the number of live replicas by which rates are divided, including this one. Called once per period.
    fn set_replicas(&self, replicas: NonZeroU32);
}

impl Observer for Box<dyn Observer> {
    fn describe(&self) -> About {
        (**self).describe()
    }

    fn drop_cached(&self, dropped: &Dropped) {
        (**self).drop_cached(dropped);
    }

    fn set_replicas(&self, replicas: NonZeroU32) {
        (**self).set_replicas(replicas);
    }
}

/// One replica's view of its cluster at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// The name of the cluster.
    pub name: String,
    /// Whether this replica receives broadcasts.
    pub hears: bool,
    /// The number of live replicas, including this one: 1 while nothing is received.
    pub live: NonZeroU32,
    /// The number by which rates are divided: the live replicas, at most the maximum of the config; unchanged
    /// while nothing is received.
    pub divisor: NonZeroU32,
    /// The number of live replicas with another config.
    pub differing: usize,
    /// The number of live replicas that do not share cursors with this one.
    pub differing_cursor_keys: usize,
    /// All known replicas, in order.
    pub replicas: Vec<ReplicaView>,
    /// The counters of notices and of dropped responses.
    pub stats: RosterStats,
    /// The number of invalid notices.
    pub invalid: u64,
    /// The number of failed requests to the engine.
    pub failed: u64,
}

/// The presence of this replica while this value exists.
#[derive(Debug)]
pub struct Presence {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    start: Instant,
    cluster: String,
    max_replicas: NonZeroU32,
    roster: Mutex<Roster>,
    /// The changes that the others must be notified of.
    changed: Mutex<Changed>,
    has_changed: Notify,
    closing: Notify,
    invalid: AtomicU64,
    failed: AtomicU64,
}

/// Local changes that the others must be notified of.
#[derive(Debug, Default)]
struct Changed {
    /// The plugins whose responses are stale.
    plugins: BTreeSet<String>,
    /// The sessions whose records have changed.
    sessions: BTreeSet<SessionKey>,
}

impl State {
    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        self.start.elapsed()
    }
}

impl Presence {
    /// Joins the cluster with this name, in which rates are divided by at most `max_replicas`. The task runs on
    /// the current runtime until this value is dropped.
    pub fn start<E: Engine>(
        engine: E,
        me: ReplicaId,
        cluster: &str,
        lease: Duration,
        max_replicas: NonZeroU32,
        observer: impl Observer,
    ) -> Self {
        let roster = Roster::new(Duration::ZERO, me, lease, observer.describe());
        let state = Arc::new(State {
            start: Instant::now(),
            cluster: cluster.to_owned(),
            max_replicas,
            roster: Mutex::new(roster),
            changed: Mutex::default(),
            has_changed: Notify::new(),
            closing: Notify::new(),
            invalid: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let subject = format!("mcp-host.1.{cluster}.replicas");
        let task = Task {
            engine,
            subject,
            state: state.clone(),
            observer,
            config_log: DifferenceLog::new(|replica| replica.has_other_config),
            cursor_key_log: DifferenceLog::new(|replica| replica.has_other_cursor_key),
            excess_log: Throttle::new(LOG_INTERVAL),
        };
        task::spawn(task.run());
        Self { state }
    }

    /// Notifies the others that cached responses of a plugin are stale. Does not wait.
    pub fn invalidate(&self, plugin: &ShardName) {
        self.state.changed().plugins.insert(plugin.key().to_owned());
        self.state.has_changed.notify_one();
    }

    /// Notifies the others that the record of a session has changed. Does not wait.
    pub fn session_changed(&self, session: SessionKey) {
        self.state.changed().sessions.insert(session);
        self.state.has_changed.notify_one();
    }

    /// Returns whether this replica receives broadcasts.
    pub fn hears(&self) -> bool {
        self.state.roster().hears(self.state.now())
    }

    /// Returns the known state of the replica with these digits: the first 16 of its id, with which the ids of its
    /// sessions end.
    pub fn opener(&self, digits: u64) -> Opener {
        self.state.roster().opener(self.state.now(), digits)
    }

    /// Returns this replica's view of the cluster.
    pub fn view(&self) -> ClusterView {
        let State { cluster, invalid, failed, max_replicas, .. } = &*self.state;
        let roster = self.state.roster();
        let RosterView { hears, live, differing, differing_cursor_keys, replicas } = roster.view(self.state.now());
        ClusterView {
            name: cluster.clone(),
            hears,
            live,
            divisor: roster.divisor().min(*max_replicas),
            differing,
            differing_cursor_keys,
            replicas,
            stats: roster.stats(),
            invalid: invalid.load(Ordering::Relaxed),
            failed: failed.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.state.closing.notify_one();
    }
}

struct Task<E, O> {
    engine: E,
    subject: String,
    state: Arc<State>,
    observer: O,
    config_log: DifferenceLog,
    cursor_key_log: DifferenceLog,
    excess_log: Throttle,
}

/// Why a subscription ended.
enum Ended {
    Subscription,
    Closing,
}

impl<E: Engine, O: Observer> Task<E, O> {
    async fn run(mut self) {
        let mut next_tick = Instant::now();
        loop {
            // Periods continue while this waits for a subscription. Nothing is received then.
            let engine = self.engine.clone();
            let subject = self.subject.clone();
            let subscribing = engine.subscribe(&subject);
            tokio::pin!(subscribing);
            let subscribed = loop {
                tokio::select! {
                    subscribed = &mut subscribing => break Some(subscribed),
                    () = sleep_until(next_tick) => next_tick = self.tick().await,
                    () = self.state.closing.notified() => break None,
                }
            };
            let ended = match subscribed {
                None => Ended::Closing,
                Some(Ok(messages)) => self.listen(messages, &mut next_tick).await,
                Some(Err(error)) => {
                    self.failed(&error);
                    self.pause(&mut next_tick).await
                }
            };
            if matches!(ended, Ended::Closing) {
                let left = self.state.roster().leave();
                let _ = timeout(FAREWELL, self.publish(&left)).await;
                return;
            }
        }
    }

    async fn pause(&mut self, next_tick: &mut Instant) -> Ended {
        let state = self.state.clone();
        let pause = sleep(RETRY);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return Ended::Subscription,
                () = sleep_until(*next_tick) => *next_tick = self.tick().await,
                () = state.closing.notified() => return Ended::Closing,
            }
        }
    }

    async fn listen(&mut self, mut messages: mpsc::Receiver<Vec<u8>>, next_tick: &mut Instant) -> Ended {
        let state = self.state.clone();
        // The number of messages that were handled since the period was over.
        let mut handled_late: usize = 0;
        let mut budget = DecodeBudget::default();
        loop {
            tokio::select! {
                // Messages that have arrived are handled before the end of a period: after a pause of the process both
                // are due. Their number is bounded, so that no flood of messages delays the sign of life.
                biased;
                () = state.closing.notified() => return Ended::Closing,
                message = messages.recv(), if handled_late < MAX_BEFORE_TICK => match message {
                    Some(bytes) => {
                        self.receive(&bytes);
                        let is_late = Instant::now() >= *next_tick;
                        handled_late = if is_late { handled_late.saturating_add(1) } else { 0 };
                        budget.spend(bytes.len()).await;
                    }
                    None => return Ended::Subscription,
                },
                () = sleep_until(*next_tick) => {
                    *next_tick = self.tick().await;
                    // A flood of messages does not delay the notices of this replica for longer than a period, either.
                    self.tell_changed().await;
                    handled_late = 0;
                }
                () = state.has_changed.notified() => self.tell_changed().await,
            }
        }
    }

    fn receive(&self, bytes: &[u8]) {
        match Notice::decode(bytes) {
            Ok(notice) => {
                let dropped = self.state.roster().receive(self.state.now(), notice);
                self.drop_cached(&dropped);
            }
            Err(error) => {
                self.state.invalid.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(target: log_target::CLUSTER, subject = self.subject, "a notice of the cluster is ignored: {error}");
            }
        }
    }

    fn drop_cached(&self, dropped: &Dropped) {
        if *dropped != Dropped::Nothing {
            self.observer.drop_cached(dropped);
        }
    }

    async fn tell_changed(&self) {
        let Changed { plugins, sessions } = std::mem::take(&mut *self.state.changed());
        for plugin in plugins {
            let notice = self.state.roster().invalidate(plugin);
            self.publish(&notice).await;
        }
        for session in sessions {
            let notice = self.state.roster().change_session(session);
            self.publish(&notice).await;
        }
    }

    /// Performs the due work of a period. Returns when the next one ends.
    async fn tick(&mut self) -> Instant {
        let about = self.observer.describe();
        let (Tick { alive, dropped }, divisor, period) = {
            let mut roster = self.state.roster();
            let tick = roster.tick(self.state.now(), about);
            (tick, roster.divisor(), roster.period())
        };
        self.drop_cached(&dropped);
        self.observer.set_replicas(divisor.min(self.state.max_replicas));
        self.log_excess(divisor);
        let view = self.state.roster().view(self.state.now());
        log_configs(&mut self.config_log, &view);
        log_cursor_keys(&mut self.cursor_key_log, &view);
        let next = Instant::now().checked_add(period).unwrap_or_else(Instant::now);
        self.publish(&alive).await;
        next
    }

    /// Logs that there are more replicas than the config allows.
    fn log_excess(&self, replicas: NonZeroU32) {
        let max = self.state.max_replicas;
        if replicas > max && self.excess_log.record().is_some() {
            tracing::warn!(
                target: log_target::CLUSTER,
                "{replicas} replicas of the cluster are alive, and rates are divided by {max}: set `cluster.max-replicas` if that many \
                 run, or find out which other clients can publish to the NATS servers"
            );
        }
    }

    fn failed(&self, error: &EngineError) {
        self.state.failed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(target: log_target::CLUSTER, subject = self.subject, "a request to the cluster has failed: {error}");
    }

    /// Publishes a notice. A notice that cannot be sent is lost, and other replicas detect the gap.
    async fn publish(&self, notice: &Notice) {
        match notice.encode() {
            Ok(bytes) => {
                if let Err(error) = self.engine.publish(&self.subject, bytes).await {
                    self.failed(&error);
                }
            }
            Err(error) => {
                tracing::warn!(target: log_target::CLUSTER, "a notice to the cluster cannot be sent: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::Model;

    const LEASE: Duration = Duration::from_secs(2);

    const MAX: NonZeroU32 = NonZeroU32::new(4).unwrap();

    /// The calls that an observer received.
    #[derive(Debug)]
    struct Told {
        config: &'static str,
        told: mpsc::UnboundedSender<Dropped>,
        replicas: Arc<AtomicU64>,
    }

    impl Observer for Told {
        fn describe(&self) -> About {
            About { config: self.config.to_owned(), ..About::default() }
        }

        fn drop_cached(&self, dropped: &Dropped) {
            let _ = self.told.send(dropped.clone());
        }

        fn set_replicas(&self, replicas: NonZeroU32) {
            self.replicas.store(replicas.get().into(), Ordering::Relaxed);
        }
    }

    fn join(engine: &Model, number: u128, config: &'static str) -> (Presence, mpsc::UnboundedReceiver<Dropped>) {
        let (presence, drops, _) = join_counting(engine, number, config);
        (presence, drops)
    }

    /// Joins, and also returns the number by which rates are divided.
    fn join_counting(
        engine: &Model,
        number: u128,
        config: &'static str,
    ) -> (Presence, mpsc::UnboundedReceiver<Dropped>, Arc<AtomicU64>) {
        let (told, drops) = mpsc::unbounded_channel();
        let replicas = Arc::<AtomicU64>::default();
        let observer = Told { config, told, replicas: replicas.clone() };
        (Presence::start(engine.clone(), ReplicaId::new(number), "test", LEASE, MAX, observer), drops, replicas)
    }

    async fn until(presence: &Presence, is_so: impl Fn(&ClusterView) -> bool) -> ClusterView {
        loop {
            let view = presence.view();
            if is_so(&view) {
                return view;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn replicas_know_each_other_and_hear_what_is_stale() {
        let engine = Model::default();
        let (one, _drops) = join(&engine, 1, "c");
        let (other, mut drops) = join(&engine, 2, "d");
        let view = until(&one, |view| view.live.get() == 2).await;
        assert_eq!((view.differing, view.replicas.len(), view.hears), (1, 2, true));
        until(&other, |view| view.live.get() == 2).await;
        while drops.try_recv().is_ok() {}
        let session = SessionKey::of("id");
        one.session_changed(session.clone());
        assert_eq!(drops.recv().await, Some(Dropped::Session(session)));
        let shard = ShardName::new("test", [b"x".as_slice()], 0);
        one.invalidate(&shard);
        assert_eq!(drops.recv().await, Some(Dropped::Plugin(shard.key().to_owned())));
        drop(one);
        // It has announced that it leaves: a replica that is only silent stays visible for longer than this
        // test takes.
        let view = until(&other, |view| view.replicas.len() == 1).await;
        assert_eq!((view.live.get(), view.invalid, view.failed), (1, 0, 0));
    }

    #[tokio::test]
    async fn what_is_no_notice_is_counted_and_ignored() {
        let engine = Model::default();
        let (one, _drops) = join(&engine, 1, "c");
        // Until it has subscribed, no replica receives the message.
        while one.view().invalid == 0 {
            engine.publish("mcp-host.1.test.replicas", b"{}".to_vec()).await.unwrap();
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(one.view().replicas.len(), 1);
    }

    /// Counts the periods.
    struct Periods(Arc<AtomicU64>);

    impl Observer for Periods {
        fn describe(&self) -> About {
            self.0.fetch_add(1, Ordering::Relaxed);
            About::default()
        }

        fn drop_cached(&self, _: &Dropped) {}

        fn set_replicas(&self, _: NonZeroU32) {}
    }

    #[tokio::test]
    async fn a_flood_of_messages_does_not_silence_a_replica() {
        let (engine, periods) = (Model::default(), Arc::<AtomicU64>::default());
        let observer = Periods(periods.clone());
        let one = Presence::start(engine.clone(), ReplicaId::new(1), "test", LEASE, MAX, observer);
        until(&one, |view| view.hears).await;
        // On one thread: whenever the replica yields, as many messages wait as there is room for.
        let flood = async {
            loop {
                for _ in 0..2000 {
                    engine.publish("mcp-host.1.test.replicas", b"{}".to_vec()).await.unwrap();
                }
                tokio::task::yield_now().await;
            }
        };
        let beats = async {
            while one.view().invalid == 0 {
                tokio::task::yield_now().await;
            }
            let before = periods.load(Ordering::Relaxed);
            while periods.load(Ordering::Relaxed) < before + 3 {
                tokio::task::yield_now().await;
            }
        };
        let flooded = async {
            tokio::select! {
                () = flood => {}
                () = beats => {}
            }
        };
        timeout(Duration::from_secs(30), flooded).await.expect("its periods go on");
    }

    #[tokio::test]
    async fn other_tasks_run_between_long_messages() {
        let engine = Model::default();
        let (one, _drops) = join(&engine, 1, "c");
        // Until it has subscribed, no replica receives a message.
        while one.view().invalid == 0 {
            engine.publish("mcp-host.1.test.replicas", b"{}".to_vec()).await.unwrap();
            sleep(Duration::from_millis(10)).await;
        }
        let before = one.view().invalid;
        for _ in 0..100 {
            engine.publish("mcp-host.1.test.replicas", vec![b'x'; 16 * 1024]).await.unwrap();
        }
        let mut turns = 0;
        while one.view().invalid < before + 100 {
            turns += 1;
            tokio::task::yield_now().await;
        }
        assert!(turns >= 20, "{turns} turns of this task while 1.6 MiB are decoded");
    }

    #[tokio::test]
    async fn invented_replicas_divide_rates_by_the_maximum_of_the_config_at_most() {
        let engine = Model::default();
        let (one, _drops, divisor) = join_counting(&engine, 1, "c");
        let invent = async {
            loop {
                for number in 100..200 {
                    let (replica, about) = (ReplicaId::new(number), About::default());
                    let notice = Notice::Alive { replica, sent: 0, about }.encode().unwrap();
                    engine.publish("mcp-host.1.test.replicas", notice).await.unwrap();
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let look = async {
            until(&one, |view| view.live.get() == 101).await;
            // The next period reports the number.
            while divisor.load(Ordering::Relaxed) < 2 {
                sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(divisor.load(Ordering::Relaxed), u64::from(MAX.get()));
        };
        tokio::select! {
            () = invent => {}
            () = look => {}
        }
    }
}
