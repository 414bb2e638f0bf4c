//! Subscriptions to listable resources: which principals are notified of a reported change.
//!
//! The visible content of a listable resource depends on which other resources a principal may see. The index of a
//! directory is made of the children that the principal may list (`host::directory_index`), and a read may return
//! contents of other resources, such as the newest of a collection. A provider that reports a change does not know the
//! principals, and a principal must not learn of hidden changes. So for principals that may not list and read
//! everything below the mount, a reported change only causes a comparison: each such principal has a
//! [`ListingFingerprint`] of the resource, its filtered listing and the filtered contents of a read, and is notified if
//! it differs. All other principals are notified immediately, as are all principals about resources that are not
//! listable.
//!
//! The fingerprint of a new subscriber's principal is computed before its subscription is active. Afterwards one task
//! for each plugin computes the fingerprints of all principals together, for one resource after the other, as part of
//! the host's own calls. Quick resources go first, slow ones take turns within half a second per round, so that large
//! directories of one client delay other clients' by seconds only. Reports are coalesced meanwhile, and after each
//! round there is a pause as after a walk of the [listing](super::listing). A failed call is repeated after a back-off
//! of 1 s, up to 30 s. Until a call succeeds, these principals get no notification, because it is not known whether the
//! change is hidden.
//!
//! At most two walks for new subscribers run concurrently, one per client, in turn
//! ([`FairSemaphore`](mcp_host_model::requester::FairSemaphore)).
//!
//! The `stat` of a subscription tells whether a resource is listable. This is checked again after each reported change
//! of a resource with such subscribers: a file that is replaced by a directory is notified once as a file, and is a
//! directory from then on. After a change of rules or groups, all resources that the plugin's subscribers watch are
//! checked, and principals whose view was not known are notified.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::backoff::Backoff;
use mcp_host_base::task;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::requester::Requester;
use mcp_host_model::resource::Resource;
use mcp_host_model::uri::{Path, Uri};
use tokio::time::{Instant, sleep, sleep_until};

use super::burst_pause::{FAILED_WALK_BACKOFF, MAX_WALK_PAUSE, MIN_WALK_PAUSE, burst_pause};
use super::context::BATCH_SIZE;
use super::mailbox::Mailbox;
use super::state::WatcherState;
use crate::access::{Access, Principal};
use crate::catalog::{self, ListingFingerprint};
use crate::response_cache::DroppedFor;

/// The maximum duration of a walk for a new subscriber after which the next walk may begin immediately.
const QUICK_WALK: Duration = Duration::from_millis(5);

/// The duration of an examination from which a resource counts as slow.
const SLOW_EXAMINATION: Duration = Duration::from_millis(20);
/// The time after which a round examines no further slow resource. The next round examines them.
const MAX_ROUND: Duration = Duration::from_millis(500);
/// The maximum number of resources whose last examination is remembered.
const MAX_REMEMBERED: usize = 4096;
impl WatcherState {
    /// Drops cached responses of resources whose change was reported, and notifies their subscribers. For listable
    /// resources, this only notifies subscribers that may see everything; the others follow if the change is visible to
    /// them.
    pub(super) async fn notify_of_change(&self, changed: Vec<(Uri, Path)>) {
        let uris: Vec<_> = changed.iter().map(|(uri, _)| uri.clone()).collect();
        let mut directories = HashSet::new();
        for batch in uris.chunks(BATCH_SIZE) {
            directories.extend(self.context.subscription_index().directories(batch));
            tokio::task::yield_now().await;
        }
        for batch in changed.chunks(BATCH_SIZE) {
            for (uri, path) in batch {
                let whom = if directories.contains(uri) { DroppedFor::Whole } else { DroppedFor::All };
                self.plugin.drop_cached(path, whom);
            }
            tokio::task::yield_now().await;
        }
        let access = self.context.access.load_full();
        let concerns = |mailbox: &Mailbox, uri: &Uri| {
            self.concerns(mailbox) && (!directories.contains(uri) || self.sees_all(&access, &mailbox.principal()))
        };
        self.context.notify(uris, concerns).await;
        // Views have no listable resources, and no task that would examine them.
        if self.view.is_none() {
            self.directories.add(changed);
        }
    }

    /// Notifies the subscribers of everything below the mount, and checks whether the listing has changed, because
    /// changes until now are unknown.
    pub(super) async fn notify_all(&self) {
        self.plugin.clear_cached_responses();
        self.listing.mark_dirty();
        self.context.notify_under(Some(self.plugin.mount()), |_, _| true).await;
        // The principals' views of directories may be outdated by now.
        self.examine_all().await;
    }

