//! Shares: the number of instance slots that the calls of one plugin may use concurrently.
//!
//! All plugins share the slots ([`instance_permits`](super::instance_permits)), and a call may hold one until its
//! deadline, even while it sleeps. So each call acquires a slot permit before it takes an instance, from a
//! [`FairSemaphore`] that the plugins share: a plugin may use half of the free slots, and waiting calls are admitted by
//! the number of slots that their plugin uses.
//!
//! The host's own calls (`changes`, `describe`, `prepare`, the probe of the circuit breaker) follow the same rule with
//! a separate count: a plugin whose clients use up its share is still watched, with at most one or two more slots.
//!
//! Idle instances hold a slot but no permit: they are evicted as soon as a call needs their slot. The caller bounds the
//! wait (admission control of the plugin).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcp_host_base::fair_semaphore::{FairSemaphore, Permit, Sharer};

use super::CallOrigin;

/// The permits for all slots.
pub(crate) struct Shares {
    permits: FairSemaphore<SlotUser>,
    /// The number of the next plugin.
    next: AtomicU64,
}

/// One plugin's calls for clients, or its calls for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotUser {
    plugin: u64,
    is_host: bool,
}

impl Sharer for SlotUser {}

/// A permit to use a slot, released when it is dropped.
pub(crate) type SlotPermit = Permit<SlotUser>;

impl Shares {
    /// Creates permits for a number of slots.
    pub(crate) fn new(slots: usize) -> Self {
        Self { permits: FairSemaphore::new(slots, usize::MAX), next: AtomicU64::new(0) }
    }

    /// Creates the share of one more plugin.
    pub(crate) fn share(&self) -> Arc<Share> {
        let plugin = self.next.fetch_add(1, Ordering::Relaxed);
        Arc::new(Share { permits: self.permits.clone(), plugin })
    }
}

/// The share of one plugin.
pub(crate) struct Share {
    permits: FairSemaphore<SlotUser>,
    plugin: u64,
}

impl Share {
    /// Waits until a call of the plugin may use a slot. None if this never happens.
    pub(crate) async fn acquire(&self, origin: CallOrigin) -> Option<SlotPermit> {
        let is_host = match origin {
            CallOrigin::Client | CallOrigin::Indexer => false,
            CallOrigin::Host | CallOrigin::Probe | CallOrigin::Preparation => true,
        };
        self.permits.acquire(self.user(is_host)).await.ok()
    }

    /// Returns the number of the plugin's calls that wait for a slot.
    pub(crate) fn waiting(&self) -> usize {
        let waiting = |is_host| self.permits.usage_of(&self.user(is_host)).1;
        waiting(false).saturating_add(waiting(true))
    }

    fn user(&self, is_host: bool) -> SlotUser {
        SlotUser { plugin: self.plugin, is_host }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn try_acquire(share: &Share, origin: CallOrigin) -> Option<SlotPermit> {
        share.acquire(origin).now_or_never().flatten()
    }

    #[test]
    fn a_plugin_leaves_slots_for_others_and_the_hosts_own_calls_have_a_count_of_their_own() {
        let shares = Shares::new(8);
        let (share, other) = (shares.share(), shares.share());
        let clients: Vec<_> = std::iter::from_fn(|| try_acquire(&share, CallOrigin::Client)).collect();
        assert_eq!(clients.len(), 4);
        let host = try_acquire(&share, CallOrigin::Host);
        assert!(host.is_some() && try_acquire(&share, CallOrigin::Indexer).is_none());
        assert!(try_acquire(&other, CallOrigin::Client).is_some());
    }

    #[test]
    fn calls_that_wait_are_counted_by_plugin() {
        let shares = Shares::new(1);
        let (share, other) = (shares.share(), shares.share());
        let _held = try_acquire(&share, CallOrigin::Client).unwrap();
        let mut waits = [CallOrigin::Client, CallOrigin::Host].map(|origin| Box::pin(share.acquire(origin)));
        assert!(waits.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        assert_eq!((share.waiting(), other.waiting()), (2, 0));
        drop(waits);
        assert_eq!(share.waiting(), 0);
    }
}
