//! Tests of the library as an application uses it: its public items only.
//!
//! One executable, because each links the whole host; each module is one subject. A test that needs a separate process
//! has a separate executable: `no_compiler.rs` of `host/core`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod mounted;
mod native_provider;
mod response_cache;
mod search;
mod streams;
mod views;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mcp_resource_host::engine::{Engine, EngineOptions};

/// The timeout of all waits, longer than any operation takes.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the engine that all tests share, except tests of engines.
fn engine() -> Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(EngineOptions::new().max_instances(2).worker_threads(2)).unwrap()).clone()
}
