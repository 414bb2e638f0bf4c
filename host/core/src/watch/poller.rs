//! The task that polls one plugin for changes.
//!
//! A poll covers all watched paths, by the calls of a [round](mcp_host_cluster::poll).
//!
//! Each subscription to a resource that is not polled yet requests a poll, as often as its client [may](super::state).
//! A poll that took longer than [`QUICK_POLL`] is followed by a pause of the same duration, up to [`MAX_POLL_PAUSE`],
//! for all clients. While a provider is failing, subscriptions cause at most one poll per [`MAX_POLL_PAUSE`].
//!
//! A build in a granted directory causes a continuous stream of events, and every client of a database can notify its
//! channels at any rate. Polls that events and notifications cause are debounced, and followed by a
//! [pause](super::burst_pause) proportional to their duration. Events do not shorten the back-off of a failing
//! provider. A notification shortens it, but not below [`MAX_POLL_PAUSE`]: it may mean that the database has recovered.
//!
//! In a cluster ([`replicas`](super::replicas)), another replica may poll for this one. Then nothing is polled here: a
//! subscription or an event is a request to that replica, and its answer replaces a poll. This replica may also poll
//! for others: then it includes their paths, and uses the tokens that all replicas share. The paths of a plugin with
//! very many are divided into [shards](mcp_host_cluster::shards), which are polled one after the other, each with its
//! own tokens; changes of the listing belong to the first one.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_host_base::backoff::Backoff;
use mcp_host_base::fs_watch::DirectoryWatcher;
use mcp_host_cluster::member::{Found, OwnPolled, Plan, SharedPoll};
use mcp_host_cluster::poll::{Polls, Round};
use mcp_host_cluster::shards::{LISTING_SHARD, Part, Parts, Shards};
use mcp_host_cluster::share::{News, SharedPolls};
use mcp_host_engine::plugin::Fault;
use mcp_host_model::caller::Caller;
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::{Path, Uri};
use mcp_host_sandbox::sql::DatabaseNotifications;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use super::burst_pause::{EventPause, burst_pause};
use super::context::BATCH_SIZE;
use super::mailbox::Mailbox;
use super::poll_metrics::{PollCause, PollTrigger};
use super::provider_calls::ProviderCalls;
use super::state::{Owed, PollOutcome, Unserved, WatcherState};
use crate::response_cache::DroppedFor;

/// The bounds of a provider's hint, unless the interval of the config lies outside of them.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(250);
const MAX_POLL_INTERVAL: Duration = Duration::from_mins(5);
/// The maximum back-off after failed polls, unless the interval is longer.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// The maximum time for which a plugin without subscribers is still watched.
const MAX_LINGER: Duration = Duration::from_secs(2);
/// The debounce time of file system events and of database notifications: a poll starts this long after the first event
/// of a burst, and covers the whole burst.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// The maximum duration of a poll after which the next poll may start immediately.
const QUICK_POLL: Duration = Duration::from_millis(5);
/// The maximum pause after a poll before a new subscription causes the next.
const MAX_POLL_PAUSE: Duration = Duration::from_secs(1);

/// The maximum time after a failed poll at which subscribers retry, which requests another poll.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);

/// Polls one plugin for changes while it has subscribers.
pub(super) struct Poller {
    state: Arc<WatcherState>,
    interval: Duration,
    /// The polls of each shard; only of the first one without a cluster.
    polls: BTreeMap<u32, ShardPolls>,
    calls: ProviderCalls,
    /// Whether the last poll failed as a whole.
    is_failing: bool,
    /// The delays after consecutive failed polls, from the interval on.
    backoff: Backoff,
    /// In a view, the subscribers to notify once the next poll has succeeded.
    owed: Owed,
}

/// The polls of one shard.
struct ShardPolls {
    polls: Polls<Requester, Fault>,
    /// Whether its last poll failed as a whole.
    is_failing: bool,
    /// The paths that its last poll did not serve.
    unserved: Mutex<Arc<Unserved>>,
}

