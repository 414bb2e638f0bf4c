//! Fingerprint of one plugin's listing as seen by one principal, used to detect changes.
//!
//! The whole listing is walked, entries and templates, page by page, and none of it is stored. The walk is bounded: a
//! plugin that has more than [`MAX_ITEMS`], or needs more than [`MAX_CALLS`] calls for either, has no fingerprint, nor
//! has one that fails, and a missing fingerprint never equals another.
//!
//! A walk consists of the host's own calls, one page after the other, so it takes none of the clients' quotas. Items
//! are hashed as part of these calls, for all principals at once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Entries, ListingItem, ListingSource, Templates, Viewer};
use crate::access::{Access, Principal};
use crate::engine::CallOrigin;
use crate::plugin::Plugin;

/// The maximum number of walked items of one kind.
const MAX_ITEMS: usize = 20_000;
/// The maximum number of calls for one kind.
const MAX_CALLS: usize = 64;
/// The requested number of items per page.
const PAGE_SIZE: usize = 1000;

/// The fingerprint of one plugin's listing for one principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingFingerprint {
    /// The hash of the listing.
    Known(u64),
    /// The listing could not be walked.
    Unknown,
}

impl ListingFingerprint {
    /// Returns the fingerprint of an empty listing.
    pub(crate) fn empty() -> Self {
        Self::Known(DefaultHasher::new().finish())
    }

    /// Returns whether the listing may have changed.
    pub(crate) fn differs(self, now: Self) -> bool {
        self == Self::Unknown || self != now
    }
}

/// Returns the fingerprint of the plugin's listing for each of `principals`, in their order.
pub(crate) async fn fingerprints(
    plugin: &Plugin,
    access: &Arc<Access>,
    principals: &[Principal],
) -> Vec<ListingFingerprint> {
    let viewer = |principal: &Principal| Viewer { policy: access.policy(principal), principal: principal.clone() };
    let viewers = principals.iter().map(viewer).map(|viewer| (viewer, DefaultHasher::new()));
    let viewers = Arc::new(Mutex::new(viewers.collect::<Vec<_>>()));
    let is_whole = hash_listing(&Entries { parent: None }, plugin, &viewers).await.is_some()
        && hash_listing(&Templates, plugin, &viewers).await.is_some();
    let fingerprint = |hasher: &DefaultHasher| {
        if is_whole { ListingFingerprint::Known(hasher.finish()) } else { ListingFingerprint::Unknown }
    };
    let viewers = viewers.lock();
    viewers.iter().map(|(_, hasher)| fingerprint(hasher)).collect()
}

/// Updates each hasher with the items that its viewer may see, as part of the calls, which return no items. Returns
/// `None` if the walk is incomplete.
async fn hash_listing<S: ListingSource>(
    source: &S,
    plugin: &Plugin,
    viewers: &Arc<Mutex<Vec<(Viewer, DefaultHasher)>>>,
) -> Option<()> {
    let (mut cursor, mut items) = (None, 0_usize);
    for _ in 0..MAX_CALLS {
        let viewers = viewers.clone();
        let hash_item = move |item: &S::Item| {
            let mut viewers = viewers.lock();
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
