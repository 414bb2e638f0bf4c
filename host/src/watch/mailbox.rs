//! What waits for one subscriber.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::access::Principal;
use crate::uri::Uri;

/// The updates that wait for one subscriber: each at most once.
#[derive(Debug)]
pub(super) struct Mailbox {
    pub(super) id: u64,
    /// Whose it is.
    pub(super) who: Principal,
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    resources: BTreeSet<Uri>,
    listing: bool,
}

/// Something that waits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    Resource(Uri),
    Listing,
}

impl Mailbox {
    pub(super) fn new(id: u64, who: Principal) -> Self {
        Self { id, who, waiting: Mutex::default(), filled: Notify::new() }
    }

    /// Puts in that a resource changed.
    pub(super) fn put_resource(&self, uri: &Uri) {
        self.waiting().resources.insert(uri.clone());
        self.filled.notify_one();
    }

    /// Puts in that the listing changed.
    pub(super) fn put_listing(&self) {
        self.waiting().listing = true;
        self.filled.notify_one();
    }

    /// Takes out what waits for a resource that is not subscribed to any more.
    pub(super) fn forget(&self, uri: &Uri) {
        self.waiting().resources.remove(uri);
    }

    /// Takes out what waits longest, as far as there is an order.
    pub(super) fn take(&self) -> Option<Item> {
        let mut waiting = self.waiting();
        if std::mem::take(&mut waiting.listing) {
            return Some(Item::Listing);
        }
        waiting.resources.pop_first().map(Item::Resource)
    }

    /// Waits until something is in. For one waiter at a time.
    pub(super) async fn filled(&self) {
        loop {
            let notified = self.filled.notified();
            if self.is_filled() {
                return;
            }
            notified.await;
        }
    }

    fn is_filled(&self) -> bool {
        let waiting = self.waiting();
        waiting.listing || !waiting.resources.is_empty()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uri::Mount;

    fn uri(path: &str) -> Uri {
        "a://x/".parse::<Mount>().unwrap().compose(path).unwrap().uri
    }

    #[tokio::test]
    async fn what_changes_often_waits_once() {
        let mailbox = Mailbox::new(0, Principal::LOCAL);
        for _ in 0..1000 {
            mailbox.put_resource(&uri("a"));
            mailbox.put_listing();
        }
        mailbox.put_resource(&uri("b"));
        mailbox.filled().await;
        let taken: Vec<_> = std::iter::from_fn(|| mailbox.take()).collect();
        assert_eq!(taken, [Item::Listing, Item::Resource(uri("a")), Item::Resource(uri("b"))]);
        assert!(!mailbox.is_filled());
    }

    #[test]
    fn what_is_not_subscribed_to_any_more_does_not_wait() {
        let mailbox = Mailbox::new(0, Principal::LOCAL);
        mailbox.put_resource(&uri("a"));
        mailbox.forget(&uri("a"));
        assert_eq!(mailbox.take(), None);
    }
}
