//! A build without the feature `search`: it has no built-in provider.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use mcp_host_base::shared_snapshots::SharedSnapshots;
use mcp_host_engine::plugin::NativePlugin;
use prometheus_client::encoding::DescriptorEncoder;

use super::generation_store::GenerationStore;

/// The built-in providers of this build: none.
pub(crate) struct BuiltIns;

#[allow(clippy::unused_self, reason = "as with the feature")]
impl BuiltIns {
    pub(super) fn new(_: Option<PathBuf>, _: Option<SharedSnapshots>) -> Self {
        Self
    }

    pub(super) fn plugins(&self) -> Vec<NativePlugin> {
        Vec::new()
    }

    pub(super) fn connect(&self, _: &Arc<GenerationStore>) {}

    pub(crate) fn encode_metrics(&self, _: &mut DescriptorEncoder<'_>) -> fmt::Result {
        Ok(())
    }
}
