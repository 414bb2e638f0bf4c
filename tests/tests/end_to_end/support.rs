//! Helpers shared by several subjects.

pub(crate) mod proptest_config;
pub(crate) mod user_server;
pub(crate) mod wasm_fixtures;
pub(crate) mod watcher;
