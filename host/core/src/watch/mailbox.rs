//! Pending updates of one subscriber.
//!
//! Pending updates are coalesced: they are a set, so a resource that changes often has one entry. They are also
//! throttled: after an update was delivered, further updates of the same resource are deferred for
//! [`THROTTLE_WINDOW`], and are delivered as one when it ends. So a subscriber gets at most ten notifications per
//! second for one resource, whatever causes the changes, and a single change is notified immediately. A deferred
//! update takes one flag for each resource that was notified within the last [`THROTTLE_WINDOW`].
//!
//! Any number of tasks may wait for an update, and all of them are woken. The body of an event stream with a dead
//! connection waits without being polled, and must not take the wake-up of the stream that replaced it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mcp_host_model::caller::AccessToken;
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::Uri;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::access::Principal;

/// The time after an update during which further updates of the same resource, or of the listing, are deferred.
const THROTTLE_WINDOW: Duration = Duration::from_millis(100);

/// The pending updates of one subscriber, each at most once.
#[derive(Debug)]
pub(super) struct Mailbox {
    pub(super) id: u64,
    /// Whether it belongs to a view of the console ([`Subscriber::mark_as_view`](super::Subscriber::mark_as_view)).
    is_view: AtomicBool,
    /// Whether streams that a client opens and closes send its updates
    /// ([`Subscriber::mark_as_streamed`](super::Subscriber::mark_as_streamed)).
    is_streamed: AtomicBool,
    /// The number of open streams.
    streams: AtomicUsize,
    /// The subscriber's principal, whose groups may change, and the time at which they expire; none if they do not
    /// expire.
    principal: RwLock<(Principal, Option<Instant>)>,
    /// The access token of the principal's last request, if a plugin has views. It expires with the groups.
    access_token: RwLock<Option<AccessToken>>,
    /// The number of changes of the principal, its groups included, and of the access token.
    credential_changes: AtomicU64,
    /// The client that subscribed last. The cost of all its subscriptions is attributed to this client.
    requester: RwLock<Requester>,
    pending: Mutex<PendingUpdates>,
    notify: Notify,
}

#[derive(Debug, Default)]
struct PendingUpdates {
    /// The updates that can be delivered.
    ready: BTreeSet<PendingUpdate>,
    /// The updates that were delivered within their throttle window.
    recent: BTreeMap<PendingUpdate, Recent>,
    /// The ends of the throttle windows, in order.
    window_ends: VecDeque<(Instant, PendingUpdate)>,
}

/// A delivered update.
#[derive(Clone, Copy, Debug)]
struct Recent {
    /// The end of its throttle window.
    until: Instant,
    /// Whether the same update has occurred again.
    has_deferred_update: bool,
}

/// What a request has changed about the principal of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrincipalChange {
    /// Nothing, or its groups expire later.
    None,
    /// Its groups expire sooner.
    Expiry,
    /// It is another principal.
    Principal,
}

/// A pending update.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PendingUpdate {
    Listing,
    Resource(Uri),
}

/// The sequence numbers of taken updates.
#[derive(Debug, Default)]
pub(super) struct UpdateNumbers {
    /// The sequence number of the last update; 0 before the first.
    pub(super) last: AtomicU64,
    /// The sequence number of the last update of the listing, unless the client has received it; 0 if there is none.
    pub(super) listing: AtomicU64,
}

impl UpdateNumbers {
    /// Assigns the next number.
    pub(super) fn next(&self) -> NonZeroU64 {
        NonZeroU64::MIN.saturating_add(self.last.fetch_add(1, Ordering::Relaxed))
    }
}

impl Mailbox {
    pub(super) fn new(id: u64, principal: Principal) -> Self {
        Self {
            id,
            is_view: AtomicBool::new(false),
            is_streamed: AtomicBool::new(false),
            streams: AtomicUsize::new(0),
            requester: RwLock::new(Requester::Principal(principal.identity())),
            principal: RwLock::new((principal, None)),
            access_token: RwLock::default(),
            credential_changes: AtomicU64::new(0),
            pending: Mutex::default(),
            notify: Notify::new(),
        }
    }

    /// Returns whether it belongs to a view of the console.
    pub(super) fn is_view(&self) -> bool {
        self.is_view.load(Ordering::Relaxed)
    }

    /// Returns whether nothing is sent because its client has no open stream.
    pub(super) fn is_unheard(&self) -> bool {
        self.is_streamed.load(Ordering::Relaxed) && self.streams.load(Ordering::Relaxed) == 0
    }

    pub(super) fn mark_as_streamed(&self) {
        self.is_streamed.store(true, Ordering::Relaxed);
    }

