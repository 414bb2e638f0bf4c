//! The task that asks one plugin, round by round, what changed.
//!
//! A round asks about everything that is watched: one call of `changes` for each [group](super::groups) of it, one after the
//! other. It ends with the first that fails, and the next round begins with the group behind that one, so that a path which
//! makes the provider trap keeps only its own group from being told of.
//!
//! What an answer says is made a set of watched resources before anybody is notified, so a path that is named twice changed
//! once. What is made of it, for however many paths and subscribers, is made in [pieces](super::notify).
//!
//! Whoever subscribes has a round made, and could have one made all the time. So a round that took longer than [`QUICK_POLL`] is
//! followed by a pause as long as itself, up to [`MAX_POLL_PAUSE`], whoever asks for the next; and while a provider fails,
//! subscribers have it asked once in [`MAX_POLL_PAUSE`] at most.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::groups::PathGroups;
use super::notify::BATCH_SIZE;
use super::state::{PollOutcome, WatcherState};
use crate::fs_watch::DirectoryWatcher;
use crate::plugin::{ChangeSet, Fault};
use crate::uri::{Path, Uri};

/// What a provider's hint is kept within, unless the interval of the config lies beyond.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(250);
const MAX_POLL_INTERVAL: Duration = Duration::from_mins(5);
/// The longest that a provider which failed is left alone, unless the interval is longer.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// For how long a plugin is kept watched, at most, that nobody is interested in any more.
const MAX_LINGER: Duration = Duration::from_secs(2);
/// Events of the file system come in bursts: a round waits for so long after the first, and sees the burst as one.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// A round that takes no longer may be followed by the next at once.
const QUICK_POLL: Duration = Duration::from_millis(5);
/// For how long a plugin is left alone after a round, at most, when somebody subscribes.
const MAX_POLL_PAUSE: Duration = Duration::from_secs(1);

/// After a round that failed, those who subscribe try again after its pause, or after so long: they will have a round made.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);

/// Asks one plugin what changed, while anyone is interested in it.
pub(super) struct Poller {
    state: Arc<WatcherState>,
    interval: Duration,
    groups: PathGroups,
    /// The group that the next round begins with.
    next_group: usize,
    /// Rounds that failed since the last one that did not.
    failures: u32,
    /// Whether everyone is told once what is told to nobody else: nobody knows what changed before the first round.
    notify_all_once: bool,
}

impl Poller {
    pub(super) fn new(state: Arc<WatcherState>, notify_all_once: bool) -> Self {
        let interval = state.plugin.watch_interval();
        let groups = PathGroups::new(state.plugin.max_items());
        Self { state, interval, groups, next_group: 0, failures: 0, notify_all_once }
    }

