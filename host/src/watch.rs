//! Watching: who wants to know of which changes, and telling them.
//!
//! No instance of a provider has to stay alive for a subscription to work. Each plugin that somebody is interested in has a
//! task that asks it, round by round, `changes(watched, since)`: which of the watched paths changed since the token of the
//! round before. The token is kept here, so what changed while a provider was broken is told when it is back. A round is
//! made when the interval is over (the provider's hint, within bounds, else `watch-interval`), at once when a granted
//! directory changes, and whenever a subscription is added; a provider that fails is asked again after twice as long each
//! time. A plugin that nobody watches is not asked at all.
//!
//! # How a subscription comes to count
//!
//! 1. The principal's access is checked, and room is reserved: [`Subscriber::MAX_RESOURCES`] and
//!    [`Subscriber::MAX_URI_BYTES`] of one subscriber, 512 MiB of all together.
//! 2. The provider is asked whether the resource can be subscribed to: one `stat` for all who ask at the same time
//!    ([`lookup`]). It is a call of the host's own, so it neither waits behind clients' calls nor keeps them waiting.
//! 3. Access is checked once more, the resource is registered, and a round is made, the same for all who wait for one.
//!
//! What fails on the way is either final until a reload (not found, denied, not to be subscribed to) or passes; the host tries
//! the latter again (`host::subscribe`): for a request for as long as that may wait, for `subscriptions/listen` until it counts.
//!
//! # What is promised
//!
//! - A subscription counts from before its [`Hub::subscribe`] returns: a change after that is told at least once. One that is
//!   given up before it counts leaves nothing behind, and nothing is told of it. One that was acknowledged before is told of once
//!   when it counts.
//! - After an unsubscription nothing is told of that resource.
//! - Nothing is told of what the principal may not read at that moment, and that the listing changed is told only to those
//!   for whom it did.
//! - Updates that wait are a set: however often a resource changes, and however slow its subscriber is, it waits once. So a
//!   subscriber costs memory for what it subscribed to and no more, and delays nobody.
//! - A subscriber is told of one resource, and of the listing, ten times a second at most ([`mailbox`]).
//! - However many resources are watched, a provider is asked about some two thousand in one call at most ([`groups`]), unless
//!   there are more than 64,000; and however many subscribers there are, no piece of work for them is about more than a
//!   thousand ([`notify`]).
//! - A [`Subscriber`] that is dropped leaves nothing behind.
//!
//! # Across a reload
//!
//! Subscriptions are to URIs, and a reload does not touch them. A plugin that stays as it is keeps its watcher, with its
//! token. One that is replaced, added or taken away has everything below its mount told once: where another provider watches
//! from now on, as soon as it has answered its first round, so that nothing falls between the two. A subscription whose plugin
//! is gone sleeps until there is one again. When rules change, what somebody may read again is told once.

mod byte_budget;
mod groups;
mod listing;
mod lookup;
mod mailbox;
mod notify;
mod poller;
mod state;
mod subscriber;
mod subscriptions;
mod watcher;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;

use self::lookup::LookupError;
use self::state::{PollError, WatchContext};
use self::watcher::{Handover, Watcher};
use crate::access::{Access, Principal};
use crate::catalog::ListingFingerprint;
use crate::config::Operation;
use crate::plugin::{Fault, Plugin};
use crate::uri::{Mount, Uri};

pub use self::subscriber::{Subscriber, Update};

/// All plugins' watchers, and all that somebody wants to know.
pub(crate) struct Hub {
    context: Arc<WatchContext>,
    /// One for each plugin that did load.
    watchers: ArcSwap<Watchers>,
    /// The id of the next subscriber.
    next_subscriber_id: AtomicU64,
    /// How many reloads there have been.
    reloads: tokio::sync::watch::Sender<u64>,
    /// Cancelled by [`shutdown`](Hub::shutdown).
    closed: CancellationToken,
}

type Watchers = BTreeMap<Mount, Arc<Watcher>>;

/// How much is being watched at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchStats {
    /// Subscribers that there are: one for each session that began in order, each stream, each command that waits.
    pub subscribers: usize,
    /// Different resources that they are subscribed to, or just being subscribed to, altogether.
    pub resources: usize,
    /// Plugins that are asked what changed, and whose granted directories are watched. One that nobody is interested in any
    /// more is counted for a moment, 2 s at most, as clients that go away often come back.
    pub plugins: usize,
}

