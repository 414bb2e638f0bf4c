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
mod chance;
mod cli;
mod conformance;
mod crooked;
mod cursors;
mod directories;
mod extensions;
mod extreme_answers;
mod git;
mod golden;
mod health;
mod heavy;
mod http;
mod http_cache;
mod http_grant;
mod inspect;
mod inspector;
mod keyvalue;
mod lifecycle;
mod limits;
mod listings;
mod made;
mod model;
mod notes;
mod noticing;
mod other_clients;
mod pools;
mod protocol;
mod reload;
mod subscriptions;
mod unruly;
mod walks;
mod watching;
