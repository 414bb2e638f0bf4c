//! Tests of the config file: golden files of its errors, and its JSON Schema.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod config_errors;
mod config_schema;
