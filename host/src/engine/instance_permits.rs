//! Seats: the places for instances in the engine's pool, which all plugins share. How many of them the calls of one plugin may use
//! at once is decided before ([`shares`](super::shares)): fewer than there are over all plugins, so whoever is here gets one without
//! waiting for a call to end.
//!
//! An instance has a seat for as long as it lives, also while it is idle. Whoever needs one goes before whoever keeps one for
//! later: when no seat is free, the instance that has been idle for longest, of whatever plugin, gives way; and while
//! somebody waits for a seat, none becomes idle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::sandbox::memory::Reclaim;

/// A seat, until it is dropped.
pub(crate) type InstancePermit = OwnedSemaphorePermit;

/// The seats of one engine.
pub(crate) struct InstancePermits {
    semaphore: Arc<Semaphore>,
    waiting: AtomicUsize,
    pools: Mutex<Vec<Weak<dyn Reclaim>>>,
}

impl InstancePermits {
    /// So many seats.
    pub(crate) fn new(count: usize) -> Self {
        Self { semaphore: Arc::new(Semaphore::new(count)), waiting: AtomicUsize::new(0), pools: Mutex::default() }
    }

    /// Has the idle instances of that pool give way when seats are scarce.
    pub(crate) fn register_pool(&self, pool: Weak<dyn Reclaim>) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|known| known.strong_count() > 0);
        pools.push(pool);
    }

    /// Waits for a seat.
    pub(crate) async fn acquire(&self) -> Option<InstancePermit> {
        if let Ok(permit) = self.semaphore.clone().try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = WaiterGuard::new(&self.waiting);
        self.evict_idlest();
        // Only a closed semaphore refuses, and this one is never closed.
        self.semaphore.clone().acquire_owned().await.ok()
    }

    /// Whether somebody waits for a seat, so that nobody may keep one for later.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    fn evict_idlest(&self) {
        let pools: Vec<_> = {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            pools.iter().filter_map(Weak::upgrade).collect()
        };
        let idle = pools.iter().filter_map(|pool| Some((pool.idle_since()?, pool)));
        if let Some((_, pool)) = idle.min_by_key(|(since, _)| *since) {
            pool.evict_oldest();
        }
    }
}

/// Somebody who waits for a seat.
struct WaiterGuard<'a>(&'a AtomicUsize);

impl<'a> WaiterGuard<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
