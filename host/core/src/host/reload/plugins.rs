//! The other steps of a reload: its plugins.
//!
//! A component file is read only after it has settled: it must be unchanged for [`SETTLE_INTERVAL`], and still be the
//! same after loading. So a file that is being written is not loaded in part. If a writer pauses for longer, the
//! partial component is invalid (its exports are at its end) and does not load.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use mcp_host_config as config;
use mcp_host_engine::plugin::LoadError;
use mcp_host_model::digest::Digest;

use super::super::Host;
use super::super::generation::{Generation, sorted_by_name};
use super::settings::PendingReload;
use super::{ReloadError, ReloadReport};
use crate::catalog::{NotLoaded, PluginSlot};
use crate::response_cache::CachedPlugin;

/// The time for which a changed component file must be unchanged before it is loaded.
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of checks whether it is unchanged.
const MAX_SETTLE_ATTEMPTS: usize = 20;

/// The change of a plugin from the old config to the new one.
enum PluginChange {
    /// It is kept.
    Unchanged(Arc<CachedPlugin>),
    /// It is loaded; a fault ends the reload.
    Load,
    /// It was not loaded before; it is loaded in the background.
    LoadInBackground,
    /// It is disabled, and not loaded.
    Disabled,
}

impl Host {
    /// The other steps of a reload: its plugins.
    pub(super) async fn replace_plugins(&self, pending: PendingReload) -> Result<ReloadReport, ReloadError> {
        let PendingReload { config, access, reload_id, mut report, .. } = pending;
        let old = self.generation.load_full();
        let declared = sorted_by_name(&config);
        let digests = self.read_digests(declared.iter().map(|plugin| plugin.component.clone())).await;
        let changes: Vec<_> = declared.iter().map(|plugin| old.change_of(plugin, &digests)).collect();
        let with_change = |wanted: fn(&PluginChange) -> bool| {
            declared.iter().zip(&changes).filter(move |(_, change)| wanted(change)).map(|(plugin, _)| *plugin)
        };
        // Cancels compilations that this config does not need.
        let used = old.plugins().filter_map(|plugin| plugin.digest());
        self.plugin_runtime.retain(&digests.values().copied().flatten().chain(used).collect());
        let has_failed = |plugin: &config::Plugin| {
            let digest = digests.get(&plugin.component).copied().flatten();
            self.background_loader.has_failed(plugin, digest)
        };
        with_change(|change| matches!(change, PluginChange::LoadInBackground))
            .filter(|plugin| !has_failed(plugin))
            .for_each(|plugin| self.background_loader.start(plugin));

        let files: BTreeSet<_> =
            with_change(|change| matches!(change, PluginChange::Load)).map(|plugin| plugin.component.clone()).collect();
        let stable_digests = self.wait_until_stable(files, digests).await;
        let loading = with_change(|change| matches!(change, PluginChange::Load)).map(|plugin| async {
            let loaded = self.load(plugin, &stable_digests).await;
            (plugin.name.as_str(), loaded)
        });
        let (mut loaded, mut faults) = (HashMap::new(), Vec::new());
        for (name, next) in join_all(loading).await {
            match next? {
                Ok(plugin) => {
                    let is_known = old.slot(name).is_some();
                    let list = if is_known { &mut report.changed } else { &mut report.added };
                    list.push(name.to_owned());
                    loaded.insert(name, plugin);
                }
                Err(error) => faults.push((name.to_owned(), error)),
            }
        }
        if !faults.is_empty() {
            return Err(ReloadError::Plugins(faults));
        }
        for plugin in with_change(|change| matches!(change, PluginChange::Disabled)) {
            let name = plugin.name.as_str();
            match old.slot(name) {
                Some(_) if old.config.plugins.contains(plugin) => {}
                Some(_) => report.changed.push(name.to_owned()),
                None => report.added.push(name.to_owned()),
            }
        }
        let names: HashSet<_> = declared
            .iter()
            .map(|plugin| plugin.name.as_str())
            .chain(old.native.iter().map(|plugin| plugin.name()))
            .collect();
        report.removed = old.names().filter(|name| !names.contains(name)).map(str::to_owned).collect();
        if !report.replaces_plugins() {
            return Ok(report);
        }
        if !report.replaces_settings() {
            report.generation = old.number.saturating_add(1);
        }

        let unchanged: Vec<_> = changes
            .iter()
            .filter_map(|change| if let PluginChange::Unchanged(plugin) = change { Some(plugin) } else { None })
            .chain(old.native.iter())
            .collect();
        let snapshot = self.hub.snapshot(|plugin| !unchanged.iter().any(|kept| Arc::ptr_eq(kept, plugin))).await;
        self.generation_store.replace(snapshot, |now| {
            if *self.latest_reload.borrow() != reload_id {
                return Err(ReloadError::Superseded);
            }
            let (native, disabled) = (old.native.clone(), now.disabled.clone());
            let next = Generation::new(report.generation, config.clone(), native, access, disabled, |plugin| {
                let name = plugin.name.as_str();
                // The plugin may have been loaded in the background meanwhile.
                let there = || now.slot(name).map_or(Err(NotLoaded::Loading), |slot| slot.plugin.clone());
                loaded.remove(name).map_or_else(there, Ok)
            })?;
            Ok((Some(next), ()))
        })?;
        drop(old);
        self.background_loader.retain(
            &with_change(|change| matches!(change, PluginChange::LoadInBackground))
                .map(|plugin| plugin.name.as_str())
                .collect(),
        );
        // Plugins that were enabled meanwhile are loaded with the new config.
        let now = self.generation.load();
        with_change(|change| matches!(change, PluginChange::Disabled))
            .filter(|plugin| now.slot(plugin.name.as_str()).is_some_and(PluginSlot::is_loading))
            .for_each(|plugin| self.background_loader.start(plugin));
        let used = self.generation.load().plugins().filter_map(|plugin| plugin.digest()).collect::<Vec<_>>();
        self.plugin_runtime.retain(&stable_digests.values().copied().flatten().chain(used).collect());
        Ok(report)
    }

