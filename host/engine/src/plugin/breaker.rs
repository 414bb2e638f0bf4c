//! The circuit breaker of a plugin.
//!
//! A call *fails* when the provider causes it to have no answer: a trap, a limit on time, memory or size, a broken
//! contract. Everything that the provider answers itself, failures of the contract included, is a success; rejections
//! by the host (rate limit, queue) are neutral.
//!
//! After [`FAILURE_THRESHOLD`] consecutive failures the next call is preceded by a *probe*: the host itself requests
//! the first entry of the provider's listing, which every provider must answer. If the probe succeeds, the failures
//! were those of the requested resources, and the circuit stays closed. If it fails, the circuit *opens*: calls are
//! rejected at once, for a delay that grows with each failed probe (`backoff`). After the delay the circuit is
//! half-open: the next call is again preceded by a probe, one at a time, while others are still rejected. Any success
//! closes the circuit.
//!
//! ```text
//!         FAILURE_THRESHOLD failures            probe fails
//!  closed ───────────────────────▶ suspect ─────────────────────▶ open ──┐ probe fails:
//!    ▲                                │                           │  ▲   │ twice the delay
//!    └────────── probe or any other call succeeds ◀───────────────┘  └───┘
//! ```
//!
//! Clients' calls decide only that a probe is made, never its result: it runs in a fresh instance, with a slot, threads and
//! memory that no client's call has a part in ([`CallOrigin::Probe`](crate::CallOrigin)). Once it has succeeded, the inputs
//! that failed are refused to the clients that sent them ([`input_faults`](super::input_faults)). So no client can have a plugin suspended for all
//! by requesting, however often, the one resource that makes it trap; the cost of that is one short listing in
//! [`FAILURE_THRESHOLD`] calls. The price is that a plugin that lists but answers no read is not suspended: its calls
//! fail one by one, within their limits.

use std::time::{Duration, Instant};

use mcp_host_base::backoff;
use parking_lot::{Mutex, MutexGuard};

use super::fault::Fault;

/// Consecutive failures before a probe.
pub(super) const FAILURE_THRESHOLD: u32 = 5;
/// The retry delay that callers get while a half-open probe is in progress.
const PROBE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The circuit breaker of one plugin.
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker(Mutex<BreakerState>);

#[derive(Debug, Default)]
struct BreakerState {
    /// Consecutive failures.
    failures: u32,
    open: Option<OpenState>,
    is_probing: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenState {
    until: Instant,
    delay: Duration,
}

/// Whether a call may be made.
pub(super) enum BreakerDecision<'a> {
    /// It may.
    Granted,
    /// It may, if this probe succeeds.
    Probe(Probe<'a>),
    /// It may not, for so long.
    Rejected(Duration),
}

/// What a call says about the health of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The provider answered.
    Success,
    /// The call failed.
    Failure,
    /// Nothing: the host rejected the call.
    Neutral,
}

impl<T> From<&Result<T, Fault>> for Verdict {
    fn from(answer: &Result<T, Fault>) -> Self {
        match answer {
            Err(fault) if fault.trips_breaker() => Self::Failure,
            Err(fault) if !fault.is_provider_response() => Self::Neutral,
            _ => Self::Success,
        }
    }
}

/// A state change to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// The circuit opened, or stays open, for so long.
    Opened(Duration),
    /// The circuit closed.
    Closed,
}

impl CircuitBreaker {
    /// Decides whether a call may be made.
    pub(super) fn try_acquire(&self, now: Instant) -> BreakerDecision<'_> {
        let mut state = self.state();
        let left = state.open.map(|open| open.until.saturating_duration_since(now));
        match left {
            Some(left) if !left.is_zero() => return BreakerDecision::Rejected(left),
            Some(_) if state.is_probing => return BreakerDecision::Rejected(PROBE_RETRY_AFTER),
            None if state.failures < FAILURE_THRESHOLD || state.is_probing => return BreakerDecision::Granted,
            _ => state.is_probing = true,
        }
        BreakerDecision::Probe(Probe { breaker: self })
    }

    /// Records the outcome of a call that is not a probe.
    pub(super) fn record(&self, verdict: Verdict) -> Option<Transition> {
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

    /// The time for which the circuit is still open; zero when the next call will be preceded by a probe.
    pub(super) fn suspended_for(&self, now: Instant) -> Option<Duration> {
        self.state().open.map(|open| open.until.saturating_duration_since(now))
    }

    fn state(&self) -> MutexGuard<'_, BreakerState> {
        self.0.lock()
    }
}

impl BreakerState {
    fn reset(&mut self) -> Option<Transition> {
        self.failures = 0;
        self.open.take().map(|_| Transition::Closed)
    }
}

/// The right to make the one probe. Dropped without a result, another probe may be made.
pub(super) struct Probe<'a> {
    breaker: &'a CircuitBreaker,
}

impl Probe<'_> {
    /// Records the outcome of the probe. Returns whether calls may be made now, and what changed.
    pub(super) fn complete(self, verdict: Verdict, now: Instant) -> (Result<(), Duration>, Option<Transition>) {
        let mut state = self.breaker.state();
        match (verdict, state.open) {
            (Verdict::Success, _) => (Ok(()), state.reset()),
            // The probe has no result. A circuit that was not open does not open because of that.
            (Verdict::Neutral, None) => (Ok(()), None),
            (Verdict::Neutral, Some(_)) => (Err(PROBE_RETRY_AFTER), None),
            (Verdict::Failure, before) => {
                let delay = backoff::next_delay(before.map(|before| before.delay));
                let shown = backoff::with_jitter(delay);
                state.open = Some(OpenState { until: now.checked_add(shown).unwrap_or(now), delay });
                (Err(shown), Some(Transition::Opened(shown)))
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

    fn after_failures(times: u32) -> CircuitBreaker {
        let breaker = CircuitBreaker::default();
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
}
