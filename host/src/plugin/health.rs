//! Health: whether a plugin keeps failing, and is better left alone for a while.
//!
//! A call *fails* when the provider brings it about that there is no answer: a trap, a limit on time, memory or size, a broken
//! contract. What it answers itself, failures of the contract included, is an answer; refusals of the host (too many calls, no
//! place) say nothing of it either way.
//!
//! After [`PATIENCE`] failures in a row, with no answer among them, the next call is preceded by a *trial*: the host itself
//! asks for the first entry of the provider's listing, which every provider must answer. If the trial is answered, the failures
//! were the affair of what was asked for, and the plugin goes on. If it fails, the plugin is *set aside*: its calls are refused
//! at once, for a time that grows with each failed trial (`backoff`). When the time is over, the next call is again preceded by a trial, one at a
//! time, while others are refused still. Any answer ends it all.
//!
//! ```text
//!            PATIENCE failures                  trial fails
//!   well ───────────────────────▶ suspect ─────────────────────▶ set aside ──┐ trial fails:
//!    ▲                               │                              │  ▲     │ twice as long
//!    └────────── trial or any other call is answered ◀──────────────┘  └─────┘
//! ```
//!
//! Clients' calls decide only that a trial is made, never how it ends. So nobody can have a plugin set aside for all by asking,
//! however often, for the one resource that makes it trap; all that gets is one short listing more in [`PATIENCE`] calls.
//! The price is that a plugin that lists but answers no read is not set aside: its calls fail one by one, within their limits.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::backoff;
use super::fault::Fault;

/// Failures in a row before the plugin is tried.
pub(super) const PATIENCE: u32 = 5;
/// When to come again while a trial is under way.
const DURING_TRIAL: Duration = Duration::from_secs(1);

/// The health of one plugin.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Course>);

#[derive(Debug, Default)]
struct Course {
    /// Failures in a row.
    failures: u32,
    aside: Option<Aside>,
    is_tried: bool,
}

#[derive(Clone, Copy, Debug)]
struct Aside {
    until: Instant,
    pause: Duration,
}

/// Whether a call may be made.
pub(super) enum Leave<'a> {
    /// It may.
    Granted,
    /// It may, if this trial is answered.
    AfterTrial(Trial<'a>),
    /// Not for so long.
    Refused(Duration),
}

/// What a call says of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// It answers.
    Answered,
    /// It fails.
    Failed,
    /// Nothing.
    Nothing,
}

impl<T> From<&Result<T, Fault>> for Sign {
    fn from(answer: &Result<T, Fault>) -> Self {
        match answer {
            Err(fault) if fault.is_failure() => Self::Failed,
            Err(fault) if !fault.is_answer() => Self::Nothing,
            _ => Self::Answered,
        }
    }
}

/// A change that is worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is set aside for so long, from now on or once more.
    SetAside(Duration),
    /// It is back.
    Back,
}

impl Health {
    /// Asks for leave to make a call.
    pub(super) fn leave(&self, now: Instant) -> Leave<'_> {
        let mut course = self.course();
        let left = course.aside.map(|aside| aside.until.saturating_duration_since(now));
        match left {
            Some(left) if !left.is_zero() => return Leave::Refused(left),
            Some(_) if course.is_tried => return Leave::Refused(DURING_TRIAL),
            None if course.failures < PATIENCE || course.is_tried => return Leave::Granted,
            _ => course.is_tried = true,
        }
        Leave::AfterTrial(Trial { health: self })
    }

    /// Takes note of how a call went that is not a trial.
    pub(super) fn note(&self, sign: Sign) -> Option<Change> {
        let mut course = self.course();
        match sign {
            Sign::Answered => course.recovered(),
            Sign::Failed => {
                course.failures = course.failures.saturating_add(1);
                None
            }
            Sign::Nothing => None,
        }
    }

    /// For how long it is set aside still; zero when the next call will be preceded by a trial.
    pub(super) fn set_aside(&self, now: Instant) -> Option<Duration> {
        self.course().aside.map(|aside| aside.until.saturating_duration_since(now))
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Course {
    fn recovered(&mut self) -> Option<Change> {
        self.failures = 0;
        self.aside.take().map(|_| Change::Back)
    }
}

/// The right to make the one trial. Dropped without a result, another may be made.
pub(super) struct Trial<'a> {
    health: &'a Health,
}

