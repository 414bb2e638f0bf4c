//! The status of plugins: loaded, suspended, and their faults.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_config::Config;
use mcp_host_engine::plugin::{
    Failing, FaultKind, LoadError, Plugin, PluginUsage, PreparationStatus, RecentLine, Requirements,
};
use mcp_host_model::digest::Digest;
use mcp_host_model::provider::{Outage, Programs};
use mcp_host_model::uri::Mount;
use mcp_host_sandbox::grant_usage::BucketUsage;

use super::Host;
use super::builder::MAX_WARNINGS;
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
    /// Whether the provider has answered a call since it was loaded, apart from the calls of loading. Before that, it
    /// is unknown whether a [`Ready`](PluginState::Ready) plugin works.
    pub has_answered: bool,
    /// The number of faults since it was loaded, by kind. Kinds without faults are left out.
    pub faults: BTreeMap<FaultKind, u64>,
    /// How often responses were in the [response cache](mcp_host_config::Server::response_cache), and how often not,
    /// since it was loaded.
    pub cached_responses: CacheCounts,
    /// The memory use of its cached responses.
    pub cache_usage: CacheUsage,
    /// The memory that its calls and idle instances, or the processes of its program, hold, and its limit, in bytes.
    /// None unless it is loaded.
    pub memory: Option<(u64, u64)>,
    /// The progress of its preparation; none if it is not loaded, or its provider does not export `prepare`.
    pub preparation: Option<PreparationStatus>,
    /// The number of warnings about its grants and settings, as [`Host::log_plugin_warnings`] logs them. 0 until its
    /// component was inspected for them. [`Host::plugin_warnings`] returns their texts.
    pub warnings: usize,
    /// The number of its resources that clients watch.
    pub watched: usize,
    /// Whether the config declares it. If not, it is a native plugin.
    pub is_configured: bool,
}

/// Whether a plugin is served.
#[derive(Debug)]
#[non_exhaustive]
pub enum PluginState {
    /// It is served.
    Ready,
    /// It is being loaded; compilation can take a while. Other plugins are served meanwhile.
    Loading,
    /// It could not be loaded. Other plugins are served nevertheless. A transient failure, such as a timeout of
    /// `describe`, is retried with back-off.
    LoadFailed(Arc<LoadError>),
    /// It is loaded, but cannot reach its data: an upstream whose server is gone. It becomes ready again without
    /// intervention.
    Unreachable(Outage),
    /// It is served, but most of its calls fail, or one of its grants cannot be used.
    Failing(Failing),
    /// The circuit breaker is open. The first call after this time is preceded by a probe.
    Suspended(Duration),
    /// An administrator disabled it.
    Disabled(Arc<Disabled>),
}

impl Host {
    /// Returns the last log lines of a plugin, oldest first: lines of its guest, and its faults; at most 128, of 32 KiB
    /// in total. Empty if it is not loaded.
    pub fn recent_log(&self, plugin: &str) -> Vec<RecentLine> {
        self.of_loaded(plugin, |plugin| plugin.recent_log()).unwrap_or_default()
    }

    /// Returns when a plugin last failed to load; none if it never did since the start.
    pub fn last_load_failure(&self, plugin: &str) -> Option<SystemTime> {
        let since_epoch = self.load_counts().last_failure(plugin)?;
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    }

    /// Returns for how long the current config has been served: since the start, or the last successful reload that
    /// changed something.
    pub fn config_served_for(&self) -> Duration {
        let loaded = SystemTime::UNIX_EPOCH.checked_add(self.counters().last_reload.get().unwrap_or_default());
        // The clock may have been set back.
        loaded.and_then(|loaded| loaded.elapsed().ok()).unwrap_or_default()
    }

    /// Returns the needs of a plugin's provider that are not granted, or not configured as required, one line each.
    /// Empty if it is not loaded, or has no needs. May read the component file.
    pub async fn unmet_needs(&self, plugin: &str) -> Vec<String> {
        let now = self.generation.load_full();
        match now.configured(plugin) {
            Some((config, loaded)) => self.plugin_runtime.unmet_needs(loaded.uncached(), config).await,
            None => Vec::new(),
        }
    }

    /// Returns the warnings about a plugin's grants and settings, as [`log_plugin_warnings`](Self::log_plugin_warnings)
    /// logs them. Empty if it is not loaded. May read the component file.
    pub async fn plugin_warnings(&self, plugin: &str) -> Vec<String> {
        let now = self.generation.load_full();
        match now.configured(plugin) {
            Some((config, loaded)) => self.plugin_runtime.warnings(loaded.uncached(), config).await,
            None => Vec::new(),
        }
    }

