//! What a call may hold while it runs: memory and tables.
//!
//! Memory is counted per plugin, over all its instances, and refused rather than trapped on: a guest that handles a failed
//! allocation goes on. What the host holds for a call, its answer above all, is charged to the same budget ([`Charge`]).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use wasmtime::ResourceLimiter;

use super::pool::Pool;

/// Elements in all tables that one instance may have.
const MAX_TABLE_ELEMENTS: usize = 60_000;

/// The memory of one plugin, shared by all its instances. Idle ones give way when a call needs more.
#[derive(Debug)]
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

/// Memory of the host that is charged to a plugin's budget, until it is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<MemoryBudget>,
    held: usize,
}

impl Charge {
    /// Nothing so far, to be charged to that budget.
    pub(super) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, held: 0 }
    }

    /// Charges so many bytes more, or none if the budget does not leave as many.
    pub(super) fn add(&mut self, bytes: usize) -> bool {
        let is_left = self.budget.take(bytes);
        if is_left {
            self.held = self.held.saturating_add(bytes);
        }
        is_left
    }

    /// What the whole budget is, in bytes.
    pub(super) fn limit(&self) -> u64 {
        self.budget.limit as u64
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.held);
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
