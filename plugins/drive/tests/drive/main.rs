//! The provider with scripted servers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "a test fails by panicking"
)]

mod hostile;
mod server;
mod texts;
