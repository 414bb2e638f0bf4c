//! The watcher of one loaded plugin: a task that polls it for changes ([`poller`](super::poller)), and one that detects
//! for which principals its listing has changed ([`listing`](super::listing)).

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

/// The memory budget of all subscriptions of a host, in bytes: about a million of them with URIs of 50 bytes.
const MAX_SUBSCRIPTION_BYTES: usize = 512 << 20;

/// The state that all watchers share.
#[derive(Debug)]
pub(super) struct WatchContext {
    subscription_index: Mutex<SubscriptionIndex>,
    /// The current rules.
    pub(super) access: ArcSwap<Access>,
    /// Cloned by each subscriber, to count them.
    subscribers: Arc<()>,
    /// The memory budget of all subscriptions.
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

    /// Returns the number of subscribers.
    pub(super) fn subscriber_count(&self) -> usize {
        Arc::strong_count(&self.subscribers).saturating_sub(1)
    }

    /// Returns a guard that counts a subscriber while it is held.
    pub(super) fn subscriber_guard(&self) -> Arc<()> {
        self.subscribers.clone()
    }

    pub(super) fn subscription_index(&self) -> MutexGuard<'_, SubscriptionIndex> {
        self.subscription_index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches one plugin while it has subscribers. Stops when it is retired or dropped.
pub(super) struct Watcher {
    state: Arc<WatcherState>,
    lookups: Arc<Lookups>,
}

/// The state that a watcher and its tasks share.
pub(super) struct WatcherState {
    pub(super) plugin: Arc<Plugin>,
    pub(super) context: Arc<WatchContext>,
    /// Notified by events for which the next poll should not wait for the interval.
    pub(super) wake: Notify,
    /// Notified when there are no more subscribers.
    pub(super) unwatched: Notify,
    /// The number of polls that were requested. A poll serves all requests up to the number at its start.
    pub(super) requested_polls: AtomicU64,
    /// The last poll: the number of requests that it served, and its result.
    pub(super) last_poll: watch::Sender<PollOutcome>,
    pub(super) listing: ListingMonitor,
    /// Whether the plugin is being polled.
    pub(super) is_polling: AtomicBool,
    retired: CancellationToken,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PollOutcome {
    pub(super) completed_polls: u64,
    /// The fault, and the time after which to retry.
    pub(super) fault: Option<(Fault, Duration)>,
}

/// The reason why a poll failed.
pub(super) enum PollError {
    /// The provider failed. To be retried after the given time.
    Fault(Fault, Duration),
    /// The watcher was retired, and possibly replaced.
    Retired,
}

/// The state that a watcher inherits from its predecessor.
#[derive(Default)]
pub(super) struct Handover {
    /// The last fingerprint of the listing for each subscribed principal.
    pub(super) fingerprints: HashMap<Principal, ListingFingerprint>,
    /// Whether all subscribers are notified once, as soon as later changes are detected.
    pub(super) notify_all_once: bool,
}

impl Watcher {
    /// Starts the watcher's tasks.
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

    /// Returns whether the provider reports changes.
    pub(super) fn supports_changes(&self) -> bool {
        self.state.supports_changes()
    }

    /// Returns whether the plugin is being polled.
    pub(super) fn is_polling(&self) -> bool {
        self.state.is_polling.load(Ordering::Relaxed)
    }

    /// Wakes the poller if the plugin has no more subscribers.
    pub(super) fn check_unwatched(&self, index: &SubscriptionIndex) {
        if self.supports_changes() && !index.has_any_under(self.plugin().mount()) {
            self.state.unwatched.notify_one();
        }
    }

    /// Stops the watcher's tasks. Callers that wait for a poll get [`PollError::Retired`].
    pub(super) fn retire(&self) {
        self.state.retired.cancel();
    }

    /// See [`WatcherState::wait_for_poll`].
    pub(super) async fn wait_for_poll(&self) -> Result<(), PollError> {
        self.state.wait_for_poll().await
    }

    /// Returns the path of a resource, or `None` if the plugin does not own it.
    pub(super) fn path(&self, uri: &Uri) -> Option<Path> {
        let mount = self.plugin().mount();
        Some(mount.compose(uri.as_str().strip_prefix(mount.as_str())?).ok()?.path)
    }

    /// Queries the provider whether the resource is subscribable; see [`Lookups`]. Returns `None` if the watcher was
    /// retired.
    pub(super) async fn is_subscribable(&self, path: &Path) -> Option<Result<bool, LookupError>> {
        self.state.retired.run_until_cancelled(self.lookups.is_subscribable(path)).await
    }

    /// Starts tracking the listing for a new subscriber of it.
    pub(super) fn watch_listing(&self) {
        if self.supports_changes() {
            self.state.listing.dirty.notify_one();
            self.state.wake.notify_one();
        }
    }

    /// Waits until changes of the principal's listing are detected.
    pub(super) async fn listing_ready(&self, principal: &Principal) {
        if self.supports_changes() {
            self.state.retired.run_until_cancelled(self.state.listing.wait_until_tracked(principal)).await;
        }
    }

    /// Returns the last known fingerprint of the listing for each subscribed principal. For a provider that does not
    /// report changes, they are computed now.
    pub(super) async fn fingerprints(&self) -> HashMap<Principal, ListingFingerprint> {
        if !self.supports_changes() {
            let access = self.state.context.access.load_full();
            self.state.ensure_fingerprints(&access).await;
        }
        self.state.listing.fingerprints().clone()
    }

    /// Checks for changes of the listing since the `old` rules.
    pub(super) fn recheck_listing(&self, old: Arc<Access>) {
        let state = self.state.clone();
        tokio::spawn(state.retired.clone().run_until_cancelled_owned(async move {
            if !state.supports_changes() {
                state.ensure_fingerprints(&old).await;
            }
            state.listing.mark_dirty();
        }));
    }

    /// Checks for changes of the listing.
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

    /// Waits until a poll that started after this call has ended.
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