    /// Tracks the changes of a directory from now on for a principal that is about to subscribe to it.
    pub(super) async fn track_directory(&self, uri: &Uri, path: &Path, principal: &Principal) {
        let access = self.context.access.load_full();
        let is_known = || self.context.subscription_index().has_view(uri, principal);
        if self.sees_all(&access, principal) || is_known() {
            return;
        }
        // The queue is not bounded here: each walk in it belongs to a pending subscription.
        let Ok(permit) = self.directories.walks.acquire(Some(Requester::current_or(principal))).await else { return };
        // Another subscriber of the same principal may have been first.
        if is_known() {
            return;
        }
        let began = Instant::now();
        // Responses from now on are compared with the result of this walk.
        self.plugin.drop_cached(path, DroppedFor::View(self.view(&access, principal)));
        let views = match self.plugin.stat_as(CallOrigin::Host, path).await {
            Ok(entry) => self.views(&entry, path, &access, std::slice::from_ref(principal)).await,
            Err(_) => vec![None],
        };
        let view = views.into_iter().next().flatten();
        self.context.subscription_index().add_view(uri, principal, view.unwrap_or(ListingFingerprint::NotWalked));
        let took = began.elapsed();
        if took > QUICK_WALK {
            task::spawn(async move {
                sleep(took.min(MAX_WALK_PAUSE)).await;
                drop(permit);
            });
        }
    }

