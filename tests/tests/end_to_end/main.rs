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
mod answers;
mod bad_input;
mod broken;
mod chance;
mod cli;
mod conformance;
mod crooked;
mod cursors;
mod delivery;
mod directories;
mod extensions;
mod extreme_answers;
mod git;
mod golden;
mod guest_log;
mod health;
mod heavy;
mod herds;
mod hoarding;
mod http;
mod http_cache;
mod http_grant;
mod inspect;
mod inspector;
mod keyvalue;
mod lifecycle;
mod limits;
mod listings;
mod loading;
mod made;
mod messages;
mod model;
mod notes;
mod noticing;
mod other_clients;
mod pools;
mod private_files;
mod protocol;
mod reload;
mod scheduling;
mod stderr;
mod subscriptions;
mod unruly;
mod update_rate;
mod walks;
mod watching;
