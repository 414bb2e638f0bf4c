//! What is being served at this moment, and the one place that replaces it.
//!
//! Three things do: the beginning of a reload (rules and settings), its end (plugins), and a plugin that was loaded in the
//! background. Each makes the next generation of the one that is there, one at a time, so that none undoes what another did.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::generation::Generation;
use crate::watch::{Before, Hub};

/// What is being served.
pub(super) struct Serving {
    pub(super) generation: Arc<ArcSwap<Generation>>,
    pub(super) watches: Arc<Hub>,
    /// How often it was replaced.
    replaced: watch::Sender<u64>,
    replacing: Mutex<()>,
}

impl Serving {
    /// Serves that generation.
    pub(super) fn new(generation: Generation) -> Self {
        Self {
            watches: Hub::new(generation.plugins(), generation.access.clone()),
            generation: Arc::new(ArcSwap::from_pointee(generation)),
            replaced: watch::Sender::new(0),
            replacing: Mutex::default(),
        }
    }

    /// Serves what `next` makes of the generation of now, if it makes anything, and tells those who watch. Nothing waits here:
    /// it happens as a whole, or not at all.
    pub(super) fn replace<T, E>(
        &self,
        before: Before,
        next: impl FnOnce(&Generation) -> Result<(Option<Generation>, T), E>,
    ) -> Result<T, E> {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.generation.load_full();
        let (next, result) = next(&old)?;
        if let Some(next) = next {
            let next = Arc::new(next);
            self.generation.store(next.clone());
            self.watches.replace(next.plugins(), next.access.clone(), before);
            if !Arc::ptr_eq(&next.access, &old.access) {
                self.watches.compare_listings(&old.access);
            }
            self.replaced.send_modify(|times| *times = times.wrapping_add(1));
        }
        Ok(result)
    }

    /// How often it was replaced.
    #[cfg(feature = "server")]
    pub(super) fn replaced(&self) -> u64 {
        *self.replaced.borrow()
    }

    /// Waits until no plugin is being loaded.
    pub(super) async fn settled(&self) {
        let mut replaced = self.replaced.subscribe();
        // It fails when there is no sender, and this is the sender.
        let _ = replaced.wait_for(|_| self.generation.load().loading().next().is_none()).await;
    }
}
