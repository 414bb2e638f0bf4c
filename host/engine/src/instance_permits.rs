//! Instance permits: one for each slot of the engine's instance pool, shared by all plugins. [`shares`](super::shares)
//! bounds the calls of one plugin before: over all plugins to fewer than there are permits, so a call that gets here
//! gets a permit without waiting for another call to end.
//!
//! An instance holds its permit while it lives, even while it is idle. A call has precedence over an idle instance:
//! when no permit is free, the least recently used idle instance of all plugins is evicted (LRU), and while a call
//! waits for a permit, no instance becomes idle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use mcp_host_sandbox::memory::Reclaim;

/// A permit, released when it is dropped.
pub(crate) type InstancePermit = OwnedSemaphorePermit;

/// The permits of one engine.
pub(crate) struct InstancePermits {
    semaphore: Arc<Semaphore>,
    waiting: AtomicUsize,
    pools: Mutex<Vec<Weak<dyn Reclaim>>>,
}

impl InstancePermits {
    /// Creates `count` permits.
    pub(crate) fn new(count: usize) -> Self {
        Self { semaphore: Arc::new(Semaphore::new(count)), waiting: AtomicUsize::new(0), pools: Mutex::default() }
    }

    /// Registers idle instances, which are evicted when permits are scarce.
    pub(crate) fn register_pool(&self, pool: Weak<dyn Reclaim>) {
        let mut pools = self.pools.lock();
        pools.retain(|known| known.strong_count() > 0);
        pools.push(pool);
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(&self) -> Option<InstancePermit> {
        if let Ok(permit) = self.semaphore.clone().try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = WaiterGuard::new(&self.waiting);
        self.evict_idlest();
        // The semaphore is never closed, so this never fails.
        self.semaphore.clone().acquire_owned().await.ok()
    }

    /// Returns whether a call waits for a permit, so that no instance may become idle.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    fn evict_idlest(&self) {
        let pools: Vec<_> = {
            let pools = self.pools.lock();
            pools.iter().filter_map(Weak::upgrade).collect()
        };
        let idle = pools.iter().filter_map(|pool| Some((pool.idle_since()?, pool)));
        if let Some((_, pool)) = idle.min_by_key(|(since, _)| *since) {
            pool.evict_oldest();
        }
    }
}

/// Counts a call that waits for a permit.
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
