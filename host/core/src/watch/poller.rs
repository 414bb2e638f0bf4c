//! The task that polls one plugin for changes.
//!
//! A poll covers all watched paths: one call of `changes` for each [group](super::groups) of them, sequentially. It
//! ends with the first call that fails, and the next poll starts with the group after that one, so a path that makes
//! the provider trap only prevents notifications of its own group.
//!
//! The paths of an answer are reduced to a set of watched resources before anyone is notified, so a path that is named
//! twice counts as one change. However many paths and subscribers there are, the set is processed in
//! [batches](super::notify).
//!
//! Each subscription requests a poll, so clients could request polls continuously. So a poll that took longer than
//! [`QUICK_POLL`] is followed by a pause of the same duration, up to [`MAX_POLL_PAUSE`], regardless of who requests the next
//! one; and while a provider is failing, subscriptions cause at most one poll per [`MAX_POLL_PAUSE`].
//!
//! A build in a granted directory causes a continuous stream of events, and every client of a database can notify its channels at
//! any rate. Polls that events and notifications cause are debounced, and followed by a pause ([`burst_pause`]) that grows while
//! the polls find no change of a watched path. Events do not shorten the back-off of a failing provider. A notification shortens it,
//! but not below [`MAX_POLL_PAUSE`]: it may mean that the database has recovered.
//!
//! In a cluster ([`replicas`](super::replicas)) another replica may poll for this one: then nothing is polled here, a subscription or an event is
//! a request to that replica, and its answer is what a poll would have found. And this replica may poll for others: then it
//! passes their paths, too, with the tokens that all replicas have.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcp_host_base::backoff::Backoff;
use mcp_host_base::fs_watch::DirectoryWatcher;
use mcp_host_cluster::member::{Found, OwnTokens, Plan, SharedPoll};
use mcp_host_cluster::share::{News, SharedPolls};
use mcp_host_engine::plugin::{Fault, WatchedChanges};
use mcp_host_model::uri::{Path, Uri};
use mcp_host_sandbox::sql::DatabaseNotifications;
use tokio::time::{sleep, sleep_until};

use super::burst_pause::burst_pause;
use super::groups::PathGroups;
use super::poll_metrics::{PollCause, PollTrigger};
use super::state::BATCH_SIZE;
use super::state::{PollOutcome, WatcherState};

/// The bounds of a provider's hint, unless the interval of the config lies outside of them.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(250);
const MAX_POLL_INTERVAL: Duration = Duration::from_mins(5);
/// The longest back-off after failed polls, unless the interval is longer.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// The longest time for which a plugin without subscribers is still watched.
const MAX_LINGER: Duration = Duration::from_secs(2);
/// The debounce time of file system events and of notifications of databases: a poll starts this long after the first event of a burst, and covers the
/// whole burst.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// The duration up to which a poll may be followed by the next at once.
const QUICK_POLL: Duration = Duration::from_millis(5);
/// The longest pause after a poll before a new subscription causes the next.
const MAX_POLL_PAUSE: Duration = Duration::from_secs(1);

/// The longest time after a failed poll at which subscribers retry, which requests another poll.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);

/// Polls one plugin for changes while it has subscribers.
pub(super) struct Poller {
    state: Arc<WatcherState>,
    interval: Duration,
    groups: PathGroups,
    /// The groups of all replicas, while this one polls for all.
    shared_groups: Option<PathGroups>,
    /// What a poll for all replicas has found so far.
    found: Option<Found>,
    /// The index of the group with which the next poll starts.
    next_group: usize,
    /// Whether the last poll failed.
    is_failing: bool,
    /// The delays after consecutive failed polls, from the interval on.
    backoff: Backoff,
    /// The number of consecutive polls that events or notifications caused, and that reported no watched path.
    futile_polls: u32,
    /// Whether the first poll notifies all subscribers once, in place of the changes it returns: changes before it are
    /// unknown.
    notify_all_once: bool,
}

