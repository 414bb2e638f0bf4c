//! Exponential back-off with jitter: an initial delay, doubled after each failure up to a maximum. The jitter of a
//! tenth keeps retries from coinciding (thundering herd).

use std::time::Duration;

/// The first delay, unless another is set.
pub const INITIAL_DELAY: Duration = Duration::from_secs(1);
/// The maximum delay, unless another is set.
pub const MAX_DELAY: Duration = Duration::from_secs(300);

/// The delays between failing attempts.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::up_to(MAX_DELAY)
    }
}

impl Backoff {
    /// Delays from [`INITIAL_DELAY`] up to this maximum.
    pub fn up_to(max: Duration) -> Self {
        Self::new(INITIAL_DELAY, max)
    }

    /// Delays from `initial` up to a maximum.
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self { next: initial.min(max), max }
    }

    /// Returns the delay after one more failure.
    pub fn next_delay(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.max);
        pause.mul_f64(0.9 + 0.2 * fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_maximum_give_or_take_a_tenth() {
        for (mut backoff, max) in [(Backoff::default(), 300), (Backoff::up_to(Duration::from_secs(60)), 60)] {
            let (mut expected, max) = (INITIAL_DELAY, Duration::from_secs(max));
            for _ in 0..12 {
                let pause = backoff.next_delay();
                assert!(
                    pause >= expected.mul_f64(0.89) && pause <= expected.mul_f64(1.11),
                    "{pause:?} for {expected:?}"
                );
                expected = (expected * 2).min(max);
            }
            assert_eq!(expected, max);
        }
    }
}
