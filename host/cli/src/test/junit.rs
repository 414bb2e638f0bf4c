//! The report in JUnit's format, for CI systems.

use std::io;
use std::path::Path;

use mcp_host_devkit::conformance::{Check, CheckResult, Outcome, Report};
use quick_junit::{NonSuccessKind, Report as JunitReport, TestCase, TestCaseStatus, TestSuite};

use super::file_name;

/// Returns the document: one suite, with one case for each check.
pub(super) fn to_xml(file: &Path, report: &Report) -> io::Result<String> {
    let mut suite = TestSuite::new(file_name(file));
    suite.add_test_cases(report.checks().map(|(check, result)| test_case(check, result)));
    let mut document = JunitReport::new("mcp-host test");
    document.add_test_suite(suite);
    document.to_string().map_err(io::Error::other)
}

fn test_case(check: Check, result: &CheckResult) -> TestCase {
    let status = match result.outcome() {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Failed => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(check.title()).set_description(failure_text(result));
            status
        }
        Outcome::Skipped(reason) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(reason.to_owned());
            status
        }
    };
    let mut case = TestCase::new(check.name(), status);
    case.set_classname("mcp-host");
    if !result.notes.is_empty() {
        case.set_system_out(result.notes.join("\n"));
    }
    case
}

fn failure_text(result: &CheckResult) -> String {
    let mut lines = Vec::new();
    for advice in result.advice() {
        let problems = result.problems.iter().filter(|problem| problem.advice == advice);
        lines.extend(problems.map(|problem| problem.message.clone()));
        lines.push(format!("to fix: {advice}"));
    }
    lines.extend((result.more_problems > 0).then(|| format!("and {} more problems", result.more_problems)));
    lines.join("\n")
}
