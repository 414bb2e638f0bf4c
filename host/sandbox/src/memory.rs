//! The memory of a plugin while its calls run: linear memory, tables, and the host's allocations for its guests.
//!
//! Bytes are counted per plugin, over all its instances, in one [`MemoryBudget`] (`limits.memory`). Linear memory and
//! tables are charged as they grow, and growth beyond the budget is denied without a trap: a guest that handles a
//! failed allocation continues. The host's allocations for a guest (header fields, requests, bodies, buffers of
//! streams, queries, values of buckets, lifted values, an answer during validation) are a [`Reservation`], which is
//! released on drop. Idle instances are evicted before a charge is denied.
//!
//! **Shares of clients.** Each byte is charged through a [`MemoryAccount`], which knows the owner of the call
//! ([`CallOwner`]). If the calls of a client hold more than 1/[`SMALL_SHARE`] of the budget, they must leave
//! 1/[`RESERVE`] of it free. So one client gets at most 7/8, and the rest suffices for small calls of others; a greedy
//! call only fails itself. The client that started the host competes with no other, and may take everything. When an
//! instance is reused, all of its memory is charged to the next client.
//!
//! A [`ShareLimiter`](mcp_host_base::share_limiter) is not sufficient: idle instances are evicted before a charge is
//! denied, and the reserve depends on the client's current memory.
//!
//! **Causes.** A denied charge names the holder of the memory ([`Denial`]): the calls with the same input, which are
//! then the cause of the failure, or other calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use mcp_host_base::weak_map::WeakMap;
use parking_lot::{Mutex, MutexGuard};
use wasmtime::ResourceLimiter;

use mcp_host_model::requester::Requester;

/// The maximum number of elements of one table.
pub const MAX_TABLE_ELEMENTS: usize = 60_000;
/// The divisor of the part of a budget that a client may use without leaving a reserve.
const SMALL_SHARE: usize = 16;
/// The divisor of the part of a budget that a client's calls leave free for others.
const RESERVE: usize = 8;
/// The bytes of one table element: a pointer.
const TABLE_ELEMENT_SIZE: usize = size_of::<usize>();

/// Idle instances that can be evicted to free their memory.
pub trait Reclaim: Send + Sync {
    /// The time since when the least recently used instance is idle.
    fn idle_since(&self) -> Option<Instant>;

    /// Ends the instance that has been idle for longest (LRU). Returns whether there was one.
    fn evict_oldest(&self) -> bool;
}

/// The memory of one plugin, shared by all its instances. Idle instances are evicted when a call needs more.
pub struct MemoryBudget {
    used: AtomicUsize,
    limit: usize,
    reclaim: Option<Weak<dyn Reclaim>>,
    /// The totals of calls that are counted together, while such calls exist.
    totals: WeakMap<TotalOf, AtomicUsize>,
}

/// The calls that are counted together.
#[derive(Clone, PartialEq, Eq, Hash)]
enum TotalOf {
    /// The calls of one client.
    Client(Requester),
    /// The calls of one client with one input, as a hash of both.
    Input(u64),
}

/// The holder of the memory for which a charge was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The calls of one client with one input exceed the budget alone.
    Input,
    /// Other calls, of the same client or of others, hold a part of the budget.
    Others,
}

/// The client and the input of a call, with the total memory of the calls of each. The default is the host itself.
#[derive(Clone, Default)]
pub struct CallOwner {
    requester: Option<Requester>,
    /// None for a client that does not have to leave a reserve.
    of_client: Option<Arc<AtomicUsize>>,
    of_input: Option<Arc<AtomicUsize>>,
}