    pub(super) async fn run(mut self) {
        let mut directories: Option<DirectoryWatcher> = None;
        loop {
            let requested = self.state.requested_polls.load(Ordering::SeqCst);
            let Some(watched) = self.watched_paths().await else {
                // What is watched ends before anyone can see that nobody asks.
                directories = None;
                self.go_idle(requested);
                self.state.wake.notified().await;
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
            let began = Instant::now();
            self.groups.set_watched(watched);
            let pause = self.poll_once(requested).await;
            let min_pause = match began.elapsed() {
                _ if self.failures > 0 => pause.min(MAX_POLL_PAUSE),
                took if took > QUICK_POLL => took.min(MAX_POLL_PAUSE),
                _ => Duration::ZERO,
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = async { tokio::join!(self.state.wake.notified(), sleep(min_pause)); } => {}
                () = self.state.unwatched.notified() => self.linger().await,
                // A provider that fails is left alone, however much happens around it.
                () = events.changed(), if self.failures == 0 => sleep(DEBOUNCE.max(min_pause)).await,
            }
            directories = Some(events);
        }
    }

    /// Waits for a moment, as clients that go away often come back.
    async fn linger(&self) {
        // Whether somebody came or not, the next round finds out.
        let _ = tokio::time::timeout(self.interval.min(MAX_LINGER), self.state.wake.notified()).await;
    }

    /// What to ask about; none if nobody is interested.
    async fn watched_paths(&self) -> Option<Vec<(Uri, Path)>> {
        let (common, mount) = (&self.state.context, self.state.plugin.mount());
        let mut watched = Vec::new();
        loop {
            let after = watched.last().map(|(uri, _): &(Uri, Path)| uri);
            let more = {
                let index = common.subscription_index();
                if watched.is_empty() && !index.has_any_under(mount) {
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

    /// Nobody is interested any more: what is known gets old.
    fn go_idle(&mut self, requested: u64) {
        self.groups = PathGroups::new(self.state.plugin.max_items());
        self.failures = 0;
        self.notify_all_once = false;
        self.state.listing.clear();
        self.state.is_polling.store(false, Ordering::Relaxed);
        let fault = Some((Fault::Host("nobody is interested any more".to_owned()), MIN_POLL_INTERVAL));
        self.state.last_poll.send_replace(PollOutcome { completed_polls: requested, fault });
    }

    /// Asks once about everything, tells what came of it, and says for how long to rest.
    async fn poll_once(&mut self, requested: u64) -> Duration {
        let (fault, pause) = match self.poll_groups().await {
            Ok(hint) => {
                if std::mem::take(&mut self.notify_all_once) {
                    self.notify_all().await;
                }
                self.failures = 0;
                (None, self.next_delay(hint))
            }
            // The token stays: what changes now is told when the plugin is back.
            Err(fault) => {
                if self.notify_all_once && self.failures == 0 {
                    self.notify_all().await;
                }
                let pause = match fault {
                    // It was not asked: this is no further failure.
                    Fault::Suspended(left) => {
                        self.failures = self.failures.max(1);
                        left.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
                    }
                    _ => {
                        let pause = self.backoff();
                        self.failures = self.failures.saturating_add(1);
                        pause
                    }
                };
                (Some((fault, pause.min(MAX_RETRY_AFTER))), pause)
            }
        };
        self.state.last_poll.send_replace(PollOutcome { completed_polls: requested, fault });
        pause
    }

    /// Asks about each group, and gives in how long the provider would be asked again.
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
            let changed = self.changed_resources(group_index, &changes).await;
            if !self.notify_all_once {
                self.state.context.notify(changed, |_, _| true).await;
            }
            if changes.listing_changed {
                self.state.listing.mark_dirty();
            }
            hint = hint.into_iter().chain(changes.poll_after).min();
            if let Some(group) = self.groups.get_mut(group_index) {
                group.token = Some(changes.token);
                group.token_paths = paths.into_iter().collect();
            }
        }
        Ok(hint)
    }

    /// The resources that an answer about that group says changed, each once.
    async fn changed_resources(&mut self, group_index: usize, changes: &ChangeSet) -> Vec<Uri> {
        let Some(group) = self.groups.get_mut(group_index) else { return Vec::new() };
        let mut changed = BTreeSet::new();
        for batch in changes.changed.chunks(BATCH_SIZE) {
            changed.extend(batch.iter().filter(|path| group.token_paths.contains(*path)));
            tokio::task::yield_now().await;
        }
        let watched = group.watched.iter().filter(|(_, path)| changed.contains(path));
        watched.map(|(uri, _)| uri.clone()).collect()
    }

    async fn notify_all(&self) {
        self.state.context.notify_under(Some(self.state.plugin.mount()), |_, _| true).await;
    }

    /// How long after a round the next begins: as the provider hints, within bounds, else as the config says.
    fn next_delay(&self, hint: Option<Duration>) -> Duration {
        hint.map_or(self.interval, |hint| {
            hint.clamp(MIN_POLL_INTERVAL.min(self.interval), MAX_POLL_INTERVAL.max(self.interval))
        })
    }

    /// How long a provider that fails is left alone: twice as long each time.
    fn backoff(&self) -> Duration {
        let max = MAX_BACKOFF.max(self.interval);
        1_u32.checked_shl(self.failures).map_or(max, |times| self.interval.saturating_mul(times).min(max))
    }
}
