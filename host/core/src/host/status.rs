//! The status of plugins: loaded, suspended, and their faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_config::Config;
use mcp_host_engine::plugin::{FaultKind, LoadError, RecentLine, Requirements};
use mcp_host_model::digest::Digest;
use mcp_host_model::uri::Mount;

use super::Host;
use super::administration::Disabled;
use crate::catalog::{NotLoaded, PluginSlot};
use crate::response_cache::{CacheCounts, CacheUsage, CachedPlugin};
use crate::watch::Hub;

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
    /// What its cached responses take.
    pub cache_usage: CacheUsage,
    /// The memory that its calls and idle instances hold, and its limit, in bytes. None unless it is loaded.
    pub memory: Option<(u64, u64)>,
    /// The number of its resources that clients watch.
    pub watched: usize,
    /// Whether it is of the config. Otherwise it is a native one.
    pub is_configured: bool,
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
    /// An administrator disabled it.
    Disabled(Arc<Disabled>),
}

impl Host {
    /// Returns what was logged of a plugin last, oldest first: lines of its guest, and its faults; at most 128, of 32 KiB together.
    /// Empty if it is not loaded.
    pub fn recent_log(&self, plugin: &str) -> Vec<RecentLine> {
        self.of_loaded(plugin, |plugin| plugin.recent_log()).unwrap_or_default()
    }

    /// Returns the imports of a plugin's component, compared with its grants; none if it is not loaded.
    pub fn requirements(&self, plugin: &str) -> Option<Requirements> {
        self.of_loaded(plugin, |plugin| plugin.requirements().clone())
    }

    fn of_loaded<T>(&self, plugin: &str, of: impl FnOnce(&CachedPlugin) -> T) -> Option<T> {
        let now = self.generation.load();
        now.slot(plugin)?.plugin.as_deref().ok().map(of)
    }
}

impl PluginStatus {
    pub(super) fn new(slot: &PluginSlot, hub: &Hub, config: &Config) -> Self {
        let loaded = slot.plugin.as_ref().ok();
        let digest = loaded.and_then(|plugin| plugin.digest());
        Self {
            name: slot.name.clone(),
            mount: slot.mount.clone(),
            state: PluginState::of(slot),
            digest,
            faults: loaded.map(|plugin| plugin.faults()).unwrap_or_default(),
            cached_responses: loaded.map(|plugin| plugin.response_cache_counts()).unwrap_or_default(),
            cache_usage: loaded.map(|plugin| plugin.response_cache_usage()).unwrap_or_default(),
            memory: loaded.map(|plugin| plugin.memory()),
            watched: hub.watched_below(&slot.mount),
            is_configured: config.plugins.iter().any(|plugin| plugin.name.as_str() == slot.name),
        }
    }
}

impl PluginState {
    /// Returns the state of the plugin in a slot.
    pub(super) fn of(slot: &PluginSlot) -> Self {
        match &slot.plugin {
            Ok(plugin) => plugin.suspended_for().map_or(Self::Ready, Self::Suspended),
            Err(NotLoaded::Loading) => Self::Loading,
            Err(NotLoaded::Failed { error, .. }) => Self::LoadFailed(error.clone()),
            Err(NotLoaded::Disabled(disabled)) => Self::Disabled(disabled.clone()),
        }
    }
}
