//! The result of a test: one outcome for each check.

use std::collections::BTreeMap;

use mcp_host_config as config;
use mcp_host_engine::plugin::Inspection;
use mcp_host_model::digest::Digest;
use mcp_host_model::provider::ProviderInfo;

use super::Check;

/// The maximum number of messages per check; further ones are only counted.
const MAX_MESSAGES: usize = 5;

/// The advice for a failure of the provider itself, for any check.
const FAILED_BY_ITSELF: &str = "fix what the message says: the provider failed before the property could be \
    checked. `failed call` on standard error says where";
/// The advice for such a failure if grants or settings are not those that the provider asks for.
const NOT_GRANTED: &str = "the notes say where the grants and the config are not what the provider asks for: change \
    them by `--dir`, `--http`, `--keyvalue`, `--sql` and `--set`, or in the config that `--plugin NAME` uses; if it \
    fails nevertheless, fix what the message says";

/// The result of a test.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The provider's description of itself, if it loaded.
    pub provider: Option<ProviderInfo>,
    /// The digest of the component.
    pub digest: Option<Digest>,
    /// The number of calls.
    pub calls: usize,
    /// The differences between what the provider asks for and what it has.
    not_granted: Vec<String>,
    checks: BTreeMap<Check, CheckResult>,
}

/// The result of one check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckResult {
    /// The first few problems.
    pub problems: Vec<Problem>,
    /// The number of further problems.
    pub more_problems: usize,
    /// Observations that are not faults.
    pub notes: Vec<String>,
    /// The reason why the check was skipped, at least in part.
    skipped: Option<String>,
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The finding.
    pub message: String,
    /// The remedy.
    pub advice: &'static str,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'r> {
    /// The check holds.
    Passed,
    /// The check does not hold.
    Failed,
    /// The check was skipped, for this reason.
    Skipped(&'r str),
}

impl CheckResult {
    /// Returns the outcome.
    pub fn outcome(&self) -> Outcome<'_> {
        match &self.skipped {
            _ if !self.problems.is_empty() => Outcome::Failed,
            Some(reason) => Outcome::Skipped(reason),
            None => Outcome::Passed,
        }
    }

    /// Returns the advice for the problems, without duplicates, in their order.
    pub fn advice(&self) -> Vec<&'static str> {
        let mut advice = Vec::new();
        for problem in &self.problems {
            if !advice.contains(&problem.advice) {
                advice.push(problem.advice);
            }
        }
        advice
    }
}

impl Report {
    pub(super) fn new() -> Self {
        let checks = Check::ALL.into_iter().map(|check| (check, CheckResult::default())).collect();
        Self { provider: None, digest: None, calls: 0, not_granted: Vec::new(), checks }
    }

    /// Returns the checks with their results, in order.
    pub fn checks(&self) -> impl Iterator<Item = (Check, &CheckResult)> {
        self.checks.iter().map(|(check, result)| (*check, result))
    }

    /// Returns whether no check failed.
    pub fn passed(&self) -> bool {
        self.failed().next().is_none()
    }

    /// Returns the checks that failed, in order.
    pub fn failed(&self) -> impl Iterator<Item = Check> {
        self.checks().filter(|(_, result)| result.outcome() == Outcome::Failed).map(|(check, _)| check)
    }

    pub(super) fn set_provider(&mut self, inspection: &Inspection, plugin: &config::Plugin) {
        let needs = inspection.needs.as_ref().ok().and_then(Option::as_ref);
        self.not_granted = needs.map(|needs| needs.notes(plugin)).unwrap_or_default();
        self.digest = Some(inspection.digest);
        self.provider = inspection.info.as_ref().ok().cloned();
    }

    /// Records that a check fails because the provider itself failed: a trap, an exception.
    pub(super) fn provider_failure(&mut self, check: Check, message: String) {
        let advice = if self.not_granted.is_empty() { FAILED_BY_ITSELF } else { NOT_GRANTED };
        if self.add_problem(check, message, advice) {
            for note in self.not_granted.clone() {
                self.note(check, note);
            }
        }
    }

