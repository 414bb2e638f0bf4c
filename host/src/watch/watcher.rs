//! What watches one loaded plugin: a task that asks what changed ([`poller`](super::poller)), and one that finds out whether
//! what is listed is another for somebody ([`listing`](super::listing)).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::byte_budget::ByteBudget;
use super::listing::ListingMonitor;
use super::lookup::{LookupError, Lookups};
use super::poller::Poller;
use super::subscriptions::SubscriptionIndex;
use crate::access::{Access, Principal};
use crate::catalog::ListingFingerprint;
use crate::plugin::{Fault, Plugin};
use crate::uri::{Path, Uri};

/// What all subscriptions of a host may take up, in bytes: about a million of them whose URIs have 50 bytes.
const MAX_SUBSCRIPTION_BYTES: usize = 512 << 20;

/// What all watchers share.
#[derive(Debug)]
pub(super) struct WatchContext {
    subscription_index: Mutex<SubscriptionIndex>,
    /// The rules of now.
    pub(super) access: ArcSwap<Access>,
    /// Held by each subscriber.
    subscribers: Arc<()>,
    /// What all subscriptions may take up.
    pub(super) memory: ByteBudget,
}

impl WatchContext {
    pub(super) fn new(access: Arc<Access>) -> Arc<Self> {
        Arc::new(Self {
            subscription_index: Mutex::default(),
            access: ArcSwap::new(access),
            subscribers: Arc::default(),
            memory: ByteBudget::new(MAX_SUBSCRIPTION_BYTES),
        })
    }

    /// How many subscribers there are.
    pub(super) fn subscriber_count(&self) -> usize {
        Arc::strong_count(&self.subscribers).saturating_sub(1)
    }

    /// What a subscriber holds to be counted.
    pub(super) fn subscriber_guard(&self) -> Arc<()> {
        self.subscribers.clone()
    }

    pub(super) fn subscription_index(&self) -> MutexGuard<'_, SubscriptionIndex> {
        self.subscription_index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches one plugin while anyone is interested in it. It ends when it is retired, or dropped.
pub(super) struct Watcher {
    state: Arc<WatcherState>,
    lookups: Arc<Lookups>,
}

/// What a watcher and its tasks share.
pub(super) struct WatcherState {
    pub(super) plugin: Arc<Plugin>,
    pub(super) context: Arc<WatchContext>,
    /// Something happened that a round should not wait for the interval to see.
    pub(super) wake: Notify,
    /// Nobody is interested any more.
    pub(super) unwatched: Notify,
    /// How many rounds have been asked for: those that a round counts for are all up to the number at its beginning.
    pub(super) requested_polls: AtomicU64,
    /// The last round: up to which of those asked for it counted, and how it went.
    pub(super) last_poll: watch::Sender<PollOutcome>,
    pub(super) listing: ListingMonitor,
    /// Whether its plugin is being asked, round by round.
    pub(super) is_polling: AtomicBool,
    retired: CancellationToken,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PollOutcome {
    pub(super) completed_polls: u64,
    /// What was wrong, and in how long it makes sense to ask again.
    pub(super) fault: Option<(Fault, Duration)>,
}

/// Why no round was made.
pub(super) enum PollError {
    /// The provider failed. In so long it makes sense to ask again.
    Fault(Fault, Duration),
    /// The watcher was retired: another one may have taken its place.
    Retired,
}

/// What a watcher takes over from the one whose place it takes.
#[derive(Default)]
pub(super) struct Handover {
    /// What each principal who asked would have listed last.
    pub(super) fingerprints: HashMap<Principal, ListingFingerprint>,
    /// Whether those who are interested are told once, as soon as what changes from then on is known.
    pub(super) notify_all_once: bool,
}

impl Watcher {
    /// Starts the tasks.
    pub(super) fn start(plugin: &Arc<Plugin>, context: &Arc<WatchContext>, handover: Handover) -> Arc<Self> {
        let state = Arc::new(WatcherState {
            plugin: plugin.clone(),
            context: context.clone(),
            wake: Notify::new(),
            unwatched: Notify::new(),
            requested_polls: AtomicU64::new(0),
            last_poll: watch::Sender::new(PollOutcome::default()),
            listing: ListingMonitor::new(handover.fingerprints),
            is_polling: AtomicBool::new(false),
            retired: CancellationToken::new(),
        });
        if plugin.info().watches {
            let poller = Poller::new(state.clone(), handover.notify_all_once);
            tokio::spawn(state.retired.clone().run_until_cancelled_owned(poller.run()));
        }
        tokio::spawn(state.retired.clone().run_until_cancelled_owned(state.clone().monitor_listing()));
        Arc::new(Self { lookups: Lookups::new(plugin.clone()), state })
    }

