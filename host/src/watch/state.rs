//! The state that the watchers of all plugins share ([`WatchContext`]), and the state that a watcher shares with its tasks
//! ([`WatcherState`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::byte_budget::ByteBudget;
use super::listing::ListingMonitor;
use super::subscriptions::SubscriptionIndex;
use crate::access::Access;
use crate::plugin::{Fault, Plugin};

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
    pub(super) retired: CancellationToken,
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
