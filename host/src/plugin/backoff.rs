//! Exponential back-off: how long a plugin that failed is left alone before it is tried again.
//!
//! [`INITIAL`] at first and twice as long each time, up to [`MAX`], give or take a tenth (jitter), so that plugins that failed
//! together do not come back together. The circuit breaker (`health`) and the loading of plugins both keep to it.

use std::time::Duration;

/// The first pause.
pub(super) const INITIAL_DELAY: Duration = Duration::from_secs(1);
/// The longest pause.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(300);

/// The pauses between attempts that fail.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// The pause after one more failure.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let pause = next_delay(self.last);
        self.last = Some(pause);
        with_jitter(pause)
    }
}

/// The pause that follows that one; the first if there was none.
pub(super) fn next_delay(last: Option<Duration>) -> Duration {
    last.map_or(INITIAL_DELAY, |last| last.saturating_mul(2).min(MAX_DELAY))
}

/// The pause, give or take a tenth.
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
