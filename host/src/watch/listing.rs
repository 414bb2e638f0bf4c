//! The task that finds out whether what is listed of one plugin is another for somebody.
//!
//! A provider says that its listing changed, not for whom: a principal who may not see what changed would learn that there
//! is something. So each principal that asked has a [`ListingFingerprint`] of what it would list of the plugin, and is told only when it
//! is another one. Prints are taken by walking the listing, once for all principals and however many subscribers they have,
//! beside the rounds and never two at a time: what changes while a walk is under way is seen by the next one. A listing
//! that is too long to walk has no print, and is told of whenever the provider says so.
//!
//! A provider may say that its listing changed as often as it likes, and clients may come and go: after each walk the next one
//! waits four times as long as the walk took, [`MIN_WALK_PAUSE`] at least and [`MAX_WALK_PAUSE`] at most. So walks take a fifth of the time
//! in the worst case, and what is listed is told to nobody more than ten times a second. The first walk after a while begins at
//! once. There is none when somebody comes whose print is known already.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::state::WatcherState;
use crate::access::{Access, Principal};
use crate::catalog::{self, ListingFingerprint};

/// How long the next walk waits at least, and at most.
const MIN_WALK_PAUSE: Duration = Duration::from_millis(100);
const MAX_WALK_PAUSE: Duration = Duration::from_secs(30);
/// How many times as long it waits as the last one took.
const WALK_PAUSE_FACTOR: u32 = 4;

/// What is known of the listing of one plugin.
pub(super) struct ListingMonitor {
    /// How often it may have changed: the provider said so, or a reload brought it about.
    version: AtomicU64,
    /// It is to be looked at.
    pub(super) dirty: Notify,
    /// What each principal that asked would have listed last.
    fingerprints: Mutex<HashMap<Principal, ListingFingerprint>>,
    /// Changes when prints were taken.
    updated: watch::Sender<()>,
}

impl ListingMonitor {
    pub(super) fn new(fingerprints: HashMap<Principal, ListingFingerprint>) -> Self {
        let is_inherited = !fingerprints.is_empty();
        let listing = Self {
            version: AtomicU64::new(0),
            dirty: Notify::new(),
            fingerprints: Mutex::new(fingerprints),
            updated: watch::Sender::new(()),
        };
        if is_inherited {
            listing.mark_dirty();
        }
        listing
    }

    /// It is to be compared with what it was.
    pub(super) fn mark_dirty(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.dirty.notify_one();
    }

    /// Nobody is told of changes any more, so nobody knows what they would be changes to.
    pub(super) fn clear(&self) {
        self.fingerprints().clear();
    }

    /// Returns when changes count for that principal.
    pub(super) async fn wait_until_tracked(&self, principal: &Principal) {
        let mut updated = self.updated.subscribe();
        // It fails when there is no sender, and this is the sender.
        let _ = updated.wait_for(|()| self.fingerprints().contains_key(principal)).await;
    }

    pub(super) fn fingerprints(&self) -> MutexGuard<'_, HashMap<Principal, ListingFingerprint>> {
        self.fingerprints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

/// The task itself.
pub(super) struct ListingTask {
    state: Arc<WatcherState>,
}

impl ListingTask {
    pub(super) fn new(state: Arc<WatcherState>) -> Self {
        Self { state }
    }

    /// Looks at the listing whenever it may have changed.
    pub(super) async fn run(self) {
        let state = &self.state;
        let mut is_first = true;
        // What the last walk saw, and before when there is no other.
        let (mut walked_version, mut rest) = (0, Instant::now());
        loop {
            state.listing.dirty.notified().await;
            sleep_until(rest).await;
            let principals = state.context.subscription_index().listing_principals();
            let new = self.untracked(&principals);
            let version = state.listing.version();
            if principals.is_empty() || (new.is_empty() && version == walked_version) {
                continue;
            }
            let began = Instant::now();
            if std::mem::take(&mut is_first) || !new.is_empty() {
                // What changes from here on, a round sees.
                self.poll_now().await;
            }
            let version = state.listing.version();
            walked_version = version;
            let access = state.context.access.load_full();
            let mut changed = self.refresh_fingerprints(principals, &access).await;
            if !new.is_empty() {
                self.poll_now().await;
                // It changed while it was walked, or shortly before: whether those who are new know is not known.
                if state.listing.version() != version {
                    changed.extend(new);
                }
            }
            state.context.subscription_index().notify_listing(&changed);
            state.listing.updated.send_replace(());
            let pause = began.elapsed().saturating_mul(WALK_PAUSE_FACTOR).clamp(MIN_WALK_PAUSE, MAX_WALK_PAUSE);
            rest = Instant::now().checked_add(pause).unwrap_or(rest);
        }
    }

    /// Has a print under those rules for everyone who asked, without telling anyone.
    pub(super) async fn ensure_fingerprints(&self, access: &Arc<Access>) {
        let principals = self.state.context.subscription_index().listing_principals();
        let new = self.untracked(&principals);
        if !new.is_empty() {
            self.refresh_fingerprints(new, access).await;
        }
    }

    /// Those of whom there is no print yet. The prints of those who do not ask any more are forgotten.
    fn untracked(&self, principals: &HashSet<Principal>) -> HashSet<Principal> {
        let mut fingerprints = self.state.listing.fingerprints();
        fingerprints.retain(|principal, _| principals.contains(principal));
        principals.iter().filter(|principal| !fingerprints.contains_key(*principal)).cloned().collect()
    }

    /// Takes new prints, and gives those principals for whom the listing is another now.
    async fn refresh_fingerprints(&self, principals: HashSet<Principal>, access: &Arc<Access>) -> HashSet<Principal> {
        let principals: Vec<_> = principals.into_iter().collect();
        let fresh = catalog::fingerprints(&self.state.plugin, access, &principals).await;
        let mut fingerprints = self.state.listing.fingerprints();
        let mut changed = HashSet::new();
        for (principal, now) in principals.into_iter().zip(fresh) {
            if fingerprints.insert(principal.clone(), now).is_some_and(|before| before.differs(now)) {
                changed.insert(principal);
            }
        }
        changed
    }

    /// Waits for a round, where there are any; whether it fails does not matter, as the next that does not tells.
    async fn poll_now(&self) {
        if self.state.supports_changes() {
            let _ = self.state.wait_for_poll().await;
        }
    }
}