impl MemoryBudget {
    /// Creates a budget of `limit` bytes. Instances of `reclaim` are evicted before a charge is denied.
    pub fn new(limit: u64, reclaim: Option<Weak<dyn Reclaim>>) -> Arc<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Arc::new(Self { used: AtomicUsize::new(0), limit, reclaim, totals: WeakMap::default() })
    }

    /// The size of the budget in bytes.
    pub fn limit(&self) -> u64 {
        self.limit as u64
    }

    /// The bytes that are charged now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed) as u64
    }

    /// Returns the owner of a call of this client with this input, a hash of both.
    pub fn owner(&self, requester: Option<Requester>, input: Option<u64>) -> CallOwner {
        let shares = requester.clone().filter(|requester| !requester.is_local() && *requester != Requester::Host);
        if shares.is_none() && input.is_none() {
            return CallOwner { requester, ..CallOwner::default() };
        }
        let total = |of| self.totals.get_or_insert_with(&of, Arc::default);
        let of_client = shares.map(|client| total(TotalOf::Client(client)));
        let of_input = input.map(|input| total(TotalOf::Input(input)));
        CallOwner { requester, of_client, of_input }
    }

    /// Charges `bytes` if at least `reserve` bytes stay free.
    fn charge(&self, bytes: usize, reserve: usize) -> bool {
        while !self.try_charge(bytes, reserve) {
            let evicted = self.reclaim.as_ref().and_then(Weak::upgrade).is_some_and(|idle| idle.evict_oldest());
            if !evicted {
                return false;
            }
        }
        true
    }

    /// Returns the bytes that must stay free when a client's calls hold `held` bytes.
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

