//! Change notifications: subscriptions of clients, polling of providers, delivery of updates.
//!
//! No instance of a provider has to stay alive for a subscription to work. Each plugin with subscribers has a task that
//! polls its provider: `changes(watched, since)` returns which of the watched paths changed since the token of the
//! previous poll. The token is stored here, so changes that happen while a provider is failing are notified once it has
//! recovered. A poll starts when the interval is over (the provider's hint, within bounds, else `watch-interval`),
//! immediately when a granted directory changes or a granted database notifies (`listen`), and whenever a subscription
//! is added. A failing provider is polled with exponential back-off. A plugin without subscribers is not polled.
//!
//! # How a subscription becomes active
//!
//! 1. The principal's access is checked, and memory is reserved: [`Subscriber::MAX_RESOURCES`] and
//!    [`Subscriber::MAX_URI_BYTES`] per subscriber, 512 MiB in total.
//! 2. The host asks the provider whether the resource is subscribable: one `stat` for all concurrent subscribers
//!    ([`lookup`], single-flight). It is one of the host's own calls, so it neither waits for clients' calls nor delays
//!    them.
//! 3. Access is checked again, the resource is registered, and a poll is made, which all waiting subscribers share.
//!    There is no poll if the resource is polled already, and a client that keeps causing polls waits for the next one
//!    ([`state`]).
//!
//! A failure on the way is either permanent until a reload (not found, denied, not subscribable) or transient. The host
//! retries after a transient failure (`host::subscribe`): for a request while the request may wait, for
//! `subscriptions/listen` until the subscription is active.
//!
//! # Guarantees
//!
//! - A subscription is active before [`Hub::subscribe`] returns: a later change is notified at least once. A
//!   subscription that is cancelled while pending leaves no state and causes no notification. A subscription that was
//!   acknowledged while pending is notified once when it becomes active.
//! - After an unsubscription, there are no further notifications of this resource.
//! - Access is checked again at delivery: an update is dropped if the principal may no longer read the resource. A
//!   change of the listing is notified only to principals whose own listing changed ([`listing`]), and a change of a
//!   listable resource only to principals that see other children or contents of it ([`directories`]).
//! - Pending updates are coalesced per resource, so a slow subscriber costs at most one entry per subscription, and
//!   never blocks others.
//! - Updates are throttled: a subscriber gets at most ten notifications per second for one resource, and for the
//!   listing ([`mailbox`]).
//! - One call passes at most a thousand paths to a provider ([`poll`](mcp_host_cluster::poll)), unless more than 64,000
//!   are watched. Paths that make a provider fail are isolated: first one client's paths from other clients', then
//!   single paths. However many subscribers there are, notifications are sent in batches of about a thousand
//!   ([`context`]).
//! - A dropped [`Subscriber`] leaves no state.
//!
//! # Replicas of a cluster
//!
//! With `[cluster]`, one replica polls a provider for all replicas ([`replicas`]), if the provider sees the same on all
//! of them. That replica publishes the changes to the others, which notify their own subscribers. The paths of a plugin
//! with very many are divided among several replicas ([`shards`](mcp_host_cluster::shards)). A replica that may
//! have missed a message polls for itself, and notifies all subscribers below the mount once. A replica that drops
//! cached responses because of a change makes all others drop theirs, too, even those without subscribers: a client may
//! be notified by one replica and read from another.
//!
//! # Views
//!
//! If changes depend on the caller, as at an upstream with a token for each principal, each identity has a poller of
//! its own. Its updates, including updates of the listing, go only to subscribers with this identity ([`views`]). Each
//! replica polls its own views.
//!
//! # Preparations
//!
//! If a provider exports `prepare`, the export is called from the start of its watcher until the watcher is retired,
//! and again after each poll that reports a change
//! ([`Plugin::keep_prepared`](mcp_host_engine::plugin::Plugin::keep_prepared)). Each replica of a cluster prepares for
//! itself.
//!
//! # Across a reload
//!
//! Subscriptions refer to URIs, so a reload does not affect them. An unchanged plugin keeps its watcher, with its
//! token. If a plugin is replaced, added or removed, every subscription below its mount is notified once; if another
//! provider takes over, this happens after its first successful poll, so that no change is lost in between. A
//! subscription whose plugin was removed is dormant until a plugin owns the URI again. When rules change, resources
//! that become readable again are notified once.
//!
//! # Modules
//!
//! From the top down: a module imports only from modules below it. [`subscriber`] and the [`Hub`] are one thing in two
//! files: the hub creates the subscribers, and they call it.
//!
//! | module | subject |
//! |---|---|
//! | [`redelivery`] | at-least-once delivery: numbers of updates, updates that the client may not have received |
//! | [`subscriber`] | one subscriber, with its subscriptions and their memory |
//! | `search` | the interface of search to subscriptions |
//! | [`watcher`] | one plugin: its tasks and its views |
//! | [`views`] | the views of a plugin whose changes depend on the caller |
//! | [`poller`], [`provider_calls`] | the task that polls a plugin or a view, and the calls of its polls |
//! | [`members`] | the subscribers with the identity of a view |
//! | [`listing`], [`directories`] | the tasks that detect for which principals the listing, or a directory, has changed |
//! | [`state`] | what a watcher shares with its tasks: requested polls, outcomes, fingerprints to compare |
//! | [`context`] | what all watchers share: subscriptions, rules, memory; notification in batches |
//! | [`subscriptions`], [`listing_subscribers`] | the index of subscriptions, and of the listing's subscribers |
//! | [`mailbox`] | pending updates of one subscriber |
//! | [`lookup`] | whether a resource is subscribable and listable |
//! | [`replicas`] | the other replicas of a cluster |
//! | [`burst_pause`] | pauses after polls and walks |
//! | [`poll_metrics`] | counters of polls |

