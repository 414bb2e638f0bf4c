//! Fingerprint of one plugin's listing, or of one of its directories, as seen by one principal, used to detect changes.
//!
//! Each walk covers the whole listing, entries and templates, page by page, and stores none of it. Only principals that
//! may see something of the plugin take part; for all others the listing is empty. Without such principals the plugin
//! is not called.
//!
//! The walk is bounded. If a listing has more than [`MAX_ITEMS`] entries or templates, or takes more than [`MAX_CALLS`]
//! calls for either, a principal that may see everything has no fingerprint of it. A missing fingerprint equals no
//! other, so the principal is notified of each change. A principal that may see only a part would thereby learn of
//! changes in hidden items. For such principals the walk goes on, up to the maximum of a listing
//! (`limits.listing-items`), in [`MAX_CALLS_OF_PART`] calls; items after that count as unchanged.
//!
//! A walk that fails keeps the fingerprints of principals that may see a part, and makes all others unknown.
//!
//! A listable resource is walked only for principals that may see a part of the plugin: the resource itself, the
//! children that make up its index, and the contents that a read returns. If it can never be read (because it is too
//! large, for example), its contents count as unchanged.
//!
//! A walk consists of the host's own calls, one page after the other, so it uses no client's quota. These calls hash
//! the items for all principals together.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use mcp_host_config::Operation;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::{Fault, Plugin};
use mcp_host_model::resource::{Resource, ResourceContents};
use mcp_host_model::uri::{Mount, Path, Uri};
use parking_lot::Mutex;

use super::{Entries, ListingItem, ListingSource, Templates, Viewer};
use crate::access::{Access, Policy, Principal};
use crate::response_cache::hide_next_parts_of;

/// The maximum number of walked items of one kind.
const MAX_ITEMS: usize = 20_000;
/// The maximum number of calls for one kind.
const MAX_CALLS: usize = 64;
/// The maximum number of calls for one kind for principals that may see only a part.
const MAX_CALLS_OF_PART: usize = 1024;
/// The requested number of items per page.
const PAGE_SIZE: usize = 1000;

/// The fingerprint of one plugin's listing for one principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingFingerprint {
    /// The hash of the listing.
    Known(u64),
    /// The listing could not be walked.
    Unknown,
    /// A principal that may see only a part has no successful walk yet, and has received no notification that depends
    /// on one.
    NotWalked,
}

impl ListingFingerprint {
    /// Returns the fingerprint of an empty listing.
    pub(crate) fn empty() -> Self {
        Self::Known(DefaultHasher::new().finish())
    }

    /// Returns whether the listing may have changed.
    pub(crate) fn differs(self, now: Self) -> bool {
        self != Self::NotWalked && (self == Self::Unknown || self != now)
    }
}

/// The kinds of items in a fingerprint.
const OPERATIONS: [Operation; 2] = [Operation::List, Operation::Templates];

/// Returns whether a principal may see something of the listing of the plugin at a mount.
pub(crate) fn may_see_listing(policy: &Policy, mount: &Mount) -> bool {
    OPERATIONS.iter().any(|operation| policy.may_allow_below(*operation, mount))
}

/// Returns whether a principal may see the whole listing of the plugin at a mount.
pub(crate) fn may_see_whole_listing(policy: &Policy, mount: &Mount) -> bool {
    OPERATIONS.iter().all(|operation| policy.allows_all_below(*operation, mount))
}

/// The fingerprint of a principal that is being computed.
struct Viewed {
    viewer: Viewer,
    hasher: DefaultHasher,
    /// Whether the viewer may see everything.
    is_all: bool,
}

/// Returns the fingerprint of the plugin's listing for each of `principals`, in their order. None means that the walk
/// failed and the former fingerprint remains valid.
pub(crate) async fn fingerprints(
    plugin: &Plugin,
    access: &Arc<Access>,
    principals: &[Principal],
) -> Vec<Option<ListingFingerprint>> {
    let mount = plugin.mount();
    let viewers = principals.iter().map(|principal| {
        let viewer = Viewer { policy: access.policy(principal), principal: principal.clone() };
        let is_all = may_see_whole_listing(&viewer.policy, mount);
        may_see_listing(&viewer.policy, mount).then(|| Viewed { viewer, hasher: DefaultHasher::new(), is_all })
    });
    walk(viewers.collect(), DefaultHasher::new(), async |viewers, has_parts| {
        match hash_listing(&Entries { parent: None }, plugin, viewers, has_parts).await {
            Walked::Failed => Walked::Failed,
            walked => walked.min(hash_listing(&Templates, plugin, viewers, has_parts).await),
        }
    })
    .await
}

/// Returns the fingerprint of a listable resource for each of `principals`, which may see only a part of the plugin, in
/// their order. None means that the walk failed and the former fingerprint remains valid.
pub(crate) async fn directory_fingerprints(
    plugin: &Plugin,
    access: &Arc<Access>,
    principals: &[Principal],
    directory: &Resource,
    path: &Path,
) -> Vec<Option<ListingFingerprint>> {
    let mut hasher = DefaultHasher::new();
    directory.hash(&mut hasher);
    let viewers = principals.iter().map(|principal| {
        let viewer = Viewer { policy: access.policy(principal), principal: principal.clone() };
        Some(Viewed { viewer, hasher: hasher.clone(), is_all: false })
    });
    let children = Entries { parent: Some(path) };
    walk(viewers.collect(), hasher.clone(), async |viewers, _| {
        match hash_children(&children, plugin, viewers, directory).await {
            Walked::Failed => Walked::Failed,
            walked => walked.min(hash_contents(plugin, path, directory, viewers).await),
        }
    })
    .await
}

