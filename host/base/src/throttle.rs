//! A rate limit for a recurring warning: at most one line per period, with the number of suppressed ones.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Decides which occurrences of a warning are logged. Each occurrence costs one short lock.
#[derive(Debug)]
pub struct Throttle {
    period: Duration,
    state: Mutex<ThrottleState>,
}

#[derive(Debug, Default)]
struct ThrottleState {
    last_logged: Option<Instant>,
    suppressed: u64,
}

impl Throttle {
    /// Allows one line per period.
    pub fn new(period: Duration) -> Self {
        Self { period, state: Mutex::default() }
    }

    /// Records one more occurrence. If it must be logged, returns the number suppressed since the last line.
    pub fn record(&self) -> Option<u64> {
        self.record_at(Instant::now())
    }

    /// Returns the number of suppressed occurrences if a line about them is due, even without a further occurrence.
    pub fn overdue(&self) -> Option<u64> {
        self.overdue_at(Instant::now())
    }

    fn record_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        if state.last_logged.is_some_and(|logged| now.saturating_duration_since(logged) < self.period) {
            state.suppressed = state.suppressed.saturating_add(1);
            return None;
        }
        state.last_logged = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }

    fn overdue_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        let is_due = state.last_logged.is_none_or(|logged| now.saturating_duration_since(logged) >= self.period);
        if state.suppressed == 0 || !is_due {
            return None;
        }
        state.last_logged = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

/// A throttle for each reason of a warning, so that a frequent reason does not hide the others. Reasons are constants,
/// so their number is bounded.
#[derive(Debug)]
pub struct ThrottlePerReason {
    period: Duration,
    by_reason: Mutex<HashMap<&'static str, Throttle>>,
}

impl ThrottlePerReason {
    /// Allows one line per period and reason.
    pub fn new(period: Duration) -> Self {
        Self { period, by_reason: Mutex::default() }
    }

    /// Records one more occurrence. If it must be logged, returns the number suppressed since the last line with this
    /// reason.
    pub fn record(&self, reason: &'static str) -> Option<u64> {
        self.by_reason.lock().entry(reason).or_insert_with(|| Throttle::new(self.period)).record()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    #[test]
    fn one_occurrence_in_a_period_is_logged_with_the_number_of_those_that_were_suppressed() {
        let throttle = Throttle::new(PERIOD);
        let start = Instant::now();
        assert_eq!(throttle.record_at(start), Some(0));
        assert_eq!(throttle.record_at(start), None);
        assert_eq!(throttle.record_at(start + PERIOD / 2), None);
        assert_eq!(throttle.record_at(start + PERIOD), Some(2));
        assert_eq!(throttle.record_at(start + PERIOD * 2), Some(0));
    }

    #[test]
    fn what_was_suppressed_is_due_when_the_period_is_over() {
        let throttle = Throttle::new(PERIOD);
        let start = Instant::now();
        assert_eq!(throttle.overdue_at(start), None);
        throttle.record_at(start);
        throttle.record_at(start);
        assert_eq!(throttle.overdue_at(start), None);
        assert_eq!(throttle.overdue_at(start + PERIOD), Some(1));
        assert_eq!(throttle.overdue_at(start + PERIOD * 2), None);
    }

    #[test]
    fn a_frequent_reason_does_not_hide_another() {
        let throttles = ThrottlePerReason::new(Duration::from_secs(3600));
        assert_eq!([throttles.record("a"), throttles.record("a"), throttles.record("b")], [Some(0), None, Some(0)]);
    }
}
