//! Subscribers of the listing at a plugin with views: each is notified of changes of the listing that its own identity has.
//!
//! A session listens to the listing of all plugins without naming one, and a stream of `subscriptions/listen` if it requests so. So a
//! subscriber of the listing alone begins a view only if the provider [wants it](mcp_host_model::provider::Provider::reports_listing): a
//! provider with a client for each identity has one once the identity has called it. Such a view takes no place of a subscription to a
//! resource, and it ends when the provider has dropped the client, as the least recently used one.
//!
//! # Who is notified
//!
//! A change is reported by a poll of the view, and is notified to subscribers with the view's identity at that time. One that may see the
//! whole listing is notified without a walk: it may see whatever has changed. For one that may see only a part, the listing is walked on
//! behalf of a subscriber with this identity, and compared with its [fingerprint](super::super::listing): it must not learn of changes that
//! it may not see. These walks are throttled as all others.
//!
//! # What may have been missed
//!
//! A [check](Views::check) assigns each subscriber to the view of its identity. A subscriber whose identity, credentials or rules have
//! changed, that is new to this generation of the plugin, or whose view had ended, may have missed a change: it is notified once, after the
//! next poll of its view. If it sees nothing any more, or the provider does not want a view for its new identity, it is notified
//! immediately. A subscriber whose view has ended because the client was dropped is notified when there is a client again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use mcp_host_base::backoff::Backoff;
use mcp_host_model::caller::{Caller, Identity};
use tokio::time::{Instant, sleep_until};

use super::super::burst_pause::burst_pause;
use super::super::listing::{FAILED_WALK_BACKOFF, ListingTask, MAX_WALK_PAUSE, MIN_WALK_PAUSE};
use super::super::mailbox::Mailbox;
use super::super::state::{BATCH_SIZE, WatcherState};
use super::{Found, Purpose, Refused, Table, View, Views};
use crate::access::{Access, Principal};
use crate::catalog::{may_see_listing, may_see_whole_listing};

/// A subscriber of the listing at the last check.
#[derive(Clone, Copy)]
pub(super) struct Listener {
    /// None if it saw nothing.
    identity: Option<Identity>,
    /// The number of changes of its credentials at that time.
    credential_changes: u64,
    /// Whether it might see the whole listing.
    sees_whole: bool,
    /// The watcher of the view that notifies it; none if there is no view for it.
    view: Option<u64>,
    /// Whether it may have missed a change.
    has_missed: bool,
    /// The check that saw it, or the last one before it began to listen.
    check: u64,
}

impl Listener {
    /// Whether both see the same.
    fn sees_as(&self, other: &Self) -> bool {
        (self.identity, self.credential_changes, self.sees_whole)
            == (other.identity, other.credential_changes, other.sees_whole)
    }

    /// Whether there has been no view for it yet, because the provider did not want one.
    fn is_fresh(&self) -> bool {
        self.identity.is_some() && self.view.is_none() && !self.has_missed
    }
}

/// A subscriber of the listing, as a check has found it.
pub(super) struct FoundListener {
    pub(super) found: Found,
    sees_whole: bool,
}

/// The subscribers of the listing in one view, according to a check.
#[derive(Default)]
struct Members {
    mailboxes: BTreeMap<u64, Arc<Mailbox>>,
    /// Those to notify once, after the next poll.
    owed: HashSet<u64>,
    /// Whether one was not in this view before.
    has_new: bool,
    /// Whether one may see only a part of the listing.
    has_part: bool,
}

impl Views {
    /// Records a subscriber that begins to listen. Must be called before it is a subscriber of the listing: a check notifies an unknown one.
    pub(in crate::watch) fn note_listener(&self, mailbox: &Arc<Mailbox>) {
        let FoundListener { found, sees_whole } = self.find_listener(&self.context.access.load_full(), mailbox);
        let Found { credential_changes, identity, .. } = found;
        let mut table = self.table();
        let check = table.checks;
        if !table.is_closed {
            let new = Listener { identity, credential_changes, sees_whole, view: None, has_missed: false, check };
            table.listeners.entry(mailbox.id).or_insert(new);
        }
    }

    /// Has a new subscriber of the listing assigned to a view, if there is one for it.
    pub(in crate::watch) fn listener_came(&self, mailbox: &Mailbox) {
        if self.identity(mailbox).is_some_and(|identity| self.plugin.reports_listing(&identity)) {
            self.identities_changed();
        }
    }

    /// Removes a subscriber of the listing that has left.
    pub(in crate::watch) fn listener_left(&self, id: u64) {
        let mut table = self.table();
        let identity = table.listeners.remove(&id).and_then(|listener| listener.identity);
        let Some(view) = identity.and_then(|identity| table.views.get(&identity)) else { return };
        let is_last = view.state.view.as_ref().is_some_and(|scope| {
            let mut listeners = scope.listeners.lock();
            listeners.remove(&id).is_some() && listeners.is_empty()
        });
        if is_last {
            view.state.unwatched.notify_one();
        }
    }

