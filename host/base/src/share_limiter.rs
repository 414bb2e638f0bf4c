//! A limit with a share for each client, so that no client can exhaust it: of permits, or of bytes. A request
//! beyond a limit is refused immediately. A client without usage has no entry.
//!
//! A refused client may wait for [`Releases`]. A release wakes one waiter of the same client that reached the share of
//! the client, and one waiter of any client that reached the overall limit. It wakes no waiter for another client's
//! share.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The usage of each client `K`, and of all together. Clones share it.
#[derive(Debug)]
pub struct ShareLimiter<K>(Arc<Mutex<Usage<K>>>);

#[derive(Debug)]
struct Usage<K> {
    overall: usize,
    clients: HashMap<K, usize>,
    waiters: Waiters<K>,
}

/// The notifications of releases. Empty while there are no [`Releases`].
#[derive(Debug)]
struct Waiters<K> {
    /// Of the releases of each client.
    clients: HashMap<K, Weak<Notify>>,
    /// Of the releases of all clients.
    overall: Weak<Notify>,
}

/// The releases that may make room for a client. Each release since the last wait counts.
#[derive(Debug)]
pub struct Releases<K: Clone + Eq + Hash> {
    all: ShareLimiter<K>,
    client: K,
    of_client: Arc<Notify>,
    overall: Arc<Notify>,
}

impl<K> Clone for ShareLimiter<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for ShareLimiter<K> {
    fn default() -> Self {
        let waiters = Waiters { clients: HashMap::new(), overall: Weak::new() };
        Self(Arc::new(Mutex::new(Usage { overall: 0, clients: HashMap::new(), waiters })))
    }
}

/// The usage of a client, released when it is dropped.
#[derive(Debug)]
pub struct SharePermit<K: Clone + Eq + Hash> {
    all: ShareLimiter<K>,
    client: K,
    amount: usize,
}

/// The limits, of one client and overall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLimits {
    /// Of one client.
    pub client: usize,
    /// Of all clients together.
    pub overall: usize,
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The share of the client.
    ClientShare,
    /// The overall limit.
    Overall,
}

impl<K: Clone + Eq + Hash> ShareLimiter<K> {
    /// Acquires one permit for this client, within the limits.
    pub fn acquire(&self, client: &K, max: ShareLimits) -> Result<SharePermit<K>, LimitReached> {
        self.acquire_amount(client, 1, max)
    }

    /// Acquires an amount for this client, within the limits.
    pub fn acquire_amount(&self, client: &K, amount: usize, max: ShareLimits) -> Result<SharePermit<K>, LimitReached> {
        let mut permit = self.empty_permit(client.clone());
        permit.resize(amount, max)?;
        Ok(permit)
    }

    /// Returns a permit of this client with the amount 0, which can be resized.
    pub fn empty_permit(&self, client: K) -> SharePermit<K> {
        SharePermit { all: self.clone(), client, amount: 0 }
    }

    /// Returns the releases that may make room for this client.
    pub fn releases(&self, client: K) -> Releases<K> {
        let waiters = &mut self.lock().waiters;
        let of_client = waiters.clients.get(&client).and_then(Weak::upgrade).unwrap_or_else(|| {
            let new = Arc::new(Notify::new());
            waiters.clients.insert(client.clone(), Arc::downgrade(&new));
            new
        });
        let overall = waiters.overall.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Notify::new());
            waiters.overall = Arc::downgrade(&new);
            new
        });
        Releases { all: self.clone(), client, of_client, overall }
    }

    /// Returns the overall usage.
    #[cfg(any(test, feature = "testing"))]
    pub fn overall(&self) -> usize {
        self.lock().overall
    }

    /// Returns the number of clients with an entry.
    #[cfg(any(test, feature = "testing"))]
    pub fn clients(&self) -> usize {
        self.lock().clients.len()
    }

    /// Returns the number of clients that may wait for releases.
    #[cfg(any(test, feature = "testing"))]
    pub fn waiting_clients(&self) -> usize {
        self.lock().waiters.clients.len()
    }

    fn lock(&self) -> MutexGuard<'_, Usage<K>> {
        self.0.lock()
    }
}