impl Trial<'_> {
    /// Says how it went: whether calls may be made now, and what changed.
    pub(super) fn ended(self, sign: Sign, now: Instant) -> (Result<(), Duration>, Option<Change>) {
        let mut course = self.health.course();
        match (sign, course.aside) {
            (Sign::Answered, _) => (Ok(()), course.recovered()),
            // Nobody found out. Whoever was not set aside is not because of that.
            (Sign::Nothing, None) => (Ok(()), None),
            (Sign::Nothing, Some(_)) => (Err(DURING_TRIAL), None),
            (Sign::Failed, before) => {
                let pause = backoff::next(before.map(|before| before.pause));
                let shown = backoff::jittered(pause);
                course.aside = Some(Aside { until: now.checked_add(shown).unwrap_or(now), pause });
                (Err(shown), Some(Change::SetAside(shown)))
            }
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.health.course().is_tried = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(times: u32) -> Health {
        let health = Health::default();
        for _ in 0..times {
            assert!(matches!(health.leave(Instant::now()), Leave::Granted));
            assert_eq!(health.note(Sign::Failed), None);
        }
        health
    }

    fn trial(health: &Health, now: Instant) -> Trial<'_> {
        let Leave::AfterTrial(trial) = health.leave(now) else { panic!("a trial") };
        trial
    }

    fn set_aside(health: &Health, now: Instant) -> Duration {
        let (leave, change) = trial(health, now).ended(Sign::Failed, now);
        assert_eq!(change, Some(Change::SetAside(leave.unwrap_err())));
        leave.unwrap_err()
    }

    #[test]
    fn an_answer_between_failures_makes_a_plugin_well() {
        let health = failed(PATIENCE - 1);
        assert_eq!(health.note(Sign::Answered), None);
        assert_eq!(health.note(Sign::Failed), None);
        assert!(matches!(health.leave(Instant::now()), Leave::Granted));
    }

    #[test]
    fn refusals_of_the_host_count_for_nothing() {
        let health = failed(PATIENCE - 1);
        health.note(Sign::Nothing);
        assert!(matches!(health.leave(Instant::now()), Leave::Granted));
        health.note(Sign::Failed);
        drop(trial(&health, Instant::now()));
    }

    #[test]
    fn a_plugin_that_answers_its_trial_is_not_set_aside() {
        let (health, now) = (failed(PATIENCE), Instant::now());
        assert_eq!(trial(&health, now).ended(Sign::Answered, now), (Ok(()), None));
        assert!(matches!(health.leave(now), Leave::Granted));
        assert_eq!(health.set_aside(now), None);
    }

    #[test]
    fn a_plugin_that_fails_its_trials_is_set_aside_for_longer_and_longer() {
        let (health, mut now) = (failed(PATIENCE), Instant::now());
        let mut expected = backoff::INITIAL;
        for _ in 0..12 {
            let pause = set_aside(&health, now);
            assert!(pause >= expected.mul_f64(0.89) && pause <= expected.mul_f64(1.11), "{pause:?} for {expected:?}");
            assert_eq!(health.set_aside(now), Some(pause));
            assert!(matches!(health.leave(now), Leave::Refused(left) if left == pause));
            now += pause;
            expected = (expected * 2).min(backoff::MAX);
        }
        assert_eq!(expected, backoff::MAX);
        assert_eq!(trial(&health, now).ended(Sign::Answered, now), (Ok(()), Some(Change::Back)));
        assert!(matches!(health.leave(now), Leave::Granted));
        let again = failed(PATIENCE);
        assert!(set_aside(&again, now) < backoff::INITIAL * 2, "it begins anew");
    }

    #[test]
    fn one_trial_is_made_at_a_time_and_others_are_refused_meanwhile() {
        let (health, now) = (failed(PATIENCE), Instant::now());
        let suspect = trial(&health, now);
        assert!(matches!(health.leave(now), Leave::Granted), "it is not set aside yet");
        drop(suspect);
        let now = now + set_aside(&health, now);
        let running = trial(&health, now);
        assert!(matches!(health.leave(now), Leave::Refused(DURING_TRIAL)));
        drop(running);
        let given_up = trial(&health, now);
        assert_eq!(given_up.ended(Sign::Nothing, now), (Err(DURING_TRIAL), None));
        drop(trial(&health, now));
    }

    #[test]
    fn a_call_that_was_under_way_and_is_answered_ends_it() {
        let (health, now) = (failed(PATIENCE), Instant::now());
        set_aside(&health, now);
        assert_eq!(health.note(Sign::Answered), Some(Change::Back));
        assert!(matches!(health.leave(now), Leave::Granted));
    }
}