    /// Returns the subscribers of the listing that have views.
    pub(in crate::watch) fn listeners(&self) -> Vec<Arc<Mailbox>> {
        let table = self.table();
        let scopes = table.views.values().filter_map(|view| view.state.view.as_ref());
        scopes.flat_map(|scope| scope.listeners.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Returns whether a subscriber sees anything.
    pub(in crate::watch) fn has_identity(&self, mailbox: &Mailbox) -> bool {
        self.identity(mailbox).is_some()
    }

    /// Returns all subscribers of the listing.
    pub(super) async fn find_listeners(&self) -> HashMap<u64, FoundListener> {
        let access = self.context.access.load_full();
        let (mut found, mut from) = (HashMap::new(), Some(0));
        while let Some(id) = from {
            let mut batch = Vec::new();
            from = self.context.subscription_index().visit_listeners(id, BATCH_SIZE, |mailbox| {
                batch.push(mailbox.clone());
            });
            found.extend(batch.iter().map(|mailbox| (mailbox.id, self.find_listener(&access, mailbox))));
            tokio::task::yield_now().await;
        }
        found
    }

    fn find_listener(&self, access: &Access, mailbox: &Arc<Mailbox>) -> FoundListener {
        // Before the identity, so that a change meanwhile is found by the next check.
        let credential_changes = mailbox.credential_changes();
        let (policy, mount) = (access.policy(&mailbox.principal()), self.plugin.mount());
        let identity = if may_see_listing(&policy, mount) { self.identity(mailbox) } else { None };
        let found = Found { mailbox: mailbox.clone(), credential_changes, identity };
        FoundListener { found, sees_whole: may_see_whole_listing(&policy, mount) }
    }

    /// Assigns the subscribers of the listing to the views of their identities, and begins the views that are missing. Returns the
    /// subscribers to notify now.
    pub(super) fn compare_listeners(
        self: &Arc<Self>,
        table: &mut Table,
        check: u64,
        found: &HashMap<u64, FoundListener>,
    ) -> Vec<Arc<Mailbox>> {
        let (mut told, mut members) = (Vec::new(), HashMap::<Identity, Members>::new());
        for (&id, FoundListener { found, sees_whole }) in found {
            let Found { mailbox, credential_changes, identity } = found;
            let (identity, credential_changes, sees_whole) = (*identity, *credential_changes, *sees_whole);
            let mut now = Listener { identity, credential_changes, sees_whole, view: None, has_missed: false, check };
            let before = table.listeners.get(&id).copied();
            let is_same = before.is_some_and(|before| before.sees_as(&now));
            let is_fresh = before.is_some_and(|before| before.is_fresh());
            if let Some(identity) = identity {
                match self.view_of_listing(table, identity, mailbox) {
                    Some(Ok(view)) => {
                        let of_view = members.entry(identity).or_default();
                        now.view = Some(view.state.id);
                        if !is_same || before.is_some_and(|before| before.view != now.view) {
                            // A view that is about to end does not.
                            view.entered = view.entered.saturating_add(1);
                            of_view.has_new = true;
                            if !is_fresh {
                                of_view.owed.insert(id);
                            }
                        }
                        of_view.has_part |= !sees_whole;
                        of_view.mailboxes.insert(id, mailbox.clone());
                    }
                    Some(Err(refused)) => {
                        self.warn("the listing", mailbox, refused);
                        now.has_missed = true;
                    }
                    None if is_fresh => {}
                    None if is_same => now.has_missed = true,
                    None => told.push(mailbox.clone()),
                }
            } else if before.is_some_and(|before| before.identity.is_some()) {
                told.push(mailbox.clone());
            }
            table.listeners.insert(id, now);
        }
        for (identity, view) in &table.views {
            let Some(scope) = &view.state.view else { continue };
            let Members { mailboxes, owed, has_new, has_part } = members.remove(identity).unwrap_or_default();
            let is_empty = mailboxes.is_empty();
            let had_some = !std::mem::replace(&mut *scope.listeners.lock(), mailboxes).is_empty();
            if had_some && is_empty {
                view.state.unwatched.notify_one();
            }
            // In this order: a poll that takes what is owed knows the subscribers.
            scope.owed.lock().listing.extend(owed);
            if has_new {
                view.state.wake.notify_one();
            }
            if has_part {
                // Fingerprints may be missing, or rules may have changed.
                view.state.listing.dirty.notify_one();
            }
        }
        // The check may not have found subscribers that began to listen during it.
        table.listeners.retain(|_, listener| listener.check.saturating_add(1) >= check);
        told
    }

    /// Returns the view of a subscriber of the listing; none if the provider does not want one.
    fn view_of_listing<'a>(
        self: &Arc<Self>,
        table: &'a mut Table,
        identity: Identity,
        mailbox: &Mailbox,
    ) -> Option<Result<&'a mut View, Refused>> {
        let is_of_resources = table.views.get(&identity).is_some_and(|view| view.purpose == Purpose::Resources);
        if !is_of_resources && !self.plugin.reports_listing(&identity) {
            return None;
        }
        Some(self.open(table, identity, mailbox, Purpose::Listing))
    }
}

