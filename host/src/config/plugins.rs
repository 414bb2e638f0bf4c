//! The plugins of a config: a list in which no two get in each other's way.

use std::ops::Deref;

use super::error::Problem;
use super::plugin::{Plugin, PluginName};
use super::reader::{FromNode, Node};
use crate::uri::Mount;

/// Plugins whose names differ and whose mounts do not overlap, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugins(Vec<Plugin>);

/// Why two plugins cannot be in one config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Clash {
    /// They have the same name.
    #[error("two plugins are called `{0}`")]
    Name(PluginName),
    /// The mount of one is a prefix of the other's, or the same.
    #[error("the mounts `{mount}` of plugin `{plugin}` and `{other_mount}` of plugin `{other}` overlap")]
    Mount {
        /// The plugin that came second.
        plugin: PluginName,
        /// Its mount.
        mount: Mount,
        /// The plugin that came first.
        other: PluginName,
        /// Its mount.
        other_mount: Mount,
    },
}

impl Clash {
    /// What `plugin` has against an `earlier` one.
    fn between<'p>(plugin: &'p Plugin, earlier: &'p Plugin) -> impl Iterator<Item = Self> + 'p {
        let name = (plugin.name == earlier.name).then(|| Self::Name(plugin.name.clone()));
        let mount = plugin.mount.overlaps(&earlier.mount).then(|| Self::Mount {
            plugin: plugin.name.clone(),
            mount: plugin.mount.clone(),
            other: earlier.name.clone(),
            other_mount: earlier.mount.clone(),
        });
        name.into_iter().chain(mount)
    }

    /// The key whose values are at odds, and what to write instead.
    fn key_and_help(&self) -> (&'static str, &'static str) {
        match self {
            Self::Name(_) => ("name", "give each plugin a name of its own"),
            Self::Mount { .. } => ("mount", "give each plugin a mount that neither is nor begins with another's"),
        }
    }
}

impl Plugins {
    /// Adds a plugin.
    ///
    /// # Errors
    ///
    /// It clashes with one that is there, and is not added.
    pub fn add(&mut self, plugin: Plugin) -> Result<(), Clash> {
        if let Some(clash) = self.0.iter().flat_map(|earlier| Clash::between(&plugin, earlier)).next() {
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
    const WHAT: &'static str = "a list of plugins";

    fn example() -> String {
        format!("[{}]", Plugin::example())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let mut plugins: Vec<(Node<'_>, Plugin)> = Vec::new();
        for item in node.items::<Plugin>()? {
            let Some(plugin) = Plugin::from_node(&item) else { continue };
            for (earlier_item, earlier) in &plugins {
                for clash in Clash::between(&plugin, earlier) {
                    let (key, help) = clash.key_and_help();
                    let problem = Problem::new(clash.to_string(), help).at(item.span_of(key));
                    node.scope.report(problem.beside(earlier_item.span_of(key), "the other one"));
                }
            }
            plugins.push((item, plugin));
        }
        Some(Self(plugins.into_iter().map(|(_, plugin)| plugin).collect()))
    }
}
