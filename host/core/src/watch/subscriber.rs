//! One subscriber: a session, a stream, or a waiting command.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::join_all;
use futures::stream::{self, Stream, StreamExt};
use mcp_host_base::share_limiter::{LimitReached, Releases, ShareLimits, SharePermit};
use mcp_host_engine::plugin::Fault;
use mcp_host_model::caller::AccessToken;
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::{Mount, Uri};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::context::{LimitScope, SubscribeError, subscription_memory_full};
use super::mailbox::{Mailbox, PrincipalChange, UpdateNumbers};
use super::watcher::Watcher;
use super::{Hub, owner};
use crate::access::Principal;

/// The approximate memory of a subscription in addition to its URIs: entries in the maps of its subscriber, of its
/// resource, and of the pending updates.
const SUBSCRIPTION_OVERHEAD: usize = 400;
/// The number of copies of a subscription's URI: in these maps, as the path in some of them, and in the argument of a
/// poll.
const URI_COPIES: usize = 10;
/// The approximate memory of a URI in a list in addition to its text.
const LIST_ENTRY_OVERHEAD: usize = 100;
/// A change that a subscriber is notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// The content or metadata of a resource changed, or it was created or deleted. The URI is spelled as in the
    /// subscription.
    Resource(String),
    /// The listing changed.
    Listing,
}

/// A receiver of change notifications. Dropping it ends all its subscriptions and leaves no state.
pub struct Subscriber {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) hub: Arc<Hub>,
    subscriptions: Mutex<BTreeMap<Uri, Subscription>>,
    next_serial: AtomicU64,
    /// The remaining bytes of [`MAX_URI_BYTES`](Self::MAX_URI_BYTES).
    uri_bytes: Arc<Semaphore>,
    /// Whether it has been closed, so that nothing more is registered. Set while `subscriptions` is locked.
    is_closed: AtomicBool,
    pub(super) numbers: UpdateNumbers,
    /// Counts the subscriber while it exists.
    _count_guard: Arc<()>,
}

pub(super) struct Subscription {
    /// Distinguishes the subscription from an earlier, cancelled one of the same resource.
    serial: u64,
    /// The requested URI, if it differs from the normalized one.
    requested_uri: Option<Box<str>>,
    /// Its share of the subscriber's memory budget.
    _own_memory: OwnedSemaphorePermit,
    /// Its share of the memory of all subscriptions.
    _memory: SharePermit<Requester>,
    /// Whether the subscription is active, rather than pending.
    pub(super) is_active: bool,
    /// The number of pending attempts.
    pending_count: usize,
    /// Whether a change occurred while the subscription was pending. It is notified if the subscription becomes active.
    pub(super) has_deferred_update: bool,
    /// The number of its last taken update, unless the client has received it.
    pub(super) number: Option<NonZeroU64>,
}

impl Subscription {
    /// Returns the URI as requested.
    pub(super) fn requested_uri<'a>(&'a self, uri: &'a Uri) -> &'a str {
        self.requested_uri.as_deref().unwrap_or(uri.as_str())
    }
}

/// An open stream of a [`Subscriber`].
#[derive(Debug)]
pub struct StreamGuard {
    mailbox: Arc<Mailbox>,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.mailbox.close_stream();
    }
}

impl Subscriber {
    /// The maximum number of resources per subscriber.
    pub const MAX_RESOURCES: usize = 1024;
    /// The maximum total size of their requested URIs in bytes.
    pub const MAX_URI_BYTES: usize = 256 << 10;

    pub(super) fn new(id: u64, principal: Principal, hub: Arc<Hub>) -> Self {
        let mailbox = Mailbox::new(id, principal);
        mailbox.set_access_token(AccessToken::current().filter(|_| hub.context.access.load().has_views()));
        Self {
            mailbox: Arc::new(mailbox),
            subscriptions: Mutex::default(),
            next_serial: AtomicU64::new(0),
            uri_bytes: Arc::new(Semaphore::new(Self::MAX_URI_BYTES)),
            is_closed: AtomicBool::new(false),
            numbers: UpdateNumbers::default(),
            _count_guard: hub.context.subscriber_guard(),
            hub,
        }
    }

