//! What watches one loaded plugin: a task that asks what changed ([`poller`](super::poller)), and one that finds out whether
//! what is listed is another for somebody ([`listing`](super::listing)).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::listing::{ListingMonitor, ListingTask};
use super::lookup::{LookupError, Lookups};
use super::poller::Poller;
use super::state::{PollError, PollOutcome, WatchContext, WatcherState};
use super::subscriptions::SubscriptionIndex;
use crate::access::{Access, Principal};
use crate::catalog::ListingFingerprint;
use crate::plugin::Plugin;
use crate::uri::{Path, Uri};

/// Watches one plugin while anyone is interested in it. It ends when it is retired, or dropped.
pub(super) struct Watcher {
    state: Arc<WatcherState>,
    lookups: Arc<Lookups>,
}

/// What a watcher takes over from the one whose place it takes.
#[derive(Default)]
pub(super) struct Handover {
    /// What each principal who asked would have listed last.
    pub(super) fingerprints: HashMap<Principal, ListingFingerprint>,
    /// Whether those who are interested are told once, as soon as what changes from then on is known.
    pub(super) notify_all_once: bool,
}

impl Watcher {
    /// Starts the tasks.
    pub(super) fn start(plugin: &Arc<Plugin>, context: &Arc<WatchContext>, handover: Handover) -> Arc<Self> {
        let state = Arc::new(WatcherState {
            plugin: plugin.clone(),
            context: context.clone(),
            wake: Notify::new(),
            unwatched: Notify::new(),
            requested_polls: AtomicU64::new(0),
            last_poll: watch::Sender::new(PollOutcome::default()),
            listing: ListingMonitor::new(handover.fingerprints),
            is_polling: AtomicBool::new(false),
            retired: CancellationToken::new(),
        });
        if plugin.info().watches {
            let poller = Poller::new(state.clone(), handover.notify_all_once);
            tokio::spawn(state.retired.clone().run_until_cancelled_owned(poller.run()));
        }
        let listing = ListingTask::new(state.clone());
        tokio::spawn(state.retired.clone().run_until_cancelled_owned(listing.run()));
        Arc::new(Self { lookups: Lookups::new(plugin.clone()), state })
    }

    pub(super) fn plugin(&self) -> &Arc<Plugin> {
        &self.state.plugin
    }

    /// Whether its provider tells what changes.
    pub(super) fn supports_changes(&self) -> bool {
        self.state.supports_changes()
    }

    /// Whether its plugin is being asked what changed.
    pub(super) fn is_polling(&self) -> bool {
        self.state.is_polling.load(Ordering::Relaxed)
    }

    /// Has it find out that nobody is interested any more, if so.
    pub(super) fn check_unwatched(&self, index: &SubscriptionIndex) {
        if self.supports_changes() && !index.has_any_under(self.plugin().mount()) {
            self.state.unwatched.notify_one();
        }
    }

    /// Ends its tasks; whoever waits for a round goes on without.
    pub(super) fn retire(&self) {
        self.state.retired.cancel();
    }

    /// See [`WatcherState::wait_for_poll`].
    pub(super) async fn wait_for_poll(&self) -> Result<(), PollError> {
        self.state.wait_for_poll().await
    }

    /// What its provider calls that resource; none if it does not own it.
    pub(super) fn path(&self, uri: &Uri) -> Option<Path> {
        let mount = self.plugin().mount();
        Some(mount.compose(uri.as_str().strip_prefix(mount.as_str())?).ok()?.path)
    }

    /// Whether its provider says of that resource that it can be subscribed to; see [`Lookups`]. None if it was retired.
    pub(super) async fn is_subscribable(&self, path: &Path) -> Option<Result<bool, LookupError>> {
        self.state.retired.run_until_cancelled(self.lookups.is_subscribable(path)).await
    }

    /// Somebody new is interested in what is listed.
    pub(super) fn watch_listing(&self) {
        if self.supports_changes() {
            self.state.listing.dirty.notify_one();
            self.state.wake.notify_one();
        }
    }

    /// Returns when changes of what that principal would list count.
    pub(super) async fn listing_ready(&self, principal: &Principal) {
        if self.supports_changes() {
            self.state.retired.run_until_cancelled(self.state.listing.wait_until_tracked(principal)).await;
        }
    }

    /// What principals who asked would have listed last, as far as it is known. A provider that does not tell what changes is
    /// asked now.
    pub(super) async fn fingerprints(&self) -> HashMap<Principal, ListingFingerprint> {
        if !self.supports_changes() {
            let access = self.state.context.access.load_full();
            ListingTask::new(self.state.clone()).ensure_fingerprints(&access).await;
        }
        self.state.listing.fingerprints().clone()
    }

    /// Has what is listed compared with what it was under the rules of before.
    pub(super) fn recheck_listing(&self, old: Arc<Access>) {
        let state = self.state.clone();
        tokio::spawn(state.retired.clone().run_until_cancelled_owned(async move {
            if !state.supports_changes() {
                ListingTask::new(state.clone()).ensure_fingerprints(&old).await;
            }
            state.listing.mark_dirty();
        }));
    }

    /// Has what is listed compared with what it was.
    pub(super) fn mark_listing_dirty(&self) {
        self.state.listing.mark_dirty();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.retire();
    }
}
