//! The output of `check --json`.

use std::collections::BTreeMap;

use mcp_resource_host::host::{CheckError, PluginCheck, Tried};
use serde::Serialize;

use crate::confinement::ConfinementReport;
use crate::provider::Provider;
use crate::requirements::{self, RequirementReport};

/// The output of `--json`.
#[derive(Serialize)]
pub(super) struct JsonReport<'a> {
    plugins: Vec<PluginReport<'a>>,
    /// The warnings about the config as a whole.
    warnings: &'a [String],
    /// Findings that may be intended: globs of rules that match no listed resource.
    notes: &'a [String],
    confinement: &'a ConfinementReport,
}

/// One plugin. If the plugin did not load, the unknown fields are null.
#[derive(Serialize)]
struct PluginReport<'a> {
    name: &'a str,
    mount: &'a str,
    component: String,
    /// The digest of the component.
    digest: Option<String>,
    /// Whether the config pins the digest.
    pinned: bool,
    /// `ok`, `failing`, `not-loaded`, `not-asked` (an upstream, offline) or `not-prepared`.
    state: &'static str,
    /// Null if the plugin works.
    error: Option<String>,
    provider: Option<Provider<'a>>,
    /// The number of items on the first page of the listing.
    first_page_items: Option<usize>,
    /// The number of faults during the check, by kind.
    faults: Option<BTreeMap<&'static str, u64>>,
    requirements: Option<Vec<RequirementReport<'a>>>,
    warnings: Vec<String>,
    /// What the provider requires and the plugin is not granted.
    notes: Vec<String>,
}

impl<'a> JsonReport<'a> {
    pub(super) fn new(
        all: &'a [PluginCheck],
        warnings: &'a [String],
        notes: &'a [String],
        confinement: &'a ConfinementReport,
    ) -> Self {
        Self { plugins: all.iter().map(PluginReport::new).collect(), warnings, notes, confinement }
    }
}

impl<'a> PluginReport<'a> {
    fn new(one: &'a PluginCheck) -> Self {
        let state = match &one.outcome {
            Err(CheckError::Load(_)) => "not-loaded",
            Err(_) => "failing",
            Ok(Tried::Nothing) => "not-asked",
            Ok(Tried::Unprepared(_)) => "not-prepared",
            Ok(Tried::Listed(_)) => "ok",
        };
        let provider = one.provider.as_ref();
        let faults =
            provider.map(|provider| provider.faults.iter().map(|(kind, count)| (kind.name(), *count)).collect());
        Self {
            name: one.plugin.name.as_str(),
            mount: one.plugin.mount.as_str(),
            component: one.plugin.source(),
            digest: provider.and_then(|provider| provider.digest).map(|digest| digest.to_string()),
            pinned: one.plugin.digest.is_some(),
            state,
            error: one.outcome.as_ref().err().map(ToString::to_string),
            provider: provider.map(|provider| (&provider.info).into()),
            first_page_items: match one.outcome {
                Ok(Tried::Listed(items)) => Some(items),
                _ => None,
            },
            faults,
            requirements: provider.map(|provider| requirements::report(&provider.requirements)),
            warnings: one.warnings(),
            notes: one.notes(),
        }
    }
}
