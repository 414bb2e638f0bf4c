//! The watcher of one loaded plugin: a task that polls it for changes ([`poller`](super::poller)), two that detect
//! for which principals its listing ([`listing`](super::listing)) and its directories
//! ([`directories`](super::directories)) have changed, and one that prepares its data.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_host_base::share_limiter::ShareLimits;
use mcp_host_base::task;
use mcp_host_cluster::shards::{Shards, ShardsStats};
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::{Path, Uri};

use super::context::{SubscribeError, WatchContext};
use super::directories::DirectoryTask;
use super::listing::ListingTask;
use super::lookup::{LookupError, Lookups, ResourceKind};
use super::mailbox::Mailbox;
use super::poller::Poller;
use super::state::{ListingMonitor, PollError, WatcherState};
use super::subscriptions::SubscriptionIndex;
use super::views::{ViewLease, Views};
use crate::access::{Access, Policy, Principal};
use crate::catalog::{ListingFingerprint, may_see_listing};
use crate::response_cache::CachedPlugin;

/// Watches one plugin while it has subscribers. Stops when it is retired or dropped.
pub(super) struct Watcher {
    state: Arc<WatcherState>,
    lookups: Arc<Lookups>,
    /// The views, if changes depend on the caller. Then the plugin as a whole is not polled.
    views: Option<Arc<Views>>,
}

/// The state that a watcher inherits from its predecessor.
#[derive(Default)]
pub(super) struct Handover {
    /// The last fingerprint of the listing for each subscribed principal.
    pub(super) fingerprints: HashMap<Principal, ListingFingerprint>,
    /// Whether all subscribers are notified once, as soon as later changes can be detected.
    pub(super) notify_all_once: bool,
}

impl Watcher {
    /// Starts the watcher's tasks.
    pub(super) fn start(plugin: &Arc<CachedPlugin>, context: &Arc<WatchContext>, handover: Handover) -> Arc<Self> {
        let info = plugin.info();
        let has_views = info.watches && info.views > 0;
        // Each replica polls its own views.
        let replicas = context.replicas.as_ref().filter(|_| info.watches && !has_views);
        let shared = replicas.and_then(|replicas| replicas.share(plugin));
        let listing = ListingMonitor::new(handover.fingerprints);
        let state = WatcherState::new(plugin.clone(), context.clone(), shared, listing, None);
        let views = has_views.then(|| Views::new(plugin, context));
        if let Some(views) = &views {
            task::spawn(state.retired.clone().run_until_cancelled_owned(views.clone().run()));
        } else if info.watches {
            let mut poller = Poller::new(state.clone(), handover.notify_all_once);
            let polling = async move { poller.run().await };
            task::spawn(state.retired.clone().run_until_cancelled_owned(polling));
            let directories = DirectoryTask::new(state.clone());
            task::spawn(state.retired.clone().run_until_cancelled_owned(directories.run()));
        }
        let listing = ListingTask::new(state.clone());
        task::spawn(state.retired.clone().run_until_cancelled_owned(listing.run()));
        if context.prepares && plugin.preparation().is_some() {
            let plugin = plugin.clone();
            let preparing = async move { plugin.keep_prepared().await };
            task::spawn(state.retired.clone().run_until_cancelled_owned(preparing));
        }
        Arc::new(Self { lookups: Lookups::new(plugin.clone()), state, views })
    }

    pub(super) fn plugin(&self) -> &Arc<CachedPlugin> {
        &self.state.plugin
    }

    /// Returns whether the provider reports the same changes for all callers, and changes of its listing.
    pub(super) fn supports_changes(&self) -> bool {
        self.state.supports_changes()
    }

    /// Returns whether resources can be subscribed to.
    pub(super) fn supports_subscriptions(&self) -> bool {
        self.plugin().info().watches
    }

    /// Returns a lease of the subscriber's view; none if the plugin has no views.
    pub(super) fn enter(&self, mailbox: &Mailbox, memory: ShareLimits) -> Result<Option<ViewLease>, SubscribeError> {
        self.views.as_ref().map(|views| views.enter(mailbox, memory)).transpose()
    }

    /// Checks to which views its subscribers belong, if it has views.
    pub(super) fn identities_changed(&self) {
        self.views.iter().for_each(|views| views.identities_changed());
    }

    /// Records a subscriber that begins to listen to the listing, if the plugin has views. Must be called before it is
    /// a subscriber.
    pub(super) fn note_listener(&self, mailbox: &Arc<Mailbox>) {
        self.views.iter().for_each(|views| views.note_listener(mailbox));
    }

    /// Assigns a new subscriber of the listing to a view, which notifies it, if the plugin has views.
    pub(super) fn listener_came(&self, mailbox: &Mailbox) {
        self.views.iter().for_each(|views| views.listener_came(mailbox));
    }

    /// Removes a subscriber of the listing that has left from the views.
    pub(super) fn listener_left(&self, id: u64) {
        self.views.iter().for_each(|views| views.listener_left(id));
    }

    /// Returns the subscribers of the listing that its views notify.
    pub(super) fn listeners(&self) -> Vec<Arc<Mailbox>> {
        self.views.as_ref().map(|views| views.listeners()).unwrap_or_default()
    }

    /// Returns whether the plugin has views, and a subscriber sees anything of it.
    pub(super) fn has_identity(&self, mailbox: &Mailbox) -> bool {
        self.views.as_ref().is_some_and(|views| views.has_identity(mailbox))
    }

