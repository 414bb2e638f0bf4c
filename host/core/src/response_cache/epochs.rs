//! The times since which cached responses are valid: epochs of everything, of the listing, and of single resources.
//!
//! An epoch is a number that each drop increments. An entry has the epoch at which its response was requested, and is
//! stale if its subject was dropped since. So a drop does not search the cache, and makes responses stale that are
//! being fetched.
//!
//! Bounded: there are epochs of at most [`MAX_RESOURCES`] resources, and of [`MAX_VIEWS`] views of each. Epochs older
//! than the maximum time to live are removed. If there are too many, stale entries are [removed from the
//! cache](Epochs::forget); then only the epochs of responses that are being fetched are needed. So drops, however many,
//! never make other entries stale: that would reveal hidden changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::RwLock;

use super::{CacheKey, MAX_TTL, ViewId};

/// The maximum number of resources with their own epoch.
const MAX_RESOURCES: usize = 4096;
/// The maximum number of views with their own epoch, for the listing and for one resource.
const MAX_VIEWS: usize = 1024;

type Epoch = u64;

/// The epochs of one cache.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    now: AtomicU64,
    /// The epoch since which entries may be valid.
    all: AtomicU64,
    parts: RwLock<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    /// By path without query.
    resources: HashMap<Box<str>, Resource>,
    pages: Views,
    /// The number of responses to each resource that are being fetched.
    on_their_way: HashMap<Box<str>, usize>,
    pages_on_their_way: usize,
}

#[derive(Debug)]
struct Resource {
    views: Views,
    /// The time of the last drop.
    at: Instant,
}

/// The epochs of one subject, for views of all of the plugin, and for views of a part.
#[derive(Debug, Default)]
struct Views {
    whole: Epoch,
    /// The epoch of all views of a part.
    part: Epoch,
    /// The epochs of single views of a part.
    of: HashMap<ViewId, Epoch>,
}

/// The views for which something is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DroppedFor {
    /// All views.
    All,
    /// The views of all of the plugin.
    Whole,
    /// One view.
    View(ViewId),
}

impl Views {
    /// Returns whether there is room for one more view.
    fn has_room(&self, whom: DroppedFor) -> bool {
        match whom {
            DroppedFor::View(view) => self.of.len() < MAX_VIEWS || self.of.contains_key(&view),
            DroppedFor::All | DroppedFor::Whole => true,
        }
    }

    /// Drops the subject for some views. If there is no room, drops it for all views of a part.
    fn drop_for(&mut self, whom: DroppedFor, now: Epoch) {
        let has_room = self.has_room(whom);
        match whom {
            DroppedFor::All => {
                (self.whole, self.part) = (now, now);
                self.of.clear();
            }
            DroppedFor::Whole | DroppedFor::View(ViewId::WHOLE) => self.whole = now,
            DroppedFor::View(view) => {
                if !has_room {
                    self.part = now;
                    self.of.clear();
                }
                self.of.insert(view, now);
            }
        }
    }

    /// Returns the epoch since which the subject is valid for a view, or, without one, for the views of all of the
    /// plugin.
    fn since(&self, view: Option<ViewId>) -> Epoch {
        match view {
            None | Some(ViewId::WHOLE) => self.whole,
            Some(view) => self.of.get(&view).copied().unwrap_or_default().max(self.part),
        }
    }
}

impl Parts {
    fn is_current(&self, key: &CacheKey, epoch: Epoch) -> bool {
        let since = match key {
            CacheKey::Page { view, .. } => self.pages.since(*view),
            CacheKey::Contents { path, view, .. } => {
                self.resources.get(without_query(path)).map_or(0, |dropped| dropped.views.since(*view))
            }
        };
        epoch >= since
    }

    fn on_their_way(&mut self, key: &CacheKey) -> &mut usize {
        match key {
            CacheKey::Page { .. } => &mut self.pages_on_their_way,
            CacheKey::Contents { path, .. } => self.on_their_way.entry(without_query(path).into()).or_default(),
        }
    }
}

impl Epochs {
    fn now(&self) -> Epoch {
        self.now.load(Ordering::Acquire)
    }

    /// Returns the epoch of a response that is requested now. It counts as being fetched until [`end`](Self::end).
    pub(super) fn begin(&self, key: &CacheKey) -> Epoch {
        let mut parts = self.parts.write();
        let count = parts.on_their_way(key);
        *count = count.saturating_add(1);
        self.now()
    }

