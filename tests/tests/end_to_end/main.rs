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
mod oversized_answers;
mod bad_input;
mod load_failures;
mod proptest_config;
mod cli;
mod conformance;
mod malformed_guests;
mod cursors;
mod backpressure;
mod directories;
mod extensions;
mod extreme_fields;
mod git;
mod golden;
mod guest_log;
mod circuit_breaker;
mod oversized_components;
mod concurrent_subscribers;
mod host_memory;
mod http;
mod http_cache;
mod http_grant;
mod inspect;
mod mcp_inspector;
mod keyvalue;
mod shutdown;
mod limits;
mod merged_listings;
mod loading;
mod wasm_fixtures;
mod hostile_messages;
mod model;
mod notes;
mod directory_events;
mod ts_and_python_clients;
mod instance_reuse;
mod state_and_cache_files;
mod revisions;
mod reload;
mod scheduling;
mod unread_stderr;
mod subscriptions;
mod misbehaving_guests;
mod update_rate;
mod rust_client;
mod facade_subscriptions;
