//! What the host does with a guest's answer, as a part of the call that asked for it.
//!
//! Measuring, validating, composing, expanding and filtering an answer takes time and memory whose amount the guest decides.
//! [`Work`] accounts for both:
//!
//! - *Time.* Code that loops over an answer says before each piece of work roughly how many nanoseconds that piece takes at
//!   worst. After [`LOOK_EVERY`] of them the call's CPU clock is looked at, and the call ends when `limits.cpu` is used up. A
//!   call that has worked for [`SLICE`] yields, as a guest does at each tick of the epoch, so it goes on on guest threads, other
//!   calls get their turns, and `limits.deadline` is kept. A piece that takes longer than a slice and cannot be interrupted is
//!   begun after a yield. For a small answer all of that is a subtraction for each piece.
//! - *Memory.* The answer as it was lifted, and what is made of it, are charged to the plugin's budget (`limits.memory`) in
//!   one sum before anything is made, and given back when the answer leaves the call.
//!
//! What cannot be interrupted: lifting an answer, which `limits.response-size` bounds, and measuring or checking one entry, content or
//! template with its icons and metadata, which `limits.response-items` bounds beside. That is begun on guest threads if it may take
//! long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fault::Fault;
use crate::engine::cpu::CpuClock;
use crate::engine::epoch::TICK;
use crate::sandbox::memory::{MemoryBudget, Reservation};

/// Nanoseconds of work, by estimate, between two looks at the clock.
pub(super) const CLOCK_CHECK_INTERVAL_NS: usize = 16_384;
/// For how long a call works before it yields: as long as a guest runs.
const TIME_SLICE: Duration = TICK;
/// Nanoseconds of work, by estimate, that are not begun without a yield.
const LONG_STEP_NS: usize = 500_000;

/// The account of the host's work for one call.
pub(super) struct WorkBudget {
    clock: Arc<CpuClock>,
    cpu: Duration,
    budget: Arc<MemoryBudget>,
    /// What is charged to the budget; none before something is.
    reservation: Option<Reservation>,
    /// What is left to do before the clock is looked at.
    remaining: usize,
    /// When the current slice began; none before the first look.
    slice_start: Option<Instant>,
}

impl WorkBudget {
    /// Work that may go on until `clock` shows `cpu`, and whose memory is charged to `budget`.
    pub(super) fn new(clock: Arc<CpuClock>, cpu: Duration, budget: Arc<MemoryBudget>) -> Self {
        Self { clock, cpu, budget, reservation: None, remaining: CLOCK_CHECK_INTERVAL_NS, slice_start: None }
    }

    /// To be called before a piece of work that takes so many nanoseconds, by estimate.
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
            tokio::task::yield_now().await;
            self.slice_start = Some(Instant::now());
        }
        Ok(())
    }

    /// Charges so many bytes to the plugin's memory, until the call is over.
    ///
    /// # Errors
    ///
    /// `limits.memory` does not leave that much.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<(), Fault> {
        let is_charged = match &mut self.reservation {
            Some(reservation) => reservation.try_resize(reservation.bytes().saturating_add(bytes)),
            None => {
                self.reservation = self.budget.try_reserve(bytes);
                self.reservation.is_some()
            }
        };
        if is_charged { Ok(()) } else { Err(Fault::Memory(self.budget.limit())) }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn work(cpu: Duration) -> WorkBudget {
        WorkBudget::new(Arc::default(), cpu, MemoryBudget::new(1000, None))
    }

    /// How often a task is polled until it is done.
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
        let long = async {
            let began = Instant::now();
            while began.elapsed() < TIME_SLICE * 3 {
                work.step(CLOCK_CHECK_INTERVAL_NS + 1).await.unwrap();
            }
        };
        assert!(polls(long) >= 3, "one yield for each slice");
    }

    #[test]
    fn memory_is_charged_until_the_work_is_over() {
        let budget = MemoryBudget::new(1000, None);
        let mut one = WorkBudget::new(Arc::default(), Duration::MAX, budget.clone());
        let mut other = WorkBudget::new(Arc::default(), Duration::MAX, budget);
        one.charge(600).unwrap();
        assert_eq!(other.charge(600), Err(Fault::Memory(1000)));
        drop(one);
        other.charge(600).unwrap();
        other.charge(300).unwrap();
        assert_eq!(other.charge(300), Err(Fault::Memory(1000)));
    }
}
