//! Directories that are subscribed to: for whom a change that a provider reports is a change.
//!
//! The index of a directory is made of the children that a principal may list (`host::directory_index`). A provider that reports a
//! change of the directory does not know them, and who may not see the child that changed must not learn of it. So for principals
//! that may not list everything below the mount, a reported change of a directory is only the occasion to compare: the directory
//! and its filtered listing have a [`ListingFingerprint`] for each such principal, and it is notified if that differs. All others
//! are notified at once, and so is everybody of resources that are no directories.
//!
//! The fingerprint of a new subscriber's principal is computed before its subscription is active. Afterwards one task for each plugin
//! computes those of all principals together, for one directory after the other, as part of the host's own calls. Reports are
//! coalesced while it works, and after each round there is a pause as after a walk of the [listing](super::listing). A call that
//! fails is repeated after the pause.
//!
//! Whether a resource is a directory is known from the `stat` of a subscription. It is checked again after each reported change of a
//! resource with such subscribers: a file that is replaced by a directory is notified once as a file, and is a directory from
//! then on. After a change of rules or groups everything is checked that the plugin's subscribers watch, and a principal whose view
//! was not known is notified.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mcp_host_config::Operation;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::resource::Resource;
use mcp_host_model::uri::{Path, Uri};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, sleep_until};

use super::burst_pause::burst_pause;
use super::listing::{MAX_WALK_PAUSE, MIN_WALK_PAUSE};
use super::state::BATCH_SIZE;
use super::state::WatcherState;
use crate::access::{Access, Principal};
use crate::catalog::{self, ListingFingerprint};

/// The shortest pause after a round in which a call failed.
const MIN_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The duration up to which a walk for a new subscriber may be followed by the next at once.
const QUICK_WALK: Duration = Duration::from_millis(5);

/// The resources of one plugin whose change was reported.
pub(super) struct DirectoryMonitor {
    reported: Mutex<BTreeMap<Uri, Path>>,
    /// Notified when there are some.
    added: Notify,
    /// Held by a walk for a new subscriber, and as long again after it.
    walks: Arc<Semaphore>,
}

impl DirectoryMonitor {
    pub(super) fn new() -> Self {
        Self { reported: Mutex::default(), added: Notify::new(), walks: Arc::new(Semaphore::new(1)) }
    }

    /// Adds resources to those that are examined.
    pub(super) fn add(&self, resources: impl IntoIterator<Item = (Uri, Path)>) {
        let mut reported = self.reported.lock();
        reported.extend(resources);
        if !reported.is_empty() {
            self.added.notify_one();
        }
    }

    fn take(&self) -> BTreeMap<Uri, Path> {
        std::mem::take(&mut *self.reported.lock())
    }
}

impl WatcherState {
    /// Returns whether a principal may list everything below the mount, so that every change of a directory is one for it.
    pub(super) fn may_list_all(&self, access: &Access, principal: &Principal) -> bool {
        access.policy(principal).allows_all_below(Operation::List, self.plugin.mount())
    }

    /// Notifies the subscribers of resources whose change was reported: of directories, only those that may list everything. The
    /// others follow, if it is a change for them.
    pub(super) async fn notify_of_change(&self, changed: Vec<(Uri, Path)>) {
        let uris: Vec<_> = changed.iter().map(|(uri, _)| uri.clone()).collect();
        let mut directories = HashSet::new();
        for batch in uris.chunks(BATCH_SIZE) {
            directories.extend(self.context.subscription_index().directories(batch));
            tokio::task::yield_now().await;
        }
        let access = self.context.access.load_full();
        let concerns =
            |principal: &Principal, uri: &Uri| !directories.contains(uri) || self.may_list_all(&access, principal);
        self.context.notify(uris, concerns).await;
        self.directories.add(changed);
    }

    /// Makes the changes of a directory known from now on to a principal that is about to subscribe to it.
    pub(super) async fn track_directory(&self, uri: &Uri, path: &Path, principal: &Principal) {
        let access = self.context.access.load_full();
        let is_known = || self.context.subscription_index().has_view(uri, principal);
        if self.may_list_all(&access, principal) || is_known() {
            return;
        }
        // Acquiring fails only if the semaphore is closed, and it is never closed.
        let Ok(permit) = self.directories.walks.clone().acquire_owned().await else { return };
        // Another subscriber of the same principal may have been first.
        if is_known() {
            return;
        }
        let began = Instant::now();
        let views = match self.plugin.stat_as(CallOrigin::Host, path).await {
            Ok(entry) => self.views(&entry, path, &access, std::slice::from_ref(principal)).await,
            Err(_) => vec![None],
        };
        let view = views.into_iter().next().flatten();
        self.context.subscription_index().add_view(uri, principal, view.unwrap_or(ListingFingerprint::Unknown));
        let took = began.elapsed();
        if took > QUICK_WALK {
            tokio::spawn(async move {
                sleep(took.min(MAX_WALK_PAUSE)).await;
                drop(permit);
            });
        }
    }

