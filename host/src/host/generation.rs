//! A generation: an immutable snapshot of everything that requests work with.
//!
//! A request takes the current generation at its start and keeps it to its end, so a reload in between does not affect
//! it. A replaced generation is dropped with the last request that uses it, a time that is bounded by the limits of its
//! plugins.

use std::sync::Arc;

use crate::access::Access;
use crate::config::{self, Config};
use crate::plugin::{NotLoaded, Plugin, PluginSlot};
use crate::uri::{Overlap, Router};

/// The config, the plugins, the routes and the rules of one moment.
#[derive(Clone)]
pub(super) struct Generation {
    /// The number of the generation: the first is 1.
    pub(super) number: u64,
    /// The config. Its plugins are those of `slots`, loaded or not.
    pub(super) config: Arc<Config>,
    /// Ordered by name.
    pub(super) slots: Vec<PluginSlot>,
    /// From mounts to indices into `slots`.
    pub(super) router: Arc<Router<usize>>,
    pub(super) access: Arc<Access>,
}

impl Generation {
    /// A generation of that config, with the state of each plugin from `state`.
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

    /// A copy with another state of that plugin. None if there is no such plugin, or it is loaded.
    pub(super) fn with_plugin(&self, plugin: &config::Plugin, state: Result<Arc<Plugin>, NotLoaded>) -> Option<Self> {
        let index = self.slots.iter().position(|slot| slot.name == plugin.name.as_str())?;
        let is_of_this = self.config.plugins.contains(plugin);
        let mut next = self.clone();
        let slot = next.slots.get_mut(index).filter(|slot| is_of_this && slot.plugin.is_err())?;
        slot.plugin = state;
        Some(next)
    }

    /// The loaded plugins.
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

/// The plugins of a config, ordered by name.
pub(super) fn sorted_by_name(config: &Config) -> Vec<&config::Plugin> {
    let mut plugins: Vec<_> = config.plugins.iter().collect();
    plugins.sort_by_key(|plugin| plugin.name.as_str());
    plugins
}

/// A router from the mounts of a config to the indices of its plugins, ordered by name.
pub(super) fn build_router(config: &Config) -> Result<Arc<Router<usize>>, Overlap> {
    let routes = sorted_by_name(config).into_iter().enumerate().map(|(index, plugin)| (plugin.mount.clone(), index));
    Router::new(routes).map(Arc::new)
}
