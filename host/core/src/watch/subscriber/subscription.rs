//! The subscriptions of one subscriber: an attempt is pending until it is active, and each subscription has its share
//! of the memory.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use mcp_host_base::share_limiter::{LimitReached, Releases, ShareLimits, SharePermit};
use mcp_host_engine::plugin::Fault;
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::{Mount, Uri};
use tokio::sync::OwnedSemaphorePermit;

use super::Subscriber;
use crate::watch::context::{LimitScope, SubscribeError, subscription_memory_full};

/// The approximate memory of a subscription in addition to its URIs: entries in the maps of its subscriber, of its
/// resource, and of the pending updates.
pub(super) const SUBSCRIPTION_OVERHEAD: usize = 400;
/// The number of copies of a subscription's URI: in these maps, as the path in some of them, and in the argument of a
/// poll.
const URI_COPIES: usize = 10;
/// The approximate memory of a URI in a list in addition to its text.
const LIST_ENTRY_OVERHEAD: usize = 100;

/// A subscription of a resource, pending or active.
pub(in crate::watch) struct Subscription {
    /// Distinguishes the subscription from an earlier, cancelled one of the same resource.
    serial: u64,
    /// The requested URI, if it differs from the normalized one.
    requested_uri: Option<Box<str>>,
    /// Its share of the subscriber's memory budget.
    _own_memory: OwnedSemaphorePermit,
    /// Its share of the memory of all subscriptions.
    _memory: SharePermit<Requester>,
    /// Whether the subscription is active, rather than pending.
    pub(in crate::watch) is_active: bool,
    /// The number of pending attempts.
    pending_count: usize,
    /// Whether a change occurred while the subscription was pending. It is notified if the subscription becomes active.
    pub(in crate::watch) has_deferred_update: bool,
    /// The number of its last taken update, unless the client has received it.
    pub(in crate::watch) number: Option<NonZeroU64>,
}

impl Subscription {
    /// Returns the URI as requested.
    pub(in crate::watch) fn requested_uri<'a>(&'a self, uri: &'a Uri) -> &'a str {
        self.requested_uri.as_deref().unwrap_or(uri.as_str())
    }
}

impl Subscriber {
    /// Starts an attempt to subscribe, within the memory limits per client and overall. An attempt that does not
    /// become active leaves no state.
    pub(in crate::watch) fn begin<'a>(
        &'a self,
        requested_uri: &str,
        uri: &'a Uri,
        memory: ShareLimits,
    ) -> Result<PendingSubscription<'a>, SubscribeError> {
        let mut subscriptions = self.subscriptions();
        if self.is_closed.load(Ordering::Relaxed) {
            let reason = "the session has ended".to_owned();
            return Err(SubscribeError::Permanent(Fault::InvalidRequest(reason)));
        }
        let is_room = subscriptions.len() < Self::MAX_RESOURCES;
        let subscription = match subscriptions.entry(uri.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let length = u32::try_from(requested_uri.len()).ok().filter(|_| is_room);
                let own = length.and_then(|length| self.uri_bytes.clone().try_acquire_many_owned(length).ok());
                let own = own.ok_or_else(too_many_subscriptions)?;
                let copies = uri.as_str().len().saturating_mul(URI_COPIES);
                let bytes = requested_uri.len().saturating_add(copies).saturating_add(SUBSCRIPTION_OVERHEAD);
                let all = self.hub.context.memory.acquire_amount(&self.mailbox.requester(), bytes, memory);
                let all = all.map_err(|reached| subscription_memory_full(reached, LimitScope::Subscriber(reached)))?;
                let serial = self.next_serial.fetch_add(1, Ordering::Relaxed);
                entry.insert(Subscription {
                    serial,
                    requested_uri: (requested_uri != uri.as_str()).then(|| requested_uri.into()),
                    _own_memory: own,
                    _memory: all,
                    is_active: false,
                    pending_count: 0,
                    has_deferred_update: false,
                    number: None,
                })
            }
        };
        subscription.pending_count = subscription.pending_count.saturating_add(1);
        Ok(PendingSubscription { subscriber: self, uri, serial: subscription.serial })
    }

    /// Returns the releases of memory that may make room for subscriptions of the current task's client.
    pub(crate) fn memory_releases(&self) -> Releases<Requester> {
        self.hub.context.memory.releases(Requester::current_or(&self.principal()))
    }

    /// Reserves the memory of a resource list that its owner keeps in addition to the subscriptions. None if there is
    /// too little.
    pub(crate) fn reserve_list(&self, uris: &[String], memory: ShareLimits) -> Option<SharePermit<Requester>> {
        let bytes = uris.iter().map(|uri| uri.len().saturating_add(LIST_ENTRY_OVERHEAD)).fold(0, usize::saturating_add);
        let client = Requester::current_or(&self.principal());
        self.hub.context.memory.acquire_amount(&client, bytes, memory).ok()
    }

    /// Charges these subscriptions of a client, by normal form, except those that are subscriptions here, which are
    /// charged already. If there is too little memory, the charge is unchanged.
    pub(crate) fn charge_elsewhere(
        &self,
        client: Requester,
        uris: &BTreeMap<String, String>,
        charge: &mut Option<SharePermit<Requester>>,
        memory: ShareLimits,
    ) -> Result<(), LimitReached> {
        let bytes = {
            let subscriptions = self.subscriptions();
            // A subscription that is older than a reload may have another normal form than the same URI has now.
            let spellings: HashSet<&str> = subscriptions.iter().map(|(uri, one)| one.requested_uri(uri)).collect();
            let is_here = |form: &str, uri: &str| subscriptions.contains_key(form) || spellings.contains(uri);
            let elsewhere = uris.iter().filter(|(form, uri)| !is_here(form, uri));
            let cost = |uri: &String| uri.len().saturating_mul(URI_COPIES.saturating_add(1));
            elsewhere.map(|(_, uri)| cost(uri).saturating_add(SUBSCRIPTION_OVERHEAD)).fold(0, usize::saturating_add)
        };
        if bytes == 0 {
            *charge = None;
            return Ok(());
        }
        let empty = || self.hub.context.memory.empty_permit(client);
        charge.get_or_insert_with(empty).resize(bytes, memory)
    }
}