impl ShardPolls {
    fn new(state: &WatcherState, notify_all_once: bool) -> Self {
        let polls = Polls::new(state.plugin.max_items(), notify_all_once);
        Self { polls, is_failing: false, unserved: Mutex::default() }
    }
}

impl Poller {
    pub(super) fn new(state: Arc<WatcherState>, notify_all_once: bool) -> Self {
        let interval = state.plugin.watch_interval();
        let polls = BTreeMap::from([(LISTING_SHARD, ShardPolls::new(&state, notify_all_once))]);
        let (calls, backoff) = (ProviderCalls::new(state.clone()), new_backoff(interval));
        Self { state, interval, polls, calls, is_failing: false, backoff, owed: Owed::default() }
    }

    /// Polls until the watcher is retired; in a view, until there are no more subscribers.
    pub(super) async fn run(&mut self) {
        let mut directories: Option<DirectoryWatcher> = None;
        let mut databases: Option<DatabaseNotifications> = None;
        let mut event_pause = EventPause::new();
        let mut trigger = PollTrigger::now(PollCause::Subscription);
        loop {
            if self.state.shared.is_some() && trigger.cause.is_event() {
                // The replica that polls instead treats an event as a request, like a new subscription.
                self.state.requested_polls.fetch_add(1, Ordering::SeqCst);
            }
            let requested = self.state.requested_polls.load(Ordering::SeqCst);
            let Some(watched) = self.watched_paths().await else {
                // Watching ends before the plugin is reported as idle.
                (directories, databases) = (None, None);
                self.go_idle(requested);
                if self.watched_paths().await.is_some() {
                    // The fingerprint of a principal that has come meanwhile may have been removed.
                    self.state.listing.dirty.notify_one();
                } else {
                    if self.state.view.is_some() {
                        return;
                    }
                    self.state.wake.notified().await;
                }
                trigger = PollTrigger::now(PollCause::Subscription);
                continue;
            };
            if !self.state.is_polling.swap(true, Ordering::SeqCst) && self.state.view.is_none() {
                // A subscriber that has left since the paths were collected has not woken the poller.
                self.state.unwatched.notify_one();
            }
            let events = match directories.take() {
                Some(events) if !events.needs_rewatch() => events,
                before => {
                    let plugin = &self.state.plugin;
                    DirectoryWatcher::watch(plugin.name(), plugin.granted_directories(), before).await
                }
            };
            let notifications = databases.get_or_insert_with(|| self.state.plugin.listen_to_databases());
            // The poll covers the whole burst.
            events.forget_changes();
            let began = Instant::now();
            trigger.begin(&self.state.context.poll_metrics);
            let (pause, has_polled) = self.poll_or_rely(watched, requested).await;
            let took = began.elapsed();
            if has_polled {
                self.state.last_lag.set(trigger.end(&self.state.context.poll_metrics, !self.is_failing));
            }
            let min_pause = match took {
                _ if self.is_failing => pause.min(MAX_POLL_PAUSE),
                took if took > QUICK_POLL => took.min(MAX_POLL_PAUSE),
                _ => Duration::ZERO,
            };
            let pause_after_poll = event_pause.polled(trigger.cause, took).max(min_pause);
            // These sleeps begin at the end of the poll, not at the event.
            let (pause_of_events, pause_of_notifications) = (sleep(pause_after_poll), sleep(pause_after_poll));
            let pause_of_provider = sleep(pause_after_poll);
            let after_event = async {
                events.changed().await;
                let trigger = PollTrigger::now(PollCause::Event);
                tokio::join!(sleep(DEBOUNCE), pause_of_events);
                trigger
            };
            let after_notification = async {
                notifications.received().await;
                let trigger = PollTrigger::now(PollCause::Notification);
                tokio::join!(sleep(DEBOUNCE), pause_of_notifications);
                trigger
            };
            // A native provider coalesces its changes and notifies once, so there is no burst to wait for.
            let after_provider = async {
                Caller::scope_view(self.calls.caller.clone(), self.state.plugin.changed()).await;
                let trigger = PollTrigger::now(PollCause::Notification);
                pause_of_provider.await;
                trigger
            };
            let subscription = async {
                self.state.wake.notified().await;
                PollTrigger::now(PollCause::Subscription)
            };
            let next = async {
                tokio::select! {
                    () = sleep(pause) => PollTrigger::now(PollCause::Interval),
                    (trigger, ()) = async { tokio::join!(subscription, sleep(min_pause)) } => trigger,
                    () = self.unwatched() => {
                        self.linger().await;
                        PollTrigger::now(PollCause::Interval)
                    }
                    // Events do not shorten the back-off of a failing provider.
                    trigger = after_event, if !self.is_failing => trigger,
                    trigger = after_notification => trigger,
                    trigger = after_provider => trigger,
                }
            };
            trigger = self.tell_news_until(next, min_pause).await;
            directories = Some(events);
        }
    }

