//! Component glue that `export!` builds on. Not part of the public API.

pub mod bindings;
#[cfg(target_family = "wasm")]
mod config;
mod convert;
mod guest;
pub mod prepare_bindings;

#[cfg(target_family = "wasm")]
pub use config::{config, reserved};
pub use guest::{Instance, with};
