//! Checks: the identity of each subscriber is compared with its identity at the last check.
//!
//! A check follows each reload, each change of groups or access tokens, and each `watch-interval`, because groups
//! expire. It begins the views that are missing. A subscriber whose identity or credentials have changed since the last
//! check, or that is new to this generation of the plugin, is notified of each of its resources once: after the next
//! poll of its view, so that no change in between is lost, or immediately if it sees nothing any more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::share_limiter::ShareLimits;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::burst_pause::burst_pause;
use super::super::context::BATCH_SIZE;
use super::super::mailbox::Mailbox;
use super::super::state::WatcherState;
use super::Views;
use super::listeners::FoundListener;
use super::table::{Found, Purpose, Seen, Table, View};

/// The minimum time between two checks without a reason.
const MIN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Views {
    /// Checks the identities of subscribers until the plugin is replaced.
    pub(in crate::watch) async fn run(self: Arc<Self>) {
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

    /// Compares the identity of each subscriber with its identity at the last check, and begins the views that are
    /// missing.
    async fn check(self: &Arc<Self>) {
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

    /// Schedules the notification of the subscribers whose identity has changed. Returns the subscribers to notify now:
    /// of their resources, because they see nothing any more, and of the listing.
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

    /// Turns each view without a subscriber of a resource, according to a check, into a view for the listing only.
    fn release_resources(&self, table: &mut Table, found: &HashMap<u64, Found>) {
        let subscribed: HashSet<_> = found.values().filter_map(|found| found.identity).collect();
        for (identity, view) in &mut table.views {
            // The check has found each subscriber that had entered.
            let is_settled = view.leases == 0 && view.settled == Some(view.entered);
            if is_settled && view.purpose != Purpose::Listing && !subscribed.contains(identity) {
                view.purpose = Purpose::Listing;
                // The view exists already, so it is counted beyond the limits, too.
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
}

impl WatcherState {
    /// Notifies a subscriber of all its resources after the next poll of the view.
    fn owe(&self, subscriber: u64) {
        if let Some(view) = &self.view {
            view.owed.lock().resources.insert(subscriber);
            self.wake.notify_one();
        }
    }
}
