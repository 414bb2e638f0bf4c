//! The states of a keyed rate limiter: one for each key, up to a maximum. Further keys share [`OVERFLOW_STATES`]
//! states.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash, RandomState};

use governor::nanos::Nanos;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::state::{InMemoryState, NotKeyed, StateStore};
use parking_lot::Mutex;

/// The number of shared states for all other keys.
const OVERFLOW_STATES: usize = 256;
/// The number of states from which states that equal a new one are evicted.
pub(super) const MIN_SWEEP: usize = 1024;

/// A key, and the operation on its state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum StateKey<K> {
    /// Measure and replace the state.
    Take(K),
    /// Only measure the state.
    Peek(K),
}

/// The states of a limiter: one for each key, up to a maximum, and then shared ones.
#[derive(Debug)]
pub(super) struct BoundedStates<K> {
    by_key: Mutex<HashMap<K, Nanos>>,
    max: usize,
    overflow: Box<[InMemoryState]>,
    hasher: RandomState,
}

impl<K> BoundedStates<K> {
    pub(super) fn new(max: usize) -> Self {
        let overflow = std::iter::repeat_with(InMemoryState::default).take(OVERFLOW_STATES).collect();
        Self { by_key: Mutex::default(), max, overflow, hasher: RandomState::new() }
    }
}

impl<K: Eq + Hash + Clone> StateStore for BoundedStates<K> {
    type Key = StateKey<K>;

    fn measure_and_replace<T, F, E>(&self, key: &StateKey<K>, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let (StateKey::Take(own) | StateKey::Peek(own)) = key;
        let is_taken = matches!(key, StateKey::Take(_));
        let mut states = self.by_key.lock();
        if let Some(state) = states.get_mut(own) {
            let (outcome, next) = measure(Some(*state))?;
            if is_taken {
                *state = next;
            }
            return Ok(outcome);
        }
        if states.len() < self.max {
            let (outcome, next) = measure(None)?;
            if is_taken {
                states.insert(own.clone(), next);
            }
            return Ok(outcome);
        }
        drop(states);
        let shared = self.hasher.hash_one(own).checked_rem(OVERFLOW_STATES as u64);
        let shared = shared.and_then(|shared| self.overflow.get(usize::try_from(shared).ok()?));
        match shared {
            Some(state) if is_taken => state.measure_and_replace(&NotKeyed::NonKey, measure),
            Some(state) => peek(state, measure),
            None => measure(None).map(|(outcome, _)| outcome),
        }
    }
}

/// Measures a state without replacing it: the measurement is returned as an error, which replaces nothing.
fn peek<T, E>(state: &InMemoryState, measure: impl Fn(Option<Nanos>) -> Result<(T, Nanos), E>) -> Result<T, E> {
    let measured = |now| Err::<(Infallible, Nanos), _>(measure(now).map(|(outcome, _)| outcome));
    match state.measure_and_replace(&NotKeyed::NonKey, measured) {
        Ok(never) => match never {},
        Err(measured) => measured,
    }
}

impl<K: Eq + Hash + Clone> ShrinkableKeyedStateStore<StateKey<K>> for BoundedStates<K> {
    fn retain_recent(&self, drop_below: Nanos) {
        let mut states = self.by_key.lock();
        states.retain(|_, state| *state > drop_below);
        states.shrink_to(MIN_SWEEP);
    }

    fn len(&self) -> usize {
        self.by_key.lock().len()
    }

    fn is_empty(&self) -> bool {
        self.by_key.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use governor::clock::DefaultClock;
    use governor::{Quota, RateLimiter};

    use super::*;

    #[test]
    fn those_that_have_no_state_of_their_own_share_one_and_none_is_forgotten() {
        let states = BoundedStates::new(2);
        let limiter: RateLimiter<StateKey<u32>, _, _> =
            RateLimiter::new(Quota::per_hour(NonZeroU32::new(3).unwrap()), states, DefaultClock::default());
        let burst = |key: u32| (0..10).take_while(|_| limiter.check_key(&StateKey::Take(key)).is_ok()).count();
        let is_free = |key: u32| limiter.check_key(&StateKey::Peek(key)).is_ok();
        assert!(is_free(1) && is_free(2));
        assert_eq!((burst(1), burst(2)), (3, 3));
        assert!(!is_free(1) && is_free(3) && is_free(3));
        let others: usize = (3..10_000).map(burst).sum();
        assert_eq!(others, 3 * OVERFLOW_STATES, "each shared state has one burst");
        assert!(!is_free(3));
        limiter.retain_recent();
        assert_eq!(limiter.len(), 2, "these are not as new");
        assert_eq!((burst(1), burst(2)), (0, 0));
    }
}
