//! Listing changes: the task that detects for which principals the listing of one plugin has changed.
//!
//! A provider reports that its listing changed, but not for whom, and a principal who may not see the change must not
//! learn of it. So a [`ListingFingerprint`] of the plugin's listing is stored for each subscribed principal, and the
//! principal is notified only if its fingerprint changes. Fingerprints are computed by walking the listing, once for
//! all principals and however many subscribers they have, concurrently with polls and never two walks at a time:
//! changes during a walk are detected by the next one. A listing that is too long to walk has no fingerprint for principals that
//! may see all of it, and is notified whenever the provider reports a change.
//!
//! A principal that may see nothing of the plugin causes no walk and no poll: its listing is empty, until rules say otherwise.
//!
//! A provider may report changes at any rate, and clients may come and go, so walks are throttled: after each walk
//! there is a pause, that of [`burst_pause`] for walks in succession, at least [`MIN_WALK_PAUSE`] and at most
//! [`MAX_WALK_PAUSE`]. So walks take a fifth of the time in the worst case, and no principal is notified of its listing
//! more than ten times per second. The first walk after a pause starts at once. A new subscriber whose principal already has a fingerprint
//! causes no walk.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::burst_pause::burst_pause;
use super::state::WatcherState;
use crate::access::{Access, Principal};
use crate::catalog::{self, ListingFingerprint, may_see_listing};

/// The shortest and the longest pause between two walks.
pub(super) const MIN_WALK_PAUSE: Duration = Duration::from_millis(100);
pub(super) const MAX_WALK_PAUSE: Duration = Duration::from_secs(30);

/// The known state of one plugin's listing.
pub(super) struct ListingMonitor {
    /// Incremented whenever the listing may have changed: the provider reported it, or a reload caused it.
    version: AtomicU64,
    /// Notified when the listing must be checked.
    pub(super) dirty: Notify,
    /// The last fingerprint for each subscribed principal.
    fingerprints: Mutex<HashMap<Principal, ListingFingerprint>>,
    /// Notified after fingerprints were computed.
    updated: watch::Sender<()>,
}

impl ListingMonitor {
    pub(super) fn new(fingerprints: HashMap<Principal, ListingFingerprint>) -> Self {
        let is_inherited = !fingerprints.is_empty();
        let listing = Self {
            version: AtomicU64::new(0),
            dirty: Notify::new(),
            fingerprints: Mutex::new(fingerprints),
            updated: watch::Sender::new(()),
        };
        if is_inherited {
            listing.mark_dirty();
        }
        listing
    }

    /// Marks the listing as possibly changed, so that it is compared with its fingerprints.
    pub(super) fn mark_dirty(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.dirty.notify_one();
    }

    /// Removes all fingerprints: without subscribers they are no longer kept up to date.
    pub(super) fn clear(&self) {
        self.fingerprints().clear();
    }

    /// Waits until the principal has a fingerprint, so that changes of its listing are detected.
    pub(super) async fn wait_until_tracked(&self, principal: &Principal) {
        let mut updated = self.updated.subscribe();
        // This fails only without a sender, and `self` holds it.
        let _ = updated.wait_for(|()| self.fingerprints().contains_key(principal)).await;
    }

    pub(super) fn fingerprints(&self) -> MutexGuard<'_, HashMap<Principal, ListingFingerprint>> {
        self.fingerprints.lock()
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

/// The result of a walk.
#[derive(Default)]
struct Refreshed {
    /// The principals whose listing has changed.
    changed: HashSet<Principal>,
    /// Whether the walk has failed while that is not known of some.
    has_failed: bool,
}

/// The task that detects for which principals the listing has changed.
pub(super) struct ListingTask {
    state: Arc<WatcherState>,
}

impl ListingTask {
    pub(super) fn new(state: Arc<WatcherState>) -> Self {
        Self { state }
    }

