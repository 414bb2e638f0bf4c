//! A limit with a share for each client, so that no client can exhaust it: of permits, or of bytes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::config::http::ClientShare;
use crate::server::client_id::ClientId;

/// The usage of each client, and of all together. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientLimiter(Arc<Mutex<Usage>>);

#[derive(Debug, Default)]
struct Usage {
    overall: usize,
    clients: HashMap<ClientId, usize>,
}

/// The usage of a client, until it is dropped.
#[derive(Debug)]
pub(super) struct ClientPermit {
    all: ClientLimiter,
    client: ClientId,
    amount: usize,
}

/// The limits, of one client and overall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientLimits {
    pub(super) client: usize,
    pub(super) overall: usize,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitReached {
    /// The share of the client.
    ClientShare,
    /// The overall limit.
    Overall,
}

impl ClientLimits {
    /// Creates the limits from the overall limit and the share of one client.
    pub(super) fn new(overall: usize, share: ClientShare) -> Self {
        Self { client: share.apply(overall), overall }
    }
}

impl ClientLimiter {
    /// Acquires one permit for that client, within the limits.
    pub(super) fn acquire(&self, client: &ClientId, max: ClientLimits) -> Result<ClientPermit, LimitReached> {
        self.acquire_amount(client, 1, max)
    }

    /// Acquires an amount for that client, within the limits.
    pub(super) fn acquire_amount(
        &self,
        client: &ClientId,
        amount: usize,
        max: ClientLimits,
    ) -> Result<ClientPermit, LimitReached> {
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
        Ok(ClientPermit { all: self.clone(), client: client.clone(), amount })
    }

    /// Returns the overall usage.
    #[cfg(test)]
    pub(super) fn overall(&self) -> usize {
        self.lock().overall
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.0.lock()
    }
}

impl ClientPermit {
    /// The client that has it.
    pub(super) fn client(&self) -> &ClientId {
        &self.client
    }
}

impl Drop for ClientPermit {
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
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn amounts_are_given_back_whole() {
        let all = ClientLimiter::default();
        let max = ClientLimits { client: 10, overall: 15 };
        let [one, other] = [1, 2].map(|last| ClientId::from_address(Ipv4Addr::new(127, 0, 0, last).into()));
        let first = all.acquire_amount(&one, 7, max).unwrap();
        assert_eq!(all.acquire_amount(&one, 4, max).err(), Some(LimitReached::ClientShare));
        assert_eq!(all.acquire_amount(&other, 9, max).err(), Some(LimitReached::Overall));
        let _second = all.acquire_amount(&one, 3, max).unwrap();
        drop(first);
        assert_eq!(all.overall(), 3);
        assert!(all.acquire_amount(&one, 7, max).is_ok());
    }

    #[test]
    fn a_client_has_its_share_and_leaves_the_rest_to_others() {
        let all = ClientLimiter::default();
        let max = ClientLimits { client: 2, overall: 3 };
        let [one, other] = [1, 2].map(|last| ClientId::from_address(Ipv4Addr::new(127, 0, 0, last).into()));
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
