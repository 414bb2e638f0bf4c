//! The views of a plugin whose changes depend on the caller, such as an upstream with a token for each principal.
//!
//! A provider with [views](mcp_host_model::provider::ProviderInfo::views) returns the [`Identity`] of a caller. Each identity with
//! subscribers has a view: a poller with tokens, groups of paths and lookups of its own, whose calls have one of those subscribers as
//! their caller. An update goes to subscribers of the same identity only, and the rules are checked at delivery as everywhere.
//!
//! # The members of a view are computed, not stored
//!
//! A subscription refers to a URI, as everywhere ([`subscriptions`](super::subscriptions)). The identity of its subscriber is computed
//! from the current rules, groups and access token whenever it matters: which paths a poll covers and for whom it is made
//! ([`poller`](super::poller)), and who is notified. So no view continues with the credentials of an identity that no subscriber has
//! any more, and no subscription remains in a view that has ended.
//!
//! Only the identity of each subscriber at the last [check](Views::check) is stored. A check follows each reload, each change of groups or
//! access tokens, and each `watch-interval`, because groups expire. It begins the views that are missing. A subscriber whose identity or
//! credentials have changed since the last check, or that is new to this generation of the plugin, is notified of each of its resources
//! once: after the next poll of its view, so that no change in between is lost, or immediately if it sees nothing any more.
//!
//! # The listing
//!
//! Subscribers of the listing are members of views, too ([`listeners`]). A view for the listing only takes no place of a subscription.
//!
//! # Lifetime
//!
//! The table belongs to one generation of a plugin. When the plugin is replaced, the table is closed under its lock: the views end with
//! all of their tasks, and a subscription in progress begins again at the new plugin. A view without subscribers ends after its poller has
//! [lingered](super::poller), unless a subscription in it is in progress ([`ViewLease`]).
//!
//! # Bounds
//!
//! A plugin has at most [`ProviderInfo::views`](mcp_host_model::provider::ProviderInfo::views) views for resources, and
//! [`MAX_LISTING_VIEWS`] for the listing only. A principal may use any number of access tokens, and causes at most
//! [`MAX_VIEWS_OF_PRINCIPAL`] views of either kind. Each view is charged with [`VIEW_MEMORY`] to the principal's memory for subscriptions.
//! Beyond these limits a subscription is refused, and a subscriber with a new identity is tried again at the next check. A check takes at
//! most a seventeenth of the time ([`burst_pause`]).
//!
//! Several principals may have one identity, such as the members of a group with a token. A check charges a view to another one of its
//! principals if the one that is charged has no subscriber in it any more. Otherwise those who stay would have it for nothing, and who has
//! left would lack one of its views.

mod listeners;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::share_limiter::{LimitReached, ShareLimiter, ShareLimits, SharePermit};
use mcp_host_base::throttle::ThrottlePerReason;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::caller::{Caller, Identity};
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::{Path, Uri};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use self::listeners::{FoundListener, Listener};
use super::burst_pause::burst_pause;
use super::listing::ListingMonitor;
use super::lookup::{LookupError, Lookups, ResourceKind};
use super::mailbox::Mailbox;
use super::poller::Poller;
use super::state::{BATCH_SIZE, PollError, WatchContext, WatcherState};
use super::subscriber::subscription_memory_full;
use super::{LimitScope, SubscribeError};
use crate::response_cache::CachedPlugin;

/// The maximum number of views of one plugin that one principal causes, of either kind.
const MAX_VIEWS_OF_PRINCIPAL: usize = 16;
/// The maximum number of views of one plugin for the listing only.
const MAX_LISTING_VIEWS: usize = 256;
/// The approximate memory of a view besides its subscriptions: its tasks, and its client at the upstream with the credentials.
const VIEW_MEMORY: usize = 64 << 10;
/// The time after which a client may retry when there are too many views.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// The minimum time between two checks without a reason.
const MIN_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two lines of the log with the same reason.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// What a view is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// The listing only.
    Listing,
    /// Resources, and the listing.
    Resources,
}