    /// Checks the listing whenever it may have changed.
    pub(super) async fn run(self) {
        let state = &self.state;
        let mut is_first = true;
        // The version that the last walk has seen, and the end of the pause after it.
        let (mut walked_version, mut rest) = (0, Instant::now());
        // The number of walks that each began when the pause after the one before was over.
        let mut in_succession = 0_u32;
        loop {
            state.listing.dirty.notified().await;
            in_succession = if Instant::now() < rest { in_succession.saturating_add(1) } else { 0 };
            sleep_until(rest).await;
            let principals = state.context.subscription_index().listing_principals();
            let new = self.untracked(&principals);
            let version = state.listing.version();
            if principals.is_empty() || (new.is_empty() && version == walked_version) {
                continue;
            }
            let began = Instant::now();
            let access = state.context.access.load_full();
            let sees_some = |principal: &Principal| may_see_listing(&access.policy(principal), state.plugin.mount());
            // A principal that sees nothing of the plugin causes no call of it.
            let (is_visible, is_new_visible) = (principals.iter().any(sees_some), new.iter().any(sees_some));
            if is_visible && (std::mem::take(&mut is_first) || is_new_visible) {
                // A poll detects every later change.
                self.poll_now().await;
            }
            let version = state.listing.version();
            walked_version = version;
            let Refreshed { mut changed, has_failed } = self.refresh_fingerprints(principals, &access).await;
            if has_failed {
                state.listing.mark_dirty();
            }
            if is_new_visible {
                self.poll_now().await;
                // The listing changed during the walk, or shortly before: whether a new subscriber has seen the change
                // is unknown.
                if state.listing.version() != version {
                    changed.extend(new.into_iter().filter(sees_some));
                }
            }
            state.context.subscription_index().notify_listing(&changed);
            state.listing.updated.send_replace(());
            let pause = burst_pause(began.elapsed(), in_succession).clamp(MIN_WALK_PAUSE, MAX_WALK_PAUSE);
            rest = Instant::now().checked_add(pause).unwrap_or(rest);
        }
    }

    /// Computes the missing fingerprints of subscribed principals under `access`, without notifying them.
    pub(super) async fn ensure_fingerprints(&self, access: &Arc<Access>) {
        let principals = self.state.context.subscription_index().listing_principals();
        let new = self.untracked(&principals);
        if !new.is_empty() {
            self.refresh_fingerprints(new, access).await;
        }
    }

    /// Returns the principals without a fingerprint. Removes fingerprints of principals that are no longer subscribed.
    fn untracked(&self, principals: &HashSet<Principal>) -> HashSet<Principal> {
        let mut fingerprints = self.state.listing.fingerprints();
        fingerprints.retain(|principal, _| principals.contains(principal));
        principals.iter().filter(|principal| !fingerprints.contains_key(*principal)).cloned().collect()
    }

    /// Stores that the listing is empty for each subscribed principal without a fingerprint that may see nothing of it under `access`, so
    /// that it is notified if other rules let it see something.
    pub(super) fn track_empty(&self, access: &Access) {
        let principals = self.state.context.subscription_index().listing_principals();
        let untracked = self.untracked(&principals);
        let sees_nothing = |one: &Principal| !may_see_listing(&access.policy(one), self.state.plugin.mount());
        let mut fingerprints = self.state.listing.fingerprints();
        for principal in untracked.into_iter().filter(sees_nothing) {
            fingerprints.entry(principal).or_insert(ListingFingerprint::empty());
        }
    }

    /// Computes new fingerprints.
    async fn refresh_fingerprints(&self, principals: HashSet<Principal>, access: &Arc<Access>) -> Refreshed {
        let principals: Vec<_> = principals.into_iter().collect();
        let fresh = catalog::fingerprints(&self.state.plugin, access, &principals).await;
        let mut fingerprints = self.state.listing.fingerprints();
        let mut refreshed = Refreshed::default();
        for (principal, now) in principals.into_iter().zip(fresh) {
            let Some(now) = now else {
                refreshed.has_failed = true;
                fingerprints.entry(principal).or_insert(ListingFingerprint::Unknown);
                continue;
            };
            if fingerprints.insert(principal.clone(), now).is_some_and(|before| before.differs(now)) {
                refreshed.changed.insert(principal);
            }
        }
        refreshed
    }

    /// Waits for a poll, if the provider supports them. Its failure is ignored, as the next successful one reports the
    /// changes.
    async fn poll_now(&self) {
        if self.state.supports_changes() {
            let _ = self.state.wait_for_poll().await;
        }
    }
}
