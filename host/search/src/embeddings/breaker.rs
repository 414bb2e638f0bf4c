//! A circuit breaker for the endpoint.
//!
//! After [`THRESHOLD`] consecutive failures the circuit opens: no request is made until a delay is over, which doubles with
//! each further failure (`Backoff`), or lasts as long as the endpoint says (`Retry-After`), [`MAX_DELAY`] at most. Then
//! one request is a probe, while others are still refused. A success closes the circuit.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use mcp_host_base::backoff::Backoff;

/// The number of consecutive failures after which the circuit opens.
const THRESHOLD: u32 = 3;
/// The maximum delay that the endpoint may set (`Retry-After`).
const MAX_DELAY: Duration = Duration::from_mins(5);

/// The circuit breaker of one kind of requests.
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    backoff: Backoff,
    /// When a request may be made again, if the circuit is open.
    open_until: Option<Instant>,
    is_probing: bool,
}

/// A request that may be made. Dropping it without a result says nothing of the endpoint: a client may have stopped waiting.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    breaker: &'a CircuitBreaker,
    is_done: bool,
}

impl CircuitBreaker {
    /// Permits a request, or returns how long to wait.
    pub(super) fn acquire(&self) -> Result<Permit<'_>, Duration> {
        self.acquire_at(Instant::now())
    }

    fn acquire_at(&self, now: Instant) -> Result<Permit<'_>, Duration> {
        let mut state = self.0.lock();
        if let Some(until) = state.open_until {
            let left = until.saturating_duration_since(now);
            if !left.is_zero() || state.is_probing {
                return Err(left.max(Duration::from_millis(100)));
            }
            state.is_probing = true;
        }
        Ok(Permit { breaker: self, is_done: false })
    }

    fn close(&self) {
        *self.0.lock() = State::default();
    }

    fn record_failure(&self, retry_after: Option<Duration>, now: Instant) {
        let mut state = self.0.lock();
        state.is_probing = false;
        state.failures = state.failures.saturating_add(1);
        if state.failures >= THRESHOLD || retry_after.is_some() {
            let delay = retry_after.map_or_else(|| state.backoff.next_delay(), |after| after.min(MAX_DELAY));
            state.open_until = now.checked_add(delay);
        }
    }
}

impl Permit<'_> {
    /// The endpoint has answered.
    pub(super) fn succeed(mut self) {
        self.is_done = true;
        self.breaker.close();
    }

    /// The request failed, possibly with a retry delay.
    pub(super) fn fail(mut self, retry_after: Option<Duration>) {
        self.is_done = true;
        self.breaker.record_failure(retry_after, Instant::now());
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.breaker.0.lock().is_probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &CircuitBreaker, times: u32) {
        (0..times).for_each(|_| breaker.acquire().unwrap().fail(None));
    }

    #[test]
    fn the_circuit_opens_after_some_failures_and_closes_after_a_success() {
        let breaker = CircuitBreaker::default();
        fail(&breaker, THRESHOLD - 1);
        breaker.acquire().unwrap().succeed();
        fail(&breaker, THRESHOLD);
        let wait = breaker.acquire().unwrap_err();
        assert!(wait > Duration::from_millis(500) && wait < Duration::from_secs(2), "{wait:?}");
        let later = Instant::now() + Duration::from_secs(2);
        let probe = breaker.acquire_at(later).unwrap();
        assert!(breaker.acquire_at(later).is_err(), "one probe at a time");
        probe.succeed();
        assert!(breaker.acquire_at(later).is_ok());
    }

    #[test]
    fn a_probe_that_fails_doubles_the_delay() {
        let breaker = CircuitBreaker::default();
        fail(&breaker, THRESHOLD);
        let later = Instant::now() + Duration::from_secs(2);
        drop(breaker.acquire_at(later).unwrap());
        breaker.acquire_at(later).unwrap().fail(None);
        assert!(breaker.acquire().unwrap_err() > Duration::from_millis(1500));
    }

    #[test]
    fn the_endpoint_says_when_it_is_asked_again_within_bounds() {
        let breaker = CircuitBreaker::default();
        breaker.acquire().unwrap().fail(Some(Duration::from_secs(20)));
        assert!(breaker.acquire().unwrap_err() > Duration::from_secs(19));
        let breaker = CircuitBreaker::default();
        breaker.acquire().unwrap().fail(Some(Duration::MAX));
        assert!(breaker.acquire().unwrap_err() <= MAX_DELAY);
    }
}