impl CallOwner {
    /// Adds bytes to the totals.
    fn add(&self, bytes: usize) {
        for total in self.of_client.iter().chain(&self.of_input) {
            total.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Subtracts bytes from the totals.
    fn subtract(&self, bytes: usize) {
        for total in self.of_client.iter().chain(&self.of_input) {
            total.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// The memory that an instance, or the host for one call, holds of a budget. All of it is charged to the owner of the
/// current call.
pub struct MemoryAccount {
    budget: Arc<MemoryBudget>,
    state: Mutex<AccountState>,
}

struct AccountState {
    owner: CallOwner,
    held: usize,
    /// The peak for the current owner.
    peak: usize,
}

impl MemoryAccount {
    /// Creates an empty account, for calls of this owner.
    pub fn new(budget: Arc<MemoryBudget>, owner: CallOwner) -> Arc<Self> {
        Arc::new(Self { budget, state: Mutex::new(AccountState { owner, held: 0, peak: 0 }) })
    }

    /// An account without a limit, for work that is not charged to a plugin.
    pub fn unlimited() -> Arc<Self> {
        Self::new(MemoryBudget::new(u64::MAX, None), CallOwner::default())
    }

    /// The peak of held bytes for the current owner, in the current or the last call.
    pub fn peak(&self) -> u64 {
        self.state().peak as u64
    }

    /// The client of the current call. None for an indexer.
    pub(crate) fn client(&self) -> Option<Requester> {
        self.state().owner.requester.clone()
    }

    /// An empty reservation, which can be resized.
    pub fn reservation(self: &Arc<Self>) -> Reservation {
        Reservation { account: self.clone(), bytes: 0 }
    }

    /// Reserves `bytes` bytes until the reservation is dropped. Fails if the budget lacks them even after eviction of
    /// the plugin's idle instances.
    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, Denial> {
        let mut reservation = self.reservation();
        reservation.try_resize(bytes).map(|()| reservation)
    }

    /// Moves all charges of the account to this owner.
    fn set_owner(&self, owner: CallOwner) {
        let mut state = self.state();
        state.owner.subtract(state.held);
        owner.add(state.held);
        state.owner = owner;
        state.peak = state.held;
    }

    /// Charges `bytes` if at least `reserve` bytes, and the reserve of the client, stay free.
    fn charge(&self, bytes: usize, reserve: usize) -> Result<(), Denial> {
        let mut state = self.state();
        // Charged before the reserve is computed, so that two calls of a client do not both count as small.
        state.owner.add(bytes);
        let total = |total: &Option<Arc<AtomicUsize>>| total.as_ref().map(|total| total.load(Ordering::Relaxed));
        let of_client = total(&state.owner.of_client);
        let reserve = of_client.map_or(0, |held| self.budget.reserve_beside(held)).max(reserve);
        let held = state.held.saturating_add(bytes);
        if self.budget.charge(bytes, reserve) {
            state.held = held;
            state.peak = state.peak.max(held);
            return Ok(());
        }
        let of_input = total(&state.owner.of_input).unwrap_or(held);
        state.owner.subtract(bytes);
        let is_too_much = of_input.saturating_add(reserve) > self.budget.limit;
        Err(if is_too_much { Denial::Input } else { Denial::Others })
    }

    fn release(&self, bytes: usize) {
        let mut state = self.state();
        state.held = state.held.saturating_sub(bytes);
        state.owner.subtract(bytes);
        self.budget.release(bytes);
    }

    fn state(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock()
    }
}

/// Bytes of a plugin's budget, released when this is dropped.
#[must_use]
pub struct Reservation {
    account: Arc<MemoryAccount>,
    bytes: usize,
}

impl Reservation {
    /// The number of reserved bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// An empty reservation on the same account.
    pub fn another(&self) -> Self {
        self.account.reservation()
    }

    /// Resizes the reservation to `bytes` bytes. Changes nothing if the budget lacks them.
    pub fn try_resize(&mut self, bytes: usize) -> Result<(), Denial> {
        self.try_resize_leaving(bytes, 0)
    }

    /// Like [`try_resize`](Self::try_resize), but only if 1/`part` of the budget stays free.
    pub fn try_resize_leaving_part(&mut self, bytes: usize, part: usize) -> Result<(), Denial> {
        self.try_resize_leaving(bytes, self.account.budget.limit.checked_div(part).unwrap_or(0))
    }

    fn try_resize_leaving(&mut self, bytes: usize, reserve: usize) -> Result<(), Denial> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.account.charge(more, reserve)?,
            None => self.account.release(self.bytes.saturating_sub(bytes)),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.release(self.bytes);
    }
}

/// The budget is too small for the host's allocation for a guest. The call ends.
#[derive(Debug, thiserror::Error)]
#[error("the host cannot keep another {0} bytes for the guest: `limits.memory` is used up")]
pub struct OutOfMemory(pub usize);

/// Charges one instance's memory to its plugin's budget, and releases it when the instance ends.
pub struct MemoryMeter {
    account: Arc<MemoryAccount>,
    /// The bytes of memories, tables and static charges. All other memory is in reservations.
    held: usize,
    last_growth: usize,
    denial: Option<Denial>,
}

impl MemoryMeter {
    /// Creates a meter that charges this budget, for a call of this owner.
    pub fn new(budget: Arc<MemoryBudget>, owner: CallOwner) -> Self {
        Self { account: MemoryAccount::new(budget, owner), held: 0, last_growth: 0, denial: None }
    }

    /// A meter for another instance of the same call.
    #[must_use]
    pub fn another(&self) -> Self {
        let owner = self.account.state().owner.clone();
        Self::new(self.account.budget.clone(), owner)
    }

    /// The last denial of memory during this call: the likely cause of a trap.
    pub fn denial(&self) -> Option<Denial> {
        self.denial
    }

    /// The account of the instance, for reservations whose denial is not recorded as the cause of a trap.
    pub fn account(&self) -> &Arc<MemoryAccount> {
        &self.account
    }

    /// Reserves memory that the host is about to allocate for the instance.
    ///
    /// # Errors
    ///
    /// The budget lacks the bytes. The denial is recorded.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<Reservation, OutOfMemory> {
        let reserved = self.account.try_reserve(bytes);
        self.record(reserved).ok_or(OutOfMemory(bytes))
    }

    /// Resizes a reservation.
    ///
    /// # Errors
    ///
    /// The budget lacks the bytes. The denial is recorded, and the reservation is unchanged.
    pub(crate) fn resize(&mut self, reservation: &mut Reservation, bytes: usize) -> Result<(), OutOfMemory> {
        let resized = reservation.try_resize(bytes);
        self.record(resized).ok_or(OutOfMemory(bytes))
    }

    /// Forgets denials, at the beginning of another call.
    pub(crate) fn reset(&mut self) {
        self.denial = None;
    }

    /// The bytes of the instance's memories, tables and static charges.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Moves all charges of the instance, including reservations, to the owner of another call.
    pub fn set_owner(&mut self, owner: CallOwner) {
        self.account.set_owner(owner);
    }

    /// Charges the memory that wasmtime is about to allocate for the instance besides its memories and tables.
    ///
    /// # Errors
    ///
    /// The budget lacks the bytes.
    pub fn charge_static(&mut self, bytes: usize) -> Result<(), Denial> {
        self.charge_growth(bytes)
    }

    /// Records a denial.
    fn record<T>(&mut self, charged: Result<T, Denial>) -> Option<T> {
        charged.map_err(|denial| self.denial = Some(denial)).ok()
    }

    /// Charges the growth of a memory or a table.
    fn charge_growth(&mut self, more: usize) -> Result<(), Denial> {
        self.last_growth = 0;
        self.account.charge(more, 0)?;
        self.last_growth = more;
        self.held = self.held.saturating_add(more);
        Ok(())
    }

    /// Releases the last charge after the growth failed.
    fn release_last_growth(&mut self) {
        let last_growth = std::mem::take(&mut self.last_growth);
        self.account.release(last_growth);
        self.held = self.held.saturating_sub(last_growth);
    }
}

impl Drop for MemoryMeter {
    fn drop(&mut self) {
        self.account.release(self.held);
    }
}

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let is_possible = maximum.is_none_or(|maximum| desired <= maximum);
        let charged = if is_possible { self.charge_growth(more) } else { Err(Denial::Input) };
        Ok(self.record(charged).is_some())
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.release_last_growth();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current).saturating_mul(TABLE_ELEMENT_SIZE);
        let is_possible = desired <= MAX_TABLE_ELEMENTS && maximum.is_none_or(|maximum| desired <= maximum);
        Ok(is_possible && self.charge_growth(more).is_ok())
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.release_last_growth();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_model::principal::Principal;

    fn meter(budget: &Arc<MemoryBudget>) -> MemoryMeter {
        MemoryMeter::new(budget.clone(), CallOwner::default())
    }

    fn client(name: &str) -> Option<Requester> {
        Some(Requester::Principal(Principal::new(name)))
    }

    fn used(budget: &MemoryBudget) -> usize {
        budget.used.load(Ordering::Relaxed)
    }

    #[test]
    fn instances_of_one_plugin_share_its_memory() {
        let budget = MemoryBudget::new(100, None);
        let (mut one, mut other) = (meter(&budget), meter(&budget));
        assert!(one.memory_growing(0, 60, None).unwrap());
        assert!(!other.memory_growing(0, 60, None).unwrap());
        assert!(other.denial().is_some() && one.denial().is_none());
        assert!(other.memory_growing(0, 40, None).unwrap());
        drop(one);
        assert!(other.memory_growing(40, 100, None).unwrap());
    }

    #[test]
    fn memory_that_could_not_be_mapped_is_given_back() {
        let budget = MemoryBudget::new(100, None);
        let mut meter = meter(&budget);
        assert!(meter.memory_growing(0, 100, None).unwrap());
        meter.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert!(meter.memory_growing(0, 100, None).unwrap());
        drop(meter);
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn what_the_host_keeps_counts_until_it_is_dropped() {
        let budget = MemoryBudget::new(100, None);
        let mut meter = meter(&budget);
        let mut kept = meter.reserve(60).unwrap();
        assert!(meter.account().try_reserve(41).is_err() && meter.denial().is_none());
        assert!(meter.reserve(41).is_err() && meter.denial() == Some(Denial::Input));
        assert!(kept.try_resize(101).is_err() && kept.try_resize(100).is_ok() && kept.try_resize(10).is_ok());
        assert_eq!((kept.bytes(), used(&budget)), (10, 10));
        assert!(meter.table_growing(0, 11, None).unwrap() && !meter.table_growing(11, 12, None).unwrap());
        drop((kept, meter));
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn growing_beyond_a_memorys_own_maximum_costs_nothing() {
        let budget = MemoryBudget::new(100, None);
        assert!(!meter(&budget).memory_growing(0, 50, Some(40)).unwrap());
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn a_client_that_holds_much_leaves_an_eighth_for_small_calls_of_others() {
        let budget = MemoryBudget::new(1600, None);
        let meter = |name: &str| MemoryMeter::new(budget.clone(), budget.owner(client(name), None));
        let (mut first, mut second) = (meter("ada"), meter("ada"));
        assert!(first.memory_growing(0, 1300, None).unwrap());
        assert!(!second.memory_growing(0, 101, None).unwrap(), "ada would hold 1401 of 1600");
        assert!(second.reserve(101).is_err(), "what the host keeps for ada is hers, too");
        let kept = second.reserve(100).unwrap();
        let mut small = meter("bob");
        assert!(small.memory_growing(0, 100, None).unwrap());
        assert!(!small.memory_growing(100, 101, None).unwrap(), "more than a sixteenth is not small");
        small.set_owner(CallOwner::default());
        assert!(small.memory_growing(100, 200, None).unwrap(), "the host's own instance leaves nothing");
        drop((first, second, small, kept));
        assert!(meter("bob").memory_growing(0, 1400, None).unwrap());
        assert_eq!(budget.totals.entry_count(), 1, "who holds nothing is forgotten");
        assert!(MemoryMeter::new(budget.clone(), CallOwner::default()).memory_growing(0, 1600, None).unwrap());
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn a_reused_instance_takes_all_that_it_holds_from_one_client_to_the_next() {
        let budget = MemoryBudget::new(1600, None);
        let mut instance = MemoryMeter::new(budget.clone(), budget.owner(client("ada"), None));
        let kept = instance.reserve(700).unwrap();
        assert!(instance.memory_growing(0, 700, None).unwrap());
        let mut of_ada = MemoryMeter::new(budget.clone(), budget.owner(client("ada"), None));
        assert!(of_ada.reserve(1).is_err());
        instance.set_owner(budget.owner(client("bob"), None));
        let small = of_ada.reserve(100).unwrap();
        drop((small, kept, instance, of_ada));
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn a_denial_says_whose_calls_hold_the_memory() {
        let budget = MemoryBudget::new(1600, None);
        let meter = |name: &str, input| MemoryMeter::new(budget.clone(), budget.owner(client(name), Some(input)));
        // The client over stdio has no reserve, but its inputs are distinguished nevertheless.
        let local = Some(Requester::Principal(Principal::LOCAL));
        let mut bomb = MemoryMeter::new(budget.clone(), budget.owner(local.clone(), Some(1)));
        assert!(bomb.memory_growing(0, 1500, None).unwrap() && !bomb.memory_growing(1500, 1700, None).unwrap());
        assert_eq!(bomb.denial(), Some(Denial::Input));
        let mut harmless = MemoryMeter::new(budget.clone(), budget.owner(local, Some(2)));
        assert!(!harmless.memory_growing(0, 200, None).unwrap());
        assert_eq!(harmless.denial(), Some(Denial::Others));
        drop((bomb, harmless));
        let (mut first, mut second) = (meter("ada", 3), meter("ada", 3));
        assert!(first.memory_growing(0, 800, None).unwrap() && !second.memory_growing(0, 800, None).unwrap());
        assert_eq!(second.denial(), Some(Denial::Input), "the same request twice");
        let mut another = meter("ada", 4);
        assert!(!another.memory_growing(0, 800, None).unwrap());
        assert_eq!(another.denial(), Some(Denial::Others), "two requests of one client");
        let mut of_bob = meter("bob", 5);
        assert!(!of_bob.memory_growing(0, 800, None).unwrap());
        assert_eq!(of_bob.denial(), Some(Denial::Others));
    }
}
