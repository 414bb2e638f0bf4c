//! The plugins of a config: a list without conflicts.

use std::ops::Deref;

use mcp_host_model::uri::Mount;

use super::error::Diagnostic;
use super::plugin::{Plugin, PluginName};
use super::reader::{FromNode, Node, Schema};
use super::registry::source;
use super::search;

/// Plugins with unique names and mounts that do not overlap, in insertion order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugins(Vec<Plugin>);

/// A conflict between two plugins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginConflict {
    /// They have the same name.
    #[error("two plugins are named `{0}`")]
    Name(PluginName),
    /// Their mounts overlap: one is a prefix of the other, or they are equal.
    #[error("the mounts `{mount}` of plugin `{plugin}` and `{other_mount}` of plugin `{other}` overlap")]
    Mount {
        /// The later plugin.
        plugin: PluginName,
        /// Its mount.
        mount: Mount,
        /// The earlier plugin.
        other: PluginName,
        /// Its mount.
        other_mount: Mount,
    },
}

impl PluginConflict {
    /// Returns the conflicts of `plugin` with an earlier one.
    fn conflicts<'p>(plugin: &'p Plugin, earlier: &'p Plugin) -> impl Iterator<Item = Self> + 'p {
        let name = (plugin.name == earlier.name).then(|| Self::Name(plugin.name.clone()));
        let mount = plugin.mount.overlaps(&earlier.mount).then(|| Self::Mount {
            plugin: plugin.name.clone(),
            mount: plugin.mount.clone(),
            other: earlier.name.clone(),
            other_mount: earlier.mount.clone(),
        });
        name.into_iter().chain(mount)
    }
}

impl Plugins {
    /// Adds a plugin.
    ///
    /// # Errors
    ///
    /// It conflicts with an existing plugin, and is not added.
    pub fn add(&mut self, plugin: Plugin) -> Result<(), PluginConflict> {
        if let Some(clash) = self.0.iter().flat_map(|earlier| PluginConflict::conflicts(&plugin, earlier)).next() {
            return Err(clash);
        }
        self.0.push(plugin);
        Ok(())
    }
}

impl Deref for Plugins {
    type Target = [Plugin];

    fn deref(&self) -> &[Plugin] {
        &self.0
    }
}

impl IntoIterator for Plugins {
    type Item = Plugin;
    type IntoIter = std::vec::IntoIter<Plugin>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'p> IntoIterator for &'p Plugins {
    type Item = &'p Plugin;
    type IntoIter = std::slice::Iter<'p, Plugin>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromNode for Plugins {
    const TYPE_NAME: &'static str = "a list of plugins";

    fn example() -> String {
        format!("[{}]", Plugin::example())
    }

    fn schema() -> Schema {
        Schema::list(Plugin::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let items = node.items::<Plugin>()?;
        let read = |item: &Node<'_>| {
            let mut plugin = Plugin::from_node(item)?;
            source::pin(item, &mut plugin);
            Some(plugin)
        };
        let plugins = items.iter().filter_map(read).collect();
        // Names and mounts are compared even if other parts of an entry are invalid.
        let known: Vec<_> = items.iter().map(PluginIdentity::new).collect();
        for (index, item) in known.iter().enumerate() {
            for earlier in known.iter().take(index) {
                item.report_conflicts(earlier);
            }
        }
        if items.iter().any(|item| item.has_entry("search")) {
            known.iter().for_each(PluginIdentity::report_reserved_mount);
        }
        node.context.declared.borrow_mut().mounts = known.into_iter().filter_map(|plugin| plugin.mount).collect();
        Some(Self(plugins))
    }
}

/// The parts of an entry that are compared with others, as far as they are valid.
struct PluginIdentity<'n, 'a> {
    node: &'n Node<'a>,
    name: Option<PluginName>,
    mount: Option<Mount>,
}

impl<'n, 'a> PluginIdentity<'n, 'a> {
    fn new(node: &'n Node<'a>) -> Self {
        Self { node, name: node.parse_entry("name"), mount: node.parse_entry("mount") }
    }

    /// Reports the conflicts with an earlier entry.
    fn report_conflicts(&self, earlier: &Self) {
        if let (Some(name), Some(other)) = (&self.name, &earlier.name)
            && name == other
        {
            self.report(
                earlier,
                "name",
                PluginConflict::Name(name.clone()).to_string(),
                "give each plugin a name of its own",
            );
        }
        if let (Some(mount), Some(other_mount)) = (&self.mount, &earlier.mount)
            && mount.overlaps(other_mount)
        {
            let message = match (self.name.clone(), earlier.name.clone()) {
                (Some(plugin), Some(other)) => {
                    let (mount, other_mount) = (mount.clone(), other_mount.clone());
                    PluginConflict::Mount { plugin, mount, other, other_mount }.to_string()
                }
                _ => format!("the mounts `{mount}` and `{other_mount}` overlap"),
            };
            self.report(
                earlier,
                "mount",
                message,
                "give each plugin a mount that neither is nor begins with another's",
            );
        }
    }

    /// Reports a mount of a scheme that search uses.
    fn report_reserved_mount(&self) {
        let Some(mount) = &self.mount else { return };
        let Some(scheme) = search::SCHEMES.iter().find(|scheme| mount.as_str().starts_with(**scheme)) else { return };
        let message = format!("the mount `{mount}` has the scheme `{scheme}`, which search uses");
        let help = "give the plugin another scheme, or remove every table `search`";
        self.node.context.report(Diagnostic::new(message, help).at(self.node.entry_span("mount")));
    }

    fn report(&self, earlier: &Self, key: &str, message: String, help: &str) {
        let problem = Diagnostic::new(message, help).at(self.node.entry_span(key));
        self.node.context.report(problem.secondary(earlier.node.entry_span(key), "the other one"));
    }
}
