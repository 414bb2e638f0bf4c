//! How plugins are: loaded or not, set aside or not, and what went wrong with them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::plugin::{FaultKind, LoadError, NotLoaded, PluginSlot};
use crate::uri::Mount;

/// How a plugin is at one moment.
#[derive(Debug)]
pub struct PluginStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The URI prefix that it owns.
    pub mount: Mount,
    /// Whether it can be asked.
    pub state: PluginState,
    /// How often something went wrong with it since it was loaded, by kind. Kinds of which there was nothing are not in it.
    pub faults: BTreeMap<FaultKind, u64>,
}

/// Whether a plugin can be asked.
#[derive(Debug)]
pub enum PluginState {
    /// It is asked.
    Ready,
    /// It is being loaded, which may take a compiler a while. The others are served without it.
    Loading,
    /// It could not be loaded. The others are served without it. What may pass by itself, such as a provider that took too long
    /// to describe itself, is tried again with back-off.
    LoadFailed(Arc<LoadError>),
    /// It kept failing. It is tried again with the first call that comes after so long.
    Suspended(Duration),
}

impl PluginStatus {
    pub(super) fn new(slot: &PluginSlot) -> Self {
        let (state, faults) = match &slot.plugin {
            Ok(plugin) => (plugin.suspended_for().map_or(PluginState::Ready, PluginState::Suspended), plugin.faults()),
            Err(NotLoaded::Loading) => (PluginState::Loading, BTreeMap::new()),
            Err(NotLoaded::Failed { error, .. }) => (PluginState::LoadFailed(error.clone()), BTreeMap::new()),
        };
        Self { name: slot.name.clone(), mount: slot.mount.clone(), state, faults }
    }
}
