//! A build without the feature `cluster`: a config with `[cluster]` is refused before anything is started.

use std::sync::Arc;

use mcp_host_base::shared_buckets::SharedBuckets;
use mcp_host_base::shared_snapshots::SnapshotStore;
use mcp_host_config::{Config, MissingFeature};

use super::Replicas;

/// Returns no shared buckets.
pub(crate) fn shared_buckets(_: &Config) -> Result<Option<Arc<dyn SharedBuckets>>, MissingFeature> {
    Ok(None)
}

/// Returns no store of snapshots.
pub(crate) fn snapshot_store(_: &Config) -> Result<Option<Arc<dyn SnapshotStore>>, MissingFeature> {
    Ok(None)
}

impl Replicas {
    /// Returns no cluster.
    pub(crate) fn from_config(_: &Config) -> Result<Option<Self>, MissingFeature> {
        Ok(None)
    }
}
