//! The provider with scripted origins: its requests, its store, and its responses.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    reason = "tests"
)]

mod changes;
mod contents;
mod failures;
mod freshness;
mod grants;
mod harness;
mod listing;
mod redirects;
mod store;
