//! A limit with a share for each client, so that no client can exhaust it: of permits, or of bytes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// The usage of each client `K`, and of all together. Clones share it.
#[derive(Debug)]
pub struct ShareLimiter<K>(Arc<Mutex<Usage<K>>>);

#[derive(Debug)]
struct Usage<K> {
    overall: usize,
    clients: HashMap<K, usize>,
}

impl<K> Clone for ShareLimiter<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for ShareLimiter<K> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Usage { overall: 0, clients: HashMap::new() })))
    }
}

/// The usage of a client, until it is dropped.
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

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The share of the client.
    ClientShare,
    /// The overall limit.
    Overall,
}

impl<K: Clone + Eq + Hash> ShareLimiter<K> {
    /// Acquires one permit for that client, within the limits.
    pub fn acquire(&self, client: &K, max: ShareLimits) -> Result<SharePermit<K>, LimitReached> {
        self.acquire_amount(client, 1, max)
    }

    /// Acquires an amount for that client, within the limits.
    pub fn acquire_amount(&self, client: &K, amount: usize, max: ShareLimits) -> Result<SharePermit<K>, LimitReached> {
        let mut held = self.lock();
        let of_client = held.clients.get(client).copied().unwrap_or_default().saturating_add(amount);
        if of_client > max.client {
            return Err(LimitReached::ClientShare);
        }
        let overall = held.overall.saturating_add(amount);
        if overall > max.overall {
            return Err(LimitReached::Overall);
        }
        held.overall = overall;
        held.clients.insert(client.clone(), of_client);
        drop(held);
        Ok(SharePermit { all: self.clone(), client: client.clone(), amount })
    }

    /// Acquires an amount for that client, within the limits, and adds it to the permit that it has: however often an
    /// amount grows, there is one permit.
    pub fn grow(
        &self,
        permit: &mut Option<SharePermit<K>>,
        client: &K,
        amount: usize,
        max: ShareLimits,
    ) -> Result<(), LimitReached> {
        let mut more = self.acquire_amount(client, amount, max)?;
        match permit {
            Some(permit) => permit.amount = permit.amount.saturating_add(std::mem::take(&mut more.amount)),
            None => *permit = Some(more),
        }
        Ok(())
    }

    /// Returns the overall usage.
    #[cfg(any(test, feature = "testing"))]
    pub fn overall(&self) -> usize {
        self.lock().overall
    }

    fn lock(&self) -> MutexGuard<'_, Usage<K>> {
        self.0.lock()
    }
}

impl<K: Clone + Eq + Hash> Drop for SharePermit<K> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        all.overall = all.overall.saturating_sub(self.amount);
        if let Entry::Occupied(mut held) = all.clients.entry(self.client.clone()) {
            *held.get_mut() = held.get().saturating_sub(self.amount);
            if *held.get() == 0 {
                held.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
        let mut permit = None;
        for amount in [1, 0, 6, 3] {
            all.grow(&mut permit, &"one", amount, max).unwrap();
        }
        assert_eq!(all.grow(&mut permit, &"one", 1, max), Err(LimitReached::ClientShare));
        assert_eq!(all.overall(), 10);
        drop(permit);
        assert_eq!(all.overall(), 0);
        assert!(all.lock().clients.is_empty());
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
        assert_eq!(all.lock().clients.len(), 1, "who has nothing is forgotten");
        drop(first);
        assert!(all.acquire(&one, max).is_ok());
    }
}
