//! The members of a view: the subscribers with its identity.
//!
//! Members are computed, not stored. A subscription refers to a URI, as everywhere
//! ([`subscriptions`](super::subscriptions)). The identity of its subscriber is computed from the current rules, groups
//! and access token whenever it matters: which paths a poll covers, as which caller it is made
//! ([`poller`](super::poller)), and who is notified. So a view never calls its provider with credentials that no
//! subscriber has any more, and no subscription remains in a view that has ended.
//!
//! # Changes of the listing
//!
//! A poll of the view reports a change of the listing. Members that may see the whole listing are notified without a
//! walk. For members that may see only a part, one of them walks the listing, and its [fingerprint](super::listing) is
//! compared: they must not learn of changes that they may not see. These walks are throttled like all others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mcp_host_base::backoff::Backoff;
use mcp_host_model::caller::{Caller, Identity};
use mcp_host_model::uri::{Path, Uri};
use tokio::time::{Instant, sleep_until};

use super::burst_pause::{FAILED_WALK_BACKOFF, MAX_WALK_PAUSE, MIN_WALK_PAUSE, burst_pause};
use super::context::BATCH_SIZE;
use super::listing::ListingTask;
use super::mailbox::Mailbox;
use super::state::WatcherState;
use crate::access::{Access, Principal};
use crate::catalog::{may_see_listing, may_see_whole_listing};

/// The subscribers of the listing that have the identity of a view now.
#[derive(Default)]
struct Listening {
    /// The subscribers that may see the whole listing.
    whole: Vec<Arc<Mailbox>>,
    /// The subscribers that may see only a part, with their principals.
    part: Vec<(Arc<Mailbox>, Principal)>,
    /// One of the latter, on whose behalf the listing is walked.
    caller: Option<Caller>,
}

impl WatcherState {
    /// Returns the paths that subscribers with this identity watch now, and one of these subscribers as the caller.
    /// Without subscribers of resources, the caller is a subscriber of the listing. `None` without any subscribers.
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

    /// Returns a subscriber of the listing with the identity of this view, as the caller. None if the listing is not to
    /// be watched for it.
    fn listening_caller(&self) -> Option<Caller> {
        let scope = self.view.as_ref().filter(|scope| self.plugin.reports_listing(&scope.identity))?;
        let listeners: Vec<_> = scope.listeners.lock().values().cloned().collect();
        listeners.iter().find_map(|mailbox| {
            let (identity, caller) = self.identity(mailbox)?;
            let is_listening = || self.context.subscription_index().is_watching_listing(mailbox.id);
            (identity == scope.identity && is_listening()).then_some(caller)
        })
    }

    /// Notifies these subscribers of the listing, if they still have the identity of this view.
    pub(super) async fn notify_owed_listing(&self, owed: &HashSet<u64>) {
        let Some(scope) = self.view.as_ref().filter(|_| !owed.is_empty()) else { return };
        let listeners: Vec<_> = scope.listeners.lock().values().cloned().collect();
        let is_owed = |mailbox: &Arc<Mailbox>| owed.contains(&mailbox.id) && self.concerns(mailbox);
        let owed: Vec<_> = listeners.into_iter().filter(is_owed).collect();
        self.context.notify_listeners(&owed).await;
    }

    /// Returns the subscribers of the listing that have the identity of this view now.
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
pub(super) async fn notify_of_listing(state: Arc<WatcherState>) {
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
            // This poll makes every later change detectable. A failure is ignored, because the next successful poll
            // reports the changes.
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
