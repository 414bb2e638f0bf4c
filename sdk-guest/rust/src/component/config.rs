//! The plugin's config, from the host.

use super::bindings::wasi::config::store::get_all;
use crate::{Config, Failure, Result};

/// What the host says in `wasi:config/store`.
///
/// # Errors
///
/// [`Failure::Internal`] when the host cannot say.
pub fn config() -> Result<Config> {
    get_all().map(Config::from_pairs).map_err(|error| Failure::internal(format!("the config cannot be had: {error}")))
}
