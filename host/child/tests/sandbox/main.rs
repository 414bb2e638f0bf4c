//! Programs that try to leave their sandbox, in the launcher as it ships. They pass as root and as another user.
//!
//! What a kernel lacks is printed by the tests that need it, which then test nothing.

#![cfg(target_os = "linux")]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod confinement;
mod end;
mod files;
mod harness;
mod limits;
mod network;
mod servers;
mod without_namespaces;
