//! A circuit breaker: after consecutive failures of a service, its calls are rejected immediately for an increasing
//! delay ([`Backoff`]). Then one call at a time probes the service.
//!
//! ```text
//!         `threshold` failures                  probe fails
//!  closed ───────────────────────▶ suspect ─────────────────────▶ open ──┐ probe fails:
//!    ▲                                │                           │  ▲   │ twice the delay
//!    └────────── probe or any other call succeeds ◀───────────────┘  └───┘
//! ```
//!
//! After the delay the circuit is half-open: the next call is preceded by a probe, one at a time, while other calls
//! are still rejected. Any success closes the circuit.
//!
//! If a call is its own probe, there is no suspect state: [`CircuitBreaker::trip`] opens the circuit at the last
//! failure of the threshold, or for the time that the service requests (`Retry-After`).

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::backoff::{self, Backoff};

/// The retry delay for callers during a half-open probe.
const PROBE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The circuit breaker of one service.
#[derive(Debug)]
pub struct CircuitBreaker {
    /// Consecutive failures before a probe.
    threshold: u32,
    state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
struct BreakerState {
    /// Consecutive failures.
    failures: u32,
    open_until: Option<Instant>,
    backoff: Backoff,
    is_probing: bool,
}

/// The decision on a call.
#[derive(Debug)]
pub enum BreakerDecision<'a> {
    /// The call may be made.
    Granted,
    /// The call may be made if this probe succeeds.
    Probe(Probe<'a>),
    /// The call must not be made for this time.
    Rejected(Duration),
}

/// The meaning of a call for the health of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The service answered.
    Success,
    /// The call failed.
    Failure,
    /// No meaning: the service was not called.
    Neutral,
}

/// A state change, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The circuit opened, or stays open, for this time.
    Opened(Duration),
    /// The circuit closed.
    Closed,
}

impl CircuitBreaker {
    /// Creates a closed circuit, which opens after `threshold` consecutive failures and a failed probe.
    pub fn new(threshold: u32) -> Self {
        Self { threshold, state: Mutex::default() }
    }

    /// Decides whether a call may be made.
    pub fn try_acquire(&self, now: Instant) -> BreakerDecision<'_> {
        let mut state = self.state();
        match state.open_until.map(|until| until.saturating_duration_since(now)) {
            Some(left) if !left.is_zero() => return BreakerDecision::Rejected(left),
            Some(_) if state.is_probing => return BreakerDecision::Rejected(PROBE_RETRY_AFTER),
            None if state.failures < self.threshold || state.is_probing => return BreakerDecision::Granted,
            _ => state.is_probing = true,
        }
        BreakerDecision::Probe(Probe { breaker: self })
    }

    /// Records the outcome of a call that is not a probe.
    pub fn record(&self, verdict: Verdict) -> Option<Transition> {
        let mut state = self.state();
        match verdict {
            Verdict::Success => state.reset(),
            Verdict::Failure => {
                state.failures = state.failures.saturating_add(1);
                None
            }
            Verdict::Neutral => None,
        }
    }

    /// Records the failure of a call that is its own probe. Opens the circuit for `retry_after`, at most
    /// [`backoff::MAX_DELAY`], or if the threshold is reached.
    pub fn trip(&self, retry_after: Option<Duration>, now: Instant) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        if let Some(delay) = retry_after {
            state.open(delay.min(backoff::MAX_DELAY), now);
        } else if state.failures >= self.threshold {
            let delay = state.backoff.next_delay();
            state.open(delay, now);
        }
    }

    /// Closes the circuit, and clears all failures.
    pub fn close(&self) -> Option<Transition> {
        self.state().reset()
    }

    /// Returns the time for which the circuit is still open; zero if the next call will be preceded by a probe.
    pub fn suspended_for(&self, now: Instant) -> Option<Duration> {
        self.state().open_until.map(|until| until.saturating_duration_since(now))
    }

    fn state(&self) -> MutexGuard<'_, BreakerState> {
        self.state.lock()
    }
}

impl BreakerState {
    fn open(&mut self, delay: Duration, now: Instant) {
        self.open_until = Some(now.checked_add(delay).unwrap_or(now));
    }

    fn reset(&mut self) -> Option<Transition> {
        (self.failures, self.backoff) = (0, Backoff::default());
        self.open_until.take().map(|_| Transition::Closed)
    }
}

/// The permission to make the one probe. If it is dropped without a result, another probe may be made.
#[derive(Debug)]
pub struct Probe<'a> {
    breaker: &'a CircuitBreaker,
}