    pub(super) fn open_stream(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn close_stream(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn mark_as_view(&self) {
        self.is_view.store(true, Ordering::Relaxed);
    }

    /// Returns the subscriber's principal; without groups, if they have expired.
    pub(super) fn principal(&self) -> Principal {
        let (principal, until) = &*self.principal.read();
        if until.is_some_and(|until| until <= Instant::now()) { principal.identity() } else { principal.clone() }
    }

    /// Returns the subscriber's principal as [`principal`](Self::principal) does, and the time at which this changes;
    /// none without groups that expire.
    pub(super) fn principal_until(&self) -> (Principal, Option<Instant>) {
        let (principal, until) = &*self.principal.read();
        if until.is_some_and(|until| until <= Instant::now()) {
            (principal.identity(), None)
        } else {
            (principal.clone(), until.filter(|_| principal.groups().next().is_some()))
        }
    }

    /// Returns the subscriber's principal with its access token; without groups and token, if they have expired.
    pub(super) fn credentials(&self) -> (Principal, Option<AccessToken>) {
        let (principal, until) = &*self.principal.read();
        if until.is_some_and(|until| until <= Instant::now()) {
            (principal.identity(), None)
        } else {
            (principal.clone(), self.access_token.read().clone())
        }
    }

    /// Replaces the access token. Returns whether it differs from the current one.
    pub(super) fn set_access_token(&self, token: Option<AccessToken>) -> bool {
        if *self.access_token.read() == token {
            return false;
        }
        *self.access_token.write() = token;
        self.credential_changes.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Returns the number of changes of its principal and of its access token so far.
    pub(super) fn credential_changes(&self) -> u64 {
        self.credential_changes.load(Ordering::Relaxed)
    }

    /// Returns the client that has subscribed last.
    pub(super) fn requester(&self) -> Requester {
        self.requester.read().clone()
    }

    pub(super) fn set_requester(&self, requester: &Requester) {
        if *self.requester.read() != *requester {
            *self.requester.write() = requester.clone();
        }
    }

    /// Replaces the subscriber's principal.
    pub(super) fn set_principal(&self, principal: &Principal, until: Option<Instant>) -> PrincipalChange {
        let is_another = self.principal() != *principal;
        let (_, before) = std::mem::replace(&mut *self.principal.write(), (principal.clone(), until));
        let is_sooner = until.is_some_and(|until| before.is_none_or(|before| until < before));
        match (is_another, is_sooner) {
            (true, _) => {
                self.credential_changes.fetch_add(1, Ordering::Relaxed);
                PrincipalChange::Principal
            }
            (false, true) => PrincipalChange::Expiry,
            (false, false) => PrincipalChange::None,
        }
    }

    /// Adds an update of a resource.
    pub(super) fn put_resource(&self, uri: &Uri) {
        self.put(PendingUpdate::Resource(uri.clone()));
    }

    /// Adds an update of the listing.
    pub(super) fn put_listing(&self) {
        self.put(PendingUpdate::Listing);
    }

    fn put(&self, item: PendingUpdate) {
        let is_new = {
            let pending = &mut *self.pending();
            match pending.recent.get_mut(&item) {
                // The waiter must be notified of the window, because the update becomes ready at its end.
                Some(recent) => !std::mem::replace(&mut recent.has_deferred_update, true),
                None => pending.ready.insert(item),
            }
        };
        if is_new {
            self.notify.notify_waiters();
        }
    }

    /// Removes the pending update of a resource that is no longer subscribed.
    pub(super) fn remove(&self, uri: &Uri) {
        let item = PendingUpdate::Resource(uri.clone());
        let mut pending = self.pending();
        pending.ready.remove(&item);
        pending.recent.remove(&item);
    }

    /// Removes and returns an update that can be delivered now.
    pub(super) fn pop(&self) -> Option<PendingUpdate> {
        self.pop_at(Instant::now())
    }

    /// Starts the throttle window of an update that was removed and delivered.
    pub(super) fn mark_sent(&self, item: PendingUpdate) {
        self.mark_sent_at(item, Instant::now());
    }

    fn pop_at(&self, now: Instant) -> Option<PendingUpdate> {
        let mut pending = self.pending();
        pending.expire_windows(now);
        pending.ready.pop_first()
    }

    fn mark_sent_at(&self, item: PendingUpdate, now: Instant) {
        let Some(until) = now.checked_add(THROTTLE_WINDOW) else { return };
        let mut pending = self.pending();
        // An update that was added since the removal is delivered at the end of the window.
        let has_deferred_update = pending.ready.remove(&item);
        pending.recent.insert(item.clone(), Recent { until, has_deferred_update });
        pending.window_ends.push_back((until, item));
    }

    /// Waits until an update can be delivered.
    pub(super) async fn wait_pending(&self) {
        loop {
            // Created before the check: every later update wakes it, even before it is polled.
            let notified = self.notify.notified();
            match self.next_deadline(Instant::now()) {
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

    /// Returns `Ok` if an update can be delivered, else the end of the first throttle window with a deferred update.
    fn next_deadline(&self, now: Instant) -> Result<(), Option<Instant>> {
        let mut pending = self.pending();
        pending.expire_windows(now);
        if !pending.ready.is_empty() {
            return Ok(());
        }
        let is_deferred = |item| pending.recent.get(item).is_some_and(|recent| recent.has_deferred_update);
        let held = pending.window_ends.iter().find(|(_, item)| is_deferred(item));
        Err(held.map(|(end, _)| *end))
    }

    fn pending(&self) -> MutexGuard<'_, PendingUpdates> {
        self.pending.lock()
    }
}

impl PendingUpdates {
    /// Makes deferred updates ready whose window has ended.
    fn expire_windows(&mut self, now: Instant) {
        while let Some((end, item)) = self.window_ends.pop_front_if(|(end, _)| *end <= now) {
            // The resource may have been unsubscribed, subscribed and notified again since then.
            let Some(recent) = self.recent.get(&item).copied().filter(|recent| recent.until == end) else { continue };
            self.recent.remove(&item);
            if recent.has_deferred_update {
                self.ready.insert(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_model::uri::Mount;

    fn uri(path: &str) -> Uri {
        "a://x/".parse::<Mount>().unwrap().compose(path).unwrap().uri
    }

    fn drain(mailbox: &Mailbox, now: Instant) -> Vec<PendingUpdate> {
        std::iter::from_fn(|| mailbox.pop_at(now).inspect(|item| mailbox.mark_sent_at(item.clone(), now))).collect()
    }

    #[tokio::test]
    async fn what_changes_often_waits_once() {
        let mailbox = Mailbox::new(0, Principal::LOCAL);
        for _ in 0..1000 {
            mailbox.put_resource(&uri("a"));
            mailbox.put_listing();
        }
        mailbox.put_resource(&uri("b"));
        mailbox.wait_pending().await;
        let now = Instant::now();
        assert_eq!(
            drain(&mailbox, now),
            [PendingUpdate::Listing, PendingUpdate::Resource(uri("a")), PendingUpdate::Resource(uri("b"))]
        );
        assert_eq!(mailbox.next_deadline(now), Err(None));
    }

    #[test]
    fn what_is_not_subscribed_to_any_more_does_not_wait() {
        let mailbox = Mailbox::new(0, Principal::LOCAL);
        mailbox.put_resource(&uri("a"));
        mailbox.remove(&uri("a"));
        assert_eq!(mailbox.pop(), None);
    }

    #[tokio::test]
    async fn what_changes_all_the_time_is_told_ten_times_a_second_and_the_last_change_is_not_lost() {
        let mailbox = Mailbox::new(0, Principal::LOCAL);
        let (begun, mut sent) = (Instant::now(), 0);
        let mut now = begun;
        while now < begun + Duration::from_secs(2) {
            mailbox.put_resource(&uri("a"));
            mailbox.put_listing();
            sent += drain(&mailbox, now).len();
            now += Duration::from_millis(1);
        }
        assert_eq!(sent, 2 * 20, "two items, ten times a second, for two seconds");
        mailbox.put_resource(&uri("a"));
        assert_eq!(mailbox.pop_at(now - Duration::from_millis(1)), None);
        // The first delivery of an update does not wait for the window.
        mailbox.put_resource(&uri("b"));
        assert_eq!(mailbox.pop_at(now - Duration::from_millis(1)), Some(PendingUpdate::Resource(uri("b"))));
        let after = now + THROTTLE_WINDOW;
        assert_eq!(drain(&mailbox, after), [PendingUpdate::Listing, PendingUpdate::Resource(uri("a"))]);
    }

    #[tokio::test]
    async fn whoever_waits_goes_on_when_the_window_is_over() {
        let mailbox = Mailbox::new(0, Principal::LOCAL);
        mailbox.put_resource(&uri("a"));
        drain(&mailbox, Instant::now());
        let mut filled = std::pin::pin!(mailbox.wait_pending());
        assert!(futures::poll!(&mut filled).is_pending());
        mailbox.put_resource(&uri("a"));
        filled.await;
        assert_eq!(mailbox.pop(), Some(PendingUpdate::Resource(uri("a"))));
    }

    #[tokio::test]
    async fn a_waiter_that_is_not_polled_takes_the_wake_up_from_no_other() {
        let mailbox = Mailbox::new(0, Principal::LOCAL);
        let mut stuck = std::pin::pin!(mailbox.wait_pending());
        assert!(futures::poll!(&mut stuck).is_pending());
        let mut waiting = std::pin::pin!(mailbox.wait_pending());
        assert!(futures::poll!(&mut waiting).is_pending());
        mailbox.put_resource(&uri("a"));
        assert!(futures::poll!(&mut waiting).is_ready());
    }

    #[test]
    fn one_that_was_unsubscribed_from_within_its_window_does_not_come_behind_it() {
        let (mailbox, now) = (Mailbox::new(0, Principal::LOCAL), Instant::now());
        mailbox.put_resource(&uri("a"));
        drain(&mailbox, now);
        mailbox.put_resource(&uri("a"));
        mailbox.remove(&uri("a"));
        assert_eq!(mailbox.pop_at(now + THROTTLE_WINDOW * 2), None);
    }
}
