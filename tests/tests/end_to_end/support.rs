//! Helpers that several subjects share.

pub(crate) mod proptest_config;
pub(crate) mod wasm_fixtures;