/// The identity whose view a watcher polls.
pub(super) struct ViewScope {
    pub(super) identity: Identity,
    owed: Mutex<Owed>,
    /// The subscribers of the listing that had this identity at the last check, by their ids.
    listeners: Mutex<BTreeMap<u64, Arc<Mailbox>>>,
    /// Notified when a subscriber has given up or become active.
    released: Notify,
}

/// The subscribers to notify once, after the next poll.
#[derive(Default)]
pub(super) struct Owed {
    /// Of all their resources.
    pub(super) resources: HashSet<u64>,
    /// Of the listing.
    pub(super) listing: HashSet<u64>,
}

impl Owed {
    pub(super) fn extend(&mut self, more: Self) {
        self.resources.extend(more.resources);
        self.listing.extend(more.listing);
    }
}

impl ViewScope {
    fn new(identity: Identity) -> Self {
        Self { identity, owed: Mutex::default(), listeners: Mutex::default(), released: Notify::new() }
    }

    /// Takes the subscribers to notify after the poll that begins now.
    pub(super) fn take_owed(&self) -> Owed {
        std::mem::take(&mut *self.owed.lock())
    }
}

/// The views of one generation of a plugin.
pub(super) struct Views {
    plugin: Arc<CachedPlugin>,
    context: Arc<WatchContext>,
    table: Mutex<Table>,
    /// Notified when identities of subscribers may have changed.
    changed: Notify,
    log: ThrottlePerReason,
}

struct Table {
    views: HashMap<Identity, View>,
    /// The identity of each subscriber of a resource at the last check.
    subscribers: HashMap<u64, Seen>,
    /// The subscribers of the listing at the last check.
    listeners: HashMap<u64, Listener>,
    /// The number of checks.
    checks: u64,
    counts: Counts,
    /// The memory limits of the last subscription.
    limits: ShareLimits,
    /// Whether the plugin was replaced.
    is_closed: bool,
}

/// The numbers of views for each purpose, in total and by the principal that is charged.
#[derive(Default)]
struct Counts {
    listing: ShareLimiter<Requester>,
    resources: ShareLimiter<Requester>,
}

impl Counts {
    /// Counts a view of a principal, within the limits; `max` is that of all principals.
    fn add(&self, purpose: Purpose, principal: &Requester, max: usize) -> Result<SharePermit<Requester>, Refused> {
        let limits = ShareLimits { client: MAX_VIEWS_OF_PRINCIPAL, overall: max };
        self.of(purpose).acquire(principal, limits).map_err(|reached| match reached {
            LimitReached::ClientShare => Refused::Share,
            LimitReached::Overall => Refused::Full(max),
        })
    }

    fn of(&self, purpose: Purpose) -> &ShareLimiter<Requester> {
        match purpose {
            Purpose::Listing => &self.listing,
            Purpose::Resources => &self.resources,
        }
    }
}

/// What the principal is charged with that has caused a view, or another one that uses it now.
struct ViewCharge {
    /// One of the views for its purpose.
    count: SharePermit<Requester>,
    memory: SharePermit<Requester>,
}

struct View {
    state: Arc<WatcherState>,
    lookups: Arc<Lookups>,
    purpose: Purpose,
    /// The number of leases.
    leases: usize,
    /// The number of leases and of new subscribers of the listing since the beginning.
    entered: u64,
    /// This number at the beginning of the last check; none if there were leases.
    settled: Option<u64>,
    charge: ViewCharge,
    _polling: AbortOnDropHandle<Option<()>>,
    _notifying: AbortOnDropHandle<Option<()>>,
}

struct Seen {
    /// None if it saw nothing.
    identity: Option<Identity>,
    /// The number of changes of its credentials at that time: it may have had another identity between two checks.
    credential_changes: u64,
    /// The check that saw it, or the last one before it subscribed.
    check: u64,
}

