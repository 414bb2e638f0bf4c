//! One subscriber: a session, a stream, a command that waits.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;

use super::Hub;
use super::mailbox::{Item, Mailbox};
use crate::access::Principal;
use crate::config::Operation;
use crate::plugin::Fault;
use crate::uri::{Mount, Uri};

/// Something that a subscriber asked to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// The content or metadata of a resource changed, or it appeared or went away. The URI is spelled as it was when it was
    /// subscribed to.
    Resource(String),
    /// What is listed changed.
    Listing,
}

/// Someone who is told of changes. Dropped, it is told of nothing more and leaves nothing behind.
pub struct Subscriber {
    mailbox: Arc<Mailbox>,
    hub: Arc<Hub>,
    subscribed: Mutex<BTreeMap<Uri, Subscription>>,
    serials: AtomicU64,
    /// It is counted for as long as it is there.
    _counted: Arc<()>,
}

struct Subscription {
    /// Tells it apart from one to the same resource that was taken back.
    serial: u64,
    /// The URI as it was asked for.
    asked: String,
    /// Whether anyone was told that it counts.
    counts: bool,
    /// How many wait until it counts.
    attempts: usize,
    /// Whether there is something to tell, which waits until it counts: it may come to nothing.
    is_due: bool,
}

impl Subscriber {
    /// Resources that one subscriber may subscribe to.
    pub const MAX_RESOURCES: usize = 1024;

    pub(super) fn new(id: u64, who: Principal, hub: Arc<Hub>) -> Self {
        Self {
            mailbox: Arc::new(Mailbox::new(id, who)),
            subscribed: Mutex::default(),
            serials: AtomicU64::new(0),
            _counted: hub.common.count_subscriber(),
            hub,
        }
    }

    /// Who is told.
    pub fn principal(&self) -> &Principal {
        &self.mailbox.who
    }

    /// Waits for the next update. Safe to drop: what waits goes on waiting.
    pub async fn next(&self) -> Update {
        loop {
            self.filled().await;
            if let Some(update) = self.take() {
                return update;
            }
        }
    }

    /// Waits until it is worth trying to [`take`](Self::take).
    pub async fn filled(&self) {
        self.mailbox.filled().await;
    }

    /// The next update, if one waits. What the principal may not read at this moment is not told.
    pub fn take(&self) -> Option<Update> {
        let access = self.hub.common.access.load();
        loop {
            match self.mailbox.take()? {
                Item::Listing => return Some(Update::Listing),
                Item::Resource(uri) if access.allows(self.principal(), Operation::Read, &uri) => {
                    let mut subscribed = self.subscribed();
                    let Some(subscription) = subscribed.get_mut(&uri) else { continue };
                    if subscription.counts {
                        return Some(Update::Resource(subscription.asked.clone()));
                    }
                    subscription.is_due = true;
                }
                Item::Resource(_) => {}
            }
        }
    }

    /// Asks to be told when what is listed changes. That counts from when [`listing_counts`](Self::listing_counts) returns.
    pub fn watch_listing(&self) {
        self.hub.common.interests().watch_listing(&self.mailbox);
        self.hub.watchers().values().for_each(|watcher| watcher.watch_listing());
    }

    /// Waits, for one who asked, until what is listed is known, so that every change of it is told. That takes a walk through
    /// the listing, unless somebody with the same rights asked before.
    pub async fn listing_counts(&self) {
        let watchers = self.hub.watchers();
        join_all(watchers.values().map(|watcher| watcher.listing_counts(self.principal()))).await;
    }

    /// Takes a subscription back. Nothing is told of that resource any more, not even what waits. Whether there was such a
    /// subscription does not matter.
    pub fn unsubscribe(&self, uri: &Uri) {
        let mut subscribed = self.subscribed();
        if subscribed.remove(uri).is_some() {
            self.forget(uri);
        }
    }

    /// Takes the subscription back that was asked for in that spelling, if there is one.
    pub(crate) fn unsubscribe_as(&self, asked: &str) -> bool {
        let mut subscribed = self.subscribed();
        let uri = subscribed.iter().find(|(_, subscription)| subscription.asked == asked).map(|(uri, _)| uri.clone());
        let Some(uri) = uri else { return false };
        subscribed.remove(&uri);
        self.forget(&uri);
        true
    }

    /// Begins to subscribe. It is as if nothing had been asked unless the attempt counts in the end.
    pub(super) fn attempt<'a>(&'a self, asked: &str, uri: &'a Uri) -> Result<Attempt<'a>, Fault> {
        let mut subscribed = self.subscribed();
        if subscribed.len() >= Self::MAX_RESOURCES && !subscribed.contains_key(uri) {
            return Err(Fault::InvalidRequest(format!(
                "one subscriber may subscribe to {} resources; unsubscribe from some first",
                Self::MAX_RESOURCES
            )));
        }
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        let new = || Subscription { serial, asked: asked.to_owned(), counts: false, attempts: 0, is_due: false };
        let subscription = subscribed.entry(uri.clone()).or_insert_with(new);
        subscription.attempts = subscription.attempts.saturating_add(1);
        Ok(Attempt { subscriber: self, uri, serial: subscription.serial })
    }