    /// Returns whether the plugin is being polled.
    pub(super) fn is_polling(&self) -> bool {
        match &self.views {
            Some(views) => views.is_polling(),
            None => self.state.is_polling.load(Ordering::Relaxed),
        }
    }

    /// Returns the counters of polls that are shared with other replicas; none if they are not shared.
    pub(super) fn shared_polls(&self) -> Option<ShardsStats> {
        self.state.shared.as_ref().map(Shards::stats)
    }

    /// Returns the lag of the last poll; none before the first poll.
    pub(super) fn last_lag(&self) -> Option<Duration> {
        self.views.as_ref().map_or_else(|| self.state.last_lag.get(), |views| views.last_lag())
    }

    /// Wakes the poller if the plugin may have no more subscribers. The poller evaluates the rules to check whether the
    /// listing has subscribers.
    pub(super) fn check_unwatched(&self, index: &SubscriptionIndex) {
        let is_polling = || self.state.is_polling.load(Ordering::SeqCst);
        if self.supports_changes() && is_polling() && !index.has_resources_under(self.plugin().mount()) {
            self.state.unwatched.notify_one();
        }
    }

    /// Wakes the poller if the plugin, or the view of this subscriber of one of its resources, may have no more
    /// subscribers.
    pub(super) fn subscriber_left(&self, index: &SubscriptionIndex, mailbox: &Mailbox) {
        self.views.iter().for_each(|views| views.check_unwatched(mailbox));
        self.check_unwatched(index);
    }

    /// Stops the watcher's tasks. Callers that wait for a poll get [`PollError::Retired`].
    pub(super) fn retire(&self) {
        self.state.retired.cancel();
        self.views.iter().for_each(|views| views.close());
        if let Some(shared) = &self.state.shared {
            shared.leave();
        }
    }

    /// Waits until changes of a resource are reported, that is, until it has been polled for this or another
    /// subscriber.
    pub(super) async fn wait_until_polled(&self, uri: &Uri, path: &Path, client: &Requester) -> Result<(), PollError> {
        if self.state.context.subscription_index().is_polled(uri, self.state.id) {
            return Ok(());
        }
        self.state.wait_for_poll_of(path, client).await
    }

    /// Returns the path of a resource, or `None` if the plugin does not own it.
    pub(super) fn path(&self, uri: &Uri) -> Option<Path> {
        let mount = self.plugin().mount();
        Some(mount.compose(uri.as_str().strip_prefix(mount.as_str())?).ok()?.path)
    }

    /// Requests the kind of a resource from the provider; see [`Lookups`]. Returns `None` if the watcher was
    /// retired.
    pub(super) async fn look_up(&self, path: &Path) -> Option<Result<ResourceKind, LookupError>> {
        self.state.retired.run_until_cancelled(self.lookups.look_up(path, None)).await
    }

    /// Waits until changes of a directory are detected for the principal.
    pub(super) async fn track_directory(&self, uri: &Uri, path: &Path, principal: &Principal) {
        self.state.retired.run_until_cancelled(self.state.track_directory(uri, path, principal)).await;
    }

    /// Examines the principals' views of a resource, if it is a directory.
    pub(super) fn examine(&self, uri: &Uri) {
        if !self.supports_changes() {
            return;
        }
        self.state.directories.add(self.path(uri).map(|path| (uri.clone(), path)));
    }

    /// Starts tracking the listing for a new principal with this policy, if it may see something of it.
    pub(super) fn watch_listing(&self, policy: &Policy) {
        if self.supports_changes() && may_see_listing(policy, self.plugin().mount()) {
            self.state.listing.dirty.notify_one();
            // Polling a plugin covers its listing, too.
            if !self.state.is_polling.load(Ordering::SeqCst) {
                self.state.wake.notify_one();
            }
        }
    }

    /// Waits until changes of the principal's listing are detected. Returns immediately for a plugin of which the
    /// principal, with this policy, may see nothing.
    pub(super) async fn listing_ready(&self, principal: &Principal, policy: &Policy) {
        if self.supports_changes() && may_see_listing(policy, self.plugin().mount()) {
            self.state.retired.run_until_cancelled(self.state.listing.wait_until_tracked(principal)).await;
        }
    }

    /// Returns the last known fingerprint of the listing for each subscribed principal. For a provider that does not
    /// report changes, computes them now.
    pub(super) async fn fingerprints(&self) -> HashMap<Principal, ListingFingerprint> {
        let access = self.state.context.access.load_full();
        let task = ListingTask::new(self.state.clone());
        match self.supports_changes() {
            true => task.track_empty(&access),
            false => task.ensure_fingerprints(&access).await,
        }
        self.state.listing.fingerprints().clone()
    }

    /// Checks for changes of the listing and of directories since the `old` rules.
    pub(super) fn recheck_listing(&self, old: Arc<Access>) {
        let state = self.state.clone();
        task::spawn(state.retired.clone().run_until_cancelled_owned(async move {
            let task = ListingTask::new(state.clone());
            match state.supports_changes() {
                true => task.track_empty(&old),
                false => task.ensure_fingerprints(&old).await,
            }
            state.listing.mark_dirty();
            state.examine_all().await;
            // The poller may be idle, because no subscriber could see anything.
            state.wake.notify_one();
        }));
    }

    /// Checks for changes of the listing.
    pub(super) fn mark_listing_dirty(&self) {
        self.state.listing.mark_dirty();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.retire();
    }
}
