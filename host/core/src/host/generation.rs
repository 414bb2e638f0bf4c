//! A generation: an immutable snapshot of everything that requests work with.
//!
//! A request takes the current generation at its start and keeps it to its end, so a reload does not affect
//! it. A replaced generation is dropped with the last request that uses it; the limits of its plugins bound
//! this time.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_host_config::{self as config, Config};
use mcp_host_engine::plugin::{BuiltIn, MountedPlugin, Plugin};
use mcp_host_model::uri::{Mount, Overlap, Router};

use crate::access::Access;
use crate::catalog::{Disabled, NotLoaded, PluginSlot};
use crate::response_cache::CachedPlugin;

/// The native plugins of a host.
pub(super) type NativePlugins = Arc<[Arc<CachedPlugin>]>;

/// A conflict of two plugins of a host, from the config or native.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NativePluginConflict {
    /// Two mounts overlap. Mounts in a config file have been checked for overlaps before.
    #[error(transparent)]
    Mounts(#[from] Overlap),
    /// Two plugins have the same name.
    #[error("two plugins are named `{0}`; every plugin of a host, native or not, needs a name of its own")]
    Names(String),
}

/// A plugin that has a slot in a generation.
enum Declared<'a> {
    Component(&'a config::Plugin),
    Native(&'a Arc<CachedPlugin>),
}

impl<'a> Declared<'a> {
    fn name(&self) -> &'a str {
        match self {
            Self::Component(plugin) => plugin.name.as_str(),
            Self::Native(plugin) => plugin.name(),
        }
    }

    fn title(&self) -> Option<&'a str> {
        match self {
            Self::Component(plugin) => plugin.title.as_deref(),
            Self::Native(plugin) => plugin.title(),
        }
    }

    fn mount(&self) -> &'a Mount {
        match self {
            Self::Component(plugin) => &plugin.mount,
            Self::Native(plugin) => plugin.mount(),
        }
    }
}

/// The config, the plugins, the routes and the rules of one moment.
#[derive(Clone)]
pub(super) struct Generation {
    /// The number of the generation: the first is 1.
    pub(super) number: u64,
    /// The config. `slots` has one slot for each of its plugins and each native plugin, loaded or not.
    pub(super) config: Arc<Config>,
    /// The native plugins, which no reload changes.
    pub(super) native: NativePlugins,
    /// Ordered by name.
    pub(super) slots: Vec<PluginSlot>,
    /// The disabled plugins, by name. They stay disabled even without a slot.
    pub(super) disabled: BTreeMap<String, Arc<Disabled>>,
    /// Whether any plugin is being loaded.
    pub(super) is_loading: bool,
    /// Maps mounts to indices into `slots`.
    pub(super) router: Arc<Router<usize>>,
    pub(super) access: Arc<Access>,
}

impl Generation {
    /// Creates a generation of this config, with the state from `state` for each plugin that is not disabled.
    pub(super) fn new(
        number: u64,
        config: Arc<Config>,
        native: NativePlugins,
        access: Arc<Access>,
        disabled: BTreeMap<String, Arc<Disabled>>,
        mut state: impl FnMut(&config::Plugin) -> Result<Arc<CachedPlugin>, NotLoaded>,
    ) -> Result<Self, NativePluginConflict> {
        let declared = declared(&config, &native)?;
        let router = build_router(&declared)?;
        let slots = declared.into_iter().map(|plugin| PluginSlot {
            name: plugin.name().to_owned(),
            mount: plugin.mount().clone(),
            title: plugin.title().map(str::to_owned),
            plugin: match plugin {
                Declared::Component(plugin) => match disabled.get(plugin.name.as_str()) {
                    Some(disabled) => Err(NotLoaded::Disabled(disabled.clone())),
                    None => state(plugin),
                },
                Declared::Native(plugin) => Ok(plugin.clone()),
            },
        });
        let slots: Vec<_> = slots.collect();
        let is_loading = slots.iter().any(PluginSlot::is_loading);
        Ok(Self { number, slots, disabled, is_loading, router, access, config, native })
    }

    /// Returns a copy in which this plugin is disabled. None if it is disabled already.
    pub(super) fn with_disabled(&self, name: &str, disabled: Arc<Disabled>) -> Option<Self> {
        let mut next = self.clone();
        if next.disabled.contains_key(name) {
            return None;
        }
        next.disabled.insert(name.to_owned(), disabled.clone());
        next.set_state(name, NotLoaded::Disabled(disabled));
        Some(next)
    }

    /// Returns a copy in which this plugin is being loaded instead of disabled. None if it is not disabled.
    pub(super) fn with_enabled(&self, name: &str) -> Option<Self> {
        let mut next = self.clone();
        next.disabled.remove(name)?;
        next.set_state(name, NotLoaded::Loading);
        Some(next)
    }