/// Hashes the children that make up the index of a resource, for the viewers that may list them.
async fn hash_children(
    children: &Entries<'_>,
    plugin: &Plugin,
    viewers: &Arc<Mutex<Vec<Viewed>>>,
    directory: &Resource,
) -> Walked {
    let sees_index = |viewed: &Viewed| viewed.viewer.policy.allows(Operation::List, &directory.uri);
    let (listing, others): (Vec<_>, Vec<_>) = {
        let mut all = viewers.lock();
        // The viewers are in the order of the principals, which is restored below.
        std::mem::take(&mut *all).into_iter().enumerate().partition(|(_, viewed)| sees_index(viewed))
    };
    let (places, listing): (Vec<_>, Vec<_>) = listing.into_iter().unzip();
    let is_seen = !listing.is_empty();
    let listing = Arc::new(Mutex::new(listing));
    let walked = if is_seen { hash_listing(children, plugin, &listing, true).await } else { Walked::Whole };
    let listing = std::mem::take(&mut *listing.lock());
    let mut all: Vec<_> = places.into_iter().zip(listing).chain(others).collect();
    all.sort_by_key(|(place, _)| *place);
    *viewers.lock() = all.into_iter().map(|(_, viewed)| viewed).collect();
    walked
}

/// Hashes the visible part of the contents that a read of a resource returns, for each viewer, as part of the call.
async fn hash_contents(
    plugin: &Plugin,
    path: &Path,
    directory: &Resource,
    viewers: &Arc<Mutex<Vec<Viewed>>>,
) -> Walked {
    let hash_one = {
        let (viewers, mount, own) = (viewers.clone(), plugin.mount().clone(), directory.uri.clone());
        move |one: &ResourceContents| {
            // The index is made of the children.
            if one.entry.is_directory() {
                return false;
            }
            // Hashed once for all viewers, because the body may be long.
            let mut body = DefaultHasher::new();
            one.body.as_bytes().hash(&mut body);
            let body = body.finish();
            for viewed in viewers.lock().iter_mut() {
                let is_visible = |uri: &Uri| *uri == own || viewed.viewer.policy.allows(Operation::Read, uri);
                if is_visible(&one.entry.uri) {
                    let mut entry = one.entry.clone();
                    hide_next_parts_of(&mount, &mut entry, is_visible);
                    entry.hash(&mut viewed.hasher);
                    body.hash(&mut viewed.hasher);
                }
            }
            false
        }
    };
    match plugin.read_as(CallOrigin::Host, path, hash_one).await {
        Ok(_) | Err(Fault::ResponseSize(_) | Fault::ResponseItems { .. }) => Walked::Whole,
        Err(fault) if fault.is_transient() => Walked::Failed,
        Err(_) => Walked::Whole,
    }
}

/// Returns each viewer's fingerprint after `hash_all`, which is called only if there are viewers. A viewer that sees
/// nothing gets the fingerprint of `unseen`.
async fn walk(
    viewers: Vec<Option<Viewed>>,
    unseen: DefaultHasher,
    hash_all: impl AsyncFnOnce(&Arc<Mutex<Vec<Viewed>>>, bool) -> Walked,
) -> Vec<Option<ListingFingerprint>> {
    let sees_some: Vec<_> = viewers.iter().map(Option::is_some).collect();
    let viewers: Vec<_> = viewers.into_iter().flatten().collect();
    let has_parts = viewers.iter().any(|viewed| !viewed.is_all);
    let is_empty = viewers.is_empty();
    let viewers = Arc::new(Mutex::new(viewers));
    let walked = if is_empty { Walked::Whole } else { hash_all(&viewers, has_parts).await };
    let viewers = viewers.lock();
    let mut seen = viewers.iter().map(|viewed| match walked {
        Walked::Failed if !viewed.is_all => None,
        Walked::Failed | Walked::Part if viewed.is_all => Some(ListingFingerprint::Unknown),
        _ => Some(ListingFingerprint::Known(viewed.hasher.finish())),
    });
    let unseen = ListingFingerprint::Known(unseen.finish());
    sees_some.into_iter().map(|sees| if sees { seen.next().flatten() } else { Some(unseen) }).collect()
}

/// How much of a listing was walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Walked {
    /// A call failed.
    Failed,
    /// A part: the listing exceeds the bounds for viewers that may see everything.
    Part,
    /// All of it.
    Whole,
}

/// Updates each hasher with the items that its viewer may see, as part of the calls, which return no items. With
/// `has_parts`, some viewers may see only a part.
async fn hash_listing<S: ListingSource>(
    source: &S,
    plugin: &Plugin,
    viewers: &Arc<Mutex<Vec<Viewed>>>,
    has_parts: bool,
) -> Walked {
    let (mut cursor, mut items) = (None, 0_usize);
    let mut walked = Walked::Whole;
    for call in 0..MAX_CALLS_OF_PART {
        if call >= MAX_CALLS || items > MAX_ITEMS {
            walked = Walked::Part;
            if !has_parts || items >= plugin.max_listing_items() {
                break;
            }
        }
        let viewers = viewers.clone();
        let hash_item = move |item: &S::Item| {
            let mut viewers = viewers.lock();
            for viewed in viewers.iter_mut().filter(|viewed| item.is_visible_to(&viewed.viewer)) {
                item.hash(&mut viewed.hasher);
            }
            false
        };
        let page = source.page(CallOrigin::Host, plugin, cursor.as_deref(), PAGE_SIZE, hash_item).await;
        let Ok(page) = page else { return Walked::Failed };
        items = items.saturating_add(page.size);
        match page.next_cursor {
            None => return walked,
            next => cursor = next,
        }
    }
    Walked::Part
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
        assert!(!ListingFingerprint::NotWalked.differs(ListingFingerprint::Known(1)), "nothing was told before");
    }
}
