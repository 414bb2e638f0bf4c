//! The memory of a plugin while its calls run: linear memory, tables, and the host's allocations for its guests.
//!
//! Bytes are counted per plugin, over all its instances, in one [`MemoryBudget`] (`limits.memory`). Linear memory and
//! tables are charged as they grow, and growth beyond the budget is denied without a trap: a guest that handles a
//! failed allocation continues. The host's allocations for a guest (header fields, requests, bodies, buffers of
//! streams, lifted values, an answer that is validated) are a [`Reservation`], released when it is dropped. Idle
//! instances are evicted before anything is denied.
//!
//! **Shares of clients.** An instance is charged to the client of its call, too ([`ClientMemory`]). One whose calls hold more than
//! 1/[`SMALL_SHARE`] of the budget must leave 1/[`RESERVE`] of it free. So one client gets at most 7/8, and what is left
//! suffices for small calls of others; a call that takes all it can get ends at its own expense. The client that started the
//! host has no others beside it, and may take everything.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use wasmtime::ResourceLimiter;

use crate::requester::Requester;

/// The maximum number of elements of one table.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 60_000;
/// The part of a budget that a client may use without leaving a reserve.
const SMALL_SHARE: usize = 16;
/// The part of a budget that the calls of a client leave free for others.
const RESERVE: usize = 8;
/// The bytes of one table element: a pointer.
const TABLE_ELEMENT_SIZE: usize = size_of::<usize>();

/// Idle instances that can be evicted to free what they hold.
pub(crate) trait Reclaim: Send + Sync {
    /// The time since which the instance that has been idle for longest is idle.
    fn idle_since(&self) -> Option<Instant>;

    /// Ends the instance that has been idle for longest. Returns whether there was one.
    fn evict_oldest(&self) -> bool;
}

/// The memory of one plugin, shared by all its instances. Idle ones are evicted when a call needs more.
pub(crate) struct MemoryBudget {
    used: AtomicUsize,
    limit: usize,
    reclaim: Option<Weak<dyn Reclaim>>,
    /// What the calls of each client hold, while there are any.
    clients: Mutex<HashMap<Requester, Weak<ClientMemory>>>,
}

/// The bytes that the instances of one client's calls hold.
#[derive(Default)]
pub(crate) struct ClientMemory(AtomicUsize);

impl MemoryBudget {
    /// A budget of that many bytes, from which `reclaim` is evicted before a charge is refused.
    pub(crate) fn new(limit: u64, reclaim: Option<Weak<dyn Reclaim>>) -> Arc<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Arc::new(Self { used: AtomicUsize::new(0), limit, reclaim, clients: Mutex::default() })
    }

    /// Its size in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit as u64
    }

    /// Reserves that many bytes until the reservation is dropped. Returns none if the budget does not have them, even
    /// after the plugin's idle instances were evicted.
    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        self.charge(bytes).then(|| Reservation { budget: self.clone(), bytes })
    }

    /// Returns the account of a client; none for one that needs to leave nothing for others.
    pub(crate) fn client(&self, requester: Option<&Requester>) -> Option<Arc<ClientMemory>> {
        let requester = requester.filter(|requester| !requester.is_local())?;
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(requester).and_then(Weak::upgrade) {
            return Some(client);
        }
        clients.retain(|_, client| client.strong_count() > 0);
        let client = Arc::default();
        clients.insert(requester.clone(), Arc::downgrade(&client));
        Some(client)
    }

    fn charge(&self, bytes: usize) -> bool {
        self.charge_leaving(bytes, 0)
    }

    /// Charges that many bytes if so many are left then.
    fn charge_leaving(&self, bytes: usize, reserve: usize) -> bool {
        while !self.try_charge(bytes, reserve) {
            let evicted = self.reclaim.as_ref().and_then(Weak::upgrade).is_some_and(|idle| idle.evict_oldest());
            if !evicted {
                return false;
            }
        }
        true
    }

    /// Returns what must be left when a client's calls hold that many bytes.
    fn reserve_beside(&self, held: usize) -> usize {
        let is_small = held.saturating_mul(SMALL_SHARE) <= self.limit;
        if is_small { 0 } else { self.limit.checked_div(RESERVE).unwrap_or(0) }
    }

    fn try_charge(&self, bytes: usize, reserve: usize) -> bool {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| sum.saturating_add(reserve) <= self.limit)
            })
            .is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes of a plugin's budget, released when this is dropped.