impl Poller {
    pub(super) fn new(state: Arc<WatcherState>, notify_all_once: bool) -> Self {
        let interval = state.plugin.watch_interval();
        let groups = PathGroups::new(state.plugin.max_items());
        let backoff = new_backoff(interval);
        Self {
            state,
            interval,
            groups,
            shared_groups: None,
            found: None,
            next_group: 0,
            is_failing: false,
            backoff,
            futile_polls: 0,
            notify_all_once,
        }
    }

    pub(super) async fn run(mut self) {
        let mut directories: Option<DirectoryWatcher> = None;
        let mut databases: Option<DatabaseNotifications> = None;
        let mut trigger = PollTrigger::now(PollCause::Subscription);
        loop {
            if self.state.shared.is_some() && trigger.cause.is_event() {
                // For whoever polls instead, an event is a request, as a new subscription is.
                self.state.requested_polls.fetch_add(1, Ordering::SeqCst);
            }
            let requested = self.state.requested_polls.load(Ordering::SeqCst);
            let Some(watched) = self.watched_paths().await else {
                // Watching ends before the plugin is reported as idle.
                (directories, databases) = (None, None);
                self.go_idle(requested);
                self.state.wake.notified().await;
                trigger = PollTrigger::now(PollCause::Subscription);
                continue;
            };
            self.state.is_polling.store(true, Ordering::Relaxed);
            let events = match directories.take() {
                Some(events) if !events.needs_rewatch() => events,
                before => {
                    let plugin = &self.state.plugin;
                    DirectoryWatcher::watch(plugin.name(), plugin.granted_directories(), before).await
                }
            };
            let notifications = databases.get_or_insert_with(|| self.state.plugin.listen_to_databases());
            let began = Instant::now();
            self.futile_polls = if trigger.cause.is_event() { self.futile_polls.saturating_add(1) } else { 0 };
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
            let event_pause = burst_pause(took, self.futile_polls);
            // These sleeps begin with the end of the poll, and not with the event.
            let (pause_of_events, pause_of_notifications) = (sleep(event_pause), sleep(event_pause.max(min_pause)));
            let pause_of_provider = sleep(event_pause.max(min_pause));
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
            // A native provider says it once for what it coalesces, so there is no burst to wait for.
            let after_provider = async {
                self.state.plugin.changed().await;
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
                    () = self.state.unwatched.notified() => {
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

    /// Waits for a moment, as clients often reconnect.
    async fn linger(&self) {
        // The next poll checks whether there are subscribers.
        let _ = tokio::time::timeout(self.interval.min(MAX_LINGER), self.state.wake.notified()).await;
    }

    /// Returns the paths to be polled, or `None` without subscribers.
    async fn watched_paths(&self) -> Option<Vec<(Uri, Path)>> {
        let (common, mount) = (&self.state.context, self.state.plugin.mount());
        let mut watched = Vec::new();
        loop {
            let after = watched.last().map(|(uri, _): &(Uri, Path)| uri);
            let more = {
                let index = common.subscription_index();
                if watched.is_empty() && !common.is_watched(&index, mount) {
                    return None;
                }
                index.paths(mount, after, BATCH_SIZE)
            };
            let is_all = more.len() < BATCH_SIZE;
            watched.extend(more);
            if is_all {
                return Some(watched);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Resets the state when there are no more subscribers, as it becomes stale.
    fn go_idle(&mut self, requested: u64) {
        if let Some(shared) = &self.state.shared {
            shared.leave();
        }
        self.shared_groups = None;
        self.groups = PathGroups::new(self.state.plugin.max_items());
        self.reset_backoff();
        self.notify_all_once = false;
        self.state.listing.clear();
        self.state.is_polling.store(false, Ordering::Relaxed);
        let fault = Some((Fault::Host("there are no more subscribers".to_owned()), MIN_POLL_INTERVAL));
        self.state.last_poll.send_replace(PollOutcome { completed_polls: requested, fault });
    }

    /// Polls what is this replica's to poll. Returns the pause before the next poll, and whether it has polled: otherwise another replica
    /// does.
    async fn poll_or_rely(&mut self, watched: Vec<(Uri, Path)>, requested: u64) -> (Duration, bool) {
        let state = self.state.clone();
        let Some(shared) = &state.shared else {
            self.groups.set_watched(watched);
            return (self.poll_once(requested).await, true);
        };
        shared.watch(watched.iter().map(|(_, path)| path.as_str().into()).collect(), requested);
        match shared.begin_poll() {
            Plan::Own { tokens, tell_all } => {
                match tokens {
                    OwnTokens::Kept => {}
                    OwnTokens::None => self.groups = PathGroups::new(self.state.plugin.max_items()),
                    OwnTokens::Shared => {
                        let groups = self.shared_groups.take();
                        self.groups = groups.unwrap_or_else(|| PathGroups::new(self.state.plugin.max_items()));
                    }
                }
                self.notify_all_once |= tell_all;
                self.groups.set_watched(watched);
                let pause = self.poll_once(requested).await;
                shared.own_polled(!self.is_failing);
                (pause, true)
            }
            Plan::Shared(poll) => (self.poll_for_all(shared, poll, requested).await, true),
            Plan::Nothing => {
                self.reset_backoff();
                (self.interval, false)
            }
        }
    }

    /// Polls the paths of all replicas, and returns the pause before the next poll.
    async fn poll_for_all(&mut self, shared: &SharedPolls, poll: SharedPoll, requested: u64) -> Duration {
        let (plugin, SharedPoll { paths, tokens, key }) = (self.state.plugin.clone(), poll);
        let before = match tokens {
            Some(tokens) => Some(PathGroups::shared(plugin.max_items(), key, tokens)),
            None => self.shared_groups.take(),
        };
        let mut groups = before.unwrap_or_else(|| PathGroups::shared(plugin.max_items(), key, Vec::new()));
        let mut watched = Vec::with_capacity(paths.len());
        for path in &*paths {
            // Of another replica, so it may be none.
            watched.extend(plugin.mount().compose(path).ok().map(|located| (located.uri, located.path)));
            if watched.len().is_multiple_of(BATCH_SIZE) {
                tokio::task::yield_now().await;
            }
        }
        groups.set_watched(watched);
        std::mem::swap(&mut self.groups, &mut groups);
        self.found = Some(Found::default());
        let result = self.poll_groups().await;
        std::mem::swap(&mut self.groups, &mut groups);
        let found = self.found.take().unwrap_or_default();
        let found = Found { tokens: groups.tokens(), ..found };
        self.shared_groups = Some(groups);
        shared.shared_polled(found, result.is_ok());
        match result {
            // Whoever waits is told when the tokens are stored: until then this poll may be lost.
            Ok(hint) => {
                self.reset_backoff();
                self.next_delay(hint)
            }
            Err(fault) => self.fail(fault, requested),
        }
    }

    /// Waits for the next poll, and notifies subscribers of what other replicas have found meanwhile.
    async fn tell_news_until(&self, next: impl Future<Output = PollTrigger>, min_pause: Duration) -> PollTrigger {
        let Some(shared) = &self.state.shared else { return next.await };
        let earliest = tokio::time::Instant::now().checked_add(min_pause);
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
                () = shared.wait_for_news() => {}
            }
            // Whatever else happens, what is taken is told.
            wakes |= self.tell_news(shared.take_news()).await;
        }
    }

    /// Notifies subscribers of what another replica has found. Returns whether there may be something to poll here.
    async fn tell_news(&self, news: News) -> bool {
        let News { changed, all_changed, listing, completed, wake, .. } = news;
        if listing || all_changed || !changed.is_empty() || completed.is_some() {
            self.state.plugin.clear_cached_responses();
        }
        if all_changed {
            self.notify_all().await;
        } else if !changed.is_empty() {
            let mount = self.state.plugin.mount();
            let located = changed.iter().filter_map(|path| mount.compose(path).ok());
            self.state.notify_of_change(located.map(|located| (located.uri, located.path)).collect()).await;
        }
        if listing {
            self.state.listing.mark_dirty();
        }
        if let Some(completed) = completed {
            self.state.last_poll.send_if_modified(|last| {
                let is_new = completed > last.completed_polls;
                if is_new {
                    *last = PollOutcome { completed_polls: completed, fault: None };
                }
                is_new
            });
        }
        wake
    }

    /// Polls all groups, publishes the outcome, and returns the pause before the next poll.
    async fn poll_once(&mut self, requested: u64) -> Duration {
        let pause = match self.poll_groups().await {
            Ok(hint) => {
                if std::mem::take(&mut self.notify_all_once) {
                    self.notify_all().await;
                }
                self.reset_backoff();
                self.next_delay(hint)
            }
            // The token is retained, so changes from now on are reported after recovery.
            Err(fault) => {
                if self.notify_all_once && !self.is_failing {
                    self.notify_all().await;
                }
                return self.fail(fault, requested);
            }
        };
        self.state.last_poll.send_replace(PollOutcome { completed_polls: requested, fault: None });
        pause
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
        self.state.last_poll.send_replace(PollOutcome { completed_polls: requested, fault });
        pause
    }

    /// Polls each group, and returns the provider's hint for the next poll.
    async fn poll_groups(&mut self) -> Result<Option<Duration>, Fault> {
        let (count, first) = (self.groups.len(), self.next_group);
        let mut hint: Option<Duration> = None;
        for group_index in (0..count).cycle().skip(first).take(count) {
            self.next_group = group_index.saturating_add(1).checked_rem(count).unwrap_or(0);
            let Some(group) = self.groups.get_mut(group_index) else { continue };
            let paths: Vec<_> = group.watched.iter().map(|(_, path)| path.clone()).collect();
            if paths.is_empty() && count > 1 && group_index > 0 {
                continue;
            }
            let changes = self.state.plugin.changes(&paths, group.token.as_deref()).await?;
            let watches_more = group.token.is_none() || paths.iter().any(|path| !group.token_paths.contains(path));
            if watches_more || changes.listing_changed || !changes.changed.is_empty() {
                // What is watched from now on is compared with the state of this answer.
                self.state.plugin.clear_cached_responses();
                if let Some(replicas) = &self.state.context.replicas {
                    replicas.invalidate(&self.state.plugin);
                }
            }
            let changed = self.changed_resources(group_index, &changes).await;
            if !changed.is_empty() {
                self.futile_polls = 0;
            }
            if let Some(found) = &mut self.found {
                found.changed.extend(changed.iter().map(|(_, path)| path.as_str().into()));
                found.listing |= changes.listing_changed;
            }
            if !self.notify_all_once {
                self.state.notify_of_change(changed).await;
            }
            if changes.listing_changed {
                self.state.listing.mark_dirty();
            }
            hint = hint.into_iter().chain(changes.poll_after).min();
            if let Some(group) = self.groups.get_mut(group_index) {
                group.token = Some(changes.token);
                group.token_paths = paths.into_iter().collect();
                group.covers_others = false;
            }
        }
        Ok(hint)
    }

    /// Returns the resources of a group that changed according to the provider, each once.
    async fn changed_resources(&mut self, group_index: usize, changes: &WatchedChanges) -> Vec<(Uri, Path)> {
        let Some(group) = self.groups.get_mut(group_index) else { return Vec::new() };
        let mut changed = BTreeSet::new();
        for batch in changes.changed.chunks(BATCH_SIZE) {
            changed.extend(batch.iter().filter(|path| group.covers_others || group.token_paths.contains(*path)));
            tokio::task::yield_now().await;
        }
        let watched = group.watched.iter().filter(|(_, path)| changed.contains(path));
        watched.cloned().collect()
    }

    async fn notify_all(&self) {
        self.state.context.notify_under(Some(self.state.plugin.mount()), |_, _| true).await;
        // What principals see of directories may be others' by now.
        self.state.examine_all().await;
    }

    /// Returns the pause before the next poll: the provider's hint, within bounds, else the interval of the config.
    fn next_delay(&self, hint: Option<Duration>) -> Duration {
        hint.map_or(self.interval, |hint| {
            hint.clamp(MIN_POLL_INTERVAL.min(self.interval), MAX_POLL_INTERVAL.max(self.interval))
        })
    }

    fn reset_backoff(&mut self) {
        (self.is_failing, self.backoff) = (false, new_backoff(self.interval));
    }
}

fn new_backoff(interval: Duration) -> Backoff {
    Backoff::new(interval, MAX_BACKOFF.max(interval))
}
