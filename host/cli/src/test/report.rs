//! The report of a test, for people and for programs.

use std::path::Path;

use mcp_host_devkit::conformance::{Check, CheckResult, Outcome, Report};
use serde::Serialize;

use super::file_name;
use crate::diagnostics::JsonFailure;
use crate::error::CliError;
use crate::output::Output;
use crate::provider::{Provider, name_and_version};
use crate::table::{Cell, Table};

/// Prints one line for each check, and the problems with their remedies below.
pub(super) fn print(file: &Path, report: &Report, output: &mut Output<'_>) -> Result<(), CliError> {
    let provider = report.provider.as_ref().map(name_and_version);
    let provider = provider.unwrap_or_else(|| "a component that does not describe itself".to_owned());
    output.text(&format!("{}: {provider}", file_name(file)))?;
    output.line("")?;
    let rows = report.checks().map(|(check, result)| {
        let state = match result.outcome() {
            Outcome::Passed if result.notes.is_empty() => Cell::ok("ok"),
            Outcome::Passed => Cell::ok("ok, with a note"),
            Outcome::Failed => Cell::error("FAILED"),
            Outcome::Skipped(_) => Cell::warning("skipped"),
        };
        let detail = match result.outcome() {
            Outcome::Skipped(reason) => format!("{}: {reason}", check.title()),
            _ => check.title().to_owned(),
        };
        [Cell::verbatim(check.name()), state, Cell::verbatim(&detail)]
    });
    Table::new(["CHECK", "RESULT", "WHAT"]).print(rows.collect(), output)?;
    for (check, result) in report.checks() {
        print_messages(check, result, output)?;
    }
    output.line("")?;
    Ok(output.line(&summary(report))?)
}

/// `20 passed, 1 failed, 2 skipped, in 85 calls`.
pub(crate) fn summary(report: &Report) -> String {
    let count =
        |wanted: fn(Outcome<'_>) -> bool| report.checks().filter(|(_, result)| wanted(result.outcome())).count();
    let passed = count(|outcome| outcome == Outcome::Passed);
    let failed = count(|outcome| outcome == Outcome::Failed);
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    format!("{passed} passed, {failed} failed, {skipped} skipped, in {} calls", report.calls)
}

/// Prints the problems of the failed checks, with their remedies.
pub(crate) fn print_failures(report: &Report, output: &mut Output<'_>) -> Result<(), CliError> {
    let failed = |(_, result): &(Check, &CheckResult)| result.outcome() == Outcome::Failed;
    report.checks().filter(failed).try_for_each(|(check, result)| print_messages(check, result, output))
}

fn print_messages(check: Check, result: &CheckResult, output: &mut Output<'_>) -> Result<(), CliError> {
    let is_failed = result.outcome() == Outcome::Failed;
    if !is_failed && result.notes.is_empty() {
        return Ok(());
    }
    output.line("")?;
    output.line(&format!("{}: {}", check.name(), check.title()))?;
    for advice in result.advice() {
        for problem in result.problems.iter().filter(|problem| problem.advice == advice) {
            output.text(&format!("  problem: {}", problem.message))?;
        }
        output.line(&format!("  to fix:  {advice}"))?;
    }
    if result.more_problems > 0 {
        output.line(&format!("  and {} more problems", result.more_problems))?;
    }
    for note in &result.notes {
        output.text(&format!("  note:    {note}"))?;
    }
    Ok(())
}

/// The output of `--json`.
#[derive(Serialize)]
pub(super) struct JsonReport<'a> {
    passed: bool,
    /// Null if the provider does not describe itself.
    provider: Option<Provider<'a>>,
    digest: Option<String>,
    calls: usize,
    checks: Vec<JsonCheck<'a>>,
    /// The places of failed calls.
    failed_calls: Vec<JsonFailure>,
}

#[derive(Serialize)]
struct JsonCheck<'a> {
    name: &'static str,
    title: &'static str,
    /// `passed`, `failed` or `skipped`.
    outcome: &'static str,
    /// Null unless the check was skipped.
    reason: Option<&'a str>,
    problems: Vec<&'a str>,
    more_problems: usize,
    /// Null unless the check failed.
    advice: Option<String>,
    notes: &'a [String],
}

impl<'a> JsonReport<'a> {
    pub(super) fn new(report: &'a Report, failed_calls: Vec<JsonFailure>) -> Self {
        Self {
            failed_calls,
            passed: report.passed(),
            provider: report.provider.as_ref().map(Into::into),
            digest: report.digest.map(|digest| digest.to_string()),
            calls: report.calls,
            checks: report.checks().map(|(check, result)| JsonCheck::new(check, result)).collect(),
        }
    }
}

impl<'a> JsonCheck<'a> {
    fn new(check: Check, result: &'a CheckResult) -> Self {
        let (outcome, reason) = match result.outcome() {
            Outcome::Passed => ("passed", None),
            Outcome::Failed => ("failed", None),
            Outcome::Skipped(reason) => ("skipped", Some(reason)),
        };
        Self {
            name: check.name(),
            title: check.title(),
            outcome,
            reason,
            problems: result.problems.iter().map(|problem| problem.message.as_str()).collect(),
            more_problems: result.more_problems,
            advice: (outcome == "failed").then(|| result.advice().join("\n")),
            notes: &result.notes,
        }
    }
}