#[must_use]
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

impl Reservation {
    /// The number of reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Resizes it to that many bytes. Returns false, and changes nothing, if the budget does not have them.
    #[must_use]
    pub(crate) fn try_resize(&mut self, bytes: usize) -> bool {
        self.try_resize_leaving(bytes, 0)
    }

    /// Like [`try_resize`](Self::try_resize), if 1/`part` of the budget is free then.
    #[cfg(feature = "sql")]
    #[must_use]
    pub(crate) fn try_resize_leaving_part(&mut self, bytes: usize, part: usize) -> bool {
        self.try_resize_leaving(bytes, self.budget.limit.checked_div(part).unwrap_or(0))
    }

    fn try_resize_leaving(&mut self, bytes: usize, reserve: usize) -> bool {
        match bytes.checked_sub(self.bytes) {
            Some(more) if !self.budget.charge_leaving(more, reserve) => return false,
            Some(_) => {}
            None => self.budget.release(self.bytes.saturating_sub(bytes)),
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

/// The budget is too small for an allocation of the host for the guest. Ends the call.
#[derive(Debug, thiserror::Error)]
#[error("the host cannot keep another {0} bytes for the guest: `limits.memory` is used up")]
pub(crate) struct OutOfMemory(pub(crate) usize);

/// Charges one instance's memory to its plugin's budget, and releases it when the instance ends.
pub(crate) struct MemoryMeter {
    budget: Arc<MemoryBudget>,
    /// The client of the call; none while the instance is idle, and for one that leaves nothing for others.
    client: Option<Arc<ClientMemory>>,
    held: usize,
    last_growth: usize,
    refused: bool,
}

impl MemoryMeter {
    /// A meter that charges to that budget.
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, client: None, held: 0, last_growth: 0, refused: false }
    }

    /// Whether memory was denied during this call: the likely cause of a trap.
    pub(crate) fn refused(&self) -> bool {
        self.refused
    }

    /// Reserves memory that the host is about to allocate for the instance.
    ///
    /// # Errors
    ///
    /// The budget does not have it, which is recorded as a denial.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<Reservation, OutOfMemory> {
        self.reserve_or_refuse(bytes, |budget| budget.try_reserve(bytes))
    }

    /// Resizes a reservation.
    ///
    /// # Errors
    ///
    /// The budget does not have the bytes, which is recorded as a denial; the reservation is unchanged.
    pub(crate) fn resize(&mut self, reservation: &mut Reservation, bytes: usize) -> Result<(), OutOfMemory> {
        self.reserve_or_refuse(bytes, |_| reservation.try_resize(bytes).then_some(()))
    }

    fn reserve_or_refuse<T>(
        &mut self,
        bytes: usize,
        reserve: impl FnOnce(&Arc<MemoryBudget>) -> Option<T>,
    ) -> Result<T, OutOfMemory> {
        let reserved = reserve(&self.budget);
        self.refused |= reserved.is_none();
        reserved.ok_or(OutOfMemory(bytes))
    }

    /// Forgets denials, at the beginning of another call.
    pub(crate) fn reset(&mut self) {
        self.refused = false;
    }

    /// The bytes that the instance holds.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Charges what the instance holds to that client, and to no other.
    pub(crate) fn set_client(&mut self, client: Option<Arc<ClientMemory>>) {
        if let Some(before) = &self.client {
            before.0.fetch_sub(self.held, Ordering::Relaxed);
        }
        if let Some(now) = &client {
            now.0.fetch_add(self.held, Ordering::Relaxed);
        }
        self.client = client;
    }

    /// Charges what wasmtime is about to allocate for the instance beside its memories and tables.
    ///
    /// # Errors
    ///
    /// The budget does not have it, which is recorded as a denial.
    pub(crate) fn charge_static(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let is_charged = self.charge_growth(bytes);
        self.refused |= !is_charged;
        if is_charged { Ok(()) } else { Err(OutOfMemory(bytes)) }
    }
}

