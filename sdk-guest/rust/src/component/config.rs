//! The plugin's config, read from the host.

use super::bindings::wasi::config::store::get_all;
use crate::{Config, Failure, Result};

/// Reads the config from `wasi:config/store`.
///
/// # Errors
///
/// [`Failure::Internal`] if the host fails to return it.
pub fn config() -> Result<Config> {
    get_all()
        .map(Config::from_pairs)
        .map_err(|error| Failure::internal(format!("cannot read the config from the host: {error}")))
}
