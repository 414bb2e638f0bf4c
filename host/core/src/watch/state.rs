//! The state that the watchers of all plugins share ([`WatchContext`]), and the state that a watcher shares with its tasks
//! ([`WatcherState`]).
//!
//! Subscribers are notified in batches. Clients determine the number of subscribers, and providers the rate of changes. So
//! a batch adds at most [`BATCH_SIZE`] updates to mailboxes; then the shared lock is released, and the task yields.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use governor::Quota;
use mcp_host_base::keyed_rate::KeyedRate;
use mcp_host_base::share_limiter::ShareLimiter;
use mcp_host_cluster::shards::Shards;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::caller::{Caller, Identity};
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::{Mount, Path, Uri};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::directories::DirectoryMonitor;
use super::listing::ListingMonitor;
use super::mailbox::Mailbox;
use super::poll_metrics::{LastLag, PollMetrics};
use super::replicas::Replicas;
use super::subscriptions::SubscriptionIndex;
use super::views::ViewScope;
use crate::access::{Access, Principal};
use crate::catalog::may_see_listing;
use crate::response_cache::CachedPlugin;

/// The state that all watchers share.
#[derive(Debug)]
pub(super) struct WatchContext {
    subscription_index: Mutex<SubscriptionIndex>,
    /// The current rules.
    pub(super) access: ArcSwap<Access>,
    /// Cloned by each subscriber, so that the count of clones is the number of subscribers.
    subscribers: Arc<()>,
    /// The id of the next watcher.
    next_watcher: AtomicU64,
    /// The memory of all subscriptions, in total and by client, in bytes.
    pub(super) memory: ShareLimiter<Requester>,
    pub(super) poll_metrics: PollMetrics,
    /// The other replicas of a cluster; none without one.
    pub(super) replicas: Option<Replicas>,
    /// Whether plugins prepare their data.
    pub(super) prepares: bool,
}

impl WatchContext {
    pub(super) fn new(access: Arc<Access>, replicas: Option<Replicas>, prepares: bool) -> Arc<Self> {
        Arc::new(Self {
            subscription_index: Mutex::default(),
            access: ArcSwap::new(access),
            subscribers: Arc::default(),
            next_watcher: AtomicU64::new(0),
            memory: ShareLimiter::default(),
            poll_metrics: PollMetrics::default(),
            replicas,
            prepares,
        })
    }

    /// Returns the id of a new watcher.
    pub(super) fn new_watcher(&self) -> u64 {
        self.next_watcher.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of subscribers.
    pub(super) fn subscriber_count(&self) -> usize {
        Arc::strong_count(&self.subscribers).saturating_sub(1)
    }

    /// Returns a guard that counts a subscriber while it is held.
    pub(super) fn subscriber_guard(&self) -> Arc<()> {
        self.subscribers.clone()
    }

    /// Returns whether there are subscriptions for the plugin at `mount`: to a resource below it, or to the listing by a
    /// principal that may see something of it.
    pub(super) fn is_watched(&self, mount: &Mount) -> bool {
        let principals = {
            let mut index = self.subscription_index();
            if index.has_resources_under(mount) {
                return true;
            }
            index.listing_principals()
        };
        self.may_any_see_listing(&principals, mount)
    }

    /// Returns whether one of these principals may see something of the listing of the plugin at `mount`. Must be called while the
    /// index is not locked.
    pub(super) fn may_any_see_listing(&self, principals: &HashSet<Principal>, mount: &Mount) -> bool {
        let access = self.access.load();
        principals.iter().any(|principal| may_see_listing(&access.policy(principal), mount))
    }

    /// Returns the caller that represents a subscriber at plugins with views; none if there are no such plugins.
    pub(super) fn caller(&self, mailbox: &Mailbox) -> Option<Caller> {
        let (principal, token) = mailbox.credentials();
        self.access.load().caller_with_token(&principal, token)
    }

    pub(super) fn subscription_index(&self) -> MutexGuard<'_, SubscriptionIndex> {
        self.subscription_index.lock()
    }
}

/// Token bucket of each client: how many polls of a plugin the client may force at once by subscribing to resources that
/// are not polled yet, and how many per second afterwards. One poll serves all waiting clients.
const FORCED_POLLS: NonZeroU32 = NonZeroU32::new(20).unwrap();
const FORCED_POLLS_PER_SECOND: NonZeroU32 = NonZeroU32::new(4).unwrap();
/// The maximum number of clients with their own rate.
const MAX_CLIENTS: usize = 1024;