    /// Completes when there are no more subscribers.
    async fn unwatched(&self) {
        loop {
            self.state.unwatched.notified().await;
            // It is only known that one subscriber has left.
            let began = Instant::now();
            let is_watched = match &self.state.view {
                Some(view) => self.state.watched_in_view(view.identity).await.is_some(),
                None => self.state.context.is_watched(self.state.plugin.mount()),
            };
            if !is_watched {
                return;
            }
            // Bounds the checks, because clients may subscribe and unsubscribe at any rate.
            sleep(burst_pause(began.elapsed())).await;
        }
    }

    /// Waits briefly, because clients often reconnect.
    async fn linger(&self) {
        // The next poll checks whether there are subscribers.
        let _ = tokio::time::timeout(self.interval.min(MAX_LINGER), self.state.wake.notified()).await;
    }

    /// Returns the paths for the next poll, or `None` without subscribers.
    pub(super) async fn watched_paths(&mut self) -> Option<Vec<(Uri, Path)>> {
        if let Some(view) = &self.state.view {
            // Taken before the paths are collected, so that the resources of these subscribers are among them.
            self.owed.extend(view.take_owed());
            let identity = view.identity;
            let watched;
            (watched, self.calls.caller) = self.state.watched_in_view(identity).await.unzip();
            return watched;
        }
        let (common, mount) = (&self.state.context, self.state.plugin.mount());
        let mut watched = Vec::new();
        loop {
            let after = watched.last().map(|(uri, _): &(Uri, Path)| uri);
            let (more, principals) = {
                let mut index = common.subscription_index();
                let more = index.paths(mount, after, BATCH_SIZE);
                let has_none = watched.is_empty() && more.is_empty();
                (more, has_none.then(|| index.listing_principals()))
            };
            if principals.is_some_and(|principals| !common.may_any_see_listing(&principals, mount)) {
                return None;
            }
            let is_all = more.len() < BATCH_SIZE;
            watched.extend(more);
            if is_all {
                return Some(watched);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Resets the state when there are no more subscribers, because it becomes stale. The token of the listing is kept:
    /// the next poll reports whether cached pages of the listing are stale.
    fn go_idle(&mut self, requested: u64) {
        if let Some(shared) = &self.state.shared {
            shared.leave();
        }
        self.polls.retain(|shard, _| *shard == LISTING_SHARD);
        for shard in self.polls.values_mut() {
            shard.polls.go_idle();
            (shard.is_failing, shard.unserved) = (false, Mutex::default());
        }
        self.reset_backoff();
        self.owed = Owed::default();
        let principals = self.state.context.subscription_index().listing_principals();
        self.state.listing.retain(&principals);
        self.state.is_polling.store(false, Ordering::SeqCst);
        let fault = Some((Fault::Host("there are no more subscribers".to_owned()), MIN_POLL_INTERVAL));
        self.state.last_poll.send_replace(PollOutcome::of_all(requested, fault));
    }

    /// Runs this replica's part of the polls. Returns the pause before the next poll, and whether this replica has
    /// polled; if not, another replica does.
    async fn poll_or_rely(&mut self, watched: Vec<(Uri, Path)>, requested: u64) -> (Duration, bool) {
        let state = self.state.clone();
        let Some(shards) = &state.shared else {
            let result = self.poll_own(LISTING_SHARD, watched).await;
            return (self.end_polls(result, requested, requested), true);
        };
        let Some(Parts { parts, needs_poll }) = self.divide(watched, requested).await else {
            return (self.interval, false);
        };
        if needs_poll {
            // Paths that move to other shards wait for a poll that is requested from now on.
            state.requested_polls.fetch_add(1, Ordering::SeqCst);
            state.wake.notify_one();
        }
        self.polls.retain(|shard, _| *shard == LISTING_SHARD || parts.iter().any(|part| part.shard == *shard));
        let (mut next, mut fault) = (None, None);
        for part in parts {
            match self.poll_part(shards, part, requested).await {
                Ok(pause) => next = next.into_iter().chain(pause).min(),
                // The others are polled, because another replica may have the same shards.
                Err(failed) => fault = fault.or(Some(failed)),
            }
        }
        let result = match (fault, next) {
            (Some(fault), _) => Err(fault),
            (None, Some(pause)) => Ok(pause),
            (None, None) => {
                self.reset_backoff();
                return (self.interval, false);
            }
        };
        (self.end_polls(result, requested, shards.completed()), true)
    }

    /// Divides the watched paths into shards; many of them on a thread that may block. None if they are not shared, or
    /// the runtime shuts down.
    async fn divide(&self, watched: Vec<(Uri, Path)>, requested: u64) -> Option<Parts> {
        let state = self.state.clone();
        let is_quick = watched.len() <= BATCH_SIZE;
        let divide = move || {
            let shards = state.shared.as_ref()?;
            let parts = shards.divide(watched, requested);
            if state.retired.is_cancelled() {
                // Otherwise this replica would want paths, and could take leases, although it no longer polls.
                shards.leave();
            }
            Some(parts)
        };
        if is_quick { divide() } else { tokio::task::spawn_blocking(divide).await.ok().flatten() }
    }

    /// Polls one shard, if this replica does. Returns the pause before the next poll; none if another replica polls.
    async fn poll_part(&mut self, shards: &Shards, part: Part, requested: u64) -> Result<Option<Duration>, Fault> {
        let Part { shard, polls: shared, watched } = part;
        let began = Instant::now();
        // Before the poll begins: if a gap is found in between, the poll does not compare the paths, although this
        // replica no longer relies on rounds.
        let relied = shared.relies_on_rounds();
        match shared.begin_poll() {
            Plan::Own { tokens, tell_all, handover } => {
                self.shard(shard).polls.begin_own(began, tokens, tell_all, handover);
                let result = self.poll_own(shard, watched).await;
                let polls = &self.shard(shard).polls;
                let polled = if result.is_ok() { polls.own_polled() } else { OwnPolled::Failed };
                if result.is_ok() && shards.own_polled(shard, requested, &polls.unanswered_since(began), relied) {
                    self.state.wake.notify_one();
                }
                shared.own_polled(polled);
                result.map(Some)
            }
            Plan::Shared(poll) => self.poll_for_all(shard, &shared, poll).await.map(Some),
            Plan::Nothing => {
                self.shard(shard).is_failing = false;
                Ok(None)
            }
        }
    }

    /// Returns the polls of a shard.
    fn shard(&mut self, shard: u32) -> &mut ShardPolls {
        // The polls of a shard begin when it has paths, so nothing was missed.
        self.polls.entry(shard).or_insert_with(|| ShardPolls::new(&self.state, false))
    }

    /// Polls the paths of all replicas in a shard, and returns the pause before the next poll.
    async fn poll_for_all(&mut self, shard: u32, shared: &SharedPolls, poll: SharedPoll) -> Result<Duration, Fault> {
        self.calls.has_listing = shard == LISTING_SHARD;
        let state = self.state.clone();
        let polls = self.polls.entry(shard).or_insert_with(|| ShardPolls::new(&state, false));
        let (found, result) = polls.polls.poll_shared(&mut self.calls, poll, state.plugin.mount()).await;
        polls.is_failing = result.is_err();
        let found = Found { listing: found.listing && shard == LISTING_SHARD, ..found };
        // Waiting subscribers are notified after the tokens are stored, because until then this poll may be lost.
        shared.shared_polled(found, result.is_ok());
        Ok(self.next_delay(result?))
    }

    /// Publishes the outcome of the polls of all shards, which have completed the requests up to a number. Returns the
    /// pause before the next polls.
    fn end_polls(&mut self, result: Result<Duration, Fault>, requested: u64, completed: u64) -> Duration {
        match result {
            Ok(pause) => {
                self.reset_backoff();
                self.publish(completed);
                pause
            }
            Err(fault) => self.fail(fault, requested),
        }
    }

    /// Publishes that all requests up to a number were served, except of the paths that the polls of a shard have not
    /// served.
    fn publish(&self, completed: u64) {
        self.state.last_poll.send_if_modified(|last| {
            if completed < last.completed_polls {
                return false;
            }
            let mut of_shards = self.polls.values().map(|shard| shard.unserved.lock().clone());
            let mut unserved = of_shards.next().unwrap_or_default();
            for more in of_shards {
                if !more.failed.is_empty() || !more.left.is_empty() {
                    let all = Arc::make_mut(&mut unserved);
                    all.failed.extend(more.failed.iter().map(|(path, failure)| (path.clone(), failure.clone())));
                    all.left.extend(more.left.iter().cloned());
                }
            }
            *last = PollOutcome { completed_polls: completed, fault: None, unserved };
            true
        });
    }

    /// Waits for the next poll. Meanwhile, notifies subscribers of other replicas' findings.
    async fn tell_news_until(&self, next: impl Future<Output = PollTrigger>, min_pause: Duration) -> PollTrigger {
        let Some(shards) = &self.state.shared else { return next.await };
        let earliest = Instant::now().checked_add(min_pause);
        let mut wakes = false;
        tokio::pin!(next);
        loop {
            let may_poll = async {
                match earliest {
                    Some(earliest) if wakes => sleep_until(earliest).await,
                    _ => pending().await,
                }
            };
            tokio::select! {
                trigger = &mut next => return trigger,
                () = may_poll => return PollTrigger::now(PollCause::Replica),
                () = shards.wait_for_news() => {}
            }
            // Not cancelled by another branch: news that were taken must be delivered.
            for (shard, news) in shards.take_news() {
                wakes |= self.tell_news(shards, shard, news).await;
            }
        }
    }

    /// Notifies subscribers of another replica's findings in a shard. Returns whether this replica may have something
    /// to poll.
    async fn tell_news(&self, shards: &Shards, shard: u32, news: News) -> bool {
        let goes_on = shards.heard(shard, &news);
        let News { changed, all_changed, listing, completed, wake, .. } = news;
        if all_changed || listing || !changed.is_empty() {
            self.state.plugin.data_changed();
        }
        if all_changed || completed.is_some() {
            self.state.plugin.clear_cached_responses();
        }
        if all_changed {
            self.state.notify_all().await;
        } else if !changed.is_empty() {
            let mount = self.state.plugin.mount();
            let located = changed.iter().filter_map(|path| mount.compose(path).ok());
            self.state.notify_of_change(located.map(|located| (located.uri, located.path)).collect()).await;
        }
        if listing && shard == LISTING_SHARD {
            self.state.plugin.drop_cached_pages(DroppedFor::Whole);
            self.state.listing.mark_dirty();
        }
        if completed.is_some() {
            if let Some(polls) = self.polls.get(&shard) {
                *polls.unserved.lock() = Arc::default();
            }
            self.publish(shards.completed());
        }
        wake || goes_on
    }

    /// Polls all groups of this replica's own paths in a shard, and returns the pause before the next poll.
    async fn poll_own(&mut self, shard: u32, watched: Vec<(Uri, Path)>) -> Result<Duration, Fault> {
        let began = Instant::now();
        self.calls.has_listing = shard == LISTING_SHARD;
        let state = self.state.clone();
        let of_shard = self.polls.entry(shard).or_insert_with(|| ShardPolls::new(&state, false));
        let result = of_shard.polls.poll_own(&mut self.calls, watched, of_shard.is_failing).await;
        of_shard.is_failing = result.is_err();
        let round = result?;
        let Owed { resources, listing } = std::mem::take(&mut self.owed);
        if !resources.is_empty() {
            let concerns = |mailbox: &Mailbox, _: &Uri| resources.contains(&mailbox.id) && state.concerns(mailbox);
            state.context.notify_under(Some(state.plugin.mount()), concerns).await;
            of_shard.polls.owe_uncovered();
        }
        state.notify_owed_listing(&listing).await;
        let now = Instant::now();
        *of_shard.unserved.lock() = Arc::new(unserved(&of_shard.polls, &round, now));
        let next_retry = of_shard.polls.groups().next_retry();
        let retries_from = of_shard.polls.retries_from();
        Ok(match next_retry {
            // The same amount of time is left for other work.
            _ if !round.left.is_empty() => began.elapsed().min(MAX_POLL_PAUSE),
            Some(retry) => {
                let retry = retries_from.map_or(retry, |from| retry.max(from));
                let left = retry.saturating_duration_since(now).max(MIN_POLL_INTERVAL);
                left.min(self.next_delay(round.hint))
            }
            None => self.next_delay(round.hint),
        })
    }

    /// Publishes that a poll has failed, and returns the pause before the next one.
    fn fail(&mut self, fault: Fault, requested: u64) -> Duration {
        let pause = match fault {
            // The provider was not called, so this is not a further failure.
            Fault::Suspended(left) => left.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL),
            _ => self.backoff.next_delay(),
        };
        self.is_failing = true;
        let fault = Some((fault, pause.min(MAX_RETRY_AFTER)));
        self.state.last_poll.send_replace(PollOutcome::of_all(requested, fault));
        pause
    }

    /// Returns the pause before the next poll: the provider's hint, within bounds, else the config's interval.
    fn next_delay(&self, hint: Option<Duration>) -> Duration {
        hint.map_or(self.interval, |hint| {
            hint.clamp(MIN_POLL_INTERVAL.min(self.interval), MAX_POLL_INTERVAL.max(self.interval))
        })
    }

    fn reset_backoff(&mut self) {
        (self.is_failing, self.backoff) = (false, new_backoff(self.interval));
    }
}

/// Returns the new paths that a poll did not serve.
fn unserved(polls: &Polls<Requester, Fault>, round: &Round, now: Instant) -> Unserved {
    let mut unserved = Unserved::default();
    for (path, failure) in polls.unserved(round, now) {
        match failure {
            Some(failure) => {
                let after = failure.until.saturating_duration_since(now).min(MAX_RETRY_AFTER);
                unserved.failed.insert(path, (failure.fault.clone(), after));
            }
            None => drop(unserved.left.insert(path)),
        }
    }
    unserved
}

fn new_backoff(interval: Duration) -> Backoff {
    Backoff::new(interval, MAX_BACKOFF.max(interval))
}
