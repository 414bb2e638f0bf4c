//! Tests of the module's public interface: one file for each kind of operation, and properties.

use super::*;

mod mounts;
mod paths;
mod prefixes;
mod properties;
mod routes;
mod templates;

/// Parses a valid mount.
fn mount(text: &str) -> Mount {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A router in which each mount is its own target.
fn router(mounts: &[&'static str]) -> Router<&'static str> {
    Router::new(mounts.iter().map(|text| (mount(text), *text))).unwrap_or_else(|error| panic!("{error}"))
}
