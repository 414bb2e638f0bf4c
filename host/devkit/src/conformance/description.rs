//! Checks of the component's description of itself, and of its imports.

use mcp_host_base::text::Excerpt;
use mcp_host_engine::function::Describe;
use mcp_host_engine::plugin::{Capability, GrantStatus, Inspection};

use super::{Check, Session, advice};

/// The maximum length of name, version and title that a host keeps, in bytes.
const MAX_NAME: usize = 1024;

pub(super) async fn check(session: &mut Session<'_>, inspection: &Inspection) {
    if let Err(error) = &inspection.info {
        session.report.problem(Check::Describe, format!("without grants: {error}"));
    }
    let info = match session.call("describe", Describe).await {
        Ok(info) => info,
        Err(none) => return none.report(session, Check::Describe, "`describe`"),
    };
    for (what, value) in [("name", &info.name), ("version", &info.version)] {
        if value.trim().is_empty() {
            session.report.problem_with(Check::Describe, format!("its {what} is empty"), advice::DESCRIBE_NAME);
        }
        if value.len() > MAX_NAME {
            let (len, value) = (value.len(), Excerpt(value));
            session.report.problem_with(
                Check::Describe,
                format!("its {what} has {len} bytes, of which hosts keep {MAX_NAME}: `{value}`"),
                advice::DESCRIBE_NAME,
            );
        }
    }
    if info.description.is_none() {
        session.report.note(Check::Describe, "it has no description, which tells people and models what it serves");
    }
}

/// Checks the imports at the end, when the used grants are known.
pub(super) fn check_imports(session: &mut Session<'_>) {
    let plugin = session.plugin();
    let mut requirements = plugin.requirements().clone();
    requirements.record_denied_buckets(plugin.denied_buckets());
    for need in requirements.iter() {
        let names = need.imports.join(", ");
        match (need.status, need.warning()) {
            (GrantStatus::Unused, Some(warning)) => session.report.note(Check::Imports, warning),
            // A provider may work without the grant. If it does not, another check has failed.
            (GrantStatus::Missing, Some(warning)) if need.granted.is_empty() => {
                session.report.note(Check::Imports, warning);
            }
            (_, Some(warning)) => session.report.problem(Check::Imports, warning),
            (GrantStatus::Unsupported, None) => session.report.note(
                Check::Imports,
                format!("it imports {names}, which always refuse; runtimes of languages import them by themselves"),
            ),
            (GrantStatus::NotGranted, None) if need.capability == Capability::Directories => session.report.note(
                Check::Imports,
                format!(
                    "it imports {names} and is granted no directory; runtimes of languages import them by themselves"
                ),
            ),
            _ => {}
        }
    }
}
