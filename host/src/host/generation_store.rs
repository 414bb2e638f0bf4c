//! What is being served at this moment, and the one place that replaces it.
//!
//! Three things do: the beginning of a reload (rules and settings), its end (plugins), and a plugin that was loaded in the
//! background. Each makes the next generation of the one that is there, one at a time, so that none undoes what another did.

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::generation::Generation;
use crate::watch::{Hub, ListingSnapshot};

/// What is being served.
pub(super) struct GenerationStore {
    pub(super) generation: Arc<ArcSwap<Generation>>,
    pub(super) hub: Arc<Hub>,
    /// How often it was replaced.
    version: watch::Sender<u64>,
    replace_lock: Mutex<()>,
}

impl GenerationStore {
    /// Serves that generation.
    pub(super) fn new(generation: Generation) -> Self {
        Self {
            hub: Hub::new(generation.plugins(), generation.access.clone()),
            generation: Arc::new(ArcSwap::from_pointee(generation)),
            version: watch::Sender::new(0),
            replace_lock: Mutex::default(),
        }
    }

    /// Serves what `next` makes of the generation of now, if it makes anything, and tells those who watch. Nothing waits here:
    /// it happens as a whole, or not at all.
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
            self.generation.store(next.clone());
            self.hub.switch_generation(next.plugins(), next.access.clone(), snapshot);
            if !Arc::ptr_eq(&next.access, &old.access) {
                self.hub.recheck_listings(&old.access);
            }
            self.version.send_modify(|times| *times = times.wrapping_add(1));
        }
        Ok(result)
    }

    /// How often it was replaced.
    #[cfg(any(feature = "http", feature = "stdio"))]
    pub(super) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Waits until no plugin is being loaded.
    pub(super) async fn wait_until_loaded(&self) {
        let mut version = self.version.subscribe();
        // It fails when there is no sender, and this is the sender.
        let _ = version.wait_for(|_| self.generation.load().loading().next().is_none()).await;
    }
}