impl MemoryMeter {
    /// Charges the growth of a memory or a table.
    fn charge_growth(&mut self, more: usize) -> bool {
        // Charged before the reserve is known, so that two calls of a client do not both count as small.
        let held = self.client.as_ref().map(|client| client.0.fetch_add(more, Ordering::Relaxed).saturating_add(more));
        let reserve = held.map_or(0, |held| self.budget.reserve_beside(held));
        let is_charged = self.budget.charge_leaving(more, reserve);
        if !is_charged && let Some(client) = &self.client {
            client.0.fetch_sub(more, Ordering::Relaxed);
        }
        self.last_growth = if is_charged { more } else { 0 };
        self.held = self.held.saturating_add(self.last_growth);
        is_charged
    }

    /// Releases the last charge: the growth failed.
    fn release_last_growth(&mut self) {
        let last_growth = std::mem::take(&mut self.last_growth);
        self.budget.release(last_growth);
        self.held = self.held.saturating_sub(last_growth);
        if let Some(client) = &self.client {
            client.0.fetch_sub(last_growth, Ordering::Relaxed);
        }
    }
}

impl Drop for MemoryMeter {
    fn drop(&mut self) {
        self.set_client(None);
        self.budget.release(self.held);
    }
}

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let is_possible = maximum.is_none_or(|maximum| desired <= maximum);
        let is_granted = is_possible && self.charge_growth(more);
        self.refused |= !is_granted;
        Ok(is_granted)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.release_last_growth();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current).saturating_mul(TABLE_ELEMENT_SIZE);
        let is_possible = desired <= MAX_TABLE_ELEMENTS && maximum.is_none_or(|maximum| desired <= maximum);
        Ok(is_possible && self.charge_growth(more))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.release_last_growth();
        Ok(())
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
    fn what_the_host_keeps_counts_until_it_is_dropped() {
        let budget = MemoryBudget::new(100, None);
        let mut meter = MemoryMeter::new(budget.clone());
        let mut kept = meter.reserve(60).unwrap();
        assert!(budget.try_reserve(41).is_none() && !meter.refused());
        assert!(meter.reserve(41).is_err() && meter.refused());
        assert!(!kept.try_resize(101) && kept.try_resize(100) && kept.try_resize(10));
        assert_eq!((kept.bytes(), budget.used.load(Ordering::Relaxed)), (10, 10));
        assert!(meter.table_growing(0, 11, None).unwrap() && !meter.table_growing(11, 12, None).unwrap());
        drop((kept, meter));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn growing_beyond_a_memorys_own_maximum_costs_nothing() {
        let budget = MemoryBudget::new(100, None);
        let mut meter = MemoryMeter::new(budget.clone());
        assert!(!meter.memory_growing(0, 50, Some(40)).unwrap());
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_client_that_holds_much_leaves_an_eighth_for_small_calls_of_others() {
        use crate::principal::Principal;

        let budget = MemoryBudget::new(1600, None);
        let meter = |name: &str| {
            let mut meter = MemoryMeter::new(budget.clone());
            meter.set_client(budget.client(Some(&Requester::Principal(Principal::new(name)))));
            meter
        };
        let (mut first, mut second) = (meter("ada"), meter("ada"));
        assert!(first.memory_growing(0, 1300, None).unwrap());
        assert!(!second.memory_growing(0, 101, None).unwrap(), "ada would hold 1401 of 1600");
        assert!(second.memory_growing(0, 100, None).unwrap());
        let mut small = meter("bob");
        assert!(small.memory_growing(0, 100, None).unwrap());
        assert!(!small.memory_growing(100, 101, None).unwrap(), "more than a sixteenth is not small");
        small.set_client(None);
        assert!(small.memory_growing(100, 200, None).unwrap(), "the host's own instance leaves nothing");
        drop((first, second, small));
        assert!(meter("bob").memory_growing(0, 1400, None).unwrap());
        assert_eq!(budget.clients.lock().len(), 1, "who holds nothing is forgotten");
        assert!(MemoryMeter::new(budget.clone()).memory_growing(0, 1600, None).unwrap());
    }
}
