//! A build without the feature `cluster`: a config with `[cluster]` is refused before anything is started.

use mcp_host_config::{Config, MissingFeature};

use super::Replicas;

impl Replicas {
    /// Returns no cluster.
    pub(crate) fn from_config(_: &Config) -> Result<Option<Self>, MissingFeature> {
        Ok(None)
    }
}
