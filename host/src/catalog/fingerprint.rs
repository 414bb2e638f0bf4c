//! What a principal would list of one plugin, as a number: to tell whether it is still the same.
//!
//! All that is listed is walked, the entries and the templates, page by page, and nothing of it is kept. That is bounded: a
//! plugin that has more than [`MAX_ITEMS`], or needs more than [`MAX_CALLS`] calls for either, has no print, nor has one that
//! fails, and what has no print is never the same.
//!
//! A walk is made of the host's own calls, one page after the other: it takes nothing of what clients may use. Its items are
//! hashed as a part of those calls, for all principals that ask.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Entries, ListingItem, ListingSource, Templates, Viewer};
use crate::access::{Access, Principal};
use crate::engine::CallOrigin;
use crate::plugin::Plugin;

/// Items of one kind that are walked.
const MAX_ITEMS: usize = 20_000;
/// Calls that are made for one kind.
const MAX_CALLS: usize = 64;
/// Items that a page is asked for.
const PAGE_SIZE: usize = 1000;

/// What a principal would list of one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingFingerprint {
    /// The hash of it.
    Known(u64),
    /// It is not known.
    Unknown,
}

impl ListingFingerprint {
    /// The print of a plugin of which nothing is listed.
    pub(crate) fn empty() -> Self {
        Self::Known(DefaultHasher::new().finish())
    }

    /// Whether the listing may be another now.
    pub(crate) fn differs(self, now: Self) -> bool {
        self == Self::Unknown || self != now
    }
}

/// What each of those principals would list of that plugin, in their order.
pub(crate) async fn fingerprints(
    plugin: &Plugin,
    access: &Arc<Access>,
    principals: &[Principal],
) -> Vec<ListingFingerprint> {
    let viewer = |principal: &Principal| Viewer { access: access.clone(), principal: principal.clone() };
    let viewers = principals.iter().map(viewer).map(|viewer| (viewer, DefaultHasher::new()));
    let viewers = Arc::new(Mutex::new(viewers.collect::<Vec<_>>()));
    let is_whole = hash_listing(&Entries { parent: None }, plugin, &viewers).await.is_some()
        && hash_listing(&Templates, plugin, &viewers).await.is_some();
    let fingerprint = |hasher: &DefaultHasher| {
        if is_whole { ListingFingerprint::Known(hasher.finish()) } else { ListingFingerprint::Unknown }
    };
    let viewers = viewers.lock().unwrap_or_else(PoisonError::into_inner);
    viewers.iter().map(|(_, hasher)| fingerprint(hasher)).collect()
}

/// Has each hasher see what its viewer is shown of the plugin: as a part of the calls, of which nothing else comes back.
async fn hash_listing<S: ListingSource>(
    source: &S,
    plugin: &Plugin,
    viewers: &Arc<Mutex<Vec<(Viewer, DefaultHasher)>>>,
) -> Option<()> {
    let (mut cursor, mut items) = (None, 0_usize);
    for _ in 0..MAX_CALLS {
        let viewers = viewers.clone();
        let hash_item = move |item: &S::Item| {
            let mut viewers = viewers.lock().unwrap_or_else(PoisonError::into_inner);
            for (_, hasher) in viewers.iter_mut().filter(|(viewer, _)| item.is_visible_to(viewer)) {
                item.hash(hasher);
            }
            false
        };
        let page = source.page(CallOrigin::Host, plugin, cursor.as_deref(), PAGE_SIZE, hash_item).await.ok()?;
        items = items.saturating_add(page.size);
        match page.next_cursor {
            None => return Some(()),
            Some(_) if items > MAX_ITEMS => return None,
            next => cursor = next,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_never_the_same() {
        assert!(!ListingFingerprint::Known(1).differs(ListingFingerprint::Known(1)));
        assert!(ListingFingerprint::Known(1).differs(ListingFingerprint::Known(2)));
        assert!(ListingFingerprint::Known(1).differs(ListingFingerprint::Unknown));
        assert!(ListingFingerprint::Unknown.differs(ListingFingerprint::Known(1)));
        assert!(ListingFingerprint::Unknown.differs(ListingFingerprint::Unknown));
    }
}