    /// Marks it as a view of the console, which does not count as a subscriber of a resource. Must be called before it
    /// subscribes.
    pub fn mark_as_view(&self) {
        self.mailbox.mark_as_view();
    }

    /// Marks it as a subscriber whose client receives updates by opening streams, as over HTTP: without an open stream,
    /// administrators see it as not listening.
    pub fn mark_as_streamed(&self) {
        self.mailbox.mark_as_streamed();
    }

    /// Counts a stream that sends its updates, until the guard is dropped.
    pub fn open_stream(&self) -> StreamGuard {
        self.mailbox.open_stream();
        StreamGuard { mailbox: self.mailbox.clone() }
    }

    /// Returns the principal that is notified.
    pub fn principal(&self) -> Principal {
        self.mailbox.principal()
    }

    /// Replaces the principal that is notified: the same identity with other groups, such as the groups of a renewed
    /// access token, until a point in time or without expiry. From now on, updates are filtered for the new principal.
    /// If it differs from the current principal, each resource and the listing count as changed, because updates may
    /// have been dropped in the meantime.
    pub fn set_principal(&self, principal: &Principal, until: Option<Instant>) {
        let change = self.mailbox.set_principal(principal, until);
        if change == PrincipalChange::None {
            return;
        }
        let listing = {
            let mut index = self.hub.context.subscription_index();
            let listing = index.update_principal(&self.mailbox);
            if listing.is_some_and(|listing| listing.has_left) {
                self.hub.watchers().values().for_each(|watcher| watcher.check_unwatched(&index));
            }
            listing
        };
        if listing.is_some_and(|listing| listing.is_new) {
            self.hub.track_listing_of(&self.principal());
        }
        if change == PrincipalChange::Expiry {
            return;
        }
        for uri in self.subscriptions().keys() {
            self.mailbox.put_resource(uri);
            // Its view of a directory from now on is not known yet.
            self.hub.watcher_for(uri).iter().for_each(|watcher| watcher.examine(uri));
        }
        self.identity_changed();
        if listing.is_some() {
            self.mailbox.put_listing();
        }
    }

    /// Replaces the access token that plugins with views get for this principal: the token of its last request. Must be called
    /// after [`set_principal`](Self::set_principal), with whose groups it expires.
    pub fn set_access_token(&self, token: Option<AccessToken>) {
        let token = token.filter(|_| self.hub.context.access.load().has_views());
        if self.mailbox.set_access_token(token) {
            self.identity_changed();
        }
    }

    /// Checks to which views it belongs at the plugins of its subscriptions, or at all if it is a subscriber of the listing.
    fn identity_changed(&self) {
        if self.hub.context.subscription_index().is_watching_listing(self.mailbox.id) {
            self.hub.watchers().values().for_each(|watcher| watcher.identities_changed());
            return;
        }
        for uri in self.subscriptions().keys() {
            self.hub.watcher_for(uri).iter().for_each(|watcher| watcher.identities_changed());
        }
    }

    /// Returns the URIs of the active subscriptions: each in normal form, and as requested.
    #[doc(hidden)]
    pub fn requested_uris(&self) -> Vec<(String, String)> {
        let subscriptions = self.subscriptions();
        let active = subscriptions.iter().filter(|(_, subscription)| subscription.is_active);
        let uris = active.map(|(uri, one)| (uri.as_str().to_owned(), one.requested_uri(uri).to_owned()));
        uris.collect()
    }

    /// Returns whether there is a subscription, active or pending, to a resource with this URI in normal form.
    #[doc(hidden)]
    pub fn is_subscribed(&self, uri: &str) -> bool {
        self.subscriptions().contains_key(uri)
    }

    /// Notifies each resource once, and the listing if it is subscribed: the client may have missed notifications, or
    /// this host may have missed changes.
    #[doc(hidden)]
    pub fn notify_all(&self) {
        for (uri, _) in self.subscriptions().iter().filter(|(_, subscription)| subscription.is_active) {
            self.mailbox.put_resource(uri);
        }
        if self.hub.context.subscription_index().is_watching_listing(self.mailbox.id) {
            self.mailbox.put_listing();
        }
    }

