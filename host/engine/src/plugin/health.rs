//! Health: whether a loaded plugin fails most of its calls.
//!
//! This is a sliding window: the last [`WINDOW_CALLS`] calls within the last [`WINDOW`]. A plugin is *failing* once at
//! least [`MIN_CALLS`] of them count and half of those failed, until fewer than a quarter failed. This hysteresis keeps
//! a provider that fails every other call from changing its state all the time. Without calls the state does not
//! change: a failing plugin is failing until calls succeed. Each change of the state is logged once.
//!
//! | outcome of a call | counts as |
//! |---|---|
//! | an answer, including that the resource does not exist, or that the request is invalid or denied | success |
//! | a report of the provider that it is unavailable or failed, a trap, a panic, a broken contract, exceeding its own limit, a directory that cannot be opened | failure |
//! | rejected before the provider was called, or failed because other calls held a resource | nothing |
//!
//! A failure caused by one client's input counts once: further failures with the same *cause* do not count once the
//! provider has answered the same function for another input, as in [`input_faults`](super::input_faults). The cause is
//! the input if the provider reports the failure itself. It is the client if the provider exceeds a limit or traps,
//! because the client could go on with ever new inputs. If a plugin answers no client, all of its failures count.
//!
//! A loaded plugin is *untried* until its provider has answered a call besides `describe` and `prepare`
//! ([`Plugin::has_answered`](super::Plugin::has_answered)): a start calls nothing else, so a provider whose calls would
//! all fail looks the same as one that works.
//!
//! A plugin is also failing while one of its grants cannot be used, although its calls may work without the grant: its
//! key-value store ([`FailingCause::Grant`]). This is tried when the plugin is loaded, and known from each use.
//!
//! Bounded: [`WINDOW_CALLS`] outcomes, and [`MAX_CAUSES`] causes as hashes, of which the oldest is evicted.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use mcp_host_base::text::truncate;
use mcp_host_sandbox::grant_usage::UnusableGrant;
use parking_lot::Mutex;

use super::input_faults::InputKey;
use crate::fault::Fault;
use crate::function::FunctionName;

/// The number of calls in the window.
const WINDOW_CALLS: usize = 20;
/// The age at which a call leaves the window.
const WINDOW: Duration = Duration::from_mins(10);
/// The minimum number of calls for a verdict.
const MIN_CALLS: usize = 5;
/// The maximum number of remembered causes.
const MAX_CAUSES: usize = 256;
/// The maximum length of a reason in bytes.
const MAX_REASON: usize = 512;

/// Why a plugin is failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailingCause {
    /// Most of its calls fail.
    Calls,
    /// One of its grants cannot be used.
    Grant,
}

impl FailingCause {
    /// Its name in the administration API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Grant => "grant",
        }
    }
}

/// A plugin that fails most of its calls, or that cannot use a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failing {
    /// The cause.
    pub cause: FailingCause,
    /// Since when it is failing.
    pub since: SystemTime,
    /// The number of calls in the window that failed; none if the cause is a grant.
    pub failed: usize,
    /// The number of calls in the window: at most 20, of the last ten minutes.
    pub calls: usize,
    /// The last failed function, with the reason; or why the grant cannot be used.
    pub reason: String,
}

impl From<UnusableGrant> for Failing {
    fn from(grant: UnusableGrant) -> Self {
        let reason = truncate(grant.reason, MAX_REASON);
        Self { cause: FailingCause::Grant, since: grant.since, failed: 0, calls: 0, reason }
    }
}

/// A change of the state, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HealthChange {
    /// It is failing now.
    Failing(Failing),
    /// It works again.
    Recovered,
}

/// The meaning of a call for the health of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    /// It reported the failure itself.
    Failure,
    /// It failed in a way that its input may have caused.
    FailureOfInput,
    Neither,
}

/// The health of one plugin.
#[derive(Debug, Default)]
pub(super) struct Health {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The end of each call, and whether it failed; the newest is last.
    calls: VecDeque<(Instant, bool)>,
    /// The time of the first failure of each cause.
    causes: HashMap<u64, Instant>,
    /// The time of the last answer to each function.
    answered: HashMap<FunctionName, Instant>,
    failing_since: Option<SystemTime>,
    last_reason: String,
}

