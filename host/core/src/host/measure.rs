//! The values that metrics and the administration API read from a host.

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
    /// Returns the call counts of each loaded plugin, by duration. The counts survive a reload that replaces the
    /// plugin.
    pub fn call_counts(&self) -> Vec<(String, CallCounts)> {
        let now = self.generation.load();
        now.plugins().map(|plugin| (plugin.name().to_owned(), plugin.metrics().counts())).collect()
    }

    /// Counters for metrics.
    pub(crate) fn counters(&self) -> &HostCounters {
        &self.counters
    }

    /// The number of requests in flight.
    pub(crate) fn requests_running(&self) -> usize {
        self.requests.len()
    }

    /// Returns the numbers of resource updates and of listing updates that subscribers have taken.
    pub fn updates_taken(&self) -> (u64, u64) {
        self.hub.updates_taken()
    }

    /// The use of the audit log.
    pub(crate) fn audit_usage(&self) -> AuditUsage {
        self.audit.usage()
    }

    /// The counters of polls for changes.
    pub(crate) fn poll_metrics(&self) -> &PollMetrics {
        self.hub.poll_metrics()
    }

    /// Returns the maximum number of concurrent compilers, and the counters of compilations.
    pub(crate) fn compile_metrics(&self) -> (usize, &CompileMetrics) {
        (self.plugin_runtime.compilers(), self.plugin_runtime.compile_metrics())
    }

    /// The loads of plugins.
    pub(crate) fn load_counts(&self) -> &LoadCounts {
        self.plugin_runtime.load_counts()
    }

    /// Returns how often a plugin with this name was loaded, and how often loading failed for each reason.
    pub fn loads_of(&self, plugin: &str) -> (u64, BTreeMap<&'static str, u64>) {
        self.load_counts().of(plugin)
    }

    /// Returns the plugins of one generation with their states, and the resource use of the loaded ones. Blocks,
    /// because it reads buckets.
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
