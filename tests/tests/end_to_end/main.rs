//! End-to-end tests: the real binary with real components, observed by clients.
//!
//! One executable, so that all tests share the processors from start to end. Each module has one subject.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod clients;
mod five_minutes;
mod http;
mod languages;
mod new_project;
mod operations;
mod protocol;
mod providers;
mod recorded_session;
mod registries;
mod robustness;
mod sandbox;
mod search;
mod subscriptions;
mod support;
mod upstreams;
mod upstreams_authorization;
mod upstreams_conformance;
mod upstreams_exchange;
mod upstreams_features;
mod upstreams_hostile;
mod upstreams_identities;
mod upstreams_limits;
mod upstreams_listings;
mod upstreams_official;
mod upstreams_operations;
mod upstreams_programs;
mod upstreams_subscriptions;