    fn forget(&self, uri: &Uri) {
        let mut interests = self.hub.common.interests();
        interests.unwatch(uri, self.mailbox.id);
        self.hub.watchers().values().for_each(|watcher| watcher.may_be_deserted(&interests));
        self.mailbox.forget(uri);
    }

    fn subscribed(&self) -> MutexGuard<'_, BTreeMap<Uri, Subscription>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A subscription that does not count yet. Dropped, it is taken back, unless it counts or others wait for the same.
pub(super) struct Attempt<'a> {
    subscriber: &'a Subscriber,
    uri: &'a Uri,
    serial: u64,
}

impl Attempt<'_> {
    /// Has whoever watches that mount ask about it from now on, unless it has been taken back meanwhile.
    pub(super) fn register(&self, mount: &Mount) {
        let Some(Ok(located)) = self.uri.as_str().strip_prefix(mount.as_str()).map(|path| mount.compose(path)) else {
            return;
        };
        let subscribed = self.subscriber.subscribed();
        if subscribed.get(self.uri).is_some_and(|subscription| subscription.serial == self.serial) {
            self.subscriber.hub.common.interests().watch(&located.uri, &located.path, &self.subscriber.mailbox);
        }
    }

    /// It counts.
    pub(super) fn counts(self) {
        let mut subscribed = self.subscriber.subscribed();
        if let Some(subscription) = subscribed.get_mut(self.uri).filter(|one| one.serial == self.serial) {
            subscription.counts = true;
            if std::mem::take(&mut subscription.is_due) {
                self.subscriber.mailbox.put_resource(self.uri);
            }
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut subscribed = self.subscriber.subscribed();
        if let Some(subscription) = subscribed.get_mut(self.uri).filter(|one| one.serial == self.serial) {
            subscription.attempts = subscription.attempts.saturating_sub(1);
            if !subscription.counts && subscription.attempts == 0 {
                subscribed.remove(self.uri);
                self.subscriber.forget(self.uri);
            }
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let subscribed = std::mem::take(&mut *self.subscribed());
        let mut interests = self.hub.common.interests();
        interests.unwatch_listing(self.mailbox.id);
        for uri in subscribed.keys() {
            interests.unwatch(uri, self.mailbox.id);
        }
        self.hub.watchers().values().for_each(|watcher| watcher.may_be_deserted(&interests));
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    fn hub() -> Arc<Hub> {
        Hub::new(std::iter::empty(), Arc::new(Access::new(&[])))
    }

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
        let attempt = subscriber.attempt("a://x/f", &uri).unwrap();
        attempt.register(&mount());
        assert!(subscriber.hub.common.interests().any_below(&mount()));
        drop(attempt);
        assert!(!subscriber.hub.common.interests().any_below(&mount()));
        assert!(subscriber.subscribed().is_empty());
    }

    #[test]
    fn what_there_is_to_tell_waits_until_the_subscription_counts() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let uri = uri();
        for comes_to_something in [false, true] {
            let attempt = subscriber.attempt("a://x/f", &uri).unwrap();
            attempt.register(&mount());
            subscriber.hub.common.interests().tell(&uri);
            assert_eq!(subscriber.take(), None);
            if comes_to_something {
                attempt.counts();
                assert_eq!(subscriber.take(), Some(Update::Resource("a://x/f".to_owned())));
            } else {
                drop(attempt);
            }
            assert_eq!(subscriber.take(), None);
        }
    }

    #[test]
    fn of_two_attempts_one_that_is_given_up_takes_nothing_from_the_other() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let uri = uri();
        let [first, second] = [(); 2].map(|()| subscriber.attempt("a://x/f", &uri).unwrap());
        second.register(&mount());
        drop(first);
        second.counts();
        assert!(subscriber.hub.common.interests().any_below(&mount()));
        // One that was taken back and asked for anew is another one.
        let late = subscriber.attempt("a://x/f", &uri).unwrap();
        subscriber.unsubscribe(&uri);
        let new = subscriber.attempt("a://x/f", &uri).unwrap();
        new.register(&mount());
        drop(late);
        new.counts();
        assert!(subscriber.hub.common.interests().any_below(&mount()));
    }

    #[test]
    fn a_subscriber_that_is_gone_leaves_nothing_behind() {
        let hub = hub();
        let subscriber = hub.subscriber(&Principal::LOCAL);
        let uri = uri();
        subscriber.watch_listing();
        let attempt = subscriber.attempt("a://x/f", &uri).unwrap();
        attempt.register(&mount());
        attempt.counts();
        drop(subscriber);
        assert!(!hub.common.interests().any_below(&mount()));
    }

    #[test]
    fn a_resource_whose_plugin_is_gone_is_unsubscribed_from_as_it_was_subscribed_to() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let uri = uri();
        let attempt = subscriber.attempt("A://x/f", &uri).unwrap();
        attempt.counts();
        assert!(!subscriber.unsubscribe_as("a://x/g"));
        assert!(subscriber.unsubscribe_as("A://x/f"));
        assert!(subscriber.subscribed().is_empty());
    }
}
