//! The plugin's config, and what the host tells of its limits and grants.

use super::bindings::wasi::config::store::{get, get_all};
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

/// Reads a key of the host, one that begins with `mcp-host/`. An older host has none.
pub fn reserved(key: &str) -> Option<String> {
    get(key).ok().flatten()
}
