//! What `check --json` prints.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::{CheckState, PluginCheck};
use crate::cli::provider::Provider;
use crate::cli::requirements::{self, RequirementReport};

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct CheckReport<'a> {
    plugins: Vec<PluginReport<'a>>,
    /// What should be looked at in the config as a whole.
    warnings: &'a [String],
}

/// One plugin. What is not known of one that is not loaded is null.
#[derive(Serialize)]
struct PluginReport<'a> {
    name: &'a str,
    mount: &'a str,
    component: &'a Path,
    /// What the component is.
    digest: Option<String>,
    /// Whether the config has its digest.
    pinned: bool,
    /// `ok`, `failing` or `not-loaded`.
    state: &'static str,
    /// Null if it works.
    error: Option<String>,
    provider: Option<Provider<'a>>,
    /// How many are on the first page of its listing.
    first_page_items: Option<usize>,
    /// What went wrong with it meanwhile, by kind.
    faults: Option<BTreeMap<&'static str, u64>>,
    requirements: Option<Vec<RequirementReport<'a>>>,
    warnings: Vec<String>,
}

impl<'a> CheckReport<'a> {
    pub(super) fn new(all: &'a [PluginCheck<'_>], warnings: &'a [String]) -> Self {
        Self { plugins: all.iter().map(PluginReport::new).collect(), warnings }
    }
}

impl<'a> PluginReport<'a> {
    fn new(one: &'a PluginCheck<'_>) -> Self {
        let (state, first_page_items) = match one.state {
            CheckState::LoadFailed(_) => ("not-loaded", None),
            CheckState::StoreFailed(..) | CheckState::ListingFailed(..) => ("failing", None),
            CheckState::Ok(_, items) => ("ok", Some(items)),
        };
        let loaded = one.loaded();
        Self {
            name: one.plugin.name.as_str(),
            mount: one.plugin.mount.as_str(),
            component: &one.plugin.component,
            digest: loaded.map(|loaded| loaded.digest().to_string()),
            pinned: one.plugin.digest.is_some(),
            state,
            error: one.error(),
            provider: loaded.map(|loaded| loaded.info().into()),
            first_page_items,
            faults: loaded
                .map(|loaded| loaded.faults().into_iter().map(|(kind, count)| (kind.name(), count)).collect()),
            requirements: loaded.map(|loaded| requirements::report(loaded.requirements())),
            warnings: one.warnings(),
        }
    }
}
