//! The provider in a world of its own: what it asks of origins and when, what it keeps, and what it answers.

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
mod harness;
mod listing;
mod redirects;
mod store;