/// The rate of polls that each client may force.
fn forced_polls() -> KeyedRate<Requester> {
    KeyedRate::new(Quota::per_second(FORCED_POLLS_PER_SECOND).allow_burst(FORCED_POLLS), MAX_CLIENTS)
}

/// The state that a watcher and its tasks share.
pub(super) struct WatcherState {
    /// Distinguishes the watcher from another generation of the plugin's watcher.
    pub(super) id: u64,
    pub(super) plugin: Arc<CachedPlugin>,
    pub(super) context: Arc<WatchContext>,
    /// Notified by events for which the next poll should not wait for the interval.
    pub(super) wake: Notify,
    /// Notified when there may be no more subscribers.
    pub(super) unwatched: Notify,
    /// The rate at which clients may force polls.
    pub(super) forced_polls: KeyedRate<Requester>,
    /// The number of requested polls. A poll serves all requests up to the number at its start.
    pub(super) requested_polls: AtomicU64,
    /// The last poll: the number of requests that it served, and its result.
    pub(super) last_poll: watch::Sender<PollOutcome>,
    pub(super) listing: ListingMonitor,
    pub(super) directories: DirectoryMonitor,
    /// Whether the plugin is being polled.
    pub(super) is_polling: AtomicBool,
    /// The lag of the last poll.
    pub(super) last_lag: LastLag,
    /// The polls that are shared with other replicas; none if this replica polls for itself.
    pub(super) shared: Option<Shards>,
    /// The view that this is the watcher of; none for the watcher of a plugin.
    pub(super) view: Option<ViewScope>,
    pub(super) retired: CancellationToken,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PollOutcome {
    pub(super) completed_polls: u64,
    /// The fault of the whole poll, and the time after which to retry.
    pub(super) fault: Option<(Fault, Duration)>,
    /// The paths that were not polled, although the plugin was.
    pub(super) unserved: Arc<Unserved>,
}

/// New paths that a poll did not serve.
#[derive(Clone, Debug, Default)]
pub(super) struct Unserved {
    /// Paths that failed, or were skipped because they had failed: with the fault, and the time after which to retry.
    pub(super) failed: HashMap<Path, (Fault, Duration)>,
    /// Paths that the next poll serves.
    pub(super) left: HashSet<Path>,
}

impl PollOutcome {
    /// The outcome of polls that failed as a whole, or that did not poll the plugin.
    pub(super) fn of_all(completed_polls: u64, fault: Option<(Fault, Duration)>) -> Self {
        Self { completed_polls, fault, unserved: Arc::default() }
    }
}

/// The reason why a poll failed.
pub(super) enum PollError {
    /// The provider failed. The caller should retry after this time.
    Fault(Fault, Duration),
    /// The watcher was retired, and possibly replaced.
    Retired,
}

impl WatcherState {
    /// Creates the state of a plugin's watcher, or of one view of it.
    pub(super) fn new(
        plugin: Arc<CachedPlugin>,
        context: Arc<WatchContext>,
        shared: Option<Shards>,
        listing: ListingMonitor,
        view: Option<ViewScope>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: context.new_watcher(),
            forced_polls: forced_polls(),
            shared,
            plugin,
            context,
            wake: Notify::new(),
            unwatched: Notify::new(),
            requested_polls: AtomicU64::new(0),
            last_poll: watch::Sender::new(PollOutcome::default()),
            listing,
            directories: DirectoryMonitor::new(),
            is_polling: AtomicBool::new(false),
            last_lag: LastLag::default(),
            view,
            retired: CancellationToken::new(),
        })
    }

    /// Notifies the subscribers of everything below the mount, and checks whether the listing has changed, because changes until now are
    /// unknown.
    pub(super) async fn notify_all(&self) {
        self.plugin.clear_cached_responses();
        self.listing.mark_dirty();
        self.context.notify_under(Some(self.plugin.mount()), |_, _| true).await;
        // The principals' views of directories may be outdated by now.
        self.examine_all().await;
    }

    /// Returns whether the plugin is polled as a whole, and reports changes of its listing.
    pub(super) fn supports_changes(&self) -> bool {
        let info = self.plugin.info();
        info.watches && info.views == 0
    }

    /// Returns whether the polls of this watcher concern a subscriber: in a view, if it has the view's identity now.
    pub(super) fn concerns(&self, mailbox: &Mailbox) -> bool {
        self.view
            .as_ref()
            .is_none_or(|view| self.identity(mailbox).is_some_and(|(identity, _)| identity == view.identity))
    }

    /// Returns the current identity of a subscriber, and its caller; none if it sees nothing.
    pub(super) fn identity(&self, mailbox: &Mailbox) -> Option<(Identity, Caller)> {
        let caller = self.context.caller(mailbox)?;
        Some((self.plugin.identity(&caller)?, caller))
    }

    /// Requests a poll immediately, and waits for the end of a poll that started after this call.
    pub(super) async fn wait_for_poll(&self) -> Result<(), PollError> {
        self.next_poll(async { self.wake.notify_one() }).await.map(|_| ())
    }

    /// Waits until a new path was polled. Forces a poll immediately, as often as the client [may](FORCED_POLLS); beyond
    /// that, the path is part of the next poll.
    pub(super) async fn wait_for_poll_of(&self, path: &Path, client: &Requester) -> Result<(), PollError> {
        loop {
            let outcome = self.next_poll(self.force_poll(client)).await?;
            let Unserved { failed, left } = &*outcome.unserved;
            if let Some((fault, after)) = failed.get(path) {
                return Err(PollError::Fault(fault.clone(), *after));
            }
            if !left.contains(path) {
                return Ok(());
            }
        }
    }

    /// Forces a poll as soon as the client may.
    async fn force_poll(&self, client: &Requester) {
        // The client that started the host is the only one.
        while let Err(wait) = if client.is_local() { Ok(()) } else { self.forced_polls.take(client, NonZeroU32::MIN) } {
            sleep(wait).await;
        }
        self.wake.notify_one();
    }

    /// Waits for the outcome of a poll that started after this call, while `force` runs.
    async fn next_poll(&self, force: impl Future<Output = ()>) -> Result<PollOutcome, PollError> {
        let requested = self.requested_polls.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        let mut polls = self.last_poll.subscribe();
        let force = async {
            force.await;
            std::future::pending::<Infallible>().await
        };
        let outcome = self.retired.run_until_cancelled(async {
            tokio::select! {
                outcome = polls.wait_for(|poll| poll.completed_polls >= requested) => outcome.map(|outcome| outcome.clone()),
                never = force => match never {},
            }
        });
        let outcome = outcome.await.and_then(Result::ok).ok_or(PollError::Retired)?;
        match &outcome.fault {
            Some((fault, after)) => Err(PollError::Fault(fault.clone(), *after)),
            None => Ok(outcome),
        }
    }
}

