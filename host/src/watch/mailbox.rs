//! What waits for one subscriber.
//!
//! Updates that wait are a set, so a resource that changes often waits once. They are also debounced: after an update was given
//! out, further ones of the same resource are held back for [`WINDOW`] and given out as one when it is over. So one resource is
//! told to one subscriber ten times a second at most, whatever makes it change, and a single change is told at once. What is
//! held back is a flag for each resource that was told within the last [`WINDOW`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::access::Principal;
use crate::uri::Uri;

/// For how long after an update further ones of the same resource, or of what is listed, are held back.
const WINDOW: Duration = Duration::from_millis(100);

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
    /// What may be taken.
    ready: BTreeSet<Item>,
    /// What was told within the window.
    recent: BTreeMap<Item, Recent>,
    /// The ends of these windows, in their order.
    ends: VecDeque<(Instant, Item)>,
}

/// Something that was told.
#[derive(Clone, Copy, Debug)]
struct Recent {
    /// Until when more of it is held back.
    until: Instant,
    /// Whether there is more of it.
    is_due: bool,
}

/// Something that waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Listing,
    Resource(Uri),
}

impl Mailbox {
    pub(super) fn new(id: u64, who: Principal) -> Self {
        Self { id, who, waiting: Mutex::default(), filled: Notify::new() }
    }

    /// Puts in that a resource changed.
    pub(super) fn put_resource(&self, uri: &Uri) {
        self.put(Item::Resource(uri.clone()));
    }

    /// Puts in that the listing changed.
    pub(super) fn put_listing(&self) {
        self.put(Item::Listing);
    }

    fn put(&self, item: Item) {
        let is_new = {
            let waiting = &mut *self.waiting();
            match waiting.recent.get_mut(&item) {
                // Whoever waits has to learn of the window, behind which it may go on.
                Some(recent) => !std::mem::replace(&mut recent.is_due, true),
                None => waiting.ready.insert(item),
            }
        };
        if is_new {
            self.filled.notify_one();
        }
    }

    /// Takes out what waits for a resource that is not subscribed to any more.
    pub(super) fn forget(&self, uri: &Uri) {
        let item = Item::Resource(uri.clone());
        let mut waiting = self.waiting();
        waiting.ready.remove(&item);
        waiting.recent.remove(&item);
    }

    /// Takes out what may be told now.
    pub(super) fn take(&self) -> Option<Item> {
        self.take_at(Instant::now())
    }

    /// What was taken was told: what comes of it within the window is held back.
    pub(super) fn told(&self, item: Item) {
        self.told_at(item, Instant::now());
    }

    fn take_at(&self, now: Instant) -> Option<Item> {
        let mut waiting = self.waiting();
        waiting.end_windows(now);
        waiting.ready.pop_first()
    }

    fn told_at(&self, item: Item, now: Instant) {
        let Some(until) = now.checked_add(WINDOW) else { return };
        let mut waiting = self.waiting();
        // What was put in since it was taken is told behind the window.
        let is_due = waiting.ready.remove(&item);
        waiting.recent.insert(item.clone(), Recent { until, is_due });
        waiting.ends.push_back((until, item));
    }

    /// Waits until something can be taken. For one waiter at a time.
    pub(super) async fn filled(&self) {
        loop {
            let notified = self.filled.notified();
            match self.next_end(Instant::now()) {
                Ok(()) => return,
                Err(None) => notified.await,
                Err(Some(end)) => {
                    tokio::select! {
                        () = notified => {}
                        () = sleep_until(end) => {}
                    }
                }
            }
        }
    }

    /// Whether something can be taken, or else the end of the first window behind which something may be.
    fn next_end(&self, now: Instant) -> Result<(), Option<Instant>> {
        let mut waiting = self.waiting();
        waiting.end_windows(now);
        if !waiting.ready.is_empty() {
            return Ok(());
        }
        let is_due = |item| waiting.recent.get(item).is_some_and(|recent| recent.is_due);
        let held = waiting.ends.iter().find(|(_, item)| is_due(item));
        Err(held.map(|(end, _)| *end))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Lets what was held back be taken whose window is over.
    fn end_windows(&mut self, now: Instant) {
        while let Some((end, item)) = self.ends.pop_front_if(|(end, _)| *end <= now) {
            // It may have been unsubscribed from, subscribed to and told anew since.
            let Some(recent) = self.recent.get(&item).copied().filter(|recent| recent.until == end) else { continue };
            self.recent.remove(&item);
            if recent.is_due {
                self.ready.insert(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uri::Mount;

    fn uri(path: &str) -> Uri {
        "a://x/".parse::<Mount>().unwrap().compose(path).unwrap().uri
    }

    fn all(mailbox: &Mailbox, now: Instant) -> Vec<Item> {
        std::iter::from_fn(|| mailbox.take_at(now).inspect(|item| mailbox.told_at(item.clone(), now))).collect()
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
        let now = Instant::now();
        assert_eq!(all(&mailbox, now), [Item::Listing, Item::Resource(uri("a")), Item::Resource(uri("b"))]);
        assert_eq!(mailbox.next_end(now), Err(None));
    }

    #[test]
    fn what_is_not_subscribed_to_any_more_does_not_wait() {
        let mailbox = Mailbox::new(0, Principal::LOCAL);
        mailbox.put_resource(&uri("a"));
        mailbox.forget(&uri("a"));
        assert_eq!(mailbox.take(), None);
    }

    #[tokio::test]
    async fn what_changes_all_the_time_is_told_ten_times_a_second_and_the_last_change_is_not_lost() {
        let mailbox = Mailbox::new(0, Principal::LOCAL);
        let (begun, mut told) = (Instant::now(), 0);
        let mut now = begun;
        while now < begun + Duration::from_secs(2) {
            mailbox.put_resource(&uri("a"));
            mailbox.put_listing();
            told += all(&mailbox, now).len();
            now += Duration::from_millis(1);
        }
        assert_eq!(told, 2 * 20, "two items, ten times a second, for two seconds");
        mailbox.put_resource(&uri("a"));
        assert_eq!(mailbox.take_at(now - Duration::from_millis(1)), None);
        // One that is told for the first time does not wait for it.
        mailbox.put_resource(&uri("b"));
        assert_eq!(mailbox.take_at(now - Duration::from_millis(1)), Some(Item::Resource(uri("b"))));
        let after = now + WINDOW;
        assert_eq!(all(&mailbox, after), [Item::Listing, Item::Resource(uri("a"))]);
    }

    #[tokio::test]
    async fn whoever_waits_goes_on_when_the_window_is_over() {
        let mailbox = Mailbox::new(0, Principal::LOCAL);
        mailbox.put_resource(&uri("a"));
        all(&mailbox, Instant::now());
        let mut filled = std::pin::pin!(mailbox.filled());
        assert!(futures::poll!(&mut filled).is_pending());
        mailbox.put_resource(&uri("a"));
        filled.await;
        assert_eq!(mailbox.take(), Some(Item::Resource(uri("a"))));
    }

    #[test]
    fn one_that_was_unsubscribed_from_within_its_window_does_not_come_behind_it() {
        let (mailbox, now) = (Mailbox::new(0, Principal::LOCAL), Instant::now());
        mailbox.put_resource(&uri("a"));
        all(&mailbox, now);
        mailbox.put_resource(&uri("a"));
        mailbox.forget(&uri("a"));
        assert_eq!(mailbox.take_at(now + WINDOW * 2), None);
    }
}
