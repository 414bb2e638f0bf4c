//! Listing changes: the task that detects for which principals one plugin's listing has changed.
//!
//! A provider reports that its listing changed, but not for whom, and a principal that may not see the change must not
//! learn of it. So a [`ListingFingerprint`] of the plugin's listing is stored for each subscribed principal, and the
//! principal is notified only if its fingerprint changes. Fingerprints are computed by walking the listing, once for
//! all principals and their subscribers, concurrently with polls, one walk at a time: changes during a walk are
//! detected by the next one. A listing that is too long to walk has no fingerprint for principals that may see all of
//! it, and is notified whenever the provider reports a change.
//!
//! A principal that may see nothing of the plugin causes no walk and no poll: its listing is empty until the rules
//! change.
//!
//! A provider may report changes at any rate, and clients may come and go, so walks are throttled. After each walk
//! there is a [pause](burst_pause) proportional to its duration, at least [`MIN_WALK_PAUSE`] and at most
//! [`MAX_WALK_PAUSE`]. The pause does not depend on the number of earlier changes, which may be hidden from a
//! principal. So walks take a fifth of the time in the worst case, and a failed walk is repeated after a back-off of 1
//! s, up to 30 s. No principal is notified of its listing more than ten times per second. The first walk after a pause
//! starts immediately. A new subscriber whose principal already has a fingerprint causes no walk.
//!
//! A principal may have listed an older state between its subscription and its first fingerprint. So a principal that
//! may see everything is notified if the provider has reported a change since the previous walk. A principal that may
//! see only a part is not, because that would reveal hidden changes: for it, changes are detected from its first
//! fingerprint on, even if the first walk failed.

use std::collections::HashSet;
use std::sync::Arc;

use mcp_host_base::backoff::Backoff;
use mcp_host_base::task;
use tokio::time::{Instant, sleep_until};

use super::burst_pause::{FAILED_WALK_BACKOFF, MAX_WALK_PAUSE, MIN_WALK_PAUSE, burst_pause};
use super::state::WatcherState;
use crate::access::{Access, Principal};
use crate::catalog::{self, ListingFingerprint, may_see_listing, may_see_whole_listing};
use crate::response_cache::{DroppedFor, ViewId};

/// The result of a walk.
#[derive(Default)]
pub(super) struct Refreshed {
    /// The principals whose listing has changed.
    pub(super) changed: HashSet<Principal>,
    /// Whether the walk failed, so that this is not known for some principals.
    pub(super) has_failed: bool,
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
        // The version at the time of the last walk, and the end of the pause after it.
        let (mut walked_version, mut rest) = (0, Instant::now());
        let new_backoff = || Backoff::new(FAILED_WALK_BACKOFF.0, FAILED_WALK_BACKOFF.1);
        let mut backoff = new_backoff();
        loop {
            state.listing.dirty.notified().await;
            sleep_until(rest).await;
            let version = state.listing.version();
            let principals = state.context.subscription_index().listing_principals();
            if principals.is_empty() {
                // Later subscribers have no earlier state.
                walked_version = version;
                continue;
            }
            let new = self.untracked(&principals);
            if new.is_empty() && version == walked_version {
                continue;
            }
            let began = Instant::now();
            let access = state.context.access.load_full();
            let sees_some = |principal: &Principal| may_see_listing(&access.policy(principal), state.plugin.mount());
            // A principal that sees nothing of the plugin causes no call.
            let (is_visible, is_new_visible) = (principals.iter().any(sees_some), new.iter().any(sees_some));
            if is_visible && (std::mem::take(&mut is_first) || is_new_visible) {
                // This poll makes every later change detectable.
                self.poll_now().await;
            }
            self.drop_pages(&new, &access);
            let version_before = std::mem::replace(&mut walked_version, state.listing.version());
            let Refreshed { mut changed, has_failed } = self.refresh_fingerprints(principals, &access).await;
            let least = if has_failed {
                state.listing.mark_dirty();
                backoff.next_delay()
            } else {
                backoff = new_backoff();
                MIN_WALK_PAUSE
            };
            if is_new_visible {
                self.poll_now().await;
                let has_changed = state.listing.version() != version_before;
                let mount = state.plugin.mount();
                let sees_all = |one: &Principal| may_see_whole_listing(&access.policy(one), mount);
                changed.extend(new.into_iter().filter(|one| has_changed && sees_all(one)));
            }
            self.drop_pages(&changed, &access);
            if !changed.is_empty() {
                // In a task of its own, which continues if the watcher is retired: the fingerprints of these principals
                // are replaced.
                let context = state.context.clone();
                let _ = task::spawn(async move { context.notify_listing(&changed).await }).await;
            }
            state.listing.updated.send_replace(());
            let pause = burst_pause(began.elapsed()).clamp(least, MAX_WALK_PAUSE.max(least));
            rest = Instant::now().checked_add(pause).unwrap_or(rest);
        }
    }

    /// Drops the cached pages of these principals if they may see only a part. All other pages were dropped when the
    /// provider reported the change.
    fn drop_pages(&self, principals: &HashSet<Principal>, access: &Access) {
        let views = principals.iter().map(|principal| self.state.view(access, principal));
        let parts: HashSet<_> = views.filter(|view| *view != ViewId::WHOLE).collect();
        parts.into_iter().for_each(|view| self.state.plugin.drop_cached_pages(DroppedFor::View(view)));
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
    pub(super) fn untracked(&self, principals: &HashSet<Principal>) -> HashSet<Principal> {
        let mut fingerprints = self.state.listing.fingerprints();
        fingerprints.retain(|principal, _| principals.contains(principal));
        principals.iter().filter(|principal| !fingerprints.contains_key(*principal)).cloned().collect()
    }

    /// Stores an empty listing for each subscribed principal without a fingerprint that may see nothing under `access`,
    /// so that it is notified if other rules let it see something.
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
    pub(super) async fn refresh_fingerprints(&self, principals: HashSet<Principal>, access: &Arc<Access>) -> Refreshed {
        let principals: Vec<_> = principals.into_iter().collect();
        let fresh = catalog::fingerprints(&self.state.plugin, access, &principals).await;
        let mut fingerprints = self.state.listing.fingerprints();
        let mut refreshed = Refreshed::default();
        for (principal, now) in principals.into_iter().zip(fresh) {
            let Some(now) = now else {
                refreshed.has_failed = true;
                fingerprints.entry(principal).or_insert(ListingFingerprint::NotWalked);
                continue;
            };
            if fingerprints.insert(principal.clone(), now).is_some_and(|before| before.differs(now)) {
                refreshed.changed.insert(principal);
            }
        }
        refreshed
    }

    /// Waits for a poll, if the provider supports polls. A failure is ignored, because the next successful poll reports
    /// the changes.
    async fn poll_now(&self) {
        if self.state.supports_changes() {
            let _ = self.state.wait_for_poll().await;
        }
    }
}
