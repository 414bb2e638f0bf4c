//! The views of a plugin whose changes depend on the caller, such as an upstream with a token for each principal.
//!
//! A provider with [views](mcp_host_model::provider::ProviderInfo::views) returns the [`Identity`] of a caller. Each
//! identity with subscribers has a view: a poller with tokens, groups of paths and lookups of its own, whose calls have
//! one of those subscribers as their caller. An update goes to subscribers of the same identity only, and the rules are
//! checked at delivery as everywhere.
//!
//! The [members](super::members) of a view are computed whenever they matter. Only the identity of each subscriber at
//! the last [check](checks) is stored, in the [table].
//!
//! # The listing
//!
//! Subscribers of the listing are members of views, too ([`listeners`]). Views for the listing only have a limit of
//! their own.
//!
//! # Lifetime
//!
//! The table belongs to one generation of a plugin. When the plugin is replaced, the table is closed under its lock:
//! the views end with all of their tasks, and a subscription in progress begins again at the new plugin. A view without
//! subscribers ends after its poller has [lingered](super::poller), unless a subscription in it is in progress
//! ([`ViewLease`]).
//!
//! # Bounds
//!
//! A plugin has at most [`ProviderInfo::views`](mcp_host_model::provider::ProviderInfo::views) views for resources, and
//! [`MAX_LISTING_VIEWS`] for the listing only. A principal may use any number of access tokens, and causes at most
//! [`MAX_VIEWS_OF_PRINCIPAL`](table::MAX_VIEWS_OF_PRINCIPAL) views of either kind. Each view is charged with
//! [`VIEW_MEMORY`] to the principal's memory for subscriptions. Beyond these limits a subscription is refused, and a
//! subscriber with a new identity is tried again at the next check. A check takes at most a seventeenth of the time
//! ([`burst_pause`](super::burst_pause)).
//!
//! Several principals may have one identity, such as the members of a group with a token. If the charged principal has
//! no subscriber in the view any more, a check charges another principal that has one. Otherwise the remaining
//! principals would use the view for free, and the principal that has left would have one view less for itself.

mod checks;
mod listeners;
mod table;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::share_limiter::ShareLimits;
use mcp_host_base::task;
use mcp_host_base::throttle::ThrottlePerReason;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::caller::{Caller, Identity};
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::Path;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use self::table::{MAX_LISTING_VIEWS, Purpose, Refused, Seen, Table, VIEW_MEMORY, View, ViewCharge, charged_principal};
use super::context::{SubscribeError, WatchContext};
use super::lookup::{LookupError, Lookups, ResourceKind};
use super::mailbox::Mailbox;
use super::members::notify_of_listing;
use super::poller::Poller;
use super::state::{ListingMonitor, PollError, ViewScope, WatcherState};
use crate::response_cache::CachedPlugin;

/// The time between two lines of the log with the same reason.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The views of one generation of a plugin.
pub(super) struct Views {
    plugin: Arc<CachedPlugin>,
    context: Arc<WatchContext>,
    table: Mutex<Table>,
    /// Notified when identities of subscribers may have changed.
    changed: Notify,
    log: ThrottlePerReason,
}

impl Views {
    /// Creates an empty table.
    pub(super) fn new(plugin: &Arc<CachedPlugin>, context: &Arc<WatchContext>) -> Arc<Self> {
        Arc::new(Self {
            plugin: plugin.clone(),
            context: context.clone(),
            table: Mutex::new(Table::new()),
            changed: Notify::new(),
            log: ThrottlePerReason::new(LOG_PERIOD),
        })
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
        let polling = task::spawn(state.retired.clone().run_until_cancelled_owned(polling));
        let notifying = notify_of_listing(state.clone());
        let notifying = task::spawn(state.retired.clone().run_until_cancelled_owned(notifying));
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

    /// Logs that a subscriber has no view for its new identity.
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

    /// Returns the current identity of a subscriber; none if it sees nothing.
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