    /// Examines all subscribed resources of the plugin.
    pub(super) async fn examine_all(&self) {
        if !self.supports_changes() {
            return;
        }
        let mut after = None;
        loop {
            let watched = self.context.subscription_index().paths(self.plugin.mount(), after.as_ref(), BATCH_SIZE);
            after = watched.last().map(|(uri, _)| uri.clone());
            self.directories.add(watched);
            if after.is_none() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns each principal's view of a directory; none for all if the walk failed.
    async fn views(
        &self,
        directory: &Resource,
        path: &Path,
        access: &Arc<Access>,
        principals: &[Principal],
    ) -> Vec<Option<ListingFingerprint>> {
        catalog::directory_fingerprints(&self.plugin, access, principals, directory, path).await
    }

    /// Returns the distinct principals of a resource's subscribers that may not see everything below the mount.
    async fn restricted(&self, uri: &Uri, access: &Access) -> Vec<Principal> {
        let mut restricted = HashSet::new();
        let mut from = Some(0);
        while let Some(id) = from {
            let (principals, next) = self.context.subscription_index().principals(uri, id, BATCH_SIZE);
            restricted.extend(principals.into_iter().filter(|principal| !self.sees_all(access, principal)));
            from = next;
            tokio::task::yield_now().await;
        }
        restricted.into_iter().collect()
    }
}

/// The order in which resources are examined: quick ones first, then the least recently examined.
#[derive(Default)]
struct ExaminationOrder(HashMap<Uri, Examined>);

/// The last examination of a resource.
struct Examined {
    took: Duration,
    at: Instant,
}

impl ExaminationOrder {
    fn is_slow(&self, uri: &Uri) -> bool {
        self.0.get(uri).is_some_and(|examined| examined.took > SLOW_EXAMINATION)
    }

    fn of(&self, reported: BTreeMap<Uri, Path>) -> Vec<(Uri, Path)> {
        let mut order: Vec<_> = reported.into_iter().collect();
        order.sort_by_cached_key(|(uri, _)| (self.is_slow(uri), self.0.get(uri).map(|examined| examined.at)));
        order
    }

    fn record(&mut self, uri: &Uri, began: Instant) {
        if self.0.len() >= MAX_REMEMBERED && !self.0.contains_key(uri) {
            self.0.clear();
        }
        self.0.insert(uri.clone(), Examined { took: began.elapsed(), at: Instant::now() });
    }
}

/// The task that examines resources with reported changes.
pub(super) struct DirectoryTask {
    state: Arc<WatcherState>,
}

impl DirectoryTask {
    pub(super) fn new(state: Arc<WatcherState>) -> Self {
        Self { state }
    }

    pub(super) async fn run(self) {
        let monitor = &self.state.directories;
        let mut rest = Instant::now();
        let new_backoff = || Backoff::new(FAILED_WALK_BACKOFF.0, FAILED_WALK_BACKOFF.1);
        let (mut backoff, mut order) = (new_backoff(), ExaminationOrder::default());
        loop {
            monitor.added.notified().await;
            sleep_until(rest).await;
            let began = Instant::now();
            let (mut failed, mut left) = (BTreeMap::new(), BTreeMap::new());
            for (uri, path) in order.of(monitor.take()) {
                if order.is_slow(&uri) && began.elapsed() > MAX_ROUND {
                    left.insert(uri, path);
                    continue;
                }
                let began = Instant::now();
                let examined = self.examine(&uri, &path).await;
                order.record(&uri, began);
                if examined.is_err() {
                    failed.insert(uri, path);
                }
            }
            let least = if failed.is_empty() {
                backoff = new_backoff();
                MIN_WALK_PAUSE
            } else {
                backoff.next_delay()
            };
            monitor.add(failed.into_iter().chain(left));
            let pause = burst_pause(began.elapsed()).clamp(least, MAX_WALK_PAUSE.max(least));
            rest = Instant::now().checked_add(pause).unwrap_or(rest);
        }
    }

    /// Compares the principals' views of a directory with their former views, and notifies the principals whose views
    /// differ. An error means that this must be repeated.
    async fn examine(&self, uri: &Uri, path: &Path) -> Result<(), Fault> {
        let (state, context) = (&self.state, &self.state.context);
        let access = context.access.load_full();
        let restricted = state.restricted(uri, &access).await;
        // The views of other principals are outdated from now on.
        let wanted: HashSet<_> = restricted.iter().collect();
        context.subscription_index().retain_views(uri, |principal| wanted.contains(principal));
        if restricted.is_empty() {
            return Ok(());
        }
        let entry = match state.plugin.stat_as(CallOrigin::Host, path).await {
            Ok(entry) if entry.listable => entry,
            Err(fault) if fault.is_transient() => {
                let is_known = !context.subscription_index().directories(std::slice::from_ref(uri)).is_empty();
                return if is_known { Err(fault) } else { Ok(()) };
            }
            // If it was listable, its end as a directory is a change for every principal that may read it.
            Ok(_) | Err(_) => {
                let was_directory = context.subscription_index().replace_views(uri, None).is_some();
                if was_directory {
                    state.plugin.drop_cached(path, DroppedFor::All);
                    self.notify(uri, restricted.into_iter().collect()).await;
                }
                return Ok(());
            }
        };
        let fresh = state.views(&entry, path, &access, &restricted).await;
        let has_failed = fresh.iter().any(Option::is_none);
        let changed = {
            let mut index = context.subscription_index();
            // Principals that have subscribed meanwhile keep their views.
            let mut views = index.replace_views(uri, None).unwrap_or_default();
            let mut changed = HashSet::new();
            for (principal, now) in restricted.into_iter().zip(fresh) {
                let known = views.get(&principal).copied();
                if now.is_some_and(|now| known.is_none_or(|known| known.differs(now))) {
                    changed.insert(principal.clone());
                }
                views.insert(principal, now.or(known).unwrap_or(ListingFingerprint::NotWalked));
            }
            index.replace_views(uri, Some(views));
            changed
        };
        for principal in &changed {
            state.plugin.drop_cached(path, DroppedFor::View(state.view(&access, principal)));
        }
        self.notify(uri, changed).await;
        if has_failed { Err(Fault::Host("the listing of a directory has failed".to_owned())) } else { Ok(()) }
    }

    async fn notify(&self, uri: &Uri, principals: HashSet<Principal>) {
        self.state.context.notify(vec![uri.clone()], |mailbox, _| principals.contains(&mailbox.principal())).await;
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_model::uri::Mount;

    use super::*;

    #[test]
    fn quick_resources_are_examined_before_slow_ones_and_these_in_turn() {
        let mount: Mount = "a://x/".parse().unwrap();
        let located = ["slow/1", "slow/2", "quick"].map(|path| mount.compose(path).unwrap());
        let reported: BTreeMap<_, _> = located.into_iter().map(|located| (located.uri, located.path)).collect();
        let mut order = ExaminationOrder::default();
        let long_ago = Instant::now().checked_sub(SLOW_EXAMINATION * 2).unwrap();
        let mut firsts = Vec::new();
        for _ in 0..3 {
            let uris: Vec<_> = order.of(reported.clone()).into_iter().map(|(uri, _)| uri).collect();
            firsts
                .push(uris.iter().map(|uri| uri.as_str().trim_start_matches("a://x/").to_owned()).collect::<Vec<_>>());
            // The first slow resource takes all the time of the round.
            for uri in &uris {
                let is_slow = uri.as_str().contains("slow");
                if is_slow && firsts.len() > 1 && uris.iter().find(|uri| uri.as_str().contains("slow")) != Some(uri) {
                    continue;
                }
                order.record(uri, if is_slow { long_ago } else { Instant::now() });
            }
        }
        assert_eq!(firsts[1], ["quick", "slow/1", "slow/2"]);
        assert_eq!(firsts[2], ["quick", "slow/2", "slow/1"]);
    }
}
