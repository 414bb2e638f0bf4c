//! What metrics, and the administration API, read of a host.

use std::collections::BTreeMap;

use mcp_host_engine::CompileMetrics;
use mcp_host_engine::plugin::{CallCounts, LoadCounts};

use super::{Host, PluginState};
use crate::audit::AuditUsage;
use crate::counters::HostCounters;
use crate::metrics::MeasuredPlugin;
use crate::watch::PollMetrics;

/// The state of a plugin, as metrics have it.
pub(crate) struct MeasuredState {
    pub(crate) plugin: String,
    pub(crate) state: &'static str,
    pub(crate) is_required: bool,
}

impl Host {
    /// Returns the numbers of calls of each loaded plugin, by duration. They go on when a reload replaces the plugin.
    pub fn call_counts(&self) -> Vec<(String, CallCounts)> {
        let now = self.generation.load();
        now.plugins().map(|plugin| (plugin.name().to_owned(), plugin.metrics().counts())).collect()
    }

    /// What is counted for metrics only.
    pub(crate) fn counters(&self) -> &HostCounters {
        &self.counters
    }

    /// The number of requests in flight.
    pub(crate) fn requests_running(&self) -> usize {
        self.requests.len()
    }

    /// The number of updates of resources, and of the listing, that subscribers have taken.
    pub fn updates_taken(&self) -> (u64, u64) {
        self.hub.updates_taken()
    }

    /// The use of the audit log.
    pub(crate) fn audit_usage(&self) -> AuditUsage {
        self.audit.usage()
    }

    /// What is counted of polls for changes.
    pub(crate) fn poll_metrics(&self) -> &PollMetrics {
        self.hub.poll_metrics()
    }

    /// The number of compilers that may run at once, and what is counted of compilations.
    pub(crate) fn compile_metrics(&self) -> (usize, &CompileMetrics) {
        (self.plugin_runtime.compilers(), self.plugin_runtime.compile_metrics())
    }

    /// The loads of plugins.
    pub(crate) fn load_counts(&self) -> &LoadCounts {
        self.plugin_runtime.load_counts()
    }

    /// Returns how often a plugin of that name was loaded, and how often that failed for each reason.
    pub fn loads_of(&self, plugin: &str) -> (u64, BTreeMap<&'static str, u64>) {
        self.load_counts().of(plugin)
    }

    /// Returns the plugins of one generation: each with its state, and those that are loaded with what they use. Blocks, as buckets are
    /// read.
    pub(crate) fn plugins_to_measure(&self) -> (Vec<MeasuredState>, Vec<MeasuredPlugin>) {
        let now = self.generation.load();
        let is_required =
            |name: &str| now.config.plugins.iter().any(|plugin| plugin.required && plugin.name.as_str() == name);
        let states = now.slots.iter().map(|slot| MeasuredState {
            plugin: slot.name.clone(),
            state: PluginState::of(slot).name(),
            is_required: is_required(&slot.name),
        });
        let plugins = now.plugins().map(|plugin| MeasuredPlugin {
            usage: plugin.usage(),
            buckets: plugin.bucket_usage(),
            poll_lag: self.hub.poll_lag(plugin.mount()),
            shared_polls: self.hub.shared_polls(plugin.mount()),
            plugin: plugin.clone(),
        });
        (states.collect(), plugins.collect())
    }
}

impl PluginState {
    /// Its name in metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Loading => "loading",
            Self::LoadFailed(_) => "failed",
            Self::Unreachable(_) => "unreachable",
            Self::Suspended(_) => "suspended",
            Self::Failing(_) => "failing",
            Self::Disabled(_) => "disabled",
        }
    }
}
