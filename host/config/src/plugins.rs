//! The plugins of a config: a list without conflicts.

use std::ops::Deref;

use mcp_host_model::uri::Mount;

use super::diagnostic::Diagnostic;
use super::plugin::{Plugin, PluginName};
use super::reader::{DeclaredPlugin, FromNode, Node, ReadContext, Schema};
use super::search;

/// Plugins with unique names and mounts that do not overlap, in insertion order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugins(Vec<Plugin>);

/// A conflict between two plugins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginConflict {
    /// Both have the same name.
    #[error("two plugins are named `{0}`")]
    Name(PluginName),
    /// The mounts overlap: they are equal, or one is a prefix of the other.
    #[error("the mounts `{mount}` of plugin `{plugin}` and `{other_mount}` of plugin `{other}` overlap")]
    Mount {
        /// The later plugin.
        plugin: PluginName,
        /// The later plugin's mount.
        mount: Mount,
        /// The earlier plugin.
        other: PluginName,
        /// The earlier plugin's mount.
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
    /// The plugin conflicts with an existing plugin, and is not added.
    pub fn add(&mut self, plugin: Plugin) -> Result<(), PluginConflict> {
        if let Some(clash) = self.0.iter().flat_map(|earlier| PluginConflict::conflicts(&plugin, earlier)).next() {
            return Err(clash);
        }
        self.0.push(plugin);
        Ok(())
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Plugin> {
        self.0.iter_mut()
    }

    /// Adds plugins whose conflicts have been reported.
    pub(super) fn with(mut self, more: Vec<Plugin>) -> Self {
        self.0.extend(more);
        self
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
            pin(item, &mut plugin);
            Some(plugin)
        };
        let plugins = items.iter().filter_map(read).collect();
        declare(node.context, &items);
        Some(Self(plugins))
    }
}

/// Pins a plugin to the locked digest of its reference.
fn pin(node: &Node<'_>, plugin: &mut Plugin) {
    let locked = node.context.declared.borrow().locked.get(&plugin.component).copied();
    match (locked, plugin.digest) {
        (Some(locked), Some(written)) if locked != written => {
            let problem = Diagnostic::new(
                format!("the component is locked as {locked}, which is not this digest"),
                "remove `digest`: what comes from a registry is pinned by the lock",
            );
            node.context.report(problem.at(node.entry_span("digest")));
        }
        (Some(locked), _) => plugin.digest = Some(locked),
        (None, _) => {}
    }
}

/// Compares the names and mounts of the entries of a list with each other and with an earlier list, even if other parts
/// of an entry are invalid.
pub(super) fn declare(context: &ReadContext<'_>, items: &[Node<'_>]) {
    let mut declared = std::mem::take(&mut context.declared.borrow_mut().plugins);
    for item in items.iter().map(DeclaredPlugin::new) {
        for earlier in &declared {
            item.report_conflicts(context, earlier);
        }
        declared.push(item);
    }
    if declared.iter().any(|plugin| plugin.is_searched) {
        declared.iter_mut().for_each(|plugin| plugin.report_reserved_mount(context));
    }
    let mut names = context.declared.borrow_mut();
    names.mounts = declared.iter().filter_map(|plugin| plugin.mount.clone()).collect();
    names.plugins = declared;
}

impl DeclaredPlugin {
    fn new(node: &Node<'_>) -> Self {
        Self {
            name: node.parse_entry::<PluginName>("name").map(|name| name.to_string()),
            name_span: node.entry_span("name"),
            mount: node.parse_entry("mount"),
            mount_span: node.entry_span("mount"),
            is_searched: node.has_entry("search"),
            is_compared: false,
        }
    }

    /// Reports the conflicts with an earlier entry.
    fn report_conflicts(&self, context: &ReadContext<'_>, earlier: &Self) {
        let name = |plugin: &Self| plugin.name.as_ref()?.parse::<PluginName>().ok();
        let (own, other) = (name(self), name(earlier));
        if let Some(name) = own.clone().filter(|_| own == other) {
            let message = PluginConflict::Name(name).to_string();
            let problem = Diagnostic::new(message, "give each plugin and each upstream a name of its own")
                .at(self.name_span.clone());
            context.report(problem.secondary(earlier.name_span.clone(), "the other one"));
        }
        if let (Some(mount), Some(other_mount)) = (&self.mount, &earlier.mount)
            && mount.overlaps(other_mount)
        {
            let message = match (own, other) {
                (Some(plugin), Some(other)) => {
                    let (mount, other_mount) = (mount.clone(), other_mount.clone());
                    PluginConflict::Mount { plugin, mount, other, other_mount }.to_string()
                }
                _ => format!("the mounts `{mount}` and `{other_mount}` overlap"),
            };
            let help = "give each plugin and each upstream a mount that neither is nor begins with another's";
            let problem = Diagnostic::new(message, help).at(self.mount_span.clone());
            context.report(problem.secondary(earlier.mount_span.clone(), "the other one"));
        }
    }

    /// Reports a mount with a scheme that is reserved for search.
    fn report_reserved_mount(&mut self, context: &ReadContext<'_>) {
        if std::mem::replace(&mut self.is_compared, true) {
            return;
        }
        let Some(mount) = &self.mount else { return };
        let Some(scheme) = search::SCHEMES.iter().find(|scheme| mount.as_str().starts_with(**scheme)) else { return };
        let message = format!("the mount `{mount}` has the scheme `{scheme}`, which search uses");
        let help = "give the plugin another scheme, or remove every table `search`";
        context.report(Diagnostic::new(message, help).at(self.mount_span.clone()));
    }
}
