//! The bound of the work for one response: a number of steps, and a time.
//!
//! A walk over commits can take any time, and ends the call without a result if it exceeds the plugin's limits. So it
//! ends by itself before, and what it has found so far is served.

use std::time::{Duration, Instant};

/// The maximum time, half of the default of `limits.deadline` at the most.
const MAX_TIME: Duration = Duration::from_secs(1);

/// The number of steps after which the clock is read.
const STEPS_PER_LOOK: usize = 16;

/// A number of steps, and a time.
pub(crate) struct Budget {
    left: usize,
    start: Instant,
    is_over: bool,
}

impl Budget {
    /// Creates a budget of some steps, and of [`MAX_TIME`] from now on.
    pub(crate) fn new(steps: usize) -> Self {
        Self { left: steps, start: Instant::now(), is_over: false }
    }

    /// Takes a step; false if none is left.
    pub(crate) fn take(&mut self) -> bool {
        if self.left.is_multiple_of(STEPS_PER_LOOK) && self.start.elapsed() > MAX_TIME {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_after_its_steps_or_its_time() {
        let mut budget = Budget::new(2);
        assert_eq!([budget.take(), budget.take(), budget.take()], [true, true, false]);
        let mut budget = Budget { left: STEPS_PER_LOOK, start: Instant::now() - 2 * MAX_TIME, is_over: false };
        assert!(!budget.take() && !budget.take());
    }
}