impl<K: Clone + Eq + Hash> SharePermit<K> {
    /// Changes the amount, within the limits. A decrease always succeeds. An error changes nothing.
    pub fn resize(&mut self, amount: usize, max: ShareLimits) -> Result<(), LimitReached> {
        let with = |used: usize| used.saturating_sub(self.amount).saturating_add(amount);
        let mut all = self.all.lock();
        let of_client = with(all.clients.get(&self.client).copied().unwrap_or_default());
        let overall = with(all.overall);
        if amount > self.amount {
            if of_client > max.client {
                return Err(LimitReached::ClientShare);
            }
            if overall > max.overall {
                return Err(LimitReached::Overall);
            }
        }
        all.overall = overall;
        match of_client {
            0 => drop(all.clients.remove(&self.client)),
            used => drop(all.clients.insert(self.client.clone(), used)),
        }
        if amount < self.amount {
            all.waiters.wake(&self.client);
        }
        self.amount = amount;
        Ok(())
    }

    /// Adds to the amount, within the limits.
    pub fn grow(&mut self, more: usize, max: ShareLimits) -> Result<(), LimitReached> {
        self.resize(self.amount.saturating_add(more), max)
    }

    /// Splits an amount off into a second permit of the same client; at most the whole amount.
    #[must_use]
    pub fn split(&mut self, amount: usize) -> Self {
        let amount = amount.min(self.amount);
        self.amount = self.amount.saturating_sub(amount);
        Self { all: self.all.clone(), client: self.client.clone(), amount }
    }

    /// Returns the client.
    pub fn client(&self) -> &K {
        &self.client
    }

    /// Returns the amount.
    pub fn amount(&self) -> usize {
        self.amount
    }
}

impl<K: Clone + Eq + Hash> Drop for SharePermit<K> {
    fn drop(&mut self) {
        // A decrease is within any limits.
        if self.amount > 0 {
            let _ = self.resize(0, ShareLimits { client: 0, overall: 0 });
        }
    }
}

impl<K: Eq + Hash> Waiters<K> {
    /// Wakes one waiter of a client that has released some of its usage, and one of all clients.
    fn wake(&self, client: &K) {
        if let Some(of_client) = self.clients.get(client).and_then(Weak::upgrade) {
            of_client.notify_one();
        }
        if let Some(overall) = self.overall.upgrade() {
            overall.notify_one();
        }
    }
}

impl<K: Clone + Eq + Hash> Releases<K> {
    /// Waits for a release that may make room below the limit that was reached. Cancel-safe: the release then wakes
    /// another waiter.
    pub async fn next(&self, reached: LimitReached) {
        self.notify(reached).notified().await;
    }

    /// Wakes another waiter: there was room for this one, and there may be more.
    pub fn pass_on(&self, reached: LimitReached) {
        self.notify(reached).notify_one();
    }

