//! Tests of the module as its users see it: one file for each thing that can be asked of it, and the properties.

use super::*;

mod mounts;
mod paths;
mod prefixes;
mod properties;
mod routes;
mod templates;

/// Parses a mount that is one.
fn mount(text: &str) -> Mount {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A router in which each mount stands for itself.
fn router(mounts: &[&'static str]) -> Router<&'static str> {
    Router::new(mounts.iter().map(|text| (mount(text), *text))).unwrap_or_else(|error| panic!("{error}"))
}