/// A subscriber, as a check has found it.
struct Found {
    mailbox: Arc<Mailbox>,
    credential_changes: u64,
    identity: Option<Identity>,
}

/// Why there is no view.
enum Refused {
    /// The plugin was replaced.
    Closed,
    /// All views are in use.
    Full(usize),
    /// The principal has too many.
    Share,
    Memory(LimitReached),
}

impl From<Refused> for SubscribeError {
    fn from(refused: Refused) -> Self {
        let reason = match refused {
            Refused::Closed => return Self::PluginReplaced,
            Refused::Memory(reached) => return subscription_memory_full(reached, LimitScope::Plugin),
            Refused::Full(max) => {
                format!("its limit of {max} identities with subscriptions at a time is reached; try again later")
            }
            Refused::Share => format!(
                "you have subscriptions with {MAX_VIEWS_OF_PRINCIPAL} access tokens, which is the limit; cancel subscriptions of older access tokens"
            ),
        };
        Self::Limited(Fault::Unavailable { reason, retry_after: Some(RETRY_AFTER) }, LimitScope::Plugin)
    }
}

impl Views {
    /// Creates no view yet.
    pub(super) fn new(plugin: &Arc<CachedPlugin>, context: &Arc<WatchContext>) -> Arc<Self> {
        let table = Table {
            views: HashMap::new(),
            subscribers: HashMap::new(),
            listeners: HashMap::new(),
            checks: 0,
            counts: Counts::default(),
            // Until a limit is known, the subscribers of an earlier generation have been charged already.
            limits: ShareLimits { client: usize::MAX, overall: usize::MAX },
            is_closed: false,
        };
        Arc::new(Self {
            plugin: plugin.clone(),
            context: context.clone(),
            table: Mutex::new(table),
            changed: Notify::new(),
            log: ThrottlePerReason::new(LOG_PERIOD),
        })
    }

    /// Checks the identities of subscribers until the plugin is replaced.
    pub(super) async fn run(self: Arc<Self>) {
        let interval = self.plugin.watch_interval().max(MIN_CHECK_INTERVAL);
        loop {
            let began = Instant::now();
            self.check().await;
            let rest = Instant::now().checked_add(burst_pause(began.elapsed())).unwrap_or(began);
            tokio::select! {
                () = self.changed.notified() => {}
                () = self.plugin.identities_changed() => {}
                () = sleep(interval) => {}
            }
            sleep_until(rest).await;
        }
    }

    /// Requests a check of the identities of subscribers.
    pub(super) fn identities_changed(&self) {
        self.changed.notify_one();
    }

    /// Returns a lease of the view of a subscriber. Begins the view if there is none.
    pub(super) fn enter(self: &Arc<Self>, mailbox: &Mailbox, limits: ShareLimits) -> Result<ViewLease, SubscribeError> {
        let caller = self.context.caller(mailbox);
        let identity = caller.as_ref().and_then(|caller| self.plugin.identity(caller));
        // It sees nothing, so there is nothing to subscribe to.
        let (Some(caller), Some(identity)) = (caller, identity) else {
            return Err(SubscribeError::Permanent(Fault::NotFound));
        };
        let mut table = self.table();
        table.limits = limits;
        let view = self.open(&mut table, identity, mailbox, Purpose::Resources)?;
        (view.leases, view.entered) = (view.leases.saturating_add(1), view.entered.saturating_add(1));
        let (state, lookups) = (view.state.clone(), view.lookups.clone());
        Ok(ViewLease { views: self.clone(), state, lookups, identity, caller, is_noted: AtomicBool::new(false) })
    }

