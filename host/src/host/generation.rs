//! What requests work with, as one value that never changes.
//!
//! A request takes the generation of the moment at its beginning and keeps it to its end, so a reload in between does not
//! concern it. One that was replaced goes away with the last request that works with it; how long that takes is bounded by
//! the limits of its plugins.

use std::sync::Arc;

use crate::access::Access;
use crate::catalog::Slot;
use crate::config::{self, Config};
use crate::plugin::{LoadError, Plugin};
use crate::uri::{Overlap, Router};

/// What requests work with.
pub(super) struct Generation {
    /// The first is 1.
    pub(super) number: u64,
    pub(super) config: Arc<Config>,
    /// In the order of their names.
    pub(super) slots: Vec<Slot>,
    /// From mounts to places in `slots`.
    pub(super) router: Router<usize>,
    pub(super) access: Arc<Access>,
}

impl Generation {
    /// A generation of plugins that were loaded, or could not be, in the order of their names.
    pub(super) fn new(
        number: u64,
        config: Arc<Config>,
        loaded: Vec<(&config::Plugin, Result<Arc<Plugin>, LoadError>)>,
        access: Arc<Access>,
    ) -> Result<Self, Overlap> {
        let router = Router::new(loaded.iter().enumerate().map(|(place, (plugin, _))| (plugin.mount.clone(), place)))?;
        let slots = loaded.into_iter().map(|(plugin, loaded)| taken_in(plugin, loaded)).collect();
        Ok(Self { number, slots, router, access, config })
    }

    /// The plugins that did load.
    pub(super) fn plugins(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        self.slots.iter().filter_map(|slot| slot.plugin.as_ref().ok())
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        tracing::debug!(generation = self.number, "nothing works with this generation any more: it is gone");
    }
}

/// The plugins of a config in the order of their names.
pub(super) fn by_name(config: &Config) -> Vec<&config::Plugin> {
    let mut plugins: Vec<_> = config.plugins.iter().collect();
    plugins.sort_by_key(|plugin| plugin.name.as_str());
    plugins
}

fn taken_in(plugin: &config::Plugin, loaded: Result<Arc<Plugin>, LoadError>) -> Slot {
    let name = plugin.name.as_str().to_owned();
    Slot { name, mount: plugin.mount.clone(), plugin: loaded.map_err(Arc::new) }
}
