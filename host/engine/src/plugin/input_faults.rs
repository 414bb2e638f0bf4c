//! Inputs that make a provider fail: refused to the client that sends them, and not counted against the plugin.
//!
//! An *input* is a function of the contract with its arguments, as one client ([`Requester`]) sends it. After
//! [`INPUT_THRESHOLD`] consecutive failures of an input it is refused to that client, for one second at first, doubled
//! with each further failure up to [`MAX_REFUSAL`]; then it is tried again. An answer of the provider to it, of whatever kind, ends
//! that. So a document that exhausts the memory is parsed a few times, not as often as a client asks for it, and
//! other clients' calls have the plugin meanwhile.
//!
//! Each failure also takes a token of its client: [`FAILURE_BURST`] at first, and a further one each [`FAILURE_INTERVAL`].
//! A client without tokens is refused by this plugin until it has one: it would otherwise go on with ever new inputs.
//!
//! Only what follows from the input counts ([`Fault::is_of_input`]): not that other calls, of the client or of others, held the
//! memory, had the processors, or what the call waited for.
//!
//! An input is at fault only if the plugin is not: neither rule applies before the provider has answered something else
//! since the failures began, another call or the [probe](super::call) of the circuit breaker. While the plugin
//! fails for everybody, the circuit breaker is what suspends it, and nobody's input is blamed.
//!
//! Bounded: [`MAX_INPUTS`] of a plugin, [`MAX_INPUTS_PER_CLIENT`] of a client, as hashes with a key of the process; the
//! oldest goes first. Each is forgotten [`MEMORY`] after its last failure. A failure looks through the table once, beside
//! a call that took an instance.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use mcp_host_base::backoff::Backoff;
use mcp_host_model::requester::Requester;
use parking_lot::Mutex;

use super::fault::Fault;
use crate::function::Function;

/// Consecutive failures of an input after which it is refused.
const INPUT_THRESHOLD: u32 = 3;
/// The longest time for which an input is refused.
const MAX_REFUSAL: Duration = Duration::from_mins(1);
/// The failures that a client may cause at once.
const FAILURE_BURST: u32 = 20;
/// The time after which a client may cause a further one.
const FAILURE_INTERVAL: Duration = Duration::from_secs(3);
/// Inputs and clients of a plugin that are remembered.
const MAX_INPUTS: usize = 1024;
/// Inputs of one client that are remembered.
const MAX_INPUTS_PER_CLIENT: usize = 64;
/// The time after its last failure at which an input is forgotten.
const MEMORY: Duration = Duration::from_mins(10);

/// The inputs of one plugin that made it fail.
#[derive(Default)]
pub(super) struct InputFaults {
    hasher: RandomState,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    inputs: HashMap<InputKey, FaultyInput>,
    clients: HashMap<u64, FailureRate>,
    /// The last answer of the provider to any call.
    last_answer: Option<Instant>,
}

/// A client and its input, as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InputKey {
    client: u64,
    input: u64,
}

/// An input that failed the last time.
struct FaultyInput {
    /// Consecutive failures.
    failures: u32,
    first: Instant,
    last: Instant,
    /// The times for which it is refused.
    backoff: Backoff,
    refused_until: Instant,
}

/// The failures of one client: the generic cell rate algorithm.
struct FailureRate {
    first: Instant,
    /// The theoretical time of the next failure, if they came at the allowed rate.
    next: Instant,
}

impl InputKey {
    /// The hash of the client.
    pub(super) fn client(self) -> u64 {
        self.client
    }

    /// The hash of both.
    pub(super) fn input(self) -> u64 {
        self.input
    }
}

impl InputFaults {
    /// Forgets all failures.
    pub(super) fn clear(&self) {
        *self.table.lock() = Table::default();
    }

    /// Returns the key of what that client sends.
    pub(super) fn key(&self, client: &Requester, function: &impl Function) -> InputKey {
        InputKey { client: self.hasher.hash_one(client), input: self.hash_input(client, function) }
    }

    fn hash_input<F: Function>(&self, client: &Requester, function: &F) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(F::NAME.as_str().as_bytes());
        hasher.write_u64(self.hasher.hash_one(client));
        function.hash_input(&mut hasher);
        hasher.finish()
    }

    /// Checks that an input is not refused.
    pub(super) fn check(&self, key: InputKey, now: Instant) -> Result<(), Fault> {
        let table = self.table.lock();
        let has_answered_since = |first| table.last_answer.is_some_and(|last| last > first);
        if let Some(input) = table.inputs.get(&key) {
            let left = input.refused_until.saturating_duration_since(now);
            if input.failures >= INPUT_THRESHOLD && !left.is_zero() && has_answered_since(input.first) {
                return Err(Fault::FaultyInput(left));
            }
        }
        if let Some(rate) = table.clients.get(&key.client) {
            let burst = FAILURE_INTERVAL.saturating_mul(FAILURE_BURST);
            let left = rate.next.saturating_duration_since(now).saturating_sub(burst);
            if !left.is_zero() && has_answered_since(rate.first) {
                return Err(Fault::FaultyInputs(left));
            }
        }
        Ok(())
    }

    /// Records that the provider answered, to the input if there is one.
    pub(super) fn record_answer(&self, key: Option<InputKey>, now: Instant) {
        let mut table = self.table.lock();
        table.last_answer = Some(now);
        if let Some(key) = key {
            table.inputs.remove(&key);
        }
    }

    /// Records that a call failed because of that input.
    pub(super) fn record_failure(&self, key: InputKey, now: Instant) {
        let mut table = self.table.lock();
        table.record_input(key, now);
        let rate = table.clients.entry(key.client).or_insert(FailureRate { first: now, next: now });
        if rate.next <= now {
            *rate = FailureRate { first: now, next: now };
        }
        rate.next = rate.next.checked_add(FAILURE_INTERVAL).unwrap_or(now);
    }
}

