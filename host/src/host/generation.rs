//! What requests work with, as one value that never changes.
//!
//! A request takes the generation of the moment at its beginning and keeps it to its end, so a reload in between does not
//! concern it. One that was replaced goes away with the last request that works with it; how long that takes is bounded by
//! the limits of its plugins.

use std::sync::Arc;

use crate::access::Access;
use crate::config::{self, Config};
use crate::plugin::{NotLoaded, Plugin, PluginSlot};
use crate::uri::{Overlap, Router};

/// What requests work with.
#[derive(Clone)]
pub(super) struct Generation {
    /// The number of the config: the first is 1.
    pub(super) number: u64,
    /// What is served. Its plugins are those of `slots`, be they loaded or not.
    pub(super) config: Arc<Config>,
    /// In the order of their names.
    pub(super) slots: Vec<PluginSlot>,
    /// From mounts to indices into `slots`.
    pub(super) router: Arc<Router<usize>>,
    pub(super) access: Arc<Access>,
}

impl Generation {
    /// A generation of the plugins of that config, each of which is as `state` says.
    pub(super) fn new(
        number: u64,
        config: Arc<Config>,
        access: Arc<Access>,
        mut state: impl FnMut(&config::Plugin) -> Result<Arc<Plugin>, NotLoaded>,
    ) -> Result<Self, Overlap> {
        let router = build_router(&config)?;
        let slots = sorted_by_name(&config).into_iter().map(|plugin| PluginSlot {
            name: plugin.name.as_str().to_owned(),
            mount: plugin.mount.clone(),
            title: plugin.title.clone(),
            plugin: state(plugin),
        });
        Ok(Self { number, slots: slots.collect(), router, access, config })
    }

    /// The same with another state of that plugin. None if it has no such plugin that is not loaded.
    pub(super) fn with_plugin(&self, plugin: &config::Plugin, state: Result<Arc<Plugin>, NotLoaded>) -> Option<Self> {
        let index = self.slots.iter().position(|slot| slot.name == plugin.name.as_str())?;
        let is_of_this = self.config.plugins.contains(plugin);
        let mut next = self.clone();
        let slot = next.slots.get_mut(index).filter(|slot| is_of_this && slot.plugin.is_err())?;
        slot.plugin = state;
        Some(next)
    }

    /// The plugins that did load.
    pub(super) fn plugins(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        self.slots.iter().filter_map(|slot| slot.plugin.as_ref().ok())
    }

    /// The names of the plugins.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|slot| slot.name.as_str())
    }

    /// The plugin of that name.
    pub(super) fn slot(&self, name: &str) -> Option<&PluginSlot> {
        self.slots.iter().find(|slot| slot.name == name)
    }

    /// The names of the plugins that are being loaded.
    pub(super) fn loading(&self) -> impl Iterator<Item = &str> {
        let loading = self.slots.iter().filter(|slot| matches!(slot.plugin, Err(NotLoaded::Loading)));
        loading.map(|slot| slot.name.as_str())
    }
}

/// The plugins of a config in the order of their names.
pub(super) fn sorted_by_name(config: &Config) -> Vec<&config::Plugin> {
    let mut plugins: Vec<_> = config.plugins.iter().collect();
    plugins.sort_by_key(|plugin| plugin.name.as_str());
    plugins
}

/// From the mounts of a config to the places of its plugins in the order of their names.
pub(super) fn build_router(config: &Config) -> Result<Arc<Router<usize>>, Overlap> {
    let routes = sorted_by_name(config).into_iter().enumerate().map(|(index, plugin)| (plugin.mount.clone(), index));
    Router::new(routes).map(Arc::new)
}