    fn set_state(&mut self, name: &str, state: NotLoaded) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.name == name) {
            slot.plugin = Err(state);
        }
        self.is_loading = self.slots.iter().any(PluginSlot::is_loading);
    }

    /// Returns a copy with another state of this plugin. None if there is no such plugin, or it is loaded or
    /// disabled.
    pub(super) fn with_plugin(
        &self,
        plugin: &config::Plugin,
        state: Result<Arc<CachedPlugin>, NotLoaded>,
    ) -> Option<Self> {
        let index = self.slots.iter().position(|slot| slot.name == plugin.name.as_str())?;
        let is_of_this = self.config.plugins.contains(plugin);
        let mut next = self.clone();
        let slot = next.slots.get_mut(index).filter(|slot| is_of_this && slot.awaits_loading())?;
        slot.plugin = state;
        next.is_loading = next.slots.iter().any(PluginSlot::is_loading);
        Some(next)
    }

    /// Returns the built-in provider that is mounted at the scheme of a URI or a template, even if its mount
    /// does not own the URI.
    pub(super) fn built_in_of_scheme(&self, uri: &str) -> Option<&Arc<dyn BuiltIn>> {
        fn scheme(uri: &str) -> Option<&str> {
            uri.split_once(':').map(|(scheme, _)| scheme)
        }
        let requested = scheme(uri)?;
        let is_of_scheme = |plugin: &&Arc<CachedPlugin>| {
            plugin.built_in().is_some()
                && scheme(plugin.mount().as_str()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(requested))
        };
        self.native
            .iter()
            .find(is_of_scheme)?
            .built_in()
            .filter(|built_in| built_in.is_mounted(&self.config, &uncached(&self.native)))
    }

    /// The built-in providers, mounted or not.
    fn built_ins(&self) -> impl Iterator<Item = &Arc<dyn BuiltIn>> {
        self.native.iter().filter_map(|plugin| plugin.built_in())
    }

    /// Applies this generation to the built-in providers. Must be called on a tokio runtime.
    pub(super) fn switch_built_ins(&self) {
        let plugins = self.mounted_plugins();
        self.built_ins().for_each(|built_in| built_in.switch_generation(&self.config, &plugins));
    }

    /// All plugins as built-in providers see them, ordered by name.
    pub(super) fn mounted_plugins(&self) -> Vec<MountedPlugin<'_>> {
        let plugins = self.slots.iter().map(|slot| MountedPlugin {
            name: &slot.name,
            mount: &slot.mount,
            loaded: slot.plugin.as_ref().ok().map(|plugin| plugin.uncached()),
        });
        plugins.collect()
    }

    /// Stops the tasks of the built-in providers.
    pub(super) fn shut_down_built_ins(&self) {
        self.built_ins().for_each(|built_in| built_in.shutdown());
    }

    /// The loaded plugins.
    pub(super) fn plugins(&self) -> impl Iterator<Item = &Arc<CachedPlugin>> {
        self.slots.iter().filter_map(|slot| slot.plugin.as_ref().ok())
    }

    /// Divides the memory for cached responses equally among the loaded plugins that may use it.
    pub(super) fn divide_response_cache(&self) {
        let count = self.plugins().filter(|plugin| plugin.caches_responses()).count();
        let total = self.config.server.response_cache.bytes();
        let share = u64::try_from(count).ok().and_then(|count| total.checked_div(count)).unwrap_or_default();
        for plugin in self.plugins() {
            plugin.set_response_cache_capacity(share);
        }
    }

    /// The names of the plugins.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|slot| slot.name.as_str())
    }

    /// The plugin of that name.
    pub(super) fn slot(&self, name: &str) -> Option<&PluginSlot> {
        self.slots.iter().find(|slot| slot.name == name)
    }

    /// Returns a loaded plugin of the config, with its entry there.
    pub(super) fn configured(&self, name: &str) -> Option<(&config::Plugin, &Arc<CachedPlugin>)> {
        let declared = self.config.plugins.iter().find(|plugin| plugin.name.as_str() == name)?;
        Some((declared, self.slot(name)?.plugin.as_ref().ok()?))
    }

    /// The names of the plugins that are being loaded.
    pub(super) fn loading(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().filter(|slot| slot.is_loading()).map(|slot| slot.name.as_str())
    }
}

/// The plugins of a config, ordered by name.
pub(super) fn sorted_by_name(config: &Config) -> Vec<&config::Plugin> {
    let mut plugins: Vec<_> = config.plugins.iter().collect();
    plugins.sort_by_key(|plugin| plugin.name.as_str());
    plugins
}

/// Returns whether the plugins of a config and the native ones can be served together.
pub(super) fn check_conflicts(config: &Config, native: &NativePlugins) -> Result<(), NativePluginConflict> {
    build_router(&declared(config, native)?).map(drop)
}

/// All plugins of a host, ordered by name.
fn declared<'a>(config: &'a Config, native: &'a NativePlugins) -> Result<Vec<Declared<'a>>, NativePluginConflict> {
    let components = config.plugins.iter().map(Declared::Component);
    let mut plugins: Vec<_> = components.chain(mounted(config, native).map(Declared::Native)).collect();
    plugins.sort_by_key(Declared::name);
    let mut neighbors = plugins.iter().zip(plugins.iter().skip(1));
    match neighbors.find(|(one, other)| one.name() == other.name()) {
        Some((one, _)) => Err(NativePluginConflict::Names(one.name().to_owned())),
        None => Ok(plugins),
    }
}

/// The native plugins that are mounted. A built-in provider decides from the config and from all native
/// plugins whether it is mounted.
pub(super) fn mounted<'a>(config: &Config, native: &'a NativePlugins) -> impl Iterator<Item = &'a Arc<CachedPlugin>> {
    let all = uncached(native);
    let is_mounted =
        move |plugin: &&Arc<CachedPlugin>| plugin.built_in().is_none_or(|built_in| built_in.is_mounted(config, &all));
    native.iter().filter(is_mounted)
}

/// Native plugins without their caches.
fn uncached(native: &NativePlugins) -> Vec<&Plugin> {
    native.iter().map(|plugin| &**plugin.uncached()).collect()
}

/// Creates the router, which maps mounts to indices of plugins.
fn build_router(plugins: &[Declared<'_>]) -> Result<Arc<Router<usize>>, NativePluginConflict> {
    let routes = plugins.iter().enumerate().map(|(index, plugin)| (plugin.mount().clone(), index));
    Ok(Arc::new(Router::new(routes)?))
}