impl Table {
    /// Records a failure of that input.
    fn record_input(&mut self, key: InputKey, now: Instant) {
        self.make_room(key, now);
        let input = self.inputs.entry(key).or_insert(FaultyInput {
            failures: 0,
            first: now,
            last: now,
            backoff: Backoff::up_to(MAX_REFUSAL),
            refused_until: now,
        });
        input.failures = input.failures.saturating_add(1);
        input.last = now;
        if input.failures >= INPUT_THRESHOLD {
            input.refused_until = now.checked_add(input.backoff.next_delay()).unwrap_or(now);
        }
    }

    /// Forgets what is old, and the oldest if a new input of that client would be one too many.
    fn make_room(&mut self, new: InputKey, now: Instant) {
        if self.inputs.contains_key(&new) {
            return;
        }
        self.inputs.retain(|_, input| now.saturating_duration_since(input.last) < MEMORY);
        let of_client = self.inputs.keys().filter(|key| key.client == new.client).count();
        let is_client_full = of_client >= MAX_INPUTS_PER_CLIENT;
        if is_client_full || self.inputs.len() >= MAX_INPUTS {
            let candidates = self.inputs.iter().filter(|(key, _)| !is_client_full || key.client == new.client);
            let oldest = candidates.min_by_key(|(_, input)| input.last).map(|(key, _)| *key);
            oldest.and_then(|oldest| self.inputs.remove(&oldest));
        }
        // Of clients the ones that have all of their tokens, and the one that has most of them if there are too many.
        self.clients.retain(|_, rate| rate.next > now);
        if self.clients.len() >= MAX_INPUTS {
            let oldest = self.clients.iter().min_by_key(|(_, rate)| rate.next).map(|(client, _)| *client);
            oldest.and_then(|oldest| self.clients.remove(&oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::function::Read;
    use mcp_host_model::principal::Principal;

    fn key(faults: &InputFaults, client: &str, path: &str) -> InputKey {
        faults.key(&Requester::Principal(Principal::new(client)), &Read { path: Arc::from(path) })
    }

    fn fail(faults: &InputFaults, key: InputKey, times: u32, now: Instant) {
        for _ in 0..times {
            faults.record_failure(key, now);
        }
    }

    #[test]
    fn an_input_that_fails_repeatedly_is_refused_to_its_client_alone_and_tried_again_later() {
        let (faults, start) = (InputFaults::default(), Instant::now());
        let bomb = key(&faults, "ada", "bomb");
        fail(&faults, bomb, INPUT_THRESHOLD - 1, start);
        let mut now = start + Duration::from_millis(1);
        faults.record_answer(None, now);
        assert_eq!(faults.check(bomb, now), Ok(()));
        fail(&faults, bomb, 1, now);
        for expected in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
            let Err(Fault::FaultyInput(left)) = faults.check(bomb, now) else { panic!("it is refused") };
            assert!((0.89..1.11).contains(&(left.as_secs_f64() / expected)), "{left:?} for {expected}");
            for (client, path) in [("bob", "bomb"), ("ada", "good")] {
                assert_eq!(faults.check(key(&faults, client, path), now), Ok(()), "{client} {path}");
            }
            now += left;
            assert_eq!(faults.check(bomb, now), Ok(()));
            fail(&faults, bomb, 1, now);
        }
        faults.record_answer(Some(bomb), now);
        assert_eq!(faults.check(bomb, now), Ok(()));
    }

    #[test]
    fn no_input_is_blamed_before_the_plugin_has_answered_something_since() {
        let (faults, start) = (InputFaults::default(), Instant::now());
        faults.record_answer(None, start);
        let (bomb, now) = (key(&faults, "ada", "bomb"), start + Duration::from_millis(1));
        fail(&faults, bomb, 100, now);
        assert_eq!(faults.check(bomb, now), Ok(()));
        faults.record_answer(None, now + Duration::from_millis(1));
        assert!(matches!(faults.check(bomb, now), Err(Fault::FaultyInput(_))));
    }

    #[test]
    fn a_client_with_many_faulty_inputs_is_throttled_and_the_table_is_bounded() {
        let (faults, start) = (InputFaults::default(), Instant::now());
        let later = start + Duration::from_millis(1);
        for number in 0..=FAILURE_BURST {
            faults.record_failure(key(&faults, "ada", &number.to_string()), start);
        }
        faults.record_answer(None, later);
        let (new, other) = (key(&faults, "ada", "new"), key(&faults, "bob", "new"));
        assert!(matches!(faults.check(new, later), Err(Fault::FaultyInputs(left)) if left <= FAILURE_INTERVAL));
        assert_eq!(faults.check(other, later), Ok(()));
        assert_eq!(faults.check(new, start + FAILURE_INTERVAL), Ok(()));
        for client in 0..100 {
            for number in 0..=MAX_INPUTS_PER_CLIENT {
                faults.record_failure(key(&faults, &client.to_string(), &number.to_string()), start);
            }
        }
        let table = faults.table.lock();
        assert!(table.inputs.len() <= MAX_INPUTS && table.clients.len() <= MAX_INPUTS);
        let of_first = table.inputs.keys().filter(|key| key.client == new.client).count();
        assert!(of_first <= MAX_INPUTS_PER_CLIENT);
    }
}
