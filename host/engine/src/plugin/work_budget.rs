//! The budget of the host's work on an answer, as part of the call.
//!
//! Measuring, validating, composing, expanding and filtering an answer takes time and memory in amounts that the
//! provider determines. A [`WorkBudget`] accounts for both:
//!
//! - *Time.* Before each step, code that loops over an answer announces the step's estimated nanoseconds in the worst
//!   case. After [`CLOCK_CHECK_INTERVAL_NS`] of them the call's CPU clock is checked, and the call ends when
//!   `limits.cpu` is used up. A call that has worked for [`TIME_SLICE`] yields, as a guest does, so it continues on
//!   worker threads, other calls get their turns, and `limits.deadline` is enforced. An uninterruptible step that
//!   takes longer than a slice begins after a yield. For a small answer, all of this is one subtraction per step.
//! - *Memory.* The answer as returned and its validated form are charged to the plugin's budget (`limits.memory`) as
//!   one sum before anything is allocated, and released when the answer leaves the call.
//!
//! Uninterruptible work: lifting an answer, which `limits.response-size` bounds, and measuring or validating one
//! entry, content or template with its icons and metadata, which `limits.response-items` bounds, too. Such work begins
//! on worker threads if it may take long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_base::threads::yield_ready;
use mcp_host_sandbox::memory::{CallOwner, MemoryAccount, MemoryBudget, Reservation};

use crate::cpu::CpuClock;
use crate::epoch::TICK;
use crate::fault::Fault;

/// The estimated nanoseconds of work between two checks of the clock.
pub(super) const CLOCK_CHECK_INTERVAL_NS: usize = 16_384;
/// The time slice of a call before it yields, as for a guest.
const TIME_SLICE: Duration = TICK;
/// The estimated nanoseconds from which a step begins after a yield.
const LONG_STEP_NS: usize = 500_000;

/// The account of the host's work for one call.
pub(super) struct WorkBudget {
    clock: Arc<CpuClock>,
    cpu: Duration,
    budget: Arc<MemoryBudget>,
    /// The client or the host that the call is made for.
    owner: CallOwner,
    /// The memory charged to the budget; none before the first charge.
    reservation: Option<Reservation>,
    /// The remaining nanoseconds until the clock is checked.
    remaining: usize,
    /// The start of the current slice; none before the first check.
    slice_start: Option<Instant>,
}

impl WorkBudget {
    /// Creates a budget of work until `clock` shows `cpu`, with memory charged to `budget` and the owner of the call.
    pub(super) fn new(clock: Arc<CpuClock>, cpu: Duration, budget: Arc<MemoryBudget>, owner: CallOwner) -> Self {
        let (reservation, remaining) = (None, CLOCK_CHECK_INTERVAL_NS);
        Self { clock, cpu, budget, owner, reservation, remaining, slice_start: None }
    }

    /// Accounts for a step. Must be called before each step, with its estimated nanoseconds.
    ///
    /// # Errors
    ///
    /// The call has used up `limits.cpu`.
    pub(super) async fn step(&mut self, nanoseconds: usize) -> Result<(), Fault> {
        match self.remaining.checked_sub(nanoseconds) {
            Some(left) => {
                self.remaining = left;
                Ok(())
            }
            None => self.check_clock(nanoseconds).await,
        }
    }

    async fn check_clock(&mut self, nanoseconds: usize) -> Result<(), Fault> {
        self.remaining = CLOCK_CHECK_INTERVAL_NS;
        if self.clock.exceeds(self.cpu) {
            return Err(Fault::Cpu(self.cpu));
        }
        let now = Instant::now();
        let began = *self.slice_start.get_or_insert(now);
        if nanoseconds >= LONG_STEP_NS || now.saturating_duration_since(began) >= TIME_SLICE {
            yield_ready().await;
            self.slice_start = Some(Instant::now());
        }
        Ok(())
    }

    /// Charges bytes to the plugin's memory until the call ends.
    ///
    /// # Errors
    ///
    /// `limits.memory` does not leave enough.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<(), Fault> {
        let reservation = self.reservation.get_or_insert_with(|| {
            MemoryAccount::new(self.budget.clone(), std::mem::take(&mut self.owner)).reservation()
        });
        let charged = reservation.try_resize(reservation.bytes().saturating_add(bytes));
        charged.map_err(|denial| Fault::out_of_memory(self.budget.limit(), denial))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn work(cpu: Duration) -> WorkBudget {
        WorkBudget::new(Arc::default(), cpu, MemoryBudget::new(1000, None), CallOwner::default())
    }

    /// The number of polls until a task is done.
    fn polls<T>(task: impl Future<Output = T>) -> usize {
        let mut task = pin!(task);
        let mut context = Context::from_waker(Waker::noop());
        (1..).find(|_| task.as_mut().poll(&mut context).is_ready()).unwrap()
    }

    #[test]
    fn little_work_is_done_at_once_and_much_of_it_with_yields() {
        let mut work = work(Duration::MAX);
        assert_eq!(polls(work.step(CLOCK_CHECK_INTERVAL_NS)), 1);
        assert_eq!(polls(work.step(LONG_STEP_NS)), 2, "a long piece is begun after a yield");
        let began = Instant::now();
        let mut long = pin!(async {
            while began.elapsed() < TIME_SLICE * 10_000 {
                work.step(CLOCK_CHECK_INTERVAL_NS + 1).await.unwrap();
            }
        });
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(long.as_mut().poll(&mut context).is_pending(), "one yield for each slice");
        }
    }

    #[test]
    fn memory_is_charged_until_the_work_is_over() {
        let budget = MemoryBudget::new(1000, None);
        let work = || WorkBudget::new(Arc::default(), Duration::MAX, budget.clone(), CallOwner::default());
        let (mut one, mut other) = (work(), work());
        one.charge(600).unwrap();
        assert_eq!(other.charge(600), Err(Fault::MemoryInUse(1000)));
        drop(one);
        other.charge(600).unwrap();
        other.charge(300).unwrap();
        assert_eq!(other.charge(300), Err(Fault::Memory(1000)));
    }
}