/// The subscribers of the listing that have the identity of a view now.
#[derive(Default)]
struct Listening {
    /// Those that may see the whole listing.
    whole: Vec<Arc<Mailbox>>,
    /// Those that may see only a part, with their principals.
    part: Vec<(Arc<Mailbox>, Principal)>,
    /// One of the latter, as the caller.
    caller: Option<Caller>,
}

impl WatcherState {
    /// Returns a subscriber of the listing with the identity of this view, as the caller. None if the listing is not to be watched for it.
    pub(super) fn listening_caller(&self) -> Option<Caller> {
        let scope = self.view.as_ref().filter(|scope| self.plugin.reports_listing(&scope.identity))?;
        let listeners: Vec<_> = scope.listeners.lock().values().cloned().collect();
        listeners.iter().find_map(|mailbox| {
            let (identity, caller) = self.identity(mailbox)?;
            let is_listening = || self.context.subscription_index().is_watching_listing(mailbox.id);
            (identity == scope.identity && is_listening()).then_some(caller)
        })
    }

    /// Notifies these subscribers of the listing, if they still have the identity of this view.
    pub(in crate::watch) async fn notify_owed_listing(&self, owed: &HashSet<u64>) {
        let Some(scope) = self.view.as_ref().filter(|_| !owed.is_empty()) else { return };
        let listeners: Vec<_> = scope.listeners.lock().values().cloned().collect();
        let is_owed = |mailbox: &Arc<Mailbox>| owed.contains(&mailbox.id) && self.concerns(mailbox);
        let owed: Vec<_> = listeners.into_iter().filter(is_owed).collect();
        self.context.notify_listeners(&owed).await;
    }

    fn listening(&self, access: &Access) -> Listening {
        let mut listening = Listening::default();
        let Some(scope) = &self.view else { return listening };
        let listeners: Vec<_> = scope.listeners.lock().values().cloned().collect();
        for mailbox in listeners {
            let Some((_, caller)) = self.identity(&mailbox).filter(|(identity, _)| *identity == scope.identity) else {
                continue;
            };
            let (principal, mount) = (mailbox.principal(), self.plugin.mount());
            let policy = access.policy(&principal);
            if may_see_whole_listing(&policy, mount) {
                listening.whole.push(mailbox);
            } else if may_see_listing(&policy, mount) {
                listening.part.push((mailbox, principal));
                listening.caller = Some(caller);
            }
        }
        listening
    }
}

/// Notifies the subscribers of the listing in a view of its changes.
pub(super) async fn notify(state: Arc<WatcherState>) {
    let task = ListingTask::new(state.clone());
    let new_backoff = || Backoff::new(FAILED_WALK_BACKOFF.0, FAILED_WALK_BACKOFF.1);
    let (mut backoff, mut rest) = (new_backoff(), Instant::now());
    // The version that was notified, the rules of the last walk, and whether that failed.
    let (mut version, mut walked_access, mut has_failed) = (0, None::<Arc<Access>>, false);
    loop {
        state.listing.dirty.notified().await;
        sleep_until(rest).await;
        let began = Instant::now();
        let access = state.context.access.load_full();
        let Listening { whole, part, caller } = state.listening(&access);
        let principals: HashSet<_> = part.iter().map(|(_, principal)| principal.clone()).collect();
        let has_new = !task.untracked(&principals).is_empty();
        if has_new {
            // This poll makes every later change detectable. A failure is ignored, because the next successful poll reports the changes.
            let _ = state.wait_for_poll().await;
        }
        let now = state.listing.version();
        let has_changed = std::mem::replace(&mut version, now) != now;
        if has_changed {
            state.context.notify_listeners(&whole).await;
        }
        let are_rules_new = walked_access.as_ref().is_none_or(|walked| !Arc::ptr_eq(walked, &access));
        let is_due = has_new || has_changed || are_rules_new || has_failed;
        let Some(caller) = caller.filter(|_| is_due) else { continue };
        let walking = task.refresh_fingerprints(principals, &access);
        let refreshed = Caller::scope_view(Some(caller), walking).await;
        let changed = part.into_iter().filter(|(_, principal)| refreshed.changed.contains(principal));
        let changed: Vec<_> = changed.map(|(mailbox, _)| mailbox).collect();
        state.context.notify_listeners(&changed).await;
        (walked_access, has_failed) = (Some(access), refreshed.has_failed);
        let least = if has_failed {
            state.listing.dirty.notify_one();
            backoff.next_delay()
        } else {
            backoff = new_backoff();
            MIN_WALK_PAUSE
        };
        let pause = burst_pause(began.elapsed()).clamp(least, MAX_WALK_PAUSE.max(least));
        rest = Instant::now().checked_add(pause).unwrap_or(rest);
    }
}
