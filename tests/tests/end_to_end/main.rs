//! End to end: the real binary with real components, seen as clients see it.
//!
//! One executable, so that all tests share the processors from the first to the last; each module is one subject.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod access;
mod bad_input;
mod broken;
mod cli;
mod conformance;
mod cursors;
mod git;
mod golden;
mod http;
mod inspector;
mod lifecycle;
mod listings;
mod notes;
mod other_clients;
mod protocol;
mod subscriptions;
mod unruly;
mod walks;
