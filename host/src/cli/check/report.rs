//! What `check --json` prints.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::{State, Tried};
use crate::cli::needs::{self, Need};
use crate::cli::provider::Provider;

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    plugins: Vec<Line<'a>>,
    /// What should be looked at in the config as a whole.
    warnings: &'a [String],
}

/// One plugin. What is not known of one that is not loaded is null.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    mount: &'a str,
    component: &'a Path,
    /// What the component is.
    digest: Option<String>,
    /// Whether the config has its digest.
    pinned: bool,
    /// `ok`, `fails` or `not-loaded`.
    state: &'static str,
    /// Null if it works.
    error: Option<String>,
    provider: Option<Provider<'a>>,
    /// How many are on the first page of its listing.
    listed: Option<usize>,
    /// What went wrong with it meanwhile, by kind.
    faults: Option<BTreeMap<&'static str, u64>>,
    needs: Option<Vec<Need<'a>>>,
    warnings: Vec<String>,
}

impl<'a> Report<'a> {
    pub(super) fn of(all: &'a [Tried<'_>], warnings: &'a [String]) -> Self {
        Self { plugins: all.iter().map(Line::of).collect(), warnings }
    }
}

impl<'a> Line<'a> {
    fn of(one: &'a Tried<'_>) -> Self {
        let (state, listed) = match one.state {
            State::NotLoaded(_) => ("not-loaded", None),
            State::NoStore(..) | State::Fails(..) => ("fails", None),
            State::Works(_, listed) => ("ok", Some(listed)),
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
            listed,
            faults: loaded
                .map(|loaded| loaded.faults().into_iter().map(|(kind, count)| (kind.name(), count)).collect()),
            needs: loaded.map(|loaded| needs::report(loaded.needs())),
            warnings: one.warnings(),
        }
    }
}