    pub(super) fn plugin(&self) -> &Arc<Plugin> {
        &self.state.plugin
    }

    /// Whether its provider tells what changes.
    pub(super) fn supports_changes(&self) -> bool {
        self.state.supports_changes()
    }

    /// Whether its plugin is being asked what changed.
    pub(super) fn is_polling(&self) -> bool {
        self.state.is_polling.load(Ordering::Relaxed)
    }

    /// Has it find out that nobody is interested any more, if so.
    pub(super) fn check_unwatched(&self, index: &SubscriptionIndex) {
        if self.supports_changes() && !index.has_any_under(self.plugin().mount()) {
            self.state.unwatched.notify_one();
        }
    }

    /// Ends its tasks; whoever waits for a round goes on without.
    pub(super) fn retire(&self) {
        self.state.retired.cancel();
    }

    /// See [`WatcherState::wait_for_poll`].
    pub(super) async fn wait_for_poll(&self) -> Result<(), PollError> {
        self.state.wait_for_poll().await
    }

    /// What its provider calls that resource; none if it does not own it.
    pub(super) fn path(&self, uri: &Uri) -> Option<Path> {
        let mount = self.plugin().mount();
        Some(mount.compose(uri.as_str().strip_prefix(mount.as_str())?).ok()?.path)
    }

    /// Whether its provider says of that resource that it can be subscribed to; see [`Lookups`]. None if it was retired.
    pub(super) async fn is_subscribable(&self, path: &Path) -> Option<Result<bool, LookupError>> {
        self.state.retired.run_until_cancelled(self.lookups.is_subscribable(path)).await
    }

    /// Somebody new is interested in what is listed.
    pub(super) fn watch_listing(&self) {
        if self.supports_changes() {
            self.state.listing.dirty.notify_one();
            self.state.wake.notify_one();
        }
    }

    /// Returns when changes of what that principal would list count.
    pub(super) async fn listing_ready(&self, principal: &Principal) {
        if self.supports_changes() {
            self.state.retired.run_until_cancelled(self.state.listing.wait_until_tracked(principal)).await;
        }
    }

    /// What principals who asked would have listed last, as far as it is known. A provider that does not tell what changes is
    /// asked now.
    pub(super) async fn fingerprints(&self) -> HashMap<Principal, ListingFingerprint> {
        if !self.supports_changes() {
            let access = self.state.context.access.load_full();
            self.state.ensure_fingerprints(&access).await;
        }
        self.state.listing.fingerprints().clone()
    }

    /// Has what is listed compared with what it was under the rules of before.
    pub(super) fn recheck_listing(&self, old: Arc<Access>) {
        let state = self.state.clone();
        tokio::spawn(state.retired.clone().run_until_cancelled_owned(async move {
            if !state.supports_changes() {
                state.ensure_fingerprints(&old).await;
            }
            state.listing.mark_dirty();
        }));
    }

    /// Has what is listed compared with what it was.
    pub(super) fn mark_listing_dirty(&self) {
        self.state.listing.mark_dirty();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.retire();
    }
}

impl WatcherState {
    pub(super) fn supports_changes(&self) -> bool {
        self.plugin.info().watches
    }

    /// Returns when a round that began from now on has ended.
    pub(super) async fn wait_for_poll(&self) -> Result<(), PollError> {
        let requested = self.requested_polls.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        let mut polls = self.last_poll.subscribe();
        self.wake.notify_one();
        let outcome = self.retired.run_until_cancelled(polls.wait_for(|poll| poll.completed_polls >= requested)).await;
        match outcome {
            Some(Ok(round)) => round.fault.clone().map_or(Ok(()), |(fault, after)| Err(PollError::Fault(fault, after))),
            Some(Err(_)) | None => Err(PollError::Retired),
        }
    }
}
