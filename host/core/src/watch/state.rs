//! The state that a watcher, of a plugin or of one view, shares with its tasks: requested polls and their outcomes, and
//! what the tasks have to examine.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use governor::Quota;
use mcp_host_base::keyed_rate::KeyedRate;
use mcp_host_cluster::shards::Shards;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::caller::{Caller, Identity};
use mcp_host_model::requester::{FairSemaphore, Requester};
use mcp_host_model::uri::{Path, Uri};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::context::WatchContext;
use super::mailbox::Mailbox;
use super::poll_metrics::LastLag;
use crate::access::{Access, Principal};
use crate::catalog::ListingFingerprint;
use crate::response_cache::{CachedPlugin, ViewId};

/// Token bucket of each client: how many polls of a plugin the client may force at once by subscribing to resources
/// that are not polled yet, and how many per second afterwards. One poll serves all waiting clients.
const FORCED_POLLS: NonZeroU32 = NonZeroU32::new(20).unwrap();
const FORCED_POLLS_PER_SECOND: NonZeroU32 = NonZeroU32::new(4).unwrap();
/// The maximum number of clients with their own rate.
const MAX_CLIENTS: usize = 1024;

/// The rate of polls that each client may force.
fn forced_polls() -> KeyedRate<Requester> {
    KeyedRate::new(Quota::per_second(FORCED_POLLS_PER_SECOND).allow_burst(FORCED_POLLS), MAX_CLIENTS)
}

/// The maximum number of concurrent walks for new subscribers.
const MAX_WALKS: usize = 2;

/// The known state of one plugin's listing.
pub(super) struct ListingMonitor {
    /// Incremented whenever the listing may have changed: after a report of the provider, or by a reload.
    version: AtomicU64,
    /// Notified when the listing must be checked.
    pub(super) dirty: Notify,
    /// The last fingerprint for each subscribed principal.
    fingerprints: Mutex<HashMap<Principal, ListingFingerprint>>,
    /// Notified after fingerprints were computed.
    pub(super) updated: watch::Sender<()>,
}

impl ListingMonitor {
    pub(super) fn new(fingerprints: HashMap<Principal, ListingFingerprint>) -> Self {
        let is_inherited = !fingerprints.is_empty();
        let listing = Self {
            version: AtomicU64::new(0),
            dirty: Notify::new(),
            fingerprints: Mutex::new(fingerprints),
            updated: watch::Sender::new(()),
        };
        if is_inherited {
            listing.mark_dirty();
        }
        listing
    }

    /// Marks the listing as possibly changed, so that it is compared with its fingerprints.
    pub(super) fn mark_dirty(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.dirty.notify_one();
    }

    /// Removes the fingerprints of all other principals: without subscribers they are no longer kept up to date.
    /// Principals that have just lost the right to see anything keep theirs until the walk that follows a reload has
    /// compared it.
    pub(super) fn retain(&self, principals: &HashSet<Principal>) {
        self.fingerprints().retain(|principal, _| principals.contains(principal));
    }

    /// Waits until the principal has a fingerprint, so that changes of its listing are detected.
    pub(super) async fn wait_until_tracked(&self, principal: &Principal) {
        let mut updated = self.updated.subscribe();
        // This fails only without a sender, and `self` holds it.
        let _ = updated.wait_for(|()| self.fingerprints().contains_key(principal)).await;
    }

    pub(super) fn fingerprints(&self) -> MutexGuard<'_, HashMap<Principal, ListingFingerprint>> {
        self.fingerprints.lock()
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

/// The resources of one plugin with reported changes.
pub(super) struct DirectoryMonitor {
    reported: Mutex<BTreeMap<Uri, Path>>,
    /// Notified when resources are added.
    pub(super) added: Notify,
    /// Held during a walk for a new subscriber, and afterwards for the same duration.
    pub(super) walks: FairSemaphore,
}

impl DirectoryMonitor {
    pub(super) fn new() -> Self {
        Self { reported: Mutex::default(), added: Notify::new(), walks: FairSemaphore::new(MAX_WALKS, usize::MAX) }
    }

    /// Adds resources for examination.
    pub(super) fn add(&self, resources: impl IntoIterator<Item = (Uri, Path)>) {
        let mut reported = self.reported.lock();
        reported.extend(resources);
        if !reported.is_empty() {
            self.added.notify_one();
        }
    }

    /// Takes the resources to examine.
    pub(super) fn take(&self) -> BTreeMap<Uri, Path> {
        std::mem::take(&mut *self.reported.lock())
    }
}

/// The identity whose view a watcher polls.
pub(super) struct ViewScope {
    pub(super) identity: Identity,
    pub(super) owed: Mutex<Owed>,
    /// The subscribers of the listing that had this identity at the last check, by their ids.
    pub(super) listeners: Mutex<BTreeMap<u64, Arc<Mailbox>>>,
    /// Notified when a subscriber has given up or become active.
    pub(super) released: Notify,
}

/// The subscribers to notify once, after the next poll.
#[derive(Default)]
pub(super) struct Owed {
    /// Of all their resources.
    pub(super) resources: HashSet<u64>,
    /// Of the listing.
    pub(super) listing: HashSet<u64>,
}

impl Owed {
    pub(super) fn extend(&mut self, more: Self) {
        self.resources.extend(more.resources);
        self.listing.extend(more.listing);
    }
}

impl ViewScope {
    pub(super) fn new(identity: Identity) -> Self {
        Self { identity, owed: Mutex::default(), listeners: Mutex::default(), released: Notify::new() }
    }

    /// Takes the subscribers to notify after the poll that begins now.
    pub(super) fn take_owed(&self) -> Owed {
        std::mem::take(&mut *self.owed.lock())
    }
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

    /// Returns whether the plugin is polled as a whole, and reports changes of its listing.
    pub(super) fn supports_changes(&self) -> bool {
        let info = self.plugin.info();
        info.watches && info.views == 0
    }

    /// Returns whether a principal may list and read everything below the mount, so that every change of a listable
    /// resource is visible to it.
    pub(super) fn sees_all(&self, access: &Access, principal: &Principal) -> bool {
        access.policy(principal).shows_all_below(self.plugin.mount())
    }

    /// Returns a principal's view of the plugin, for the cached responses.
    pub(super) fn view(&self, access: &Access, principal: &Principal) -> ViewId {
        ViewId::of(&access.policy(principal), self.plugin.mount())
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
