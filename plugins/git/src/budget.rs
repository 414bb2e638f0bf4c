//! The bound of the work for one call: a number of steps, and a time.
//!
//! A walk over commits can take any time, and a call that exceeds the plugin's limits ends without a result. So a walk
//! ends by itself before, and what it has found so far is served. All walks of a call share its time.

use std::time::{Duration, Instant};

/// The maximum time, half of the default of the plugin's `limits.cpu`.
const MAX_TIME: Duration = Duration::from_millis(500);

/// The number of steps after which the clock is read.
const STEPS_PER_LOOK: usize = 16;

/// A number of steps, and a time.
pub(crate) struct Budget {
    left: usize,
    start: Instant,
    is_over: bool,
}

impl Budget {
    /// Creates a budget of some steps, and of [`MAX_TIME`] since the call's start.
    pub(crate) fn new(steps: usize, start: Instant) -> Self {
        Self { left: steps, start, is_over: false }
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
        let mut budget = Budget::new(2, Instant::now());
        assert_eq!([budget.take(), budget.take(), budget.take()], [true, true, false]);
        let mut budget = Budget::new(STEPS_PER_LOOK, Instant::now() - 2 * MAX_TIME);
        assert!(!budget.take() && !budget.take());
    }
}
