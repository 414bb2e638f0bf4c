//! The paths of a round: the paths of the holder, and of the other replicas that the round covers.
//!
//! Each path has the replicas that want it (a reference count with names), so a change of one replica's wants costs as
//! much as the change, however many paths all replicas want together. The number of different paths is known at any
//! time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::record::MAX_REPLICAS;
use crate::replica::ReplicaId;

use crate::division::max_paths;

/// The wanted paths, each with one of the replicas that want it.
pub(super) type WantedPaths = Arc<BTreeMap<Arc<str>, ReplicaId>>;

/// The paths of a round now.
#[derive(Debug)]
pub(super) struct RoundPaths {
    /// The maximum number of different paths.
    pub(super) max: usize,
    /// Each path with the replicas that want it, in ascending order. Never empty.
    paths: BTreeMap<Arc<str>, Vec<ReplicaId>>,
    /// The other replicas, all of whose paths are in `paths`.
    covered: BTreeSet<ReplicaId>,
    /// The paths of the holder itself that are in `paths`.
    own: BTreeSet<Arc<str>>,
    /// Whether there may be room for another replica, because a path or a replica was removed since this was cleared.
    pub(super) has_new_room: bool,
    /// The paths of the last round, unless they have changed.
    last: Option<WantedPaths>,
}

impl Default for RoundPaths {
    fn default() -> Self {
        Self {
            max: max_paths(),
            paths: BTreeMap::new(),
            covered: BTreeSet::new(),
            own: BTreeSet::new(),
            has_new_room: false,
            last: None,
        }
    }
}

impl RoundPaths {
    /// Returns whether there are more paths than the maximum.
    pub(super) fn is_overfull(&self) -> bool {
        self.paths.len() > self.max
    }

    /// Returns whether a replica is covered.
    pub(super) fn covers(&self, replica: ReplicaId) -> bool {
        self.covered.contains(&replica)
    }

    /// Returns the covered replicas in ascending order.
    pub(super) fn covered(&self) -> &BTreeSet<ReplicaId> {
        &self.covered
    }

    /// Covers a replica that wants these paths, if they fit. Returns the number of paths that were looked up for that.
    pub(super) fn cover(&mut self, replica: ReplicaId, wanted: &BTreeSet<Arc<str>>) -> usize {
        // The holder itself is in the list of covered replicas, too.
        if self.covered.len().saturating_add(1) >= MAX_REPLICAS {
            return 0;
        }
        let (mut room, mut looked_up) = (self.max.saturating_sub(self.paths.len()), 0_usize);
        for path in wanted {
            looked_up = looked_up.saturating_add(1);
            if self.paths.contains_key(path) {
                continue;
            }
            let Some(rest) = room.checked_sub(1) else { return looked_up };
            room = rest;
        }
        for path in wanted {
            self.add(path.clone(), replica);
        }
        self.covered.insert(replica);
        looked_up
    }

    /// Removes a replica that wants these paths, if it is covered.
    pub(super) fn uncover(&mut self, replica: ReplicaId, wanted: &BTreeSet<Arc<str>>) {
        if self.covered.remove(&replica) {
            wanted.iter().for_each(|path| self.remove(path, replica));
            self.has_new_room = true;
        }
    }

    /// Records that a replica, which is covered or the holder, wants a path.
    pub(super) fn add(&mut self, path: Arc<str>, replica: ReplicaId) {
        let replicas = self.paths.entry(path).or_default();
        if let Err(place) = replicas.binary_search(&replica) {
            replicas.insert(place, replica);
            self.last = None;
        }
    }

    /// Records that a replica does not want a path any more.
    pub(super) fn remove(&mut self, path: &str, replica: ReplicaId) {
        let Some(replicas) = self.paths.get_mut(path) else { return };
        if let Ok(place) = replicas.binary_search(&replica) {
            replicas.remove(place);
            self.last = None;
        }
        if replicas.is_empty() {
            self.paths.remove(path);
            self.has_new_room = true;
        }
    }

    /// Sets the paths that the holder itself wants.
    pub(super) fn set_own(&mut self, me: ReplicaId, own: &BTreeSet<Arc<str>>) {
        let before = std::mem::replace(&mut self.own, own.clone());
        before.difference(own).for_each(|path| self.remove(path, me));
        own.difference(&before).for_each(|path| self.add(path.clone(), me));
    }

    /// Returns the paths, each with the holder if it wants the path, else with the first replica that does.
    pub(super) fn of_round(&mut self, me: ReplicaId) -> WantedPaths {
        let paths = &self.paths;
        let last = self.last.get_or_insert_with(|| {
            let wanted = paths.iter().filter_map(|(path, replicas)| {
                let is_own = replicas.binary_search(&me).is_ok();
                let one = if is_own { me } else { *replicas.first()? };
                Some((path.clone(), one))
            });
            Arc::new(wanted.collect())
        });
        last.clone()
    }
}
