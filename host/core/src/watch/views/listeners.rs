//! Subscribers of the listing at a plugin with views: each is notified of changes of its own identity's listing.
//!
//! A session subscribes to the listing of all plugins, whether it uses a plugin or not; a stream of
//! `subscriptions/listen` does so on request. So a subscriber of the listing begins a view only if the provider
//! [reports the listing of its identity](mcp_host_model::provider::Provider::reports_listing). A provider with a client
//! for each identity does so while it has the client, which exists after the first call. Such a view does not count
//! against the limit of views for resources. It ends when the provider evicts the client as the least recently used
//! one.
//!
//! # Missed changes
//!
//! A [check](super::checks) assigns each subscriber to the view of its identity. A subscriber whose identity,
//! credentials or rules have changed, that is new to this generation of the plugin, or whose view had ended, may have
//! missed a change: it is notified once, after the next poll of its view. If it sees nothing any more, or the provider
//! does not report the listing of its new identity, it is notified immediately. A subscriber whose view has ended
//! because the client was evicted is notified when there is a client again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use mcp_host_model::caller::Identity;

use super::super::context::BATCH_SIZE;
use super::super::mailbox::Mailbox;
use super::Views;
use super::table::{Found, Listener, Purpose, Refused, Table, View};
use crate::access::Access;
use crate::catalog::{may_see_listing, may_see_whole_listing};

/// A subscriber of the listing, as a check has found it.
pub(super) struct FoundListener {
    pub(super) found: Found,
    sees_whole: bool,
}

/// The subscribers of the listing in one view, according to a check.
#[derive(Default)]
struct Members {
    mailboxes: BTreeMap<u64, Arc<Mailbox>>,
    /// The members to notify once, after the next poll.
    owed: HashSet<u64>,
    /// Whether there is a new member.
    has_new: bool,
    /// Whether a member may see only a part of the listing.
    has_part: bool,
}

impl Views {
    /// Records a subscriber that begins to listen. Must be called before it is registered as a subscriber of the
    /// listing, because a check notifies unknown subscribers.
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

    /// Requests a check, which assigns a new subscriber of the listing to a view, if the provider reports the listing
    /// of its identity.
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

    /// Assigns the subscribers of the listing to the views of their identities, and begins the views that are missing.
    /// Returns the subscribers to notify now.
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
                            // Prevents the end of an idle view.
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
            // After the listeners, so that a poll that takes the pending notifications finds their subscribers.
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

    /// Returns the view of a subscriber of the listing; none if the provider does not report the listing of the
    /// identity.
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
