//! The state that the watchers of all plugins share: the subscriptions, the rules, and the memory of subscriptions.
//!
//! Subscribers are notified in batches. Clients determine the number of subscribers, and providers the rate of changes.
//! So a batch adds at most [`BATCH_SIZE`] updates to mailboxes; then the shared lock is released, and the task yields.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use mcp_host_base::share_limiter::{LimitReached, ShareLimiter};
use mcp_host_engine::plugin::Fault;
use mcp_host_model::caller::Caller;
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::{Mount, Uri};
use parking_lot::{Mutex, MutexGuard};

use super::mailbox::Mailbox;
use super::poll_metrics::PollMetrics;
use super::replicas::Replicas;
use super::subscriptions::SubscriptionIndex;
use crate::access::{Access, Principal};
use crate::catalog::may_see_listing;

/// The number of updates added to mailboxes, or of resources examined, before the task yields.
pub(super) const BATCH_SIZE: usize = 1024;

/// The time after which a client may retry when the memory budget of all subscriptions is exhausted.
const RETRY_AFTER: Duration = Duration::from_secs(5);

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

    /// Returns whether there are subscriptions for the plugin at `mount`: to a resource below it, or to the listing by
    /// a principal that may see something of it.
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

    /// Returns whether one of these principals may see something of the listing of the plugin at `mount`. Must be
    /// called while the index is not locked.
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

    /// Notifies the subscribers of the listing among these subscribers.
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

/// The reason why a subscription could not be activated.
#[derive(Debug)]
pub(crate) enum SubscribeError {
    /// The result will be the same until a reload.
    Permanent(Fault),
    /// The result may differ after this time.
    Transient(Fault, Duration),
    /// A limit is reached that applies to other resources, too.
    Limited(Fault, LimitScope),
    /// The plugin was replaced or removed meanwhile.
    PluginReplaced,
}

/// The resources to which a reached limit applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitScope {
    /// All resources that the subscriber does not subscribe to yet: there is too little memory.
    Subscriber(LimitReached),
    /// The resources of the plugin.
    Plugin,
}

/// Returns the error of a subscription for which there is too little memory.
pub(super) fn subscription_memory_full(reached: LimitReached, scope: LimitScope) -> SubscribeError {
    let reason = match reached {
        LimitReached::ClientShare => {
            "your share of the server's memory for subscriptions is used up; unsubscribe from some"
        }
        LimitReached::Overall => "the server's memory for subscriptions is exhausted; try again later",
    };
    let reason = reason.to_owned();
    SubscribeError::Limited(Fault::Unavailable { reason, retry_after: Some(RETRY_AFTER) }, scope)
}
