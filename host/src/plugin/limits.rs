//! What a call may hold while it runs: memory and tables.
//!
//! Memory is counted per plugin, over all its instances, and refused rather than trapped on: a guest that handles a failed
//! allocation goes on. What the host holds for a call, its answer above all, is charged to the same budget ([`Reservation`]).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use wasmtime::ResourceLimiter;

use super::pool::Pool;

/// Elements in all tables that one instance may have.
const MAX_TABLE_ELEMENTS: usize = 60_000;

/// The memory of one plugin, shared by all its instances. Idle ones give way when a call needs more.
pub(super) struct MemoryBudget {
    used: AtomicUsize,
    limit: usize,
    idle: Option<Weak<Pool>>,
}

impl MemoryBudget {
    /// A budget of that many bytes, of which the idle instances in that pool can be made to give back theirs.
    pub(super) fn new(limit: u64, idle: Option<&Arc<Pool>>) -> Arc<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Arc::new(Self { used: AtomicUsize::new(0), limit, idle: idle.map(Arc::downgrade) })
    }

    /// How many bytes it has in all.
    pub(super) fn limit(&self) -> u64 {
        self.limit as u64
    }

    /// Reserves that many bytes until the reservation is dropped. None if the budget does not have them, even after the
    /// plugin's idle instances were evicted.
    pub(super) fn try_reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        self.take(bytes).then(|| Reservation { budget: self.clone(), bytes })
    }

    fn take(&self, bytes: usize) -> bool {
        while !self.try_take(bytes) {
            let gave_way = self.idle.as_ref().and_then(Weak::upgrade).is_some_and(|pool| pool.give_way());
            if !gave_way {
                return false;
            }
        }
        true
    }

    fn try_take(&self, bytes: usize) -> bool {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.limit)
            })
            .is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes of a plugin's budget, released when this is dropped.
#[must_use]
pub(super) struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

impl Reservation {
    /// How many bytes are reserved.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes it that many bytes, more or fewer. False, and nothing changes, if the budget does not have them.
    #[must_use]
    pub(super) fn try_resize(&mut self, bytes: usize) -> bool {
        match bytes.checked_sub(self.bytes) {
            Some(more) if !self.budget.take(more) => return false,
            Some(_) => {}
            None => self.budget.give_back(self.bytes.saturating_sub(bytes)),
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

/// Charges one instance's memory to its plugin's budget, and gives it back when the instance ends.
pub(super) struct MemoryMeter {
    budget: Arc<MemoryBudget>,
    held: usize,
    asked: usize,
    refused: bool,
}

impl MemoryMeter {
    /// Counts against that budget.
    pub(super) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, held: 0, asked: 0, refused: false }
    }

    /// Whether the guest was refused memory in this call: the likely cause, should it trap now.
    pub(super) fn refused(&self) -> bool {
        self.refused
    }

    /// Forgets refusals: another call begins.
    pub(super) fn forgive(&mut self) {
        self.refused = false;
    }

    /// How many bytes the instance holds.
    pub(super) fn held(&self) -> usize {
        self.held
    }
}

impl Drop for MemoryMeter {
    fn drop(&mut self) {
        self.budget.give_back(self.held);
    }
}

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let possible = maximum.is_none_or(|maximum| desired <= maximum);
        if possible && self.budget.take(more) {
            self.held = self.held.saturating_add(more);
            self.asked = more;
            Ok(true)
        } else {
            self.asked = 0;
            self.refused = true;
            Ok(false)
        }
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        let asked = std::mem::take(&mut self.asked);
        self.budget.give_back(asked);
        self.held = self.held.saturating_sub(asked);
        Ok(())
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_one_plugin_share_its_memory() {
        let budget = MemoryBudget::new(100, None);
        let mut one = MemoryMeter::new(budget.clone());
        let mut other = MemoryMeter::new(budget.clone());
        assert!(one.memory_growing(0, 60, None).unwrap());
        assert!(!other.memory_growing(0, 60, None).unwrap());
        assert!(other.refused() && !one.refused());
        assert!(other.memory_growing(0, 40, None).unwrap());
        drop(one);
        assert!(other.memory_growing(40, 100, None).unwrap());
    }

    #[test]
    fn memory_that_could_not_be_mapped_is_given_back() {
        let budget = MemoryBudget::new(100, None);
        let mut meter = MemoryMeter::new(budget.clone());
        assert!(meter.memory_growing(0, 100, None).unwrap());
        meter.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert!(meter.memory_growing(0, 100, None).unwrap());
        drop(meter);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn growing_beyond_a_memorys_own_maximum_costs_nothing() {
        let budget = MemoryBudget::new(100, None);
        let mut meter = MemoryMeter::new(budget.clone());
        assert!(!meter.memory_growing(0, 50, Some(40)).unwrap());
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
