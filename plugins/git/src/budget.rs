//! The work budget of one call: a number of steps, and a time.
//!
//! A walk over commits can take arbitrarily long, and a call that exceeds the plugin's limits ends without a result. A
//! walk therefore ends before these limits, and the partial result is served. All walks of a call share its time.

use mcp_provider::Limits;
use std::time::{Duration, Instant};

/// The divisor of `limits.cpu` and `limits.deadline` for the walks of a call. The remaining time is for the call's
/// other work, and for the validation of its response.
const SHARE: u32 = 2;

/// Returns the time that the walks of one call may take. A guest cannot read its CPU time, so the wall clock is used:
/// on a loaded machine, walks end earlier.
pub(crate) fn max_time(limits: Limits) -> Duration {
    limits.cpu.min(limits.deadline).checked_div(SHARE).unwrap_or_default()
}

/// The number of steps after which the clock is read.
const STEPS_PER_LOOK: usize = 16;

/// A number of remaining steps, and a time limit.
pub(crate) struct Budget {
    left: usize,
    start: Instant,
    max_time: Duration,
    is_over: bool,
    /// For tests: a counter of the objects read, and the count from which the time is over.
    #[cfg(test)]
    reads: Option<(std::rc::Rc<std::cell::Cell<usize>>, usize)>,
}

impl Budget {
    /// Creates a budget with a number of steps, and with a time that starts at the call's start.
    pub(crate) fn new(steps: usize, start: Instant, max_time: Duration) -> Self {
        Self {
            left: steps,
            start,
            max_time,
            is_over: false,
            #[cfg(test)]
            reads: None,
        }
    }

    /// For tests: replaces the time limit by a number of objects read.
    #[cfg(test)]
    pub(crate) fn ended_by_reads(self, reads: Option<(std::rc::Rc<std::cell::Cell<usize>>, usize)>) -> Self {
        Self { reads, ..self }
    }

    /// Takes a step; false if the budget is exhausted.
    pub(crate) fn take(&mut self) -> bool {
        if self.left.is_multiple_of(STEPS_PER_LOOK) && self.is_time_over() {
            self.is_over = true;
        }
        match self.left.checked_sub(1).filter(|_| !self.is_over) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    fn is_time_over(&self) -> bool {
        #[cfg(test)]
        if let Some((reads, max)) = &self.reads {
            return reads.get() > *max;
        }
        self.start.elapsed() > self.max_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_after_its_steps_or_its_time() {
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(2, Instant::now(), second);
        assert_eq!([budget.take(), budget.take(), budget.take()], [true, true, false]);
        let mut budget = Budget::new(STEPS_PER_LOOK, Instant::now() - 2 * second, second);
        assert!(!budget.take() && !budget.take());
    }

    #[test]
    fn the_time_follows_the_limits_of_the_plugin() {
        let mut limits = Limits::default();
        assert_eq!(max_time(limits), Duration::from_millis(500));
        limits.cpu = Duration::from_secs(60);
        assert_eq!(max_time(limits), Duration::from_millis(2500), "of the deadline");
        limits.deadline = Duration::from_secs(120);
        assert_eq!(max_time(limits), Duration::from_secs(30));
    }
}