/// The number of updates added to mailboxes, or of resources examined, before the task yields.
pub(super) const BATCH_SIZE: usize = 1024;

impl WatchContext {
    /// Notifies the subscribers of `uris` for which `concerns` returns true.
    pub(super) async fn notify(&self, uris: Vec<Uri>, concerns: impl Fn(&Mailbox, &Uri) -> bool) {
        let mut budget = BATCH_SIZE;
        for uri in uris {
            let mut from = Some(0);
            while let Some(id) = from {
                from = self.subscription_index().notify(&uri, id, &mut budget, |mailbox| concerns(mailbox, &uri));
                budget = budget.saturating_sub(1);
                if budget == 0 {
                    tokio::task::yield_now().await;
                    budget = BATCH_SIZE;
                }
            }
        }
    }

    /// Notifies these principals' subscribers of the listing.
    pub(super) async fn notify_listing(&self, principals: &HashSet<Principal>) {
        let mut budget = BATCH_SIZE;
        for principal in principals {
            let mut from = Some(0);
            while let Some(id) = from {
                from = self.subscription_index().notify_listing(principal, id, &mut budget);
                budget = budget.saturating_sub(1);
                if budget == 0 {
                    tokio::task::yield_now().await;
                    budget = BATCH_SIZE;
                }
            }
        }
    }

    /// Notifies those of these subscribers that are subscribers of the listing.
    pub(super) async fn notify_listeners(&self, mailboxes: &[Arc<Mailbox>]) {
        for batch in mailboxes.chunks(BATCH_SIZE) {
            self.subscription_index().notify_listeners(batch);
            tokio::task::yield_now().await;
        }
    }

    /// Notifies the subscribers of all resources below `mount`, or of all resources.
    pub(super) async fn notify_under(&self, mount: Option<&Mount>, concerns: impl Fn(&Mailbox, &Uri) -> bool) {
        let mut after = None;
        loop {
            let uris = self.subscription_index().uris(mount, after.as_ref(), BATCH_SIZE);
            let Some(last) = uris.last().cloned() else { return };
            self.notify(uris, &concerns).await;
            after = Some(last);
        }
    }
}
