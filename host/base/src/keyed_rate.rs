//! A rate limit for each key (GCRA).
//!
//! Each key has a token bucket. Only full buckets are evicted, so eviction never resets a limit. When the table is
//! full, new keys hash into a fixed number of shared buckets (`bounded_states`).

mod bounded_states;

use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::clock::{Clock, DefaultClock};
use governor::{NotUntil, Quota, RateLimiter};
use parking_lot::Mutex;

use self::bounded_states::{BoundedStates, MIN_SWEEP, StateKey};

/// The minimum interval between two sweeps for full buckets.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the time after which a rate limiter would have admitted the request.
pub fn wait_time(until: &NotUntil<<DefaultClock as Clock>::Instant>) -> Duration {
    until.wait_time_from(DefaultClock::default().now())
}

/// A rate for each key.
#[derive(Debug)]
pub struct KeyedRate<K: Eq + Hash + Clone> {
    limiter: RateLimiter<StateKey<K>, BoundedStates<K>, DefaultClock>,
    burst: NonZeroU32,
    max_keys: usize,
    sweep: Mutex<Sweep>,
}

/// When the next sweep for full buckets may run.
#[derive(Debug)]
struct Sweep {
    at_count: usize,
    not_before: Option<Instant>,
}

impl<K: Eq + Hash + Clone> KeyedRate<K> {
    /// Creates a rate limit with this quota, and individual buckets for at most `max_keys` keys.
    pub fn new(quota: Quota, max_keys: usize) -> Self {
        Self {
            limiter: RateLimiter::new(quota, BoundedStates::new(max_keys), DefaultClock::default()),
            burst: quota.burst_size(),
            max_keys,
            sweep: Mutex::new(Sweep { at_count: MIN_SWEEP, not_before: None }),
        }
    }

    /// Takes `number` tokens from this key. More than a burst counts as a burst.
    ///
    /// # Errors
    ///
    /// The time after which there are enough tokens.
    pub fn take(&self, key: &K, number: NonZeroU32) -> Result<(), Duration> {
        self.forget_new();
        self.check(StateKey::Take(key.clone()), number)
    }

    /// Checks whether this key has a token, without taking it.
    ///
    /// # Errors
    ///
    /// The time after which there is a token.
    pub fn peek(&self, key: &K) -> Result<(), Duration> {
        self.check(StateKey::Peek(key.clone()), NonZeroU32::MIN)
    }

    /// Returns the number of keys with an individual bucket.
    pub fn tracked(&self) -> usize {
        self.limiter.len()
    }

    fn check(&self, key: StateKey<K>, number: NonZeroU32) -> Result<(), Duration> {
        let taken = self.limiter.check_key_n(&key, number.min(self.burst)).unwrap_or(Ok(()));
        taken.map_err(|until| wait_time(&until))
    }

    /// Evicts full buckets, when the number of keys has doubled.
    fn forget_new(&self) {
        let count = self.limiter.len();
        let Some(mut sweep) = self.sweep.try_lock() else { return };
        if count < sweep.at_count || sweep.not_before.is_some_and(|next| Instant::now() < next) {
            return;
        }
        self.limiter.retain_recent();
        sweep.at_count = self.limiter.len().saturating_mul(2).min(self.max_keys).max(MIN_SWEEP);
        sweep.not_before = Instant::now().checked_add(SWEEP_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_as_new_is_forgotten() {
        let rate = KeyedRate::new(Quota::per_second(NonZeroU32::new(1_000_000).unwrap()), 65_536);
        for key in 0..10 * MIN_SWEEP {
            rate.take(&key, NonZeroU32::MIN).unwrap();
            rate.sweep.lock().not_before = None;
        }
        assert!(rate.limiter.len() <= 2 * MIN_SWEEP, "{}", rate.limiter.len());
    }
}