impl Probe<'_> {
    /// Records the outcome of the probe. Returns whether calls may be made now, and the state change.
    pub fn complete(self, verdict: Verdict, now: Instant) -> (Result<(), Duration>, Option<Transition>) {
        let mut state = self.breaker.state();
        match (verdict, state.open_until) {
            (Verdict::Success, _) => (Ok(()), state.reset()),
            // The probe has no result, which does not open a closed circuit.
            (Verdict::Neutral, None) => (Ok(()), None),
            (Verdict::Neutral, Some(_)) => (Err(PROBE_RETRY_AFTER), None),
            (Verdict::Failure, _) => {
                let delay = state.backoff.next_delay();
                state.open(delay, now);
                (Err(delay), Some(Transition::Opened(delay)))
            }
        }
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.breaker.state().is_probing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILURE_THRESHOLD: u32 = 5;

    fn after_failures(times: u32) -> CircuitBreaker {
        let breaker = CircuitBreaker::new(FAILURE_THRESHOLD);
        for _ in 0..times {
            assert!(matches!(breaker.try_acquire(Instant::now()), BreakerDecision::Granted));
            assert_eq!(breaker.record(Verdict::Failure), None);
        }
        breaker
    }

    fn probe(breaker: &CircuitBreaker, now: Instant) -> Probe<'_> {
        let BreakerDecision::Probe(probe) = breaker.try_acquire(now) else { panic!("a probe") };
        probe
    }

    fn fail_probe(breaker: &CircuitBreaker, now: Instant) -> Duration {
        let (allowed, change) = probe(breaker, now).complete(Verdict::Failure, now);
        assert_eq!(change, Some(Transition::Opened(allowed.unwrap_err())));
        allowed.unwrap_err()
    }

    #[test]
    fn an_answer_between_failures_makes_a_plugin_well() {
        let breaker = after_failures(FAILURE_THRESHOLD - 1);
        assert_eq!(breaker.record(Verdict::Success), None);
        assert_eq!(breaker.record(Verdict::Failure), None);
        assert!(matches!(breaker.try_acquire(Instant::now()), BreakerDecision::Granted));
    }

    #[test]
    fn refusals_of_the_host_count_for_nothing() {
        let breaker = after_failures(FAILURE_THRESHOLD - 1);
        breaker.record(Verdict::Neutral);
        assert!(matches!(breaker.try_acquire(Instant::now()), BreakerDecision::Granted));
        breaker.record(Verdict::Failure);
        drop(probe(&breaker, Instant::now()));
    }

    #[test]
    fn a_plugin_that_answers_its_trial_is_not_set_aside() {
        let (breaker, now) = (after_failures(FAILURE_THRESHOLD), Instant::now());
        assert_eq!(probe(&breaker, now).complete(Verdict::Success, now), (Ok(()), None));
        assert!(matches!(breaker.try_acquire(now), BreakerDecision::Granted));
        assert_eq!(breaker.suspended_for(now), None);
    }

    #[test]
    fn a_plugin_that_fails_its_trials_is_set_aside_for_longer_and_longer() {
        let (breaker, mut now) = (after_failures(FAILURE_THRESHOLD), Instant::now());
        let mut expected = backoff::INITIAL_DELAY;
        for _ in 0..12 {
            let delay = fail_probe(&breaker, now);
            assert!(delay >= expected.mul_f64(0.89) && delay <= expected.mul_f64(1.11), "{delay:?} for {expected:?}");
            assert_eq!(breaker.suspended_for(now), Some(delay));
            assert!(matches!(breaker.try_acquire(now), BreakerDecision::Rejected(left) if left == delay));
            now += delay;
            expected = (expected * 2).min(backoff::MAX_DELAY);
        }
        assert_eq!(expected, backoff::MAX_DELAY);
        assert_eq!(probe(&breaker, now).complete(Verdict::Success, now), (Ok(()), Some(Transition::Closed)));
        assert!(matches!(breaker.try_acquire(now), BreakerDecision::Granted));
        let again = after_failures(FAILURE_THRESHOLD);
        assert!(fail_probe(&again, now) < backoff::INITIAL_DELAY * 2, "it begins anew");
    }

    #[test]
    fn one_trial_is_made_at_a_time_and_others_are_refused_meanwhile() {
        let (breaker, now) = (after_failures(FAILURE_THRESHOLD), Instant::now());
        let suspect = probe(&breaker, now);
        assert!(matches!(breaker.try_acquire(now), BreakerDecision::Granted), "it is not open yet");
        drop(suspect);
        let now = now + fail_probe(&breaker, now);
        let running = probe(&breaker, now);
        assert!(matches!(breaker.try_acquire(now), BreakerDecision::Rejected(PROBE_RETRY_AFTER)));
        drop(running);
        let given_up = probe(&breaker, now);
        assert_eq!(given_up.complete(Verdict::Neutral, now), (Err(PROBE_RETRY_AFTER), None));
        drop(probe(&breaker, now));
    }

    #[test]
    fn a_call_that_was_under_way_and_is_answered_ends_it() {
        let (breaker, now) = (after_failures(FAILURE_THRESHOLD), Instant::now());
        fail_probe(&breaker, now);
        assert_eq!(breaker.record(Verdict::Success), Some(Transition::Closed));
        assert!(matches!(breaker.try_acquire(now), BreakerDecision::Granted));
    }

    #[test]
    fn a_call_that_is_its_own_probe_opens_the_circuit_with_the_last_failure_of_the_threshold() {
        let (breaker, now) = (CircuitBreaker::new(3), Instant::now());
        let trip = |times: u32| (0..times).for_each(|_| breaker.trip(None, now));
        trip(2);
        assert_eq!(breaker.record(Verdict::Success), None);
        trip(3);
        let wait = breaker.suspended_for(now).unwrap();
        assert!(wait > Duration::from_millis(500) && wait < Duration::from_secs(2), "{wait:?}");
        let later = now + Duration::from_secs(2);
        let half_open = probe(&breaker, later);
        assert!(matches!(breaker.try_acquire(later), BreakerDecision::Rejected(_)), "one probe at a time");
        breaker.trip(None, later);
        drop(half_open);
        assert!(
            breaker.suspended_for(later).unwrap() > Duration::from_millis(1500),
            "a failed probe doubles the delay"
        );
        assert_eq!(breaker.record(Verdict::Success), Some(Transition::Closed));
        assert!(matches!(breaker.try_acquire(later), BreakerDecision::Granted));
    }

    #[test]
    fn who_fails_says_when_to_come_back_within_bounds() {
        for (retry_after, expected) in [(20, 20), (u64::MAX, backoff::MAX_DELAY.as_secs())] {
            let (breaker, now) = (CircuitBreaker::new(3), Instant::now());
            breaker.trip(Some(Duration::from_secs(retry_after)), now);
            assert_eq!(breaker.suspended_for(now), Some(Duration::from_secs(expected)));
        }
    }
}