impl Health {
    /// Records a call of a function, with a client's input if there is one. Returns a resulting change.
    pub(super) fn record<T>(
        &self,
        function: FunctionName,
        input: Option<InputKey>,
        answer: &Result<T, Fault>,
        now: Instant,
    ) -> Option<HealthChange> {
        // These calls are made when the plugin is loaded or prepared, and are counted separately.
        let outcome = match function {
            FunctionName::Describe | FunctionName::Prepare => Outcome::Neither,
            _ => outcome(answer.as_ref().err()),
        };
        let mut state = self.state.lock();
        match outcome {
            Outcome::Neither => return None,
            Outcome::Success => {
                state.answered.insert(function, now);
            }
            Outcome::Failure | Outcome::FailureOfInput => {
                let cause = match outcome {
                    Outcome::Failure => input.map(InputKey::input),
                    _ => input.map(InputKey::client),
                };
                if cause.is_some_and(|cause| state.is_of_one_cause(function, cause, now)) {
                    return None;
                }
                if let Err(fault) = answer {
                    state.last_reason = truncate(format!("{}: {fault}", function.as_str()), MAX_REASON);
                }
            }
        }
        state.push(outcome != Outcome::Success, now);
        state.change()
    }

    /// Returns the failing state, if it fails most of its calls.
    pub(super) fn failing(&self, now: Instant) -> Option<Failing> {
        let mut state = self.state.lock();
        state.forget(now);
        state.failing()
    }

    /// Returns whether it has answered a call.
    pub(super) fn has_answered(&self) -> bool {
        !self.state.lock().answered.is_empty()
    }

    /// Clears the state.
    pub(super) fn clear(&self) {
        *self.state.lock() = State::default();
    }
}

impl State {
    /// Records a failure of this cause. Returns whether the function was answered since the cause's first failure.
    fn is_of_one_cause(&mut self, function: FunctionName, cause: u64, now: Instant) -> bool {
        if !self.causes.contains_key(&cause) && self.causes.len() >= MAX_CAUSES {
            self.causes.retain(|_, first| now.saturating_duration_since(*first) < WINDOW);
            if self.causes.len() >= MAX_CAUSES {
                let oldest = self.causes.iter().min_by_key(|(_, first)| **first).map(|(cause, _)| *cause);
                oldest.and_then(|oldest| self.causes.remove(&oldest));
            }
        }
        let first = self.causes.entry(cause).or_insert(now);
        if now.saturating_duration_since(*first) >= WINDOW {
            *first = now;
        }
        self.answered.get(&function).is_some_and(|answered| *answered > *first)
    }

    fn push(&mut self, has_failed: bool, now: Instant) {
        self.forget(now);
        if self.calls.len() >= WINDOW_CALLS {
            self.calls.pop_front();
        }
        self.calls.push_back((now, has_failed));
    }

    fn forget(&mut self, now: Instant) {
        while self.calls.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            self.calls.pop_front();
        }
    }

    fn failed(&self) -> usize {
        self.calls.iter().filter(|(_, has_failed)| *has_failed).count()
    }

    fn failing(&self) -> Option<Failing> {
        self.failing_since.map(|since| Failing {
            cause: FailingCause::Calls,
            since,
            failed: self.failed(),
            calls: self.calls.len(),
            reason: self.last_reason.clone(),
        })
    }

    fn change(&mut self) -> Option<HealthChange> {
        let (failed, calls) = (self.failed(), self.calls.len());
        match self.failing_since {
            None if calls >= MIN_CALLS && failed.saturating_mul(2) >= calls => {
                self.failing_since = Some(SystemTime::now());
                self.failing().map(HealthChange::Failing)
            }
            Some(_) if failed.saturating_mul(4) < calls => {
                self.failing_since = None;
                Some(HealthChange::Recovered)
            }
            _ => None,
        }
    }
}