mod burst_pause;
mod context;
mod directories;
mod listing;
mod listing_subscribers;
mod lookup;
mod mailbox;
mod members;
mod poll_metrics;
mod poller;
mod provider_calls;
mod redelivery;
pub(crate) mod replicas;
#[cfg(feature = "search")]
mod search;
mod state;
mod subscriber;
mod subscriptions;
#[cfg(test)]
mod tests;
mod views;
mod watcher;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt;
use mcp_host_base::followers::{Follower, Followers};
use mcp_host_base::metrics::Counter;
use mcp_host_base::share_limiter::ShareLimits;
use mcp_host_base::task;
use mcp_host_cluster::member::RoleName;
use mcp_host_cluster::presence::ClusterView;
use mcp_host_cluster::roster::Dropped;
use mcp_host_cluster::session::SessionChange;
use mcp_host_cluster::shards::ShardsStats;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::{Mount, Uri};
use tokio_util::sync::CancellationToken;

use self::context::WatchContext;
use self::lookup::{LookupError, ResourceKind};
use self::mailbox::Mailbox;
use self::replicas::Replicas;
use self::state::PollError;
use self::watcher::{Handover, Watcher};
use crate::access::{Access, Principal};
use crate::catalog::{ListingFingerprint, may_see_listing};
use crate::response_cache::CachedPlugin;

pub(crate) use self::context::{LimitScope, SubscribeError};
pub(crate) use self::poll_metrics::PollMetrics;
pub use self::redelivery::SentUpdate;
pub use self::subscriber::{StreamGuard, Subscriber, Update};
pub use self::subscriptions::Watched;

/// The watchers of all plugins, and the subscriptions.
pub(crate) struct Hub {
    context: Arc<WatchContext>,
    /// One per loaded plugin.
    watchers: ArcSwap<Watchers>,
    /// The id of the next subscriber.
    next_subscriber_id: AtomicU64,
    /// The number of reloads.
    reloads: tokio::sync::watch::Sender<u64>,
    /// Cancelled by [`shutdown`](Hub::shutdown).
    closed: CancellationToken,
    /// The number of resource updates that subscribers have taken.
    resource_updates: Counter,
    /// The number of listing updates that subscribers have taken.
    listing_updates: Counter,
    /// Followers of the updates that subscribers take, except subscribers of views.
    sent: Followers<SentUpdate>,
}

