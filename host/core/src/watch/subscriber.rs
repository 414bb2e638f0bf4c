//! One subscriber: a session, a stream, or a waiting command.

mod subscription;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::join_all;
use futures::stream::{self, Stream, StreamExt};
use mcp_host_model::caller::AccessToken;
use mcp_host_model::uri::Uri;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::subscription::Subscription;
use super::mailbox::{Mailbox, PrincipalChange, UpdateNumbers};
use super::watcher::Watcher;
use super::{Hub, owner};
use crate::access::Principal;

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

    /// Replaces the access token that plugins with views get for this principal: the token of its last request. Must be
    /// called after [`set_principal`](Self::set_principal), with whose groups it expires.
    pub fn set_access_token(&self, token: Option<AccessToken>) {
        let token = token.filter(|_| self.hub.context.access.load().has_views());
        if self.mailbox.set_access_token(token) {
            self.identity_changed();
        }
    }

    /// Checks to which views it belongs at the plugins of its subscriptions, or at all if it is a subscriber of the
    /// listing.
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
