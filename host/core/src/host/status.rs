//! The status of plugins: loaded, suspended, and their faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_engine::plugin::{FaultKind, LoadError};
use mcp_host_model::digest::Digest;
use mcp_host_model::uri::Mount;

use crate::catalog::{NotLoaded, PluginSlot};
use crate::response_cache::CacheCounts;

/// The status of a plugin at one moment.
#[derive(Debug)]
#[non_exhaustive]
pub struct PluginStatus {
    /// Its name in the config.
    pub name: String,
    /// The URI prefix that it owns.
    pub mount: Mount,
    /// Its state.
    pub state: PluginState,
    /// The digest of the component that is served; none for a native provider.
    pub digest: Option<Digest>,
    /// The number of faults since it was loaded, by kind. Kinds without faults are left out.
    pub faults: BTreeMap<FaultKind, u64>,
    /// How often responses were in the [response cache](mcp_host_config::Server::response_cache) since it was loaded.
    pub cached_responses: CacheCounts,
}

/// Whether a plugin is served.
#[derive(Debug)]
#[non_exhaustive]
pub enum PluginState {
    /// It is served.
    Ready,
    /// It is being loaded; compilation can take a while. The others are served without it.
    Loading,
    /// It could not be loaded. The others are served without it. A transient failure, such as a timeout of `describe`,
    /// is retried with back-off.
    LoadFailed(Arc<LoadError>),
    /// The circuit breaker is open. The first call after this time is preceded by a probe.
    Suspended(Duration),
}

impl PluginStatus {
    pub(super) fn new(slot: &PluginSlot) -> Self {
        let digest = slot.plugin.as_ref().ok().and_then(|plugin| plugin.digest());
        let (state, faults) = match &slot.plugin {
            Ok(plugin) => (plugin.suspended_for().map_or(PluginState::Ready, PluginState::Suspended), plugin.faults()),
            Err(NotLoaded::Loading) => (PluginState::Loading, BTreeMap::new()),
            Err(NotLoaded::Failed { error, .. }) => (PluginState::LoadFailed(error.clone()), BTreeMap::new()),
        };
        let cached_responses =
            slot.plugin.as_ref().map_or_else(|_| CacheCounts::default(), |plugin| plugin.response_cache_counts());
        Self { name: slot.name.clone(), mount: slot.mount.clone(), state, digest, faults, cached_responses }
    }
}