    /// Returns the view of an identity for this purpose. Begins the view, on behalf of a subscriber, if there is none.
    fn open<'a>(
        self: &Arc<Self>,
        table: &'a mut Table,
        identity: Identity,
        mailbox: &Mailbox,
        purpose: Purpose,
    ) -> Result<&'a mut View, Refused> {
        if table.is_closed {
            return Err(Refused::Closed);
        }
        let principal = charged_principal(mailbox);
        let max = match purpose {
            Purpose::Listing => MAX_LISTING_VIEWS,
            Purpose::Resources => self.plugin.info().views,
        };
        let (counts, limits) = (&table.counts, table.limits);
        let memory = || self.context.memory.acquire_amount(&principal, VIEW_MEMORY, limits).map_err(Refused::Memory);
        match table.views.entry(identity) {
            Entry::Occupied(view) => {
                let view = view.into_mut();
                if view.purpose < purpose {
                    let count = counts.add(purpose, &principal, max)?;
                    if *view.charge.memory.client() != principal {
                        view.charge.memory = memory()?;
                    }
                    (view.purpose, view.charge.count) = (purpose, count);
                }
                Ok(view)
            }
            Entry::Vacant(place) => {
                let count = counts.add(purpose, &principal, max)?;
                let charge = ViewCharge { count, memory: memory()? };
                Ok(place.insert(self.begin(identity, purpose, charge)))
            }
        }
    }

    /// Begins the view of an identity.
    fn begin(self: &Arc<Self>, identity: Identity, purpose: Purpose, charge: ViewCharge) -> View {
        let (plugin, context, scope) = (self.plugin.clone(), self.context.clone(), ViewScope::new(identity));
        // The polls of a view are never shared with other replicas, which have subscribers of their own.
        let listing = ListingMonitor::new(HashMap::new());
        let state = WatcherState::new(plugin, context, None, listing, Some(scope));
        let polling = watch(Arc::downgrade(self), state.clone());
        let polling = tokio::spawn(state.retired.clone().run_until_cancelled_owned(polling));
        let notifying = listeners::notify(state.clone());
        let notifying = tokio::spawn(state.retired.clone().run_until_cancelled_owned(notifying));
        View {
            lookups: Lookups::new(self.plugin.clone()),
            state,
            purpose,
            leases: 0,
            entered: 0,
            settled: None,
            charge,
            _polling: AbortOnDropHandle::new(polling),
            _notifying: AbortOnDropHandle::new(notifying),
        }
    }

    /// Compares the identity of each subscriber with its identity at the last check, and begins the views that are
    /// missing.
    pub(super) async fn check(self: &Arc<Self>) {
        let check = self.table().begin_check();
        let (mount, mut found, mut from) = (self.plugin.mount(), HashMap::new(), None);
        loop {
            from = self.context.subscription_index().visit(mount, from.as_ref(), BATCH_SIZE, |_, _, mailbox| {
                found.entry(mailbox.id).or_insert_with(|| Found {
                    mailbox: mailbox.clone(),
                    // Before the identity, so that a change meanwhile is found by the next check.
                    credential_changes: mailbox.credential_changes(),
                    identity: self.identity(mailbox),
                });
            });
            if from.is_none() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let listeners = self.find_listeners().await;
        let (lost, listening) = self.compare(check, &found, &listeners);
        self.context.notify_listeners(&listening).await;
        if !lost.is_empty() {
            self.context.notify_under(Some(mount), |mailbox, _| lost.contains(&mailbox.id)).await;
        }
    }

    /// Schedules the notification of the subscribers whose identity has changed. Returns the subscribers to notify now: of their resources,
    /// because they see nothing any more, and of the listing.
    fn compare(
        self: &Arc<Self>,
        check: u64,
        found: &HashMap<u64, Found>,
        listeners: &HashMap<u64, FoundListener>,
    ) -> (HashSet<u64>, Vec<Arc<Mailbox>>) {
        let mut lost = HashSet::new();
        let mut table = self.table();
        let table = &mut *table;
        if table.is_closed {
            return (lost, Vec::new());
        }
        for (&id, Found { mailbox, credential_changes, identity }) in found {
            let (credential_changes, identity) = (*credential_changes, *identity);
            let is_same = |seen: &&mut Seen| (seen.identity, seen.credential_changes) == (identity, credential_changes);
            if let Some(seen) = table.subscribers.get_mut(&id).filter(is_same) {
                seen.check = check;
                let is_served = |view: &View| view.purpose == Purpose::Resources;
                if identity.is_none_or(|identity| table.views.get(&identity).is_some_and(is_served)) {
                    continue;
                }
            }
            let identity = match identity {
                Some(identity) => match self.open(table, identity, mailbox, Purpose::Resources) {
                    Ok(view) => {
                        view.state.owe(id);
                        Some(identity)
                    }
                    Err(refused) => {
                        self.warn("a resource", mailbox, refused);
                        // So that the next check finds a change, and tries again.
                        None
                    }
                },
                None => {
                    lost.insert(id);
                    None
                }
            };
            let before = table
                .subscribers
                .insert(id, Seen { identity, credential_changes, check })
                .and_then(|seen| seen.identity);
            let left = before.filter(|before| Some(*before) != identity);
            if let Some(view) = left.and_then(|left| table.views.get(&left)) {
                // It may have been the last one.
                view.state.unwatched.notify_one();
            }
        }
        // The check may not have found subscribers that subscribed during it.
        table.subscribers.retain(|_, seen| seen.check.saturating_add(1) >= check);
        self.release_resources(table, found);
        let listening = self.compare_listeners(table, check, listeners);
        let users = found.values().chain(listeners.values().map(|listener| &listener.found));
        table.charge_users(users, &self.context.memory);
        (lost, listening)
    }

    /// Leaves the listing only to each view that has no subscriber of a resource any more, according to a check.
    fn release_resources(&self, table: &mut Table, found: &HashMap<u64, Found>) {
        let subscribed: HashSet<_> = found.values().filter_map(|found| found.identity).collect();
        for (identity, view) in &mut table.views {
            // The check has found each subscriber that had entered.
            let is_settled = view.leases == 0 && view.settled == Some(view.entered);
            if is_settled && view.purpose != Purpose::Listing && !subscribed.contains(identity) {
                view.purpose = Purpose::Listing;
                // It exists already, so it counts beyond the limits, too.
                let unlimited = ShareLimits { client: usize::MAX, overall: usize::MAX };
                if let Ok(count) = table.counts.listing.acquire(view.charge.count.client(), unlimited) {
                    view.charge.count = count;
                }
            }
            if view.purpose == Purpose::Listing {
                self.plugin.end_subscriptions(identity);
            }
        }
    }

    fn warn(&self, of: &'static str, mailbox: &Mailbox, refused: Refused) {
        let SubscribeError::Limited(fault, _) = SubscribeError::from(refused) else { return };
        if let Some(more) = self.log.record(of) {
            let (plugin, principal) = (self.plugin.name(), mailbox.principal().name().to_owned());
            tracing::warn!(
                target: log_target::WATCH, plugin, principal, of, %fault, more,
                "changes of the plugin are not reported to a subscriber, because its new identity has no view; this is tried again"
            );
        }
    }

    fn identity(&self, mailbox: &Mailbox) -> Option<Identity> {
        self.plugin.identity(&self.context.caller(mailbox)?)
    }

    /// Wakes the poller of a subscriber's view, which may have no more subscribers.
    pub(super) fn check_unwatched(&self, mailbox: &Mailbox) {
        let table = self.table();
        let identity = table.subscribers.get(&mailbox.id).and_then(|seen| seen.identity);
        if let Some(view) = identity.and_then(|identity| table.views.get(&identity)) {
            view.state.unwatched.notify_one();
            if view.state.view.as_ref().is_some_and(|scope| !scope.listeners.lock().is_empty()) {
                // The view may be for the listing only from now on.
                self.identities_changed();
            }
        }
    }

    /// Returns how often a view was entered; none if it has ended.
    fn entered(&self, state: &WatcherState, scope: &ViewScope) -> Option<u64> {
        let table = self.table();
        table.views.get(&scope.identity).filter(|view| view.state.id == state.id).map(|view| view.entered)
    }

    /// Ends a view without new leases since `entered`, and without open leases. Returns whether it has ended.
    fn end_idle(&self, state: &WatcherState, scope: &ViewScope, entered: u64) -> bool {
        let mut table = self.table();
        let Entry::Occupied(place) = table.views.entry(scope.identity) else { return true };
        let view = place.get();
        if view.state.id != state.id {
            return true;
        }
        if view.leases > 0 || view.entered != entered {
            return false;
        }
        state.retired.cancel();
        // While the table is locked, so that the provider is informed before another view of the identity begins.
        self.plugin.end_view(&scope.identity);
        place.remove();
        true
    }

    /// Ends all views: the plugin was replaced.
    pub(super) fn close(&self) {
        let mut table = self.table();
        table.is_closed = true;
        table.subscribers.clear();
        table.listeners.clear();
        for (identity, view) in table.views.drain() {
            view.state.retired.cancel();
            self.plugin.end_view(&identity);
        }
    }

    /// Returns whether any view is polled.
    pub(super) fn is_polling(&self) -> bool {
        self.table().views.values().any(|view| view.state.is_polling.load(Ordering::Relaxed))
    }

    /// Returns the longest lag of the last polls.
    pub(super) fn last_lag(&self) -> Option<Duration> {
        self.table().views.values().filter_map(|view| view.state.last_lag.get()).max()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl Table {
    /// Returns the number of the check that begins now.
    fn begin_check(&mut self) -> u64 {
        for view in self.views.values_mut() {
            view.settled = (view.leases == 0).then_some(view.entered);
        }
        self.checks = self.checks.saturating_add(1);
        self.checks
    }

    /// Charges each view whose principal has no subscriber in it to one that has, according to a check. Without room for it, the view stays
    /// charged as it is until a later check.
    fn charge_users<'f>(&mut self, found: impl Iterator<Item = &'f Found>, memory: &ShareLimiter<Requester>) {
        let (mut in_use, mut others) = (HashSet::new(), HashMap::new());
        for Found { mailbox, identity, .. } in found {
            let view = identity.and_then(|identity| Some((identity, self.views.get(&identity)?)));
            let Some((identity, view)) = view else { continue };
            let principal = charged_principal(mailbox);
            if *view.charge.count.client() == principal {
                in_use.insert(identity);
            } else {
                others.entry(identity).or_insert(principal);
            }
        }
        for (identity, principal) in others.into_iter().filter(|(identity, _)| !in_use.contains(identity)) {
            let Some(view) = self.views.get_mut(&identity) else { continue };
            // The number of all views stays the same.
            let Ok(count) = self.counts.add(view.purpose, &principal, usize::MAX) else { continue };
            if let Ok(memory) = memory.acquire_amount(&principal, VIEW_MEMORY, self.limits) {
                view.charge = ViewCharge { count, memory };
            }
        }
    }
}

/// Returns the principal that is charged with the view of a subscriber.
fn charged_principal(mailbox: &Mailbox) -> Requester {
    Requester::Principal(mailbox.principal().identity())
}

/// Polls a view while it has subscribers. Ends the view when it has none.
async fn watch(views: Weak<Views>, state: Arc<WatcherState>) {
    let Some(scope) = &state.view else { return };
    let mut poller = Poller::new(state.clone(), false);
    loop {
        poller.run().await;
        let Some(entered) = views.upgrade().and_then(|views| views.entered(&state, scope)) else { return };
        // A subscriber that entered before is found now, or holds a lease.
        if poller.watched_paths().await.is_some() {
            continue;
        }
        if views.upgrade().is_none_or(|views| views.end_idle(&state, scope, entered)) {
            return;
        }
        tokio::select! {
            () = state.wake.notified() => {}
            () = scope.released.notified() => {}
        }
    }
}

impl WatcherState {
    /// Returns the paths that subscribers with this identity watch now, and one of these subscribers as the caller: if there is none, one of
    /// the listing. `None` without such subscribers.
    pub(super) async fn watched_in_view(&self, identity: Identity) -> Option<(Vec<(Uri, Path)>, Caller)> {
        let mount = self.plugin.mount();
        let (mut members, mut caller, mut from) = (HashMap::new(), None, None);
        let mut watched = Vec::<(Uri, Path)>::new();
        loop {
            from = self.context.subscription_index().visit(mount, from.as_ref(), BATCH_SIZE, |uri, path, mailbox| {
                let is_member = *members.entry(mailbox.id).or_insert_with(|| {
                    let member = self.identity(mailbox).filter(|(of, _)| *of == identity);
                    let is_member = member.is_some();
                    caller = caller.take().or(member.map(|(_, caller)| caller));
                    is_member
                });
                if is_member && watched.last().is_none_or(|(last, _)| last != uri) {
                    watched.push((uri.clone(), path.clone()));
                }
            });
            if from.is_none() {
                return caller.or_else(|| self.listening_caller()).map(|caller| (watched, caller));
            }
            tokio::task::yield_now().await;
        }
    }

    /// Notifies a subscriber of all its resources after the next poll of the view.
    fn owe(&self, subscriber: u64) {
        if let Some(view) = &self.view {
            view.owed.lock().resources.insert(subscriber);
            self.wake.notify_one();
        }
    }
}

/// A view that does not end, because a subscription in it is in progress.
pub(super) struct ViewLease {
    views: Arc<Views>,
    state: Arc<WatcherState>,
    lookups: Arc<Lookups>,
    identity: Identity,
    caller: Caller,
    /// Whether the subscriber was [noted](Self::note).
    is_noted: AtomicBool,
}

impl ViewLease {
    /// Requests the kind of a resource from the provider. None if the view has ended.
    pub(super) async fn look_up(&self, path: &Path) -> Option<Result<ResourceKind, LookupError>> {
        let looking_up = self.lookups.look_up(path, Some(&self.caller));
        let kind = self.state.retired.run_until_cancelled(looking_up).await?;
        // Some changes of a listable resource may only be notified to some principals, and views do not track which.
        Some(kind.map(|kind| if kind == ResourceKind::Listable { ResourceKind::NotSubscribable } else { kind }))
    }

    /// Records that a subscriber has this identity. Must be called before its subscription is registered.
    pub(super) fn note(&self, mailbox: &Mailbox) {
        let mut table = self.views.table();
        let (check, identity) = (table.checks, Some(self.identity));
        let credential_changes = mailbox.credential_changes();
        table.subscribers.entry(mailbox.id).or_insert(Seen { identity, credential_changes, check });
        self.is_noted.store(true, Ordering::Relaxed);
    }

    /// Waits until changes of a registered resource are reported.
    pub(super) async fn wait_until_polled(&self, path: &Path, client: &Requester) -> Result<(), PollError> {
        self.state.wait_for_poll_of(path, client).await
    }

    /// Returns whether a subscriber still has this identity.
    pub(super) fn is_of(&self, mailbox: &Mailbox) -> bool {
        self.state.concerns(mailbox)
    }
}

impl Drop for ViewLease {
    fn drop(&mut self) {
        let mut table = self.views.table();
        if let Some(view) = table.views.get_mut(&self.identity).filter(|view| view.state.id == self.state.id) {
            view.leases = view.leases.saturating_sub(1);
        }
        drop(table);
        self.state.view.iter().for_each(|view| view.released.notify_one());
        if !self.is_noted.load(Ordering::Relaxed) {
            // The subscription was refused, and the view may be for the listing only.
            self.views.identities_changed();
        }
    }
}

#[cfg(test)]
mod tests;