    /// Waits for the next update. Cancel-safe: pending updates are retained.
    pub async fn next(&self) -> Update {
        loop {
            self.ready().await;
            if let Some(update) = self.try_next() {
                return update;
            }
        }
    }

    /// Streams the updates until the host shuts down or is dropped. Dropping the stream loses no update. Subscriptions
    /// can be added and cancelled meanwhile.
    pub fn updates(&self) -> impl Stream<Item = Update> + Send + Unpin + '_ {
        stream::unfold(self, |subscriber| async move {
            let update = subscriber.hub.closed.run_until_cancelled(subscriber.next()).await?;
            Some((update, subscriber))
        })
        .boxed()
    }

    /// Waits until [`try_next`](Self::try_next) may return an update.
    pub async fn ready(&self) {
        self.mailbox.wait_pending().await;
    }

    /// Subscribes to changes of the listing. They are notified from the time when
    /// [`listing_ready`](Self::listing_ready) has returned.
    pub fn watch_listing(&self) {
        let watchers = self.hub.watchers();
        watchers.values().for_each(|watcher| watcher.note_listener(&self.mailbox));
        let mut index = self.hub.context.subscription_index();
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let listing = index.watch_listing(&self.mailbox);
        drop(index);
        if listing.is_new {
            self.hub.track_listing_of(&self.principal());
        }
        watchers.values().for_each(|watcher| watcher.listener_came(&self.mailbox));
    }

    /// Subscribes to changes of the listing again, and notifies the listing once, because it may have changed
    /// meanwhile.
    pub fn watch_listing_again(&self) {
        self.watch_listing();
        self.mailbox.put_listing();
    }

    /// Cancels the subscription to changes of the listing.
    pub fn unwatch_listing(&self) {
        let (watchers, mut index) = (self.hub.watchers(), self.hub.context.subscription_index());
        if index.unwatch_listing(self.mailbox.id) {
            watchers.values().for_each(|watcher| watcher.check_unwatched(&index));
        }
        drop(index);
        watchers.values().for_each(|watcher| watcher.listener_left(self.mailbox.id));
    }

    /// Waits, after [`watch_listing`](Self::watch_listing), until the current listing is known, so that every later
    /// change of it is notified. This takes a walk of the listing, unless a subscriber with the same principal has
    /// caused one.
    pub async fn listing_ready(&self) {
        let (watchers, principal) = (self.hub.watchers(), self.principal());
        let policy = self.hub.context.access.load().policy(&principal);
        join_all(watchers.values().map(|watcher| watcher.listing_ready(&principal, &policy))).await;
    }

    /// Cancels the subscription of a resource, if any, and drops its pending update.
    pub(crate) fn unsubscribe(&self, uri: &Uri) {
        let mut subscriptions = self.subscriptions();
        if subscriptions.remove(uri).is_some() {
            self.untrack(uri);
        }
    }

    /// Cancels the subscription that was requested with this spelling. Returns whether it existed.
    pub(crate) fn unsubscribe_by_spelling(&self, requested_uri: &str) -> bool {
        let mut subscriptions = self.subscriptions();
        let uri = subscriptions
            .iter()
            .find(|(uri, subscription)| subscription.requested_uri(uri) == requested_uri)
            .map(|(uri, _)| uri.clone());
        let Some(uri) = uri else { return false };
        subscriptions.remove(&uri);
        self.untrack(&uri);
        true
    }

    /// Starts an attempt to subscribe, within the memory limits per client and overall. An attempt that does not
    /// become active leaves no state.
    pub(super) fn begin<'a>(
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

    /// Ends all its subscriptions, as dropping it does, and prevents new ones: a request that is in flight when its
    /// session ends registers nothing.
    pub fn close(&self) {
        let subscriptions = {
            let mut subscriptions = self.subscriptions();
            self.is_closed.store(true, Ordering::Relaxed);
            std::mem::take(&mut *subscriptions)
        };
        let watchers = self.hub.watchers();
        let mut index = self.hub.context.subscription_index();
        let has_left = index.unwatch_listing(self.mailbox.id);
        // The watchers of its resources, each once, because the resources of a plugin follow each other.
        let mut left: Vec<&Arc<Watcher>> = Vec::new();
        for uri in subscriptions.keys() {
            if index.unwatch(uri, self.mailbox.id)
                && let Some(watcher) = owner(&watchers, uri)
                && left.last().is_none_or(|last| !Arc::ptr_eq(last, watcher))
            {
                left.push(watcher);
            }
        }
        left.iter().for_each(|watcher| watcher.subscriber_left(&index, &self.mailbox));
        if has_left {
            watchers.values().for_each(|watcher| watcher.check_unwatched(&index));
        }
        drop(index);
        watchers.values().for_each(|watcher| watcher.listener_left(self.mailbox.id));
    }

    fn untrack(&self, uri: &Uri) {
        let mut index = self.hub.context.subscription_index();
        if index.unwatch(uri, self.mailbox.id)
            && let Some(watcher) = self.hub.watcher_for(uri)
        {
            watcher.subscriber_left(&index, &self.mailbox);
        }
        drop(index);
        self.mailbox.remove(uri);
    }

    pub(super) fn subscriptions(&self) -> MutexGuard<'_, BTreeMap<Uri, Subscription>> {
        self.subscriptions.lock()
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
pub(super) struct PendingSubscription<'a> {
    subscriber: &'a Subscriber,
    uri: &'a Uri,
    serial: u64,
}