type Watchers = BTreeMap<Mount, Arc<Watcher>>;

/// The number of subscribers, watched resources and polled plugins at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchStats {
    /// The subscribers: one for each initialized session, each stream, and each waiting command.
    pub subscribers: usize,
    /// The distinct resources of all active and pending subscriptions.
    pub resources: usize,
    /// The plugins that are polled, and whose granted directories are watched. A plugin without subscribers still
    /// counts for up to 2 s, because clients often reconnect.
    pub plugins: usize,
}

/// The fingerprints of listings, taken before plugins are replaced.
#[derive(Default)]
pub(crate) struct ListingSnapshot {
    /// By plugin, the listing's fingerprint for each principal with a subscription to it.
    fingerprints: HashMap<String, HashMap<Principal, ListingFingerprint>>,
}

/// Notifies subscribers of the listing with the principals of `listings`, subscribers of resources below `mounts`, and
/// subscribers of resources that become readable again under `access`.
async fn notify_of_reload(
    context: Arc<WatchContext>,
    listings: HashSet<Principal>,
    mounts: Vec<Mount>,
    access: Arc<Access>,
    old_access: Arc<Access>,
) {
    context.notify_listing(&listings).await;
    for mount in &mounts {
        context.notify_under(Some(mount), |_, _| true).await;
    }
    if !Arc::ptr_eq(&access, &old_access) {
        let is_allowed_again = |mailbox: &Mailbox, uri: &Uri| {
            let principal = &mailbox.principal();
            access.policy(principal).allows_updates(uri) && !old_access.policy(principal).allows_updates(uri)
        };
        context.notify_under(None, is_allowed_again).await;
    }
}

