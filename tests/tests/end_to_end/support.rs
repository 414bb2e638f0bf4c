//! Helpers shared by several subjects.

pub(crate) mod proptest_config;
pub(crate) mod wasm_fixtures;