    /// Records that a response is no longer being fetched: it is in the cache, or was dropped.
    pub(super) fn end(&self, key: &CacheKey) {
        let mut parts = self.parts.write();
        let count = parts.on_their_way(key);
        *count = count.saturating_sub(1);
        if let (0, CacheKey::Contents { path, .. }) = (*count, key) {
            parts.on_their_way.remove(without_query(path));
        }
    }

    /// Drops everything.
    pub(super) fn drop_all(&self) {
        let mut parts = self.parts.write();
        self.all.store(self.next(), Ordering::Release);
        (parts.resources, parts.pages) = Default::default();
    }

    /// Drops the responses to a resource, with any query. Returns false if there is no room: stale entries must be
    /// [removed](Self::forget) first.
    pub(super) fn drop_resource(&self, path: &str, whom: DroppedFor) -> bool {
        let mut parts = self.parts.write();
        let path = without_query(path);
        let now = Instant::now();
        if parts.resources.len() >= MAX_RESOURCES && !parts.resources.contains_key(path) {
            parts.resources.retain(|_, dropped| now.saturating_duration_since(dropped.at) <= MAX_TTL);
            if parts.resources.len() >= MAX_RESOURCES {
                return false;
            }
        }
        if parts.resources.get(path).is_some_and(|dropped| !dropped.views.has_room(whom)) {
            return false;
        }
        let epoch = self.next();
        let resource =
            parts.resources.entry(path.into()).or_insert_with(|| Resource { views: Views::default(), at: now });
        resource.at = now;
        resource.views.drop_for(whom, epoch);
        true
    }

    /// Drops the pages of the listing. Returns false if there is no room: stale entries must be [removed](Self::forget)
    /// first.
    pub(super) fn drop_pages(&self, whom: DroppedFor) -> bool {
        let mut parts = self.parts.write();
        if !parts.pages.has_room(whom) {
            return false;
        }
        let epoch = self.next();
        parts.pages.drop_for(whom, epoch);
        true
    }

    /// Makes room. `remove_stale` removes all entries from the cache for which its argument returns false; then all
    /// epochs can be removed except for responses that are being fetched.
    pub(super) fn forget(&self, remove_stale: impl FnOnce(&dyn Fn(&CacheKey, Epoch) -> bool)) {
        let mut parts = self.parts.write();
        remove_stale(&|key, epoch| parts.is_current(key, epoch) && self.is_since_all(epoch));
        let Parts { resources, pages, on_their_way, pages_on_their_way } = &mut *parts;
        resources.retain(|path, _| on_their_way.contains_key(path));
        match pages_on_their_way {
            0 => *pages = Views::default(),
            // Drops the pages for all views of a part, because there is no room for a single view.
            _ if pages.of.len() >= MAX_VIEWS => {
                pages.part = self.next();
                pages.of.clear();
            }
            _ => {}
        }
        let is_full = |resource: &Resource| resource.views.of.len() >= MAX_VIEWS;
        for resource in resources.values_mut().filter(|resource| is_full(resource)) {
            resource.views.part = self.next();
            resource.views.of.clear();
        }
    }

    /// Returns whether a response that was requested at this epoch is newer than the last drop of everything.
    pub(super) fn is_since_all(&self, epoch: Epoch) -> bool {
        epoch >= self.all.load(Ordering::Acquire)
    }

    /// Returns whether a response that was requested at this epoch may be served.
    pub(super) fn is_current(&self, key: &CacheKey, epoch: Epoch) -> bool {
        self.parts.read().is_current(key, epoch) && self.is_since_all(epoch)
    }

    /// Begins the next epoch. Must be called while the table is locked, so that an entry with this epoch is requested
    /// after the drop.
    fn next(&self) -> Epoch {
        self.now.fetch_add(1, Ordering::AcqRel).saturating_add(1)
    }
}

