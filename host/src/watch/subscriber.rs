//! One subscriber: a session, a stream, a command that waits.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;

use super::mailbox::{Item, Mailbox};
use super::memory::{Memory, Reserved};
use super::{Hub, Refused};
use crate::access::Principal;
use crate::config::Operation;
use crate::plugin::Fault;
use crate::uri::{Mount, Uri};

/// What a subscription takes up beside its URIs, about: it stands in the maps of its subscriber, of its resource, and of what
/// waits.
const OVERHEAD: usize = 400;
/// When to try again where all memory for subscriptions is taken.
const RETRY: Duration = Duration::from_secs(5);

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
    /// What its URIs may take up.
    uri_bytes: Memory,
    /// It is counted for as long as it is there.
    _counted: Arc<()>,
}

struct Subscription {
    /// Tells it apart from one to the same resource that was taken back.
    serial: u64,
    /// The URI as it was asked for, if that is another text.
    asked: Option<Box<str>>,
    /// Its share of what those of its subscriber, and all, may take up.
    _memory: [Reserved; 2],
    /// Whether anyone was told that it counts.
    counts: bool,
    /// How many wait until it counts.
    attempts: usize,
    /// Whether there is something to tell, which waits until it counts: it may come to nothing.
    is_due: bool,
}

impl Subscription {
    /// The URI as it was asked for.
    fn asked<'a>(&'a self, uri: &'a Uri) -> &'a str {
        self.asked.as_deref().unwrap_or(uri.as_str())
    }
}

impl Subscriber {
    /// Resources that one subscriber may subscribe to.
    pub const MAX_RESOURCES: usize = 1024;
    /// Bytes that their URIs may have altogether, as they were asked for.
    pub const MAX_URI_BYTES: usize = 256 << 10;

    pub(super) fn new(id: u64, who: Principal, hub: Arc<Hub>) -> Self {
        Self {
            mailbox: Arc::new(Mailbox::new(id, who)),
            subscribed: Mutex::default(),
            serials: AtomicU64::new(0),
            uri_bytes: Memory::new(Self::MAX_URI_BYTES),
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
                Item::Listing => {
                    self.mailbox.told(Item::Listing);
                    return Some(Update::Listing);
                }
                Item::Resource(uri) if access.allows(self.principal(), Operation::Read, &uri) => {
                    let mut subscribed = self.subscribed();
                    let Some(subscription) = subscribed.get_mut(&uri) else { continue };
                    if subscription.counts {
                        let update = Update::Resource(subscription.asked(&uri).to_owned());
                        self.mailbox.told(Item::Resource(uri));
                        return Some(update);
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
        let uri =
            subscribed.iter().find(|(uri, subscription)| subscription.asked(uri) == asked).map(|(uri, _)| uri.clone());
        let Some(uri) = uri else { return false };
        subscribed.remove(&uri);
        self.forget(&uri);
        true
    }

    /// Begins to subscribe. It is as if nothing had been asked unless the attempt counts in the end.
    pub(super) fn attempt<'a>(&'a self, asked: &str, uri: &'a Uri) -> Result<Attempt<'a>, Refused> {
        let mut subscribed = self.subscribed();
        let is_room = subscribed.len() < Self::MAX_RESOURCES;
        let subscription = match subscribed.entry(uri.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let own = self.uri_bytes.reserve(asked.len()).filter(|_| is_room).ok_or_else(too_many)?;
                let bytes = asked.len().saturating_add(uri.as_str().len()).saturating_add(OVERHEAD);
                let all = self.hub.common.memory.reserve(bytes).ok_or_else(no_memory)?;
                let serial = self.serials.fetch_add(1, Ordering::Relaxed);
                entry.insert(Subscription {
                    serial,
                    asked: (asked != uri.as_str()).then(|| asked.into()),
                    _memory: [own, all],
                    counts: false,
                    attempts: 0,
                    is_due: false,
                })
            }
        };
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

fn too_many() -> Refused {
    Refused::Final(Fault::InvalidRequest(format!(
        "one subscriber may subscribe to {} resources, with {} bytes of URIs; unsubscribe from some first",
        Subscriber::MAX_RESOURCES,
        Subscriber::MAX_URI_BYTES
    )))
}

fn no_memory() -> Refused {
    let reason = "this server has as many subscriptions as it may; try again later".to_owned();
    Refused::Later(Fault::Unavailable { reason, retry_after: Some(RETRY) }, RETRY)
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

    /// It counts. With `tells`, there is one update at once: the subscriber believed that it counted before.
    pub(super) fn counts(self, tells: bool) {
        let mut subscribed = self.subscriber.subscribed();
        if let Some(subscription) = subscribed.get_mut(self.uri).filter(|one| one.serial == self.serial) {
            subscription.counts = true;
            if std::mem::take(&mut subscription.is_due) || tells {
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
            subscriber.hub.common.interests().notify(&uri, 0, &mut 1, |_| true);
            assert_eq!(subscriber.take(), None);
            if comes_to_something {
                attempt.counts(false);
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
        second.counts(false);
        assert!(subscriber.hub.common.interests().any_below(&mount()));
        // One that was taken back and asked for anew is another one.
        let late = subscriber.attempt("a://x/f", &uri).unwrap();
        subscriber.unsubscribe(&uri);
        let new = subscriber.attempt("a://x/f", &uri).unwrap();
        new.register(&mount());
        drop(late);
        new.counts(false);
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
        attempt.counts(false);
        drop(subscriber);
        assert!(!hub.common.interests().any_below(&mount()));
    }

    #[test]
    fn a_resource_whose_plugin_is_gone_is_unsubscribed_from_as_it_was_subscribed_to() {
        let subscriber = hub().subscriber(&Principal::LOCAL);
        let uri = uri();
        let attempt = subscriber.attempt("A://x/f", &uri).unwrap();
        attempt.counts(false);
        assert!(!subscriber.unsubscribe_as("a://x/g"));
        assert!(subscriber.unsubscribe_as("A://x/f"));
        assert!(subscriber.subscribed().is_empty());
    }
}
