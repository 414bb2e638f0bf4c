//! A build without the feature `upstream`: a config with an `[[upstream]]` is refused before anything is started.

use mcp_host_config::{Plugin, UpstreamCommand};
use mcp_host_engine::plugin::PluginRuntime;

/// The launcher of upstreams' programs: not in this build.
#[derive(Debug, Default)]
pub(in crate::host) struct Programs(());

#[allow(clippy::unused_self, reason = "as with the feature")]
impl Programs {
    pub(in crate::host) fn unusable_grants(&self, _: &Plugin, _: &UpstreamCommand) -> Vec<String> {
        Vec::new()
    }

    pub(in crate::host) fn lacks(&self, _: &UpstreamCommand) -> Vec<String> {
        Vec::new()
    }

    pub(in crate::host) fn connect_upstreams(self, _: &mut PluginRuntime) {}
}