fn without_query(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response_cache::EncodingForm;

    fn contents(path: &str, view: Option<ViewId>) -> CacheKey {
        CacheKey::Contents { path: path.into(), form: EncodingForm(0), view }
    }

    fn page(view: Option<ViewId>) -> CacheKey {
        CacheKey::Page { cursor: None, size: 1, form: EncodingForm(0), view }
    }

    #[test]
    fn only_what_was_dropped_is_stale() {
        let (one, other) = (Some(ViewId(1)), Some(ViewId(2)));
        let whole = Some(ViewId::WHOLE);
        let keys = [
            contents("a", None),
            contents("a?lines=1", whole),
            contents("a", one),
            contents("a", other),
            contents("b", None),
            page(None),
            page(one),
            page(other),
        ];
        type Case<'a> = (&'a dyn Fn(&Epochs), &'a [usize]);
        let cases: [Case<'_>; 7] = [
            (&|_| (), &[]),
            (&|epochs| assert!(epochs.drop_resource("a", DroppedFor::All)), &[0, 1, 2, 3]),
            (&|epochs| assert!(epochs.drop_resource("a?bytes=1", DroppedFor::Whole)), &[0, 1]),
            (&|epochs| assert!(epochs.drop_resource("a", DroppedFor::View(ViewId(1)))), &[2]),
            (&|epochs| assert!(epochs.drop_pages(DroppedFor::Whole)), &[5]),
            (&|epochs| assert!(epochs.drop_pages(DroppedFor::View(ViewId(2)))), &[7]),
            (&Epochs::drop_all, &[0, 1, 2, 3, 4, 5, 6, 7]),
        ];
        for (number, (drop, expected)) in cases.into_iter().enumerate() {
            let epochs = Epochs::default();
            let before = epochs.now();
            drop(&epochs);
            let stale: Vec<_> = (0..keys.len()).filter(|index| !epochs.is_current(&keys[*index], before)).collect();
            assert_eq!(stale, expected, "{number}");
            assert!(
                keys.iter().all(|key| epochs.is_current(key, epochs.now())),
                "{number}: what is requested then is new"
            );
        }
    }

    /// Removes epochs of a cache with some entries. Returns which of these entries are left.
    fn forget(epochs: &Epochs, entries: &[(CacheKey, Epoch)]) -> Vec<bool> {
        let mut left = Vec::new();
        epochs.forget(|is_current| left.extend(entries.iter().map(|(key, epoch)| is_current(key, *epoch))));
        left
    }

    #[test]
    fn what_is_forgotten_makes_nothing_else_stale() {
        let epochs = Epochs::default();
        let before = epochs.begin(&contents("on its way", None));
        for number in 0..MAX_RESOURCES - 1 {
            assert!(epochs.drop_resource(&number.to_string(), DroppedFor::All));
        }
        assert!(epochs.drop_resource("on its way?lines=1", DroppedFor::All));
        assert!(!epochs.drop_resource("one more", DroppedFor::All));
        assert!(epochs.drop_resource("1", DroppedFor::All));
        let kept = contents("seen", None);
        let entries = [(contents("1", None), before), (contents("1", None), epochs.now()), (kept.clone(), before)];
        assert_eq!(forget(&epochs, &entries), [false, true, true]);
        assert!(epochs.drop_resource("one more", DroppedFor::All));
        assert!(epochs.is_current(&kept, before), "it was not dropped");
        assert!(!epochs.is_current(&contents("on its way", None), before), "it arrives later");
        epochs.end(&contents("on its way", None));
        forget(&epochs, &[]);
        assert!(epochs.parts.read().resources.is_empty() && epochs.parts.read().on_their_way.is_empty());
    }

    #[test]
    fn the_views_are_bounded() {
        for is_on_its_way in [false, true] {
            let epochs = Epochs::default();
            let drop_for = |number| {
                let view = DroppedFor::View(ViewId(number));
                [epochs.drop_pages(view), epochs.drop_resource("a", view)]
            };
            let before = epochs.now();
            if is_on_its_way {
                epochs.begin(&page(Some(ViewId(0))));
                epochs.begin(&contents("a", Some(ViewId(0))));
            }
            let max = u64::try_from(MAX_VIEWS).unwrap();
            (1..=max).for_each(|number| assert_eq!(drop_for(number), [true; 2]));
            assert_eq!((drop_for(max), drop_for(max + 1)), ([true; 2], [false; 2]));
            let of_other = page(Some(ViewId(max * 2)));
            assert!(epochs.is_current(&of_other, before));
            forget(&epochs, &[]);
            assert_eq!(drop_for(max + 1), [true; 2]);
            assert_eq!(epochs.is_current(&of_other, before), !is_on_its_way);
        }
    }
}