impl PendingSubscription<'_> {
    /// Adds the resource to the polls of the plugin at `mount`, unless the subscription was cancelled meanwhile.
    pub(super) fn register(&self, mount: &Mount, is_listable: bool) {
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
    pub(super) fn activate(self, notify_now: bool) {
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

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::access::Access;
    use mcp_host_config::Config;

    fn hub() -> Arc<Hub> {
        Hub::new(std::iter::empty(), Arc::new(Access::new(&Config::new())), None, false)
    }

    const LIMITS: ShareLimits = ShareLimits { client: 600, overall: 1000 };

    fn mount() -> Mount {
        "a://x/".parse().unwrap()
    }

    fn uri() -> Uri {
        mount().compose("f").unwrap().uri
    }

    #[test]
    fn a_subscription_that_is_given_up_before_it_counts_leaves_nothing_behind() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let uri = uri();
        let attempt = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
        attempt.register(&mount(), false);
        assert!(subscriber.hub.context.subscription_index().has_resources_under(&mount()));
        drop(attempt);
        assert!(!subscriber.hub.context.subscription_index().has_resources_under(&mount()));
        assert!(subscriber.subscriptions().is_empty());
    }

    #[test]
    fn a_subscriber_that_is_closed_registers_nothing_any_more() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let (uri, other) = (uri(), mount().compose("g").unwrap().uri);
        let attempt = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
        subscriber.close();
        attempt.register(&mount(), false);
        attempt.activate(true);
        assert!(subscriber.begin("a://x/g", &other, LIMITS).is_err());
        subscriber.watch_listing();
        let index = subscriber.hub.context.subscription_index();
        assert!(!index.has_resources_under(&mount()) && !index.is_watching_listing(subscriber.mailbox.id));
        drop(index);
        assert!(subscriber.subscriptions().is_empty());
    }

    #[test]
    fn what_there_is_to_tell_waits_until_the_subscription_counts() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let uri = uri();
        for comes_to_something in [false, true] {
            let attempt = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
            attempt.register(&mount(), false);
            subscriber.hub.context.subscription_index().notify(&uri, 0, &mut 1, |_| true);
            assert_eq!(subscriber.try_next(), None);
            if comes_to_something {
                attempt.activate(false);
                assert_eq!(subscriber.try_next(), Some(Update::Resource("a://x/f".to_owned())));
            } else {
                drop(attempt);
            }
            assert_eq!(subscriber.try_next(), None);
        }
    }

    #[test]
    fn updates_that_may_have_been_dropped_under_other_groups_are_told_under_the_new_ones() {
        let others = Principal::LOCAL.with_groups(["corp/x"]);
        let subscriber = hub().subscriber(&others);
        let uri = uri();
        let attempt = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
        attempt.register(&mount(), false);
        attempt.activate(false);
        subscriber.set_principal(&others, None);
        assert_eq!(subscriber.try_next(), None);
        subscriber.set_principal(&Principal::LOCAL, None);
        assert_eq!(subscriber.try_next(), Some(Update::Resource("a://x/f".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn whether_a_plugin_is_watched_follows_the_groups_of_who_watches_the_listing() {
        // Without rules, local sees everything, and nobody else anything.
        let (hub, member) = (hub(), Principal::LOCAL.with_groups(["corp/x"]));
        let is_watched = || hub.context.is_watched(&mount());
        let after = |seconds| Some(Instant::now() + Duration::from_secs(seconds));
        let subscriber = hub.subscriber(&Principal::LOCAL);
        subscriber.watch_listing();
        assert!(is_watched());
        for until in [10, 20] {
            subscriber.set_principal(&member, after(until));
            assert!(!is_watched());
        }
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(!is_watched(), "the groups were extended");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(is_watched(), "they have expired");
        for until in [100, 1] {
            subscriber.set_principal(&member, after(until));
            assert!(!is_watched());
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(is_watched(), "they expire sooner");
        drop(subscriber);
        assert!(!is_watched());
    }

    #[tokio::test]
    async fn each_active_subscription_and_the_listing_can_be_notified_once() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let (uri, pending) = (uri(), mount().compose("g").unwrap().uri);
        let attempt = subscriber.begin("A://x/f", &uri, LIMITS).unwrap();
        attempt.register(&mount(), false);
        attempt.activate(false);
        let limits = ShareLimits { client: 10_000, overall: 10_000 };
        let _pending = subscriber.begin("a://x/g", &pending, limits).unwrap();
        assert_eq!(subscriber.requested_uris(), [("a://x/f".to_owned(), "A://x/f".to_owned())]);
        assert!(subscriber.is_subscribed("a://x/g") && !subscriber.is_subscribed("A://x/f"));
        subscriber.notify_all();
        assert_eq!(subscriber.try_next(), Some(Update::Resource("A://x/f".to_owned())));
        assert_eq!(subscriber.try_next(), None);
        subscriber.watch_listing();
        subscriber.notify_all();
        assert_eq!(
            [subscriber.next().await, subscriber.next().await],
            [Update::Listing, Update::Resource("A://x/f".to_owned())]
        );
    }

    #[test]
    fn of_two_attempts_one_that_is_given_up_takes_nothing_from_the_other() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let uri = uri();
        let [first, second] = [(); 2].map(|()| subscriber.begin("a://x/f", &uri, LIMITS).unwrap());
        second.register(&mount(), false);
        drop(first);
        second.activate(false);
        assert!(subscriber.hub.context.subscription_index().has_resources_under(&mount()));
        // A subscription that was cancelled and requested again is new.
        let late = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
        subscriber.unsubscribe(&uri);
        let new = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
        new.register(&mount(), false);
        drop(late);
        new.activate(false);
        assert!(subscriber.hub.context.subscription_index().has_resources_under(&mount()));
    }

    #[test]
    fn a_subscriber_that_is_gone_leaves_nothing_behind() {
        let hub = hub();
        let subscriber = hub.subscriber(&Principal::LOCAL);
        let uri = uri();
        subscriber.watch_listing();
        let attempt = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
        attempt.register(&mount(), false);
        attempt.activate(false);
        drop(subscriber);
        assert!(!hub.context.is_watched(&mount()));
    }

    #[test]
    fn a_resource_whose_plugin_is_gone_is_unsubscribed_from_as_it_was_subscribed_to() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let uri = uri();
        let attempt = subscriber.begin("A://x/f", &uri, LIMITS).unwrap();
        attempt.activate(false);
        assert!(!subscriber.unsubscribe_by_spelling("a://x/g"));
        assert!(subscriber.unsubscribe_by_spelling("A://x/f"));
        assert!(subscriber.subscriptions().is_empty());
    }

    /// URIs, spelled in normal form.
    fn by_form<const N: usize>(uris: [&str; N]) -> BTreeMap<String, String> {
        uris.map(|uri| (uri.to_owned(), uri.to_owned())).into()
    }

    #[test]
    fn a_resource_that_is_spelled_otherwise_at_another_host_is_charged_once() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let (mut charge, uri) = (None, uri());
        let client = || Requester::Principal(Principal::LOCAL);
        let _here = subscriber.begin("A://x/f", &uri, LIMITS).unwrap();
        let elsewhere = [("a://x/f", "a://X/f"), ("b://x/f", "A://x/f")];
        for (form, spelling) in elsewhere {
            let one = BTreeMap::from([(form.to_owned(), spelling.to_owned())]);
            assert!(subscriber.charge_elsewhere(client(), &one, &mut charge, LIMITS).is_ok());
            assert!(charge.is_none(), "{spelling}");
        }
        let other = by_form(["a://x/g"]);
        assert_eq!(
            subscriber.charge_elsewhere(client(), &other, &mut charge, LIMITS),
            Err(LimitReached::ClientShare),
            "another resource"
        );
    }

    #[test]
    fn subscriptions_at_another_host_are_charged_until_they_are_made_here() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let (mut charge, uri) = (None, uri());
        let client = || Requester::Principal(Principal::LOCAL);
        let (one, two) = (by_form(["a://x/f"]), by_form(["a://x/f", "a://x/g"]));
        assert!(subscriber.charge_elsewhere(client(), &one, &mut charge, LIMITS).is_ok());
        let amount = |charge: &Option<SharePermit<Requester>>| charge.as_ref().map_or(0, SharePermit::amount);
        assert_eq!(amount(&charge), 11 * 7 + SUBSCRIPTION_OVERHEAD);
        assert!(subscriber.charge_elsewhere(client(), &two, &mut charge, LIMITS).is_err());
        assert_eq!(amount(&charge), 11 * 7 + SUBSCRIPTION_OVERHEAD);
        // It leaves no memory for a subscription here.
        assert!(subscriber.begin("a://x/f", &uri, LIMITS).is_err());
        assert!(subscriber.charge_elsewhere(client(), &by_form([]), &mut charge, LIMITS).is_ok());
        let _here = subscriber.begin("a://x/f", &uri, LIMITS).unwrap();
        assert!(subscriber.charge_elsewhere(client(), &one, &mut charge, LIMITS).is_ok());
        assert_eq!(amount(&charge), 0);
        assert!(subscriber.charge_elsewhere(client(), &two, &mut charge, LIMITS).is_err());
    }

    #[test]
    fn a_principal_at_its_share_of_the_memory_leaves_the_rest_to_others() {
        let hub = hub();
        let (ada, member, bob) = (
            hub.subscriber(&Principal::new("corp/ada")),
            hub.subscriber(&Principal::new("corp/ada").with_groups(["corp/x"])),
            hub.subscriber(&Principal::new("corp/bob")),
        );
        let uri = uri();
        let first = ada.begin("a://x/f", &uri, LIMITS).unwrap();
        let refused = |subscriber: &Subscriber| match subscriber.begin("a://x/f", &uri, LIMITS).map(drop) {
            Err(SubscribeError::Limited(Fault::Unavailable { reason, .. }, LimitScope::Subscriber(_))) => reason,
            other => panic!("{other:?}"),
        };
        assert!(refused(&member).contains("your share"));
        let _second = bob.begin("a://x/f", &uri, LIMITS).unwrap();
        let local = hub.subscriber(&Principal::LOCAL);
        assert!(refused(&local).contains("is exhausted"));
        drop(first);
        assert!(member.begin("a://x/f", &uri, LIMITS).is_ok());
    }

    #[test]
    fn an_address_at_its_share_of_the_memory_leaves_the_rest_to_other_addresses() {
        let hub = hub();
        let address = |last| {
            let subscriber = hub.subscriber(&Principal::ANONYMOUS);
            subscriber.mailbox.set_requester(&Requester::Address([192, 0, 2, last].into()));
            subscriber
        };
        let (greedy, again, other) = (address(1), address(1), address(2));
        let uri = uri();
        let _first = greedy.begin("a://x/f", &uri, LIMITS).unwrap();
        assert!(again.begin("a://x/f", &uri, LIMITS).is_err());
        let (client, mut charge) = (again.mailbox.requester(), None);
        let elsewhere = by_form(["a://x/f"]);
        assert_eq!(again.charge_elsewhere(client, &elsewhere, &mut charge, LIMITS), Err(LimitReached::ClientShare));
        assert!(other.begin("a://x/f", &uri, LIMITS).is_ok());
    }
}