    /// Records the usual failure of a check, with the check's own advice.
    pub(super) fn problem(&mut self, check: Check, message: impl Into<String>) {
        self.problem_with(check, message, check.advice());
    }

    /// Records a failure of a check, with specific advice.
    pub(super) fn problem_with(&mut self, check: Check, message: impl Into<String>, advice: &'static str) {
        self.add_problem(check, message.into(), advice);
    }

    /// Returns whether the problem is new.
    fn add_problem(&mut self, check: Check, message: String, advice: &'static str) -> bool {
        let result = self.checks.entry(check).or_default();
        if result.problems.iter().any(|known| known.message == message) {
            return false;
        }
        if result.problems.len() < MAX_MESSAGES {
            result.problems.push(Problem { message, advice });
        } else {
            result.more_problems = result.more_problems.saturating_add(1);
        }
        true
    }

    /// Records an observation that is not a fault.
    pub(super) fn note(&mut self, check: Check, message: impl Into<String>) {
        let result = self.checks.entry(check).or_default();
        let message = message.into();
        if result.notes.len() < MAX_MESSAGES && !result.notes.contains(&message) {
            result.notes.push(message);
        }
    }

    /// Records that checks are skipped: for the reason of another check that was skipped, or else for this one.
    pub(super) fn skip_after(&mut self, other: Check, checks: &[Check], reason: &str) {
        let reason = match self.checks.get(&other).map(CheckResult::outcome) {
            Some(Outcome::Skipped(of_other)) => of_other.to_owned(),
            _ => reason.to_owned(),
        };
        for check in checks {
            self.skip(*check, reason.as_str());
        }
    }

    /// Records that a check is skipped.
    pub(super) fn skip(&mut self, check: Check, reason: impl Into<String>) {
        self.checks.entry(check).or_default().skipped.get_or_insert_with(|| reason.into());
    }

    /// Records that all checks without problems are skipped.
    pub(super) fn skip_rest(&mut self, reason: &str) {
        for check in Check::ALL {
            self.skip(check, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_fits_the_cause() {
        let advice = |report: &Report| {
            let (_, result) = report.checks().find(|(check, _)| *check == Check::Readable).unwrap();
            result.advice()
        };
        let mut report = Report::new();
        report.provider_failure(Check::Readable, "failed: KeyError".to_owned());
        assert_eq!(advice(&report), [FAILED_BY_ITSELF]);
        report.problem(Check::Readable, "it is not found");
        report.problem_with(Check::Readable, "it is another one", "return that one");
        report.problem_with(Check::Readable, "it is yet another one", "return that one");
        assert_eq!(advice(&report), [FAILED_BY_ITSELF, Check::Readable.advice(), "return that one"]);

        let mut report = Report { not_granted: vec!["it asks for `/data`".to_owned()], ..Report::new() };
        report.provider_failure(Check::Readable, "failed: no /data".to_owned());
        assert_eq!(advice(&report), [NOT_GRANTED]);
        assert!(report.checks().any(|(_, result)| result.notes == ["it asks for `/data`"]));
    }

    #[test]
    fn a_problem_outweighs_a_reason_to_skip_and_many_are_counted() {
        let mut report = Report::new();
        assert!(report.passed());
        for number in 0..8 {
            report.problem(Check::Paths, format!("bad {number}"));
            report.problem(Check::Paths, "bad 0");
        }
        report.skip_rest("why not");
        assert_eq!(report.failed().collect::<Vec<_>>(), [Check::Paths]);
        let (_, paths) = report.checks().find(|(check, _)| *check == Check::Paths).unwrap();
        assert_eq!((paths.problems.len(), paths.more_problems), (5, 3));
        assert!(
            report
                .checks()
                .all(|(check, result)| { check == Check::Paths || result.outcome() == Outcome::Skipped("why not") })
        );
    }
}