/// What a hub knew before its plugins are replaced.
#[derive(Default)]
pub(crate) struct ListingSnapshot {
    /// By plugin, what each principal who asked would have listed.
    fingerprints: HashMap<String, HashMap<Principal, ListingFingerprint>>,
}

/// Why a subscription does not count.
#[derive(Debug)]
pub(crate) enum SubscribeError {
    /// The answer will be the same until a reload.
    Permanent(Fault),
    /// It may be another in so long.
    Transient(Fault, Duration),
    /// The plugin was replaced meanwhile, or taken away.
    PluginReplaced,
}

/// Notifies those who subscribed to something below those mounts, and those who may read something again.
async fn notify_of_reload(
    context: Arc<WatchContext>,
    mounts: Vec<Mount>,
    access: Arc<Access>,
    old_access: Arc<Access>,
) {
    for mount in &mounts {
        context.notify_under(Some(mount), |_, _| true).await;
    }
    if !Arc::ptr_eq(&access, &old_access) {
        let may_read_again = |principal: &Principal, uri: &Uri| {
            access.allows(principal, Operation::Read, uri) && !old_access.allows(principal, Operation::Read, uri)
        };
        context.notify_under(None, may_read_again).await;
    }
}

impl Hub {
    /// Watchers for those plugins. Their tasks run on the current runtime until the hub is dropped.
    pub(crate) fn new<'a>(plugins: impl Iterator<Item = &'a Arc<Plugin>>, access: Arc<Access>) -> Arc<Self> {
        let context = WatchContext::new(access);
        let started =
            plugins.map(|plugin| (plugin.mount().clone(), Watcher::start(plugin, &context, Handover::default())));
        let watchers: Watchers = started.collect();
        Arc::new(Self {
            watchers: ArcSwap::from_pointee(watchers),
            context,
            next_subscriber_id: AtomicU64::new(0),
            reloads: tokio::sync::watch::Sender::new(0),
            closed: CancellationToken::new(),
        })
    }

    /// A subscriber that has subscribed to nothing yet.
    pub(crate) fn subscriber(self: &Arc<Self>, principal: &Principal) -> Subscriber {
        let id = self.next_subscriber_id.fetch_add(1, Ordering::Relaxed);
        Subscriber::new(id, principal.clone(), self.clone())
    }

    /// Whether anything can be watched at all.
    pub(crate) fn supports_subscriptions(&self) -> bool {
        self.watchers.load().values().any(|watcher| watcher.supports_changes())
    }

    /// How much is being watched now.
    pub(crate) fn watch_stats(&self) -> WatchStats {
        let plugins = self.watchers.load().values().filter(|watcher| watcher.is_polling()).count();
        let (subscribers, resources) =
            (self.context.subscriber_count(), self.context.subscription_index().resource_count());
        WatchStats { subscribers, resources, plugins }
    }

    /// Subscribes to a resource, and returns once the subscription counts. With `tells`, the subscriber is told once at that
    /// moment.
    ///
    /// Whether its principal may do that has been checked, and is checked again when the provider has answered.
    pub(crate) async fn subscribe(
        &self,
        subscriber: &Subscriber,
        requested_uri: &str,
        uri: &Uri,
        notify_now: bool,
    ) -> Result<(), SubscribeError> {
        let pending = subscriber.begin(requested_uri, uri)?;
        let watcher = self.watcher_for(uri).ok_or(SubscribeError::PluginReplaced)?;
        let permanent_error = |message| SubscribeError::Permanent(Fault::InvalidRequest(message));
        if !watcher.supports_changes() {
            let reason = "its provider does not tell what changes";
            return Err(permanent_error(format!("{requested_uri} cannot be subscribed to: {reason}")));
        }
        let path = watcher.path(uri).ok_or(SubscribeError::PluginReplaced)?;
        match watcher.is_subscribable(&path).await.ok_or(SubscribeError::PluginReplaced)? {
            Ok(true) => {}
            Ok(false) => return Err(permanent_error(format!("{requested_uri} cannot be subscribed to"))),
            Err(LookupError { fault, retry_after: Some(after) }) => {
                return Err(SubscribeError::Transient(fault, after));
            }
            Err(LookupError { fault, retry_after: None }) => return Err(SubscribeError::Permanent(fault)),
        }
        let access = self.context.access.load_full();
        let may = |operation| access.allows(subscriber.principal(), operation, uri);
        if !may(Operation::Subscribe) || !may(Operation::Read) {
            return Err(SubscribeError::Permanent(Fault::NotFound));
        }
        pending.register(watcher.plugin().mount());
        match watcher.wait_for_poll().await {
            Ok(()) if self.watcher_for(uri).is_some_and(|now| Arc::ptr_eq(&now, &watcher)) => {
                pending.activate(notify_now);
                Ok(())
            }
            // One that was replaced meanwhile does not count any more.
            Ok(()) | Err(PollError::Retired) => Err(SubscribeError::PluginReplaced),
            Err(PollError::Fault(fault, after)) => Err(SubscribeError::Transient(fault, after)),
        }
    }

    /// Sees each reload from now on.
    pub(crate) fn reloads(&self) -> tokio::sync::watch::Receiver<u64> {
        self.reloads.subscribe()
    }

    /// What is known before plugins are replaced: to be taken while they can still be asked. `replaces` says of a plugin
    /// whether it, or what anyone may see of it, will be another.
    pub(crate) async fn snapshot(&self, replaces: impl Fn(&Arc<Plugin>) -> bool) -> ListingSnapshot {
        let watchers = self.watchers.load_full();
        let snapshots = watchers
            .values()
            .filter(|watcher| replaces(watcher.plugin()))
            .map(|watcher| async { (watcher.plugin().name().to_owned(), watcher.fingerprints().await) });
        ListingSnapshot { fingerprints: futures::future::join_all(snapshots).await.into_iter().collect() }
    }

    /// Watches those plugins from now on, under those rules, and tells whom the difference concerns. One at a time.
    pub(crate) fn switch_generation<'a>(
        &self,
        plugins: impl Iterator<Item = &'a Arc<Plugin>>,
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
                kept
            } else {
                // Where there was nothing, nothing was listed; where it is not known, it may be another.
                let unknown =
                    if inherited.is_some() { ListingFingerprint::Unknown } else { ListingFingerprint::empty() };
                let mut fingerprints = inherited.unwrap_or_default();
                for principal in &listing_principals {
                    fingerprints.entry(principal.clone()).or_insert(unknown);
                }
                self.context.subscription_index().remount(plugin.mount());
                Watcher::start(plugin, &self.context, Handover { fingerprints, notify_all_once: true })
            };
            watchers.insert(plugin.mount().clone(), watcher);
        }
        let new = Arc::new(watchers);
        self.watchers.store(new.clone());
        let mut to_notify = Vec::new();
        for watcher in old.values().filter(|watcher| !new.values().any(|kept| Arc::ptr_eq(kept, watcher))) {
            watcher.retire();
            let mount = watcher.plugin().mount();
            if !new.get(mount).is_some_and(|successor| successor.supports_changes()) {
                to_notify.push(mount.clone());
            }
        }
        for plugin in new.values().filter(|watcher| !watcher.supports_changes()).map(|watcher| watcher.plugin()) {
            if !old.values().any(|watcher| Arc::ptr_eq(watcher.plugin(), plugin)) {
                to_notify.push(plugin.mount().clone());
            }
        }
        let principals = snapshot.fingerprints.into_values().flatten();
        let changed = principals
            .filter(|(_, fingerprint)| fingerprint.differs(ListingFingerprint::empty()))
            .map(|(principal, _)| principal)
            .collect();
        self.context.subscription_index().notify_listing(&changed);
        // Of however many subscriptions there are, in pieces.
        tokio::spawn(notify_of_reload(self.context.clone(), to_notify, access, old_access));
        self.reloads.send_modify(|reloads| *reloads = reloads.wrapping_add(1));
    }

    /// Finds out for whom what is listed is another since rules were replaced, and tells them. What providers that do not tell
    /// what changes would have listed under the `old` rules is asked now, by the host itself.
    pub(crate) fn recheck_listings(&self, old: &Arc<Access>) {
        for watcher in self.watchers().values() {
            watcher.recheck_listing(old.clone());
        }
    }

    /// Stops the tasks of all watchers, so that no provider is called any more, and ends the streams of updates.
    pub(crate) fn shutdown(&self) {
        self.closed.cancel();
        self.watchers().values().for_each(|watcher| watcher.retire());
    }

    /// Who watches the plugin that owns a URI.
    fn watcher_for(&self, uri: &Uri) -> Option<Arc<Watcher>> {
        let watchers = self.watchers.load();
        let (mount, watcher) =
            watchers.range::<str, _>((Bound::Unbounded, Bound::Included(uri.as_str()))).next_back()?;
        uri.as_str().starts_with(mount.as_str()).then(|| watcher.clone())
    }

    /// The watchers of now.
    fn watchers(&self) -> Arc<Watchers> {
        self.watchers.load_full()
    }
}
