//! The memory budget of the subscriptions of one subscriber.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A maximum number of bytes, and the number that is reserved.
#[derive(Debug)]
pub(super) struct ByteBudget {
    used: Arc<AtomicUsize>,
    max: usize,
}

/// A reservation, released when dropped.
#[derive(Debug)]
pub(super) struct ReservedBytes {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl ByteBudget {
    /// Creates a budget of `max` bytes, none of them reserved.
    pub(super) fn new(max: usize) -> Self {
        Self { used: Arc::default(), max }
    }

    /// Reserves `bytes`, or returns `None` if the budget would be exceeded.
    pub(super) fn reserve(&self, bytes: usize) -> Option<ReservedBytes> {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        let reserved = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        reserved.is_ok().then(|| ReservedBytes { used: self.used.clone(), bytes })
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_released_can_be_reserved_again() {
        let memory = ByteBudget::new(10);
        let most = memory.reserve(9).unwrap();
        let last = memory.reserve(1).unwrap();
        assert!(memory.reserve(1).is_none());
        drop(last);
        assert!(memory.reserve(usize::MAX).is_none());
        drop(most);
        assert!(memory.reserve(10).is_some());
    }
}
