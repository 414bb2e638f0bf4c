//! Programs that try to leave their sandbox, with the launcher as it ships. The tests pass as root and as
//! another user.
//!
//! Tests print the kernel features that are missing for them, and then test nothing.

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