fn outcome(fault: Option<&Fault>) -> Outcome {
    match fault {
        None | Some(Fault::NotFound | Fault::InvalidRequest(_) | Fault::Denied(_)) => Outcome::Success,
        Some(Fault::Unavailable { .. } | Fault::Internal(_) | Fault::Grant(_) | Fault::Host(_)) => Outcome::Failure,
        Some(fault) if fault.is_of_input() => Outcome::FailureOfInput,
        Some(_) => Outcome::Neither,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcp_host_model::principal::Principal;
    use mcp_host_model::requester::Requester;

    use super::super::input_faults::InputFaults;
    use super::*;
    use crate::function::Read;

    struct Calls {
        health: Health,
        inputs: InputFaults,
        now: Instant,
    }

    impl Calls {
        fn new() -> Self {
            Self { health: Health::default(), inputs: InputFaults::default(), now: Instant::now() }
        }

        fn record(&mut self, client: &str, path: &str, answer: Result<(), Fault>) -> Option<HealthChange> {
            self.now += Duration::from_millis(1);
            let requester = Requester::Principal(Principal::new(client));
            let input = self.inputs.key(&requester, &Read { path: Arc::from(path) });
            self.health.record(FunctionName::Read, Some(input), &answer, self.now)
        }

        fn fail(&mut self, client: &str, path: &str) -> Option<HealthChange> {
            self.record(client, path, Err(Fault::Internal("no database".to_owned())))
        }

        fn is_failing(&self) -> bool {
            self.health.failing(self.now).is_some()
        }
    }

    #[test]
    fn a_plugin_that_answers_nothing_is_failing_until_most_calls_succeed_again() {
        let mut calls = Calls::new();
        for _ in 1..MIN_CALLS {
            assert_eq!(calls.fail("ada", "a"), None);
        }
        let Some(HealthChange::Failing(failing)) = calls.fail("ada", "a") else { panic!("it is failing") };
        assert_eq!((failing.failed, failing.calls), (MIN_CALLS, MIN_CALLS));
        assert_eq!(failing.reason, "read: failed: no database");
        assert_eq!(calls.fail("bob", "b"), None, "it is told once");
        let mut answers = 0;
        while calls.record("ada", "a", Ok(())).is_none() {
            assert!(calls.is_failing());
            answers += 1;
        }
        assert!(!calls.is_failing() && answers < WINDOW_CALLS, "{answers}");
    }

    #[test]
    fn it_is_untried_until_it_answers_a_call_that_is_not_made_for_loading() {
        let mut calls = Calls::new();
        calls.health.record::<()>(FunctionName::Describe, None, &Ok(()), calls.now);
        calls.health.record::<()>(FunctionName::Prepare, None, &Ok(()), calls.now);
        calls.fail("ada", "a");
        assert!(!calls.health.has_answered());
        calls.record("ada", "a", Err(Fault::NotFound));
        assert!(calls.health.has_answered(), "that there is no resource is an answer");
        calls.health.clear();
        assert!(!calls.health.has_answered());
    }

    #[test]
    fn an_input_that_fails_while_others_are_answered_counts_once() {
        let mut calls = Calls::new();
        for _ in 0..3 {
            calls.record("ada", "good", Ok(()));
        }
        for _ in 0..100 {
            assert_eq!(calls.fail("ada", "bad"), None);
            assert_eq!(calls.record("bob", "good", Err(Fault::NotFound)), None);
        }
        assert!(!calls.is_failing());
    }

    #[test]
    fn one_client_with_ever_new_inputs_that_exhaust_a_limit_counts_once() {
        let mut calls = Calls::new();
        calls.record("ada", "good", Ok(()));
        for number in 0..100 {
            calls.record("mallory", &number.to_string(), Err(Fault::Memory(1)));
            calls.record("ada", "good", Ok(()));
        }
        assert!(!calls.is_failing());
        for client in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
            for _ in 0..3 {
                calls.record(client, "any", Err(Fault::Trap("x".to_owned())));
            }
        }
        assert!(calls.is_failing(), "it fails for everybody");
    }

    #[test]
    fn what_was_rejected_before_the_provider_was_called_says_nothing() {
        let mut calls = Calls::new();
        for _ in 0..100 {
            for fault in
                [Fault::QueueFull(1), Fault::RateLimited(WINDOW), Fault::Suspended(WINDOW), Fault::MemoryInUse(1)]
            {
                calls.record("ada", "a", Err(fault));
            }
        }
        assert!(!calls.is_failing());
    }

    #[test]
    fn without_calls_it_stays_as_it_was_and_the_next_answer_ends_it() {
        let mut calls = Calls::new();
        for _ in 0..MIN_CALLS {
            calls.fail("ada", "a");
        }
        calls.now += WINDOW;
        let failing = calls.health.failing(calls.now).unwrap();
        assert_eq!((failing.failed, failing.calls), (0, 0));
        assert_eq!(calls.record("ada", "a", Ok(())), Some(HealthChange::Recovered));
    }
}
