//! A bound on the memory for messages of other replicas, over all shards of all plugins.
//!
//! Each shard has its own bounds. Their sum would grow with the number of plugins, of which each has up to 16 shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum size of the paths that other replicas want polled, in bytes, in all shards of all plugins.
pub const MAX_WANTS_BYTES: usize = 256 * 1024 * 1024;

/// The memory for the paths that other replicas want polled: [`MAX_WANTS_BYTES`]. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct WantsMemory(pub(crate) Arc<MemoryPool>);

impl Default for WantsMemory {
    fn default() -> Self {
        Self(Arc::new(MemoryPool::new(MAX_WANTS_BYTES)))
    }
}

/// A number of bytes that several owners share. Unlimited by default.
#[derive(Debug)]
pub(crate) struct MemoryPool {
    max: usize,
    used: AtomicUsize,
}

impl Default for MemoryPool {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl MemoryPool {
    /// Creates a pool of this number of bytes.
    pub(crate) const fn new(max: usize) -> Self {
        Self { max, used: AtomicUsize::new(0) }
    }
}

/// What one owner uses of a pool, until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct MemoryShare {
    pool: Arc<MemoryPool>,
    bytes: usize,
}

impl MemoryShare {
    /// Creates an empty share.
    pub(crate) fn of(pool: Arc<MemoryPool>) -> Self {
        Self { pool, bytes: 0 }
    }

    /// Changes the size. A greater one is refused, and changes nothing, if the pool has not as much. Returns whether it
    /// was changed.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let MemoryPool { max, used } = &*self.pool;
        match bytes.checked_sub(self.bytes) {
            Some(more) => {
                let grown = |used: usize| used.checked_add(more).filter(|used| used <= max);
                if used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
                    return false;
                }
            }
            None => {
                used.fetch_sub(self.bytes.saturating_sub(bytes), Ordering::Relaxed);
            }
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_together_no_greater_than_the_pool() {
        let pool = Arc::new(MemoryPool::new(10));
        let [mut one, mut other] = [(); 2].map(|()| MemoryShare::of(pool.clone()));
        assert!(one.resize(6) && other.resize(4));
        assert!(!other.resize(5), "it is full");
        assert!(other.resize(4) && one.resize(5) && other.resize(5));
        assert!(!one.resize(usize::MAX));
        drop(one);
        assert!(other.resize(10) && !other.resize(11));
        assert!(MemoryShare::default().resize(usize::MAX), "a pool is unlimited by default");
    }
}
