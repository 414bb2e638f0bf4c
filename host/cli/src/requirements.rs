//! The imports of a component compared with the grants, for `check` and `inspect`.

use mcp_host_engine::plugin::{self, Capability, GrantStatus, Needs, Requirements};
use serde::Serialize;

use super::table::Cell;

/// One capability, for programs.
#[derive(Debug, Serialize)]
pub(super) struct RequirementReport<'a> {
    capability: &'static str,
    /// Null if the capability needs no grant.
    grant: Option<&'static str>,
    imports: &'a [String],
    granted: &'a [String],
    status: String,
}

impl<'a> From<&'a plugin::Requirement> for RequirementReport<'a> {
    fn from(need: &'a plugin::Requirement) -> Self {
        Self {
            capability: need.capability.name(),
            grant: need.capability.key(),
            imports: &need.imports,
            granted: &need.granted,
            status: need.status.name().replace(' ', "-"),
        }
    }
}

/// All capabilities, for programs.
pub(super) fn report(requirements: &Requirements) -> Vec<RequirementReport<'_>> {
    requirements.iter().map(RequirementReport::from).collect()
}

/// One row per capability that takes a grant: its name, imports, grants, and status. If the provider declares its
/// needs, imports that are neither declared nor granted are left out: the runtime of its language has them. The row of
/// the config is left out if the config has no keys and the provider requires none.
pub(super) fn rows<'r>(
    requirements: &'r Requirements,
    asked: Option<&'r Needs>,
) -> impl Iterator<Item = [Cell; 4]> + use<'r> {
    let is_shown = move |need: &&plugin::Requirement| match need.status {
        GrantStatus::NotRequired => false,
        // Every SDK imports this interface.
        GrantStatus::NotGranted if need.capability == Capability::Config => false,
        GrantStatus::NotGranted => asked.is_none_or(|needs| needs.asks_for(need.capability)),
        _ => true,
    };
    requirements.iter().filter(is_shown).map(|need| {
        [
            Cell::verbatim(need.capability.key().unwrap_or(need.capability.name())),
            Cell::optional(package(need)),
            Cell::optional(granted(need).as_deref()),
            status_cell(need.status),
        ]
    })
}

/// The common package of the imports.
fn package(need: &plugin::Requirement) -> Option<&str> {
    need.imports.first()?.split(['/', '@']).next()
}

/// The grants, abbreviated.
fn granted(need: &plugin::Requirement) -> Option<String> {
    let first = need.granted.first()?;
    Some(match need.granted.len().saturating_sub(1) {
        0 => first.clone(),
        more => format!("{first} +{more}"),
    })
}

fn status_cell(status: GrantStatus) -> Cell {
    match status {
        GrantStatus::Missing | GrantStatus::Unused => Cell::warning(status.name()),
        _ => Cell::text(status.name()),
    }
}
