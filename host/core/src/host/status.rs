//! The status of plugins: loaded, suspended, and their faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mcp_host_config::Config;
use mcp_host_engine::plugin::{
    Failing, FaultKind, LoadError, PluginUsage, PreparationStatus, RecentLine, Requirements,
};
use mcp_host_model::digest::Digest;
use mcp_host_model::provider::{Outage, Programs};
use mcp_host_model::uri::Mount;
use mcp_host_sandbox::grant_usage::BucketUsage;

use super::Host;
use crate::catalog::{Disabled, NotLoaded, PluginSlot};
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
    /// The memory that its calls and idle instances hold, or the processes of its program, and its limit, in bytes. None unless it is loaded.
    pub memory: Option<(u64, u64)>,
    /// How far its preparation is; none if it is not loaded, or its provider does not export `prepare`.
    pub preparation: Option<PreparationStatus>,
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
    /// It is loaded, and cannot reach its data: an upstream whose server is gone. It is ready again by itself.
    Unreachable(Outage),
    /// It is served, and most of its calls fail, or a grant of it cannot be used.
    Failing(Failing),
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

    /// Returns when a plugin could not be loaded last; none if that did not happen since the start.
    pub fn last_load_failure(&self, plugin: &str) -> Option<SystemTime> {
        let since_epoch = self.load_counts().last_failure(plugin)?;
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    }

    /// Returns what the provider of a plugin asks for and is not granted, or not configured as it needs it, a line each. Empty if it is
    /// not loaded, or asks for nothing. The file of its component may be read.
    pub async fn unmet_needs(&self, plugin: &str) -> Vec<String> {
        let now = self.generation.load_full();
        let config = now.config.plugins.iter().find(|config| config.name.as_str() == plugin);
        let loaded = now.slot(plugin).and_then(|slot| slot.plugin.as_ref().ok());
        match (config, loaded) {
            (Some(config), Some(loaded)) => self.plugin_runtime.unmet_needs(loaded.uncached(), config).await,
            _ => Vec::new(),
        }
    }

    /// Returns the imports of a plugin's component, compared with its grants; none if it is not loaded.
    pub fn requirements(&self, plugin: &str) -> Option<Requirements> {
        self.of_loaded(plugin, |plugin| plugin.requirements().clone())
    }

    /// Returns the programs that an upstream runs; none if it is not loaded, or runs none.
    pub fn programs(&self, plugin: &str) -> Option<Programs> {
        self.of_loaded(plugin, |plugin| plugin.programs()).flatten()
    }

    /// Returns what the calls of a plugin use now of what its limits allow; none if it is not loaded.
    pub fn usage(&self, plugin: &str) -> Option<PluginUsage> {
        self.of_loaded(plugin, |plugin| plugin.usage())
    }

    /// Returns what the key-value buckets of a plugin hold, and may hold. Empty if it has none, or that cannot be read. Files may be read.
    pub async fn bucket_usage(&self, plugin: &str) -> Vec<BucketUsage> {
        let now = self.generation.load_full();
        let loaded = now.slot(plugin).and_then(|slot| slot.plugin.as_ref().ok()).cloned();
        let Some(loaded) = loaded else { return Vec::new() };
        // It fails when the runtime shuts down.
        tokio::task::spawn_blocking(move || loaded.bucket_usage()).await.unwrap_or_default()
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
            preparation: loaded.and_then(|plugin| plugin.preparation()),
            watched: hub.watched_below(&slot.mount),
            is_configured: config.plugins.iter().any(|plugin| plugin.name.as_str() == slot.name),
        }
    }
}

impl PluginState {
    /// Returns the state of the plugin in a slot.
    pub(super) fn of(slot: &PluginSlot) -> Self {
        match &slot.plugin {
            Ok(plugin) => {
                let served = || plugin.failing().map_or(Self::Ready, Self::Failing);
                let suspended = || plugin.suspended_for().map_or_else(served, Self::Suspended);
                plugin.outage().map_or_else(suspended, Self::Unreachable)
            }
            Err(NotLoaded::Loading) => Self::Loading,
            Err(NotLoaded::Failed { error, .. }) => Self::LoadFailed(error.clone()),
            Err(NotLoaded::Disabled(disabled)) => Self::Disabled(disabled.clone()),
        }
    }
}
