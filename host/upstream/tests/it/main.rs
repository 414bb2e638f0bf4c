//! The client of upstreams against servers that answer as the tests say.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod access_tokens;
mod answers;
mod floods;
mod hostile;
mod http;
mod identities;
mod programs;
mod scripted;
mod updates;
mod walks;