    fn notify(&self, reached: LimitReached) -> &Notify {
        match reached {
            LimitReached::ClientShare => &self.of_client,
            LimitReached::Overall => &self.overall,
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for Releases<K> {
    fn drop(&mut self) {
        let waiters = &mut self.all.lock().waiters;
        // References are made and dropped while the limiter is locked, so exactly one of them is the last one.
        let of_client = std::mem::take(&mut self.of_client);
        if Arc::strong_count(&of_client) == 1 {
            waiters.clients.remove(&self.client);
        }
        drop(of_client);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn amounts_are_given_back_whole() {
        let all = ShareLimiter::default();
        let max = ShareLimits { client: 10, overall: 15 };
        let (one, other) = ("one", "other");
        let first = all.acquire_amount(&one, 7, max).unwrap();
        assert_eq!(all.acquire_amount(&one, 4, max).err(), Some(LimitReached::ClientShare));
        assert_eq!(all.acquire_amount(&other, 9, max).err(), Some(LimitReached::Overall));
        let _second = all.acquire_amount(&one, 3, max).unwrap();
        drop(first);
        assert_eq!(all.overall(), 3);
        assert!(all.acquire_amount(&one, 7, max).is_ok());
    }

    #[test]
    fn an_amount_that_grows_is_one_permit_and_is_given_back_whole() {
        let all = ShareLimiter::default();
        let max = ShareLimits { client: 10, overall: 15 };
        let mut permit = all.empty_permit("one");
        for amount in [1, 0, 6, 3] {
            permit.grow(amount, max).unwrap();
        }
        assert_eq!(permit.grow(1, max), Err(LimitReached::ClientShare));
        assert_eq!((all.overall(), permit.amount()), (10, 10));
        let lower = ShareLimits { client: 1, overall: 1 };
        permit.resize(9, lower).unwrap();
        assert_eq!(permit.resize(10, lower), Err(LimitReached::ClientShare), "a reload has lowered the limits");
        assert_eq!(all.overall(), 9);
        drop(permit);
        assert_eq!(all.overall(), 0);
        assert_eq!(all.clients(), 0);
    }

    #[test]
    fn a_client_has_its_share_and_leaves_the_rest_to_others() {
        let all = ShareLimiter::default();
        let max = ShareLimits { client: 2, overall: 3 };
        let (one, other) = ("one", "other");
        let first = all.acquire(&one, max).unwrap();
        let _second = all.acquire(&one, max).unwrap();
        assert_eq!(all.acquire(&one, max).err(), Some(LimitReached::ClientShare));
        let third = all.acquire(&other, max).unwrap();
        assert_eq!(all.acquire(&other, max).err(), Some(LimitReached::Overall));
        drop(third);
        assert_eq!(all.clients(), 1, "who has nothing is forgotten");
        drop(first);
        assert!(all.acquire(&one, max).is_ok());
    }

    #[test]
    fn a_permit_that_is_split_is_given_back_in_parts() {
        let all = ShareLimiter::default();
        let max = ShareLimits { client: 10, overall: 10 };
        let mut first = all.acquire_amount(&"one", 7, max).unwrap();
        let second = first.split(3);
        assert_eq!((first.amount(), second.amount(), all.overall()), (4, 3, 7));
        let rest = first.split(9);
        assert_eq!((first.amount(), rest.amount()), (0, 4));
        drop((first, second));
        assert_eq!(all.overall(), 4);
        drop(rest);
        assert_eq!((all.overall(), all.clients()), (0, 0));
    }

    #[test]
    fn a_release_wakes_one_waiter_of_its_client_and_one_of_all() {
        use LimitReached::{ClientShare, Overall};

        let all = ShareLimiter::default();
        let max = ShareLimits { client: 10, overall: 10 };
        let [first, second, other] = ["one", "one", "other"].map(|client| all.releases(client));
        let is_woken = |releases: &Releases<_>, reached| releases.next(reached).now_or_never().is_some();
        let mut permit = all.acquire_amount(&"one", 7, max).unwrap();
        assert!(!is_woken(&first, ClientShare) && !is_woken(&first, Overall), "nothing was released");
        permit.resize(3, max).unwrap();
        assert!(!is_woken(&other, ClientShare), "another client has its own share");
        assert!(is_woken(&second, ClientShare) && !is_woken(&first, ClientShare), "one waiter");
        assert!(is_woken(&other, Overall) && !is_woken(&first, Overall), "one waiter");
        second.pass_on(ClientShare);
        assert!(is_woken(&first, ClientShare));
        drop(first);
        drop(permit);
        assert!(is_woken(&second, ClientShare));
        drop((second, other));
        assert_eq!(all.waiting_clients(), 0, "who waits no more is forgotten");
    }
}
