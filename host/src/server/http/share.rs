//! How many of something each client has, of which one client must not have all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::ClientShare;
use crate::server::client_id::ClientId;

/// How many each client has, and all together. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct PerClient(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    overall: usize,
    clients: HashMap<ClientId, usize>,
}

/// One that a client has, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    all: PerClient,
    client: ClientId,
}

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Max {
    pub(super) of_client: usize,
    pub(super) overall: usize,
}

/// Why there is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exhausted {
    /// The client has its share.
    Share,
    /// All are taken.
    Overall,
}

impl Max {
    /// So many overall, of which one client has that share.
    pub(super) fn new(overall: usize, share: ClientShare) -> Self {
        Self { of_client: share.of(overall), overall }
    }
}

impl PerClient {
    /// One more for that client, unless it has as many as it may, or all together have.
    pub(super) fn acquire(&self, client: ClientId, max: Max) -> Result<Permit, Exhausted> {
        let mut held = self.lock();
        let of_client = held.clients.get(&client).copied().unwrap_or_default();
        if of_client >= max.of_client {
            return Err(Exhausted::Share);
        }
        if held.overall >= max.overall {
            return Err(Exhausted::Overall);
        }
        held.overall = held.overall.saturating_add(1);
        held.clients.insert(client, of_client.saturating_add(1));
        drop(held);
        Ok(Permit { all: self.clone(), client })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Who has it.
    pub(super) fn client(&self) -> ClientId {
        self.client
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        all.overall = all.overall.saturating_sub(1);
        if let Entry::Occupied(mut held) = all.clients.entry(self.client) {
            *held.get_mut() = held.get().saturating_sub(1);
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
    fn a_client_has_its_share_and_leaves_the_rest_to_others() {
        let all = PerClient::default();
        let max = Max { of_client: 2, overall: 3 };
        let [one, other] = [1, 2].map(|last| ClientId::from_address(Ipv4Addr::new(127, 0, 0, last).into()));
        let first = all.acquire(one, max).unwrap();
        let _second = all.acquire(one, max).unwrap();
        assert_eq!(all.acquire(one, max).err(), Some(Exhausted::Share));
        let third = all.acquire(other, max).unwrap();
        assert_eq!(all.acquire(other, max).err(), Some(Exhausted::Overall));
        drop(third);
        assert_eq!(all.lock().clients.len(), 1, "who has nothing is forgotten");
        drop(first);
        assert!(all.acquire(one, max).is_ok());
    }
}