    /// Loads a new or changed plugin.
    async fn load(
        &self,
        plugin: &config::Plugin,
        stable_digests: &HashMap<PathBuf, Option<Digest>>,
    ) -> Result<Result<Arc<CachedPlugin>, LoadError>, ReloadError> {
        let file = &plugin.component;
        let component_changing = || ReloadError::ComponentChanging {
            plugin: plugin.name.as_str().to_owned(),
            file: plugin.component.clone(),
        };
        let digest = stable_digests.get(file).ok_or_else(component_changing)?;
        let loaded = self.plugin_runtime.load(plugin).await;
        // Only if the loaded file is the one that was checked, the file had settled.
        let is_stable = match &loaded {
            Ok(loaded) => loaded.digest() == *digest,
            Err(_) => self.plugin_runtime.digest_of(file).await == *digest,
        };
        if is_stable { Ok(loaded.map(|plugin| Arc::new(CachedPlugin::new(plugin)))) } else { Err(component_changing()) }
    }

    /// Returns the digests of these files, each read once; none for a file that cannot be a component.
    pub(super) async fn read_digests(&self, files: impl Iterator<Item = PathBuf>) -> HashMap<PathBuf, Option<Digest>> {
        let files: BTreeSet<_> = files.collect();
        let digests = join_all(files.iter().map(|file| self.plugin_runtime.digest_of(file))).await;
        files.into_iter().zip(digests).collect()
    }

    /// Returns the digests of all files once they have settled. A file that does not settle is left out.
    async fn wait_until_stable(
        &self,
        moving: BTreeSet<PathBuf>,
        mut digests: HashMap<PathBuf, Option<Digest>>,
    ) -> HashMap<PathBuf, Option<Digest>> {
        let mut moving = moving;
        for _ in 0..MAX_SETTLE_ATTEMPTS {
            if moving.is_empty() {
                return digests;
            }
            tokio::time::sleep(SETTLE_INTERVAL).await;
            for (file, digest) in self.read_digests(moving.iter().cloned()).await {
                if digests.insert(file.clone(), digest) == Some(digest) {
                    moving.remove(&file);
                }
            }
        }
        digests.retain(|file, _| !moving.contains(file));
        digests
    }
}

impl Generation {
    fn change_of(&self, plugin: &config::Plugin, digests: &HashMap<PathBuf, Option<Digest>>) -> PluginChange {
        if self.disabled.contains_key(plugin.name.as_str()) {
            return PluginChange::Disabled;
        }
        let is_as_it_was = self.config.plugins.contains(plugin);
        let slot = self.slot(plugin.name.as_str()).filter(|_| is_as_it_was);
        let digest = digests.get(&plugin.component).copied().flatten();
        match slot.map(|slot| &slot.plugin) {
            Some(Ok(loaded)) if loaded.digest() == digest => PluginChange::Unchanged(loaded.clone()),
            Some(Err(_)) => PluginChange::LoadInBackground,
            _ => PluginChange::Load,
        }
    }
}
