//! A provider as a component: what `export!` builds on. No part of it is for authors.

pub mod bindings;
#[cfg(target_family = "wasm")]
mod config;
mod convert;
mod guest;

#[cfg(target_family = "wasm")]
pub use config::config;
pub use guest::{Instance, with};
