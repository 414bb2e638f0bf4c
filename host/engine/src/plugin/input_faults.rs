//! Inputs that make a provider fail: they are refused to the client that sends them, and do not count against the
//! plugin.
//!
//! An *input* is a function of the contract with its arguments, as one client ([`Requester`]) sends it. After
//! [`INPUT_THRESHOLD`] consecutive failures, the input is refused to this client, for one second at first, doubled with
//! each further failure up to [`MAX_REFUSAL`]; then it is tried again. Any answer of the provider to the input ends
//! this. So a document that exhausts the memory is parsed a few times, not as often as a client requests it, and the
//! plugin is free for other clients' calls.
//!
//! Token bucket: each failure also takes a token of its client, which has [`FAILURE_BURST`] at first, and gets one each
//! [`FAILURE_INTERVAL`]. This plugin refuses a client without tokens until it has one, because the client could go on
//! with ever new inputs.
//!
//! Only failures that the input causes count ([`Fault::is_of_input`]), not failures because other calls, of this or
//! other clients, held the memory, the processors, or another resource.
//!
//! An input is at fault only if the plugin is not: neither rule applies until the provider has answered another call,
//! or the [probe](super::call) of the circuit breaker, since the failures began. While the plugin fails for all
//! clients, the circuit breaker suspends it, and no input is blamed.
//!
//! Bounded: [`MAX_INPUTS`] inputs of a plugin, [`MAX_INPUTS_PER_CLIENT`] of a client, as hashes with a key of the
//! process; the oldest is evicted. Each is removed [`MEMORY`] after its last failure. A failure scans the table once,
//! which is cheap compared with a call that took an instance.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use mcp_host_base::backoff::Backoff;
use mcp_host_model::requester::Requester;
use parking_lot::Mutex;

use crate::fault::Fault;
use crate::function::Function;

/// The number of consecutive failures after which an input is refused.
const INPUT_THRESHOLD: u32 = 3;
/// The maximum time for which an input is refused.
const MAX_REFUSAL: Duration = Duration::from_mins(1);
/// The burst of failures that a client may cause.
const FAILURE_BURST: u32 = 20;
/// The time after which a client may cause one more failure.
const FAILURE_INTERVAL: Duration = Duration::from_secs(3);
/// The maximum number of remembered inputs, and of clients, of a plugin.
const MAX_INPUTS: usize = 1024;
/// The maximum number of remembered inputs of one client.
const MAX_INPUTS_PER_CLIENT: usize = 64;
/// The time after its last failure at which an input is removed.
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
    /// The time of the provider's last answer to any call.
    last_answer: Option<Instant>,
}

/// A client and its input, as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InputKey {
    client: u64,
    input: u64,
}

/// An input whose last call failed.
struct FaultyInput {
    /// Consecutive failures.
    failures: u32,
    first: Instant,
    last: Instant,
    /// The back-off for refusals.
    backoff: Backoff,
    refused_until: Instant,
}

/// The failures of one client: a token bucket (generic cell rate algorithm).
struct FailureRate {
    first: Instant,
    /// The theoretical arrival time of the next failure at the allowed rate.
    next: Instant,
}

impl InputKey {
    /// The hash of the client.
    pub(super) fn client(self) -> u64 {
        self.client
    }

    /// The hash of the input.
    pub(super) fn input(self) -> u64 {
        self.input
    }
}

impl InputFaults {
    /// Clears all failures.
    pub(super) fn clear(&self) {
        *self.table.lock() = Table::default();
    }

    /// Returns the key of this client's input.
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

    /// Records an answer of the provider, to an input if there is one.
    pub(super) fn record_answer(&self, key: Option<InputKey>, now: Instant) {
        let mut table = self.table.lock();
        table.last_answer = Some(now);
        if let Some(key) = key {
            table.inputs.remove(&key);
        }
    }

    /// Records that a call failed because of this input.
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
    /// Records a failure of this input.
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

    /// Removes old inputs, and the oldest if there is no room for a new input of this client.
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
        // Removes clients with a full bucket, and the one with the most tokens if there are too many.
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
