//! What metrics, and the administration API, read of a host.

use std::sync::Arc;

use mcp_host_engine::plugin::CallCounts;

use super::{Host, PluginState};
use crate::audit::AuditUsage;
use crate::metrics::HostCounters;
use crate::response_cache::CachedPlugin;

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
    pub(crate) fn updates_taken(&self) -> (u64, u64) {
        self.hub.updates_taken()
    }

    /// The use of the audit log.
    pub(crate) fn audit_usage(&self) -> AuditUsage {
        self.audit.usage()
    }

    /// Returns the plugins of one generation: each with its state, and those that are loaded.
    pub(crate) fn plugins_to_measure(&self) -> (Vec<MeasuredState>, Vec<Arc<CachedPlugin>>) {
        let now = self.generation.load();
        let is_required =
            |name: &str| now.config.plugins.iter().any(|plugin| plugin.required && plugin.name.as_str() == name);
        let states = now.slots.iter().map(|slot| MeasuredState {
            plugin: slot.name.clone(),
            state: PluginState::of(slot).name(),
            is_required: is_required(&slot.name),
        });
        (states.collect(), now.plugins().cloned().collect())
    }
}

impl PluginState {
    /// Its name in metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Loading => "loading",
            Self::LoadFailed(_) => "failed",
            Self::Suspended(_) => "suspended",
            Self::Disabled(_) => "disabled",
        }
    }
}
