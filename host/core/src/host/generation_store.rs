//! The current generation, and the only place that replaces it.
//!
//! It is replaced at the beginning of a reload (rules and settings), at its end (plugins), and when a plugin was
//! loaded in the background. Each replacement derives the next generation from the current one, one at a time, so no
//! replacement undoes another.

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::generation::Generation;
use crate::catalog::PluginSlot;
use crate::watch::replicas::Replicas;
use crate::watch::{Hub, ListingSnapshot};

/// The current generation.
pub(super) struct GenerationStore {
    pub(super) generation: Arc<ArcSwap<Generation>>,
    pub(super) hub: Arc<Hub>,
    /// The number of replacements.
    version: watch::Sender<u64>,
    replace_lock: Mutex<()>,
}

impl GenerationStore {
    /// Creates a store with this generation. `prepares` is whether plugins prepare their data.
    pub(super) fn new(generation: Generation, replicas: Option<Replicas>, prepares: bool) -> Self {
        generation.divide_response_cache();
        generation.switch_built_ins();
        Self {
            hub: Hub::new(generation.plugins(), generation.access.clone(), replicas, prepares),
            generation: Arc::new(ArcSwap::from_pointee(generation)),
            version: watch::Sender::new(0),
            replace_lock: Mutex::default(),
        }
    }

    /// Atomically replaces the current generation with the one that `next` derives from it, if any, and notifies
    /// subscribers. Other replacements wait for `next`; requests do not.
    pub(super) fn replace<T, E>(
        &self,
        snapshot: ListingSnapshot,
        next: impl FnOnce(&Generation) -> Result<(Option<Generation>, T), E>,
    ) -> Result<T, E> {
        let _one_at_a_time = self.replace_lock.lock();
        let old = self.generation.load_full();
        let (next, result) = next(&old)?;
        if let Some(next) = next {
            let next = Arc::new(next);
            next.divide_response_cache();
            self.generation.store(next.clone());
            self.hub.switch_generation(next.plugins(), next.access.clone(), snapshot);
            next.switch_built_ins();
            if !Arc::ptr_eq(&next.access, &old.access) {
                self.hub.recheck_listings(&old.access);
            }
            self.version.send_modify(|times| *times = times.wrapping_add(1));
        }
        Ok(result)
    }

    /// Runs `action` while no replacement runs.
    pub(super) fn lock_with(&self, action: impl FnOnce()) {
        let _one_at_a_time = self.replace_lock.lock();
        action();
    }

    /// Returns a receiver that is notified of replacements.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Waits until this plugin is not being loaded: it is loaded, has failed, or is no longer in the config.
    pub(super) async fn wait_until_plugin_loaded(&self, name: &str) {
        let is_loading = |_: &u64| self.generation.load().slot(name).is_some_and(PluginSlot::is_loading);
        // This fails only without a sender, and `self` has it.
        let _ = self.version.subscribe().wait_for(|version| !is_loading(version)).await;
    }

    /// Waits until no plugin is being loaded.
    pub(super) async fn wait_until_loaded(&self) {
        let mut version = self.version.subscribe();
        // This fails only without a sender, and `self` has it.
        let _ = version.wait_for(|_| self.generation.load().loading().next().is_none()).await;
    }
}