    /// Examines all resources of the plugin that are subscribed to.
    pub(super) async fn examine_all(&self) {
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

    /// Returns what each of the principals sees of a directory; none for all if the walk has failed.
    async fn views(
        &self,
        directory: &Resource,
        path: &Path,
        access: &Arc<Access>,
        principals: &[Principal],
    ) -> Vec<Option<ListingFingerprint>> {
        catalog::directory_fingerprints(&self.plugin, access, principals, directory, path).await
    }

    /// Returns the principals of a resource's subscribers that may not list everything below the mount, each once.
    async fn restricted(&self, uri: &Uri, access: &Access) -> Vec<Principal> {
        let mut restricted = HashSet::new();
        let mut from = Some(0);
        while let Some(id) = from {
            let (principals, next) = self.context.subscription_index().principals(uri, id, BATCH_SIZE);
            restricted.extend(principals.into_iter().filter(|principal| !self.may_list_all(access, principal)));
            from = next;
            tokio::task::yield_now().await;
        }
        restricted.into_iter().collect()
    }
}

/// The task that examines the resources whose change was reported.
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
        // The number of rounds that each began when the pause after the one before was over.
        let mut in_succession = 0_u32;
        loop {
            monitor.added.notified().await;
            in_succession = if Instant::now() < rest { in_succession.saturating_add(1) } else { 0 };
            sleep_until(rest).await;
            let began = Instant::now();
            let mut failed = BTreeMap::new();
            for (uri, path) in monitor.take() {
                if self.examine(&uri, &path).await.is_err() {
                    failed.insert(uri, path);
                }
            }
            let shortest = if failed.is_empty() { MIN_WALK_PAUSE } else { MIN_RETRY_PAUSE };
            monitor.add(failed);
            let pause = burst_pause(began.elapsed(), in_succession).clamp(shortest, MAX_WALK_PAUSE);
            rest = Instant::now().checked_add(pause).unwrap_or(rest);
        }
    }

    /// Compares what principals see of a directory with what they saw, and notifies those for which it differs. Fails if that is to be
    /// repeated.
    async fn examine(&self, uri: &Uri, path: &Path) -> Result<(), Fault> {
        let (state, context) = (&self.state, &self.state.context);
        let access = context.access.load_full();
        let restricted = state.restricted(uri, &access).await;
        if restricted.is_empty() {
            return Ok(());
        }
        let entry = match state.plugin.stat_as(CallOrigin::Host, path).await {
            Ok(entry) if entry.is_directory() => entry,
            Err(fault) if fault.is_transient() => {
                let is_known = !context.subscription_index().directories(std::slice::from_ref(uri)).is_empty();
                return if is_known { Err(fault) } else { Ok(()) };
            }
            // If it was a directory, that it is none any more is a change for everybody who may read it.
            Ok(_) | Err(_) => {
                let was_directory = context.subscription_index().replace_views(uri, None).is_some();
                if was_directory {
                    self.notify(uri, restricted.into_iter().collect()).await;
                }
                return Ok(());
            }
        };
        let fresh = state.views(&entry, path, &access, &restricted).await;
        let has_failed = fresh.iter().any(Option::is_none);
        let changed = {
            let mut index = context.subscription_index();
            // Principals that have subscribed meanwhile keep theirs.
            let mut views = index.replace_views(uri, None).unwrap_or_default();
            let mut changed = HashSet::new();
            for (principal, now) in restricted.into_iter().zip(fresh) {
                let known = views.get(&principal).copied();
                if now.is_some_and(|now| known.is_none_or(|known| known.differs(now))) {
                    changed.insert(principal.clone());
                }
                views.insert(principal, now.or(known).unwrap_or(ListingFingerprint::Unknown));
            }
            index.replace_views(uri, Some(views));
            changed
        };
        self.notify(uri, changed).await;
        if has_failed { Err(Fault::Host("the listing of a directory has failed".to_owned())) } else { Ok(()) }
    }

    async fn notify(&self, uri: &Uri, principals: HashSet<Principal>) {
        self.state.context.notify(vec![uri.clone()], |principal, _| principals.contains(principal)).await;
    }
}