fn too_many_subscriptions() -> SubscribeError {
    SubscribeError::Permanent(Fault::InvalidRequest(format!(
        "a subscriber is limited to {} resources and {} bytes of URIs; unsubscribe from some first",
        Subscriber::MAX_RESOURCES,
        Subscriber::MAX_URI_BYTES
    )))
}

/// A pending subscription. Dropping it cancels the subscription, unless it is active or other attempts are pending.
pub(in crate::watch) struct PendingSubscription<'a> {
    subscriber: &'a Subscriber,
    uri: &'a Uri,
    serial: u64,
}

impl PendingSubscription<'_> {
    /// Adds the resource to the polls of the plugin at `mount`, unless the subscription was cancelled meanwhile.
    pub(in crate::watch) fn register(&self, mount: &Mount, is_listable: bool) {
        let Some(Ok(located)) = self.uri.as_str().strip_prefix(mount.as_str()).map(|path| mount.compose(path)) else {
            return;
        };
        let subscriptions = self.subscriber.subscriptions();
        if subscriptions.get(self.uri).is_some_and(|subscription| subscription.serial == self.serial) {
            self.subscriber.hub.context.subscription_index().watch(
                &located.uri,
                &located.path,
                &self.subscriber.mailbox,
                is_listable,
            );
        }
    }

    /// Activates the subscription. With `notify_now` there is one update immediately, because the subscription was
    /// acknowledged while it was pending.
    pub(in crate::watch) fn activate(self, notify_now: bool) {
        let mut subscriptions = self.subscriber.subscriptions();
        if let Some(subscription) = subscriptions.get_mut(self.uri).filter(|one| one.serial == self.serial) {
            subscription.is_active = true;
            if std::mem::take(&mut subscription.has_deferred_update) || notify_now {
                self.subscriber.mailbox.put_resource(self.uri);
            }
        }
    }
}

impl Drop for PendingSubscription<'_> {
    fn drop(&mut self) {
        let mut subscriptions = self.subscriber.subscriptions();
        if let Some(subscription) = subscriptions.get_mut(self.uri).filter(|one| one.serial == self.serial) {
            subscription.pending_count = subscription.pending_count.saturating_sub(1);
            if !subscription.is_active && subscription.pending_count == 0 {
                subscriptions.remove(self.uri);
                self.subscriber.untrack(self.uri);
            }
        }
    }
}