    /// Logs the warnings about the grants and settings of each plugin that is loaded: now, and each time that plugins
    /// are loaded or replaced, if they differ from the last ones of its name. Each time, at most the first 20 are
    /// logged, and the number of others. Inspects the component of each plugin. Runs until it is dropped.
    pub async fn log_plugin_warnings(&self) {
        let mut replaced = self.generation_store.subscribe();
        let mut logged: HashMap<String, (Weak<Plugin>, Vec<String>)> = HashMap::new();
        loop {
            let now = self.generation.load_full();
            let declared: HashMap<_, _> =
                now.config.plugins.iter().map(|plugin| (plugin.name.as_str(), plugin)).collect();
            logged.retain(|name, _| declared.contains_key(name.as_str()));
            let loaded: Vec<_> = now.plugins().map(|plugin| plugin.uncached()).collect();
            let mut count: usize = 0;
            for plugin in loaded {
                let name = plugin.name();
                let Some(declared) = declared.get(name) else { continue };
                let before = logged.get(name);
                if before.is_some_and(|(known, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(plugin))) {
                    continue;
                }
                let warnings = self.plugin_runtime.warnings(plugin, declared).await;
                if before.is_none_or(|(_, before)| *before != warnings) {
                    for warning in &warnings {
                        count = count.saturating_add(1);
                        if count <= MAX_WARNINGS {
                            tracing::warn!(target: log_target::PLUGIN, plugin = name, "{warning}");
                        }
                    }
                }
                logged.insert(name.to_owned(), (Arc::downgrade(plugin), warnings));
            }
            let more = count.saturating_sub(MAX_WARNINGS);
            if more > 0 {
                tracing::warn!(
                    target: log_target::PLUGIN, "and {more} more warnings about plugins; `mcp-host check` prints them all"
                );
            }
            // An old generation is not kept while waiting.
            drop(declared);
            drop(now);
            // This only fails without a sender, and the host owns the sender.
            if replaced.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns the imports of a plugin's component, compared with its grants and with what its provider asks for; empty
    /// if it is not loaded, or has no component. May read the component file.
    pub async fn requirements(&self, plugin: &str) -> Requirements {
        let now = self.generation.load_full();
        match now.configured(plugin) {
            Some((config, loaded)) => self.plugin_runtime.requirements(loaded.uncached(), config).await,
            None => Requirements::default(),
        }
    }

    /// Returns the programs that an upstream runs; none if it is not loaded, or runs no program.
    pub fn programs(&self, plugin: &str) -> Option<Programs> {
        self.of_loaded(plugin, |plugin| plugin.programs()).flatten()
    }

    /// Returns the current resource use of a plugin's calls, with their limits; none if it is not loaded.
    pub fn usage(&self, plugin: &str) -> Option<PluginUsage> {
        self.of_loaded(plugin, |plugin| plugin.usage())
    }

    /// Returns the size and the limits of a plugin's key-value buckets. Empty if it has none, or they cannot be read.
    /// May read files, and asks NATS for the contents of shared buckets.
    pub async fn bucket_usage(&self, plugin: &str) -> Vec<BucketUsage> {
        let now = self.generation.load_full();
        let loaded = now.slot(plugin).and_then(|slot| slot.plugin.as_ref().ok()).cloned();
        let Some(loaded) = loaded else { return Vec::new() };
        loaded.read_shared_bucket_usage().await;
        // This fails when the runtime shuts down.
        task::spawn_blocking(move || loaded.bucket_usage()).await.unwrap_or_default()
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
        let declared = config.plugins.iter().find(|plugin| plugin.name.as_str() == slot.name);
        let warnings = loaded.zip(declared).map(|(plugin, declared)| plugin.known_warnings(declared).len());
        Self {
            name: slot.name.clone(),
            mount: slot.mount.clone(),
            state: PluginState::of(slot),
            digest,
            has_answered: loaded.is_some_and(|plugin| plugin.has_answered()),
            faults: loaded.map(|plugin| plugin.faults()).unwrap_or_default(),
            cached_responses: loaded.map(|plugin| plugin.response_cache_counts()).unwrap_or_default(),
            cache_usage: loaded.map(|plugin| plugin.response_cache_usage()).unwrap_or_default(),
            memory: loaded.map(|plugin| plugin.memory()),
            preparation: loaded.and_then(|plugin| plugin.preparation()),
            warnings: warnings.unwrap_or_default(),
            watched: hub.watched_below(&slot.mount),
            is_configured: declared.is_some(),
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
