//! What a component imports against what is granted, as `check` and `inspect` show it.

use serde::Serialize;

use super::table::Cell;
use crate::plugin::{self, GrantStatus, Requirements};

/// One kind of imports, for programs.
#[derive(Debug, Serialize)]
pub(super) struct RequirementReport<'a> {
    capability: &'static str,
    /// Null if it needs no grant.
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

/// All of them, for programs.
pub(super) fn report(requirements: &Requirements) -> Vec<RequirementReport<'_>> {
    requirements.iter().map(RequirementReport::from).collect()
}

/// What takes a grant, one kind a row: what it is, what of it is imported, what is granted, how both stand to each other.
pub(super) fn rows(requirements: &Requirements) -> impl Iterator<Item = [Cell; 4]> {
    requirements.iter().filter(|need| need.status != GrantStatus::NotRequired).map(|need| {
        [
            Cell::verbatim(need.capability.key().unwrap_or(need.capability.name())),
            Cell::optional(package(need)),
            Cell::optional(granted(need).as_deref()),
            status_cell(need.status),
        ]
    })
}

/// The package that the imports are of; all are of one.
fn package(need: &plugin::Requirement) -> Option<&str> {
    need.imports.first()?.split(['/', '@']).next()
}

/// What is granted, in a few words.
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
