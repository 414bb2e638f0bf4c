//! Exponential back-off with jitter: [`INITIAL_DELAY`] at first, doubled each time up to [`MAX_DELAY`], give or take a
//! tenth, so that plugins that failed together are not retried together. The circuit breaker and the loading of plugins
//! both use it.

use std::time::Duration;

/// The first delay.
pub(super) const INITIAL_DELAY: Duration = Duration::from_secs(1);
/// The longest delay.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(300);

/// The delays between failing attempts.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// Returns the delay after one more failure.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let pause = next_delay(self.last);
        self.last = Some(pause);
        with_jitter(pause)
    }
}

/// Returns the delay that follows `last`; the first if there was none.
pub(super) fn next_delay(last: Option<Duration>) -> Duration {
    last.map_or(INITIAL_DELAY, |last| last.saturating_mul(2).min(MAX_DELAY))
}

/// Returns the delay, give or take a tenth.
pub(super) fn with_jitter(pause: Duration) -> Duration {
    pause.mul_f64(0.9 + 0.2 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_maximum_give_or_take_a_tenth() {
        let mut backoff = Backoff::default();
        let mut expected = INITIAL_DELAY;
        for _ in 0..12 {
            let pause = backoff.next_delay();
            assert!(pause >= expected.mul_f64(0.89) && pause <= expected.mul_f64(1.11), "{pause:?} for {expected:?}");
            expected = (expected * 2).min(MAX_DELAY);
        }
        assert_eq!(expected, MAX_DELAY);
    }
}