impl Hub {
    /// Starts a watcher for each plugin, which also prepares the plugin's data if `prepares`. The tasks run on the
    /// current runtime until the hub is dropped.
    pub(crate) fn new<'a>(
        plugins: impl Iterator<Item = &'a Arc<CachedPlugin>>,
        access: Arc<Access>,
        replicas: Option<Replicas>,
        prepares: bool,
    ) -> Arc<Self> {
        let context = WatchContext::new(access, replicas, prepares);
        let started =
            plugins.map(|plugin| (plugin.mount().clone(), Watcher::start(plugin, &context, Handover::default())));
        let watchers: Watchers = started.collect();
        Arc::new(Self {
            watchers: ArcSwap::from_pointee(watchers),
            context,
            next_subscriber_id: AtomicU64::new(0),
            reloads: tokio::sync::watch::Sender::new(0),
            closed: CancellationToken::new(),
            resource_updates: Counter::default(),
            listing_updates: Counter::default(),
            sent: Followers::default(),
        })
    }

    /// Creates a subscriber without subscriptions.
    pub(crate) fn subscriber(self: &Arc<Self>, principal: &Principal) -> Subscriber {
        let id = self.next_subscriber_id.fetch_add(1, Ordering::Relaxed);
        Subscriber::new(id, principal.clone(), self.clone())
    }

    /// Returns whether any plugin at a mount that `is_counted` selects supports change notifications.
    pub(crate) fn supports_subscriptions(&self, is_counted: impl Fn(&Mount) -> bool) -> bool {
        self.watchers.load().iter().any(|(mount, watcher)| watcher.supports_subscriptions() && is_counted(mount))
    }

    /// Returns the numbers of resource updates and of listing updates that subscribers have taken.
    pub(crate) fn updates_taken(&self) -> (u64, u64) {
        (self.resource_updates.get(), self.listing_updates.get())
    }

    /// Returns a follower of the updates that subscribers take.
    pub(crate) fn follow_updates(&self) -> Follower<SentUpdate> {
        self.sent.add()
    }

    /// Returns the counters of polls.
    pub(crate) fn poll_metrics(&self) -> &PollMetrics {
        &self.context.poll_metrics
    }

    /// Returns the lag of the last poll of the plugin at a mount; none before the first poll.
    pub(crate) fn poll_lag(&self, mount: &Mount) -> Option<Duration> {
        self.watchers.load().get(mount)?.last_lag()
    }

    /// Returns the counters of the polls of the plugin at a mount; none if they are not shared with other replicas.
    pub(crate) fn shared_polls(&self, mount: &Mount) -> Option<ShardsStats> {
        self.watchers.load().get(mount)?.shared_polls()
    }

    /// Returns the other replicas of the cluster; none without a cluster.
    pub(crate) fn replicas(&self) -> Option<&Replicas> {
        self.context.replicas.as_ref()
    }

    /// Returns this replica's view of the cluster; none without a cluster.
    pub(crate) fn cluster(&self) -> Option<ClusterView> {
        self.replicas()?.view()
    }

    /// Returns the names of the plugins of which this replica polls a shard for all, in order.
    pub(crate) fn leases(&self) -> Vec<String> {
        let watchers = self.watchers.load();
        let holds =
            |watcher: &&Arc<Watcher>| watcher.shared_polls().is_some_and(|polls| polls.count(RoleName::Holding) > 0);
        let mut leases: Vec<_> =
            watchers.values().filter(holds).map(|watcher| watcher.plugin().name().to_owned()).collect();
        leases.sort();
        leases
    }

    /// Drops cached responses that another replica has reported as stale, for plugins with the same responses on all
    /// replicas. Also invalidates known session records, so that they are read again.
    pub(crate) fn drop_cached(&self, dropped: &Dropped) {
        let Some(replicas) = self.replicas() else { return };
        if let Some(sessions) = replicas.sessions() {
            match dropped {
                Dropped::Session(session) => sessions.heard(SessionChange::One(session.clone())),
                Dropped::All => sessions.heard(SessionChange::Any),
                Dropped::Nothing | Dropped::Plugin(_) => {}
            }
        }
        for watcher in self.watchers.load().values() {
            let plugin = watcher.plugin();
            let is_stale = match dropped {
                Dropped::Nothing | Dropped::Session(_) => false,
                Dropped::Plugin(key) => replicas.is_shard(plugin, key),
                Dropped::All => plugin.poll_identity().is_some(),
            };
            if is_stale {
                plugin.clear_cached_responses();
            }
        }
    }

    /// Returns the current numbers of subscribers, watched resources and polled plugins.
    pub(crate) fn watch_stats(&self) -> WatchStats {
        let plugins = self.watchers.load().values().filter(|watcher| watcher.is_polling()).count();
        let (subscribers, resources) =
            (self.context.subscriber_count(), self.context.subscription_index().resource_count());
        WatchStats { subscribers, resources, plugins }
    }

    /// Returns the watched resources in order, with their subscribers: the first `limit` after `after`.
    pub(crate) fn watched_resources(&self, after: Option<&str>, limit: usize) -> Vec<Watched> {
        self.context.subscription_index().resources(after, limit)
    }

    /// Returns the number of watched resources below a mount.
    pub(crate) fn watched_below(&self, mount: &Mount) -> usize {
        self.context.subscription_index().count_under(mount)
    }

    /// Subscribes to a resource, and returns once the subscription is active. With `notify_now`, the subscriber is
    /// notified once when this happens.
    ///
    /// `memory` limits the memory of subscriptions, per principal and overall.
    ///
    /// The caller has checked the principal's access. It is checked again after the provider's response.
    pub(crate) async fn subscribe(
        &self,
        subscriber: &Subscriber,
        requested_uri: &str,
        uri: &Uri,
        notify_now: bool,
        memory: ShareLimits,
    ) -> Result<(), SubscribeError> {
        let client = Requester::current_or(&subscriber.principal());
        subscriber.mailbox.set_requester(&client);
        let pending = subscriber.begin(requested_uri, uri, memory)?;
        let watcher = self.watcher_for(uri).ok_or(SubscribeError::PluginReplaced)?;
        let permanent_error = |message| SubscribeError::Permanent(Fault::InvalidRequest(message));
        if !watcher.supports_subscriptions() {
            let reason = "its provider does not report changes";
            return Err(permanent_error(format!("{requested_uri} cannot be subscribed to: {reason}")));
        }
        let path = watcher.path(uri).ok_or(SubscribeError::PluginReplaced)?;
        let lease = watcher.enter(&subscriber.mailbox, memory)?;
        let looked_up = match &lease {
            Some(lease) => lease.look_up(&path).await,
            None => watcher.look_up(&path).await,
        };
        let kind = match looked_up.ok_or(SubscribeError::PluginReplaced)? {
            Ok(ResourceKind::NotSubscribable) => {
                return Err(permanent_error(format!("{requested_uri} cannot be subscribed to")));
            }
            Ok(kind) => kind,
            Err(LookupError { fault, retry_after: Some(after) }) => {
                return Err(SubscribeError::Transient(fault, after));
            }
            Err(LookupError { fault, retry_after: None }) => return Err(SubscribeError::Permanent(fault)),
        };
        if !self.context.access.load().policy(&subscriber.principal()).allows_updates(uri) {
            return Err(SubscribeError::Permanent(Fault::NotFound));
        }
        lease.iter().for_each(|lease| lease.note(&subscriber.mailbox));
        pending.register(watcher.plugin().mount(), kind == ResourceKind::Listable);
        if kind == ResourceKind::Listable {
            // Boxed, because most resources have no children, and type-erased, because it contains many futures.
            let principal = subscriber.principal();
            watcher.track_directory(uri, &path, &principal).boxed().await;
        }
        let polled = match &lease {
            Some(lease) => lease.wait_until_polled(&path, &client).await,
            None => watcher.wait_until_polled(uri, &path, &client).await,
        };
        let is_current = || {
            self.watcher_for(uri).is_some_and(|now| Arc::ptr_eq(&now, &watcher))
                && lease.as_ref().is_none_or(|lease| lease.is_of(&subscriber.mailbox))
        };
        match polled {
            Ok(()) if is_current() => {
                pending.activate(notify_now);
                Ok(())
            }
            // The watcher, or the identity of the view, may have been replaced meanwhile.
            Ok(()) | Err(PollError::Retired) => Err(SubscribeError::PluginReplaced),
            Err(PollError::Fault(fault, after)) => Err(SubscribeError::Transient(fault, after)),
        }
    }

    /// Returns a receiver that is notified of each reload from now on.
    pub(crate) fn reloads(&self) -> tokio::sync::watch::Receiver<u64> {
        self.reloads.subscribe()
    }

    /// Takes a snapshot of the listings' fingerprints. Must be called while the old plugins can still be polled.
    /// `replaces` returns whether a plugin, or the part of it that some principal may see, will change.
    pub(crate) async fn snapshot(&self, replaces: impl Fn(&Arc<CachedPlugin>) -> bool) -> ListingSnapshot {
        let watchers = self.watchers.load_full();
        let snapshots = watchers
            .values()
            .filter(|watcher| replaces(watcher.plugin()))
            .map(|watcher| async { (watcher.plugin().name().to_owned(), watcher.fingerprints().await) });
        ListingSnapshot { fingerprints: futures::future::join_all(snapshots).await.into_iter().collect() }
    }

    /// Switches to the plugins and rules of a new generation, and notifies the affected subscribers. Must not be called
    /// concurrently.
    pub(crate) fn switch_generation<'a>(
        &self,
        plugins: impl Iterator<Item = &'a Arc<CachedPlugin>>,
        access: Arc<Access>,
        mut snapshot: ListingSnapshot,
    ) {
        let old_access = self.context.access.swap(access.clone());
        let old = self.watchers.load_full();
        let listing_principals = self.context.subscription_index().listing_principals();
        let mut watchers = Watchers::new();
        for plugin in plugins {
            let kept = old.get(plugin.mount()).filter(|watcher| Arc::ptr_eq(watcher.plugin(), plugin)).cloned();
            let inherited = snapshot.fingerprints.remove(plugin.name());
            let watcher = if let Some(kept) = kept {
                if inherited.is_some() {
                    kept.mark_listing_dirty();
                }
                // Groups may have changed.
                kept.identities_changed();
                kept
            } else {
                // A new plugin starts from an empty listing. Where the fingerprint is not known, the listing may have
                // changed.
                let unknown =
                    if inherited.is_some() { ListingFingerprint::Unknown } else { ListingFingerprint::empty() };
                let mut fingerprints = inherited.unwrap_or_default();
                for principal in &listing_principals {
                    let saw_some = may_see_listing(&old_access.policy(principal), plugin.mount());
                    let before = if saw_some { unknown } else { ListingFingerprint::empty() };
                    fingerprints.entry(principal.clone()).or_insert(before);
                }
                self.context.subscription_index().remount(plugin.mount());
                Watcher::start(plugin, &self.context, Handover { fingerprints, notify_all_once: true })
            };
            watchers.insert(plugin.mount().clone(), watcher);
        }
        let new = Arc::new(watchers);
        self.watchers.store(new.clone());
        // Only the old watchers may track the listing of principals that were added meanwhile.
        let later = self.context.subscription_index().listing_principals();
        later.difference(&listing_principals).for_each(|principal| self.track_listing_of(principal));
        let mut to_notify = Vec::new();
        for watcher in old.values().filter(|watcher| !new.values().any(|kept| Arc::ptr_eq(kept, watcher))) {
            let mount = watcher.plugin().mount();
            // Those that another generation of views knows are notified by it.
            let mut lost = watcher.listeners();
            lost.retain(|mailbox| !new.get(mount).is_some_and(|successor| successor.has_identity(mailbox)));
            self.context.subscription_index().notify_listeners(&lost);
            watcher.retire();
            if !new.get(mount).is_some_and(|successor| successor.supports_subscriptions()) {
                to_notify.push(mount.clone());
            }
        }
        for plugin in new.values().filter(|watcher| !watcher.supports_subscriptions()).map(|watcher| watcher.plugin()) {
            if !old.values().any(|watcher| Arc::ptr_eq(watcher.plugin(), plugin)) {
                to_notify.push(plugin.mount().clone());
            }
        }
        let principals = snapshot.fingerprints.into_values().flatten();
        let changed = principals
            .filter(|(_, fingerprint)| fingerprint.differs(ListingFingerprint::empty()))
            .map(|(principal, _)| principal)
            .collect();
        // In batches, because the number of subscriptions is not bounded.
        task::spawn(notify_of_reload(self.context.clone(), changed, to_notify, access, old_access));
        self.reloads.send_modify(|reloads| *reloads = reloads.wrapping_add(1));
    }

    /// Compares all listings under the new rules with those under the `old` ones, and notifies the principals whose
    /// listing changed. Listings of providers that do not report changes are walked now, by the host itself, under the
    /// `old` rules.
    pub(crate) fn recheck_listings(&self, old: &Arc<Access>) {
        for watcher in self.watchers().values() {
            watcher.recheck_listing(old.clone());
        }
    }

    /// Stops the tasks of all watchers, so that no provider is called any more, and ends the streams of updates.
    /// Idempotent.
    pub(crate) fn shutdown(&self) {
        self.closed.cancel();
        self.watchers().values().for_each(|watcher| watcher.retire());
    }

    /// Makes the watchers track the listing of a principal that is new among the subscribers of the listing, except
    /// watchers of whose plugin it may see nothing. Must be called after the subscriber was added, so that a reload of
    /// the rules finds it.
    fn track_listing_of(&self, principal: &Principal) {
        let policy = self.context.access.load().policy(principal);
        self.watchers().values().for_each(|watcher| watcher.watch_listing(&policy));
    }

    /// Returns the watcher of the plugin that owns a URI.
    fn watcher_for(&self, uri: &Uri) -> Option<Arc<Watcher>> {
        owner(&self.watchers.load(), uri).cloned()
    }

    /// Returns the current watchers.
    fn watchers(&self) -> Arc<Watchers> {
        self.watchers.load_full()
    }
}

/// Returns the watcher of the plugin that owns a URI.
fn owner<'a>(watchers: &'a Watchers, uri: &Uri) -> Option<&'a Arc<Watcher>> {
    let (mount, watcher) = watchers.range::<str, _>((Bound::Unbounded, Bound::Included(uri.as_str()))).next_back()?;
    uri.as_str().starts_with(mount.as_str()).then_some(watcher)
}
